#include "kernel/kernel_wire.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"

enum {
	OFFSET = 8, /* bytes of one, the lowest first */
	COUNTS = 4, /* bytes of a number before buffers, the highest first */
	ENDS = KERNEL_WIRE_PARTS + 2,
	TEXT_MAX = 128 << 20,
};
static const char *const names[] = { "header", "parent_header", "metadata", "content" };

void kernel_wire_member(const struct text *part, const char *name, char *to, size_t room)
{
	char quoted[64];
	const char *at = part->data, *end = at + part->len;
	int n = snprintf(quoted, sizeof quoted, "\"%s\"", name);
	*to = 0;
	while (at < end && (at = memmem(at, (size_t)(end - at), quoted, (size_t)n))) {
		at += n;
		while (at < end && *at && strchr(" \t\r\n:", *at))
			at++;
		size_t len = 0;
		while (at + 1 + len < end && at[1 + len] != '"')
			len++;
		if (at + 1 + len < end && *at == '"' && len < room && !memchr(at + 1, '\\', len)) {
			memcpy(to, at + 1, len);
			to[len] = 0;
			return;
		}
	}
}

static int malformed(const char *why, struct err *err)
{
	return err_set(err, ERR_BAD_REQUEST, "the message %s", why);
}

static int set_channel(struct kernel_wire *to, const char *name, size_t len, struct err *err)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] < 'a' || name[i] > 'z' || i + 1 >= sizeof to->channel)
			return malformed("is for an unknown channel", err);
	memcpy(to->channel, name, len);
	return 0;
}

static int add_buffer(struct kernel_wire *to, const char *data, size_t len, struct err *err)
{
	if (to->buffer_count == KERNEL_WIRE_BUFFERS)
		return malformed("has too many buffers", err);
	to->buffers[to->buffer_count++] = (struct text){ data, len };
	return 0;
}

/* ---- with offsets ---- */

static uint64_t read_offset(const char *at)
{
	uint64_t value = 0;
	for (int i = OFFSET - 1; i >= 0; i--)
		value = value << 8 | (unsigned char)at[i];
	return value;
}

static void write_offset(struct buf *to, uint64_t value)
{
	char bytes[OFFSET];
	for (int i = 0; i < OFFSET; i++)
		bytes[i] = (char)(value >> (8 * i));
	(void)buf_add(to, bytes, OFFSET);
}

/* Where each part begins, and at last where the message ends. */
static int read_offsets(const char *data, size_t len, uint64_t *ends, size_t *ret_count,
			struct err *err)
{
	uint64_t count = len < OFFSET ? 0 : read_offset(data);
	if (count < ENDS || count > ENDS + KERNEL_WIRE_BUFFERS || (count + 1) * OFFSET > len)
		return malformed("has too few or too many parts", err);
	for (size_t i = 0; i < count; i++) {
		ends[i] = read_offset(data + (i + 1) * OFFSET);
		if (ends[i] > len || ends[i] < (i ? ends[i - 1] : (count + 1) * OFFSET))
			return malformed("has a wrong offset", err);
	}
	*ret_count = (size_t)count;
	return 0;
}

int kernel_wire_read_v1(const char *data, size_t len, struct kernel_wire *ret, struct err *err)
{
	uint64_t ends[ENDS + KERNEL_WIRE_BUFFERS] = { 0 };
	size_t count = 0;
	*ret = (struct kernel_wire){ 0 };
	if (read_offsets(data, len, ends, &count, err) < 0)
		return -1;
	if (set_channel(ret, data + ends[0], (size_t)(ends[1] - ends[0]), err) < 0)
		return -1;
	for (size_t i = 1; i + 1 < count; i++) {
		struct text part = { data + ends[i], (size_t)(ends[i + 1] - ends[i]) };
		if (i <= KERNEL_WIRE_PARTS)
			ret->parts[i - 1] = part;
		else if (add_buffer(ret, part.data, part.len, err) < 0)
			return -1;
	}
	return 0;
}

bool kernel_wire_write_v1(struct buf *to, const struct kernel_wire *message)
{
	size_t channel = strlen(message->channel), count = ENDS + message->buffer_count;
	uint64_t at = (count + 1) * OFFSET;
	write_offset(to, count);
	write_offset(to, at);
	write_offset(to, at += channel);
	for (size_t i = 0; i < KERNEL_WIRE_PARTS; i++)
		write_offset(to, at += message->parts[i].len);
	for (size_t i = 0; i < message->buffer_count; i++)
		write_offset(to, at += message->buffers[i].len);
	(void)buf_add(to, message->channel, channel);
	for (size_t i = 0; i < KERNEL_WIRE_PARTS; i++)
		(void)buf_add(to, message->parts[i].data, message->parts[i].len);
	for (size_t i = 0; i < message->buffer_count; i++)
		(void)buf_add(to, message->buffers[i].data, message->buffers[i].len);
	return !to->full;
}

/* ---- as an object ---- */

static uint32_t read_count(const char *at)
{
	const unsigned char *bytes = (const unsigned char *)at;
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void write_count(struct buf *to, uint64_t value)
{
	const char bytes[COUNTS] = { (char)(value >> 24), (char)(value >> 16), (char)(value >> 8),
				     (char)value };
	(void)buf_add(to, bytes, COUNTS);
}

/* The object, which comes first, and the buffers behind it. */
static int split_buffers(const char *data, size_t len, struct text *ret_object,
			 struct kernel_wire *ret, struct err *err)
{
	uint32_t count = len < COUNTS ? 0 : read_count(data);
	if (!count || count > KERNEL_WIRE_BUFFERS + 1 || (count + 1) * COUNTS > len)
		return malformed("has too few or too many buffers", err);
	for (uint32_t i = 0; i < count; i++) {
		size_t from = read_count(data + (i + 1) * COUNTS);
		size_t to = i + 1 < count ? read_count(data + (i + 2) * COUNTS) : len;
		if (from < (count + 1) * COUNTS || to < from || to > len)
			return malformed("has a wrong offset", err);
		if (!i)
			*ret_object = (struct text){ data + from, to - from };
		else if (add_buffer(ret, data + from, to - from, err) < 0)
			return -1;
	}
	return 0;
}

/* The members, one after the other, in *keep: which may move while it grows. */
static int take_object(const json_t *object, struct buf *keep, struct kernel_wire *ret,
		       struct err *err)
{
	const json_t *channel = json_object_get(object, "channel");
	const char *name = json_is_string(channel) ? json_string_value(channel) : "shell";
	size_t ends[KERNEL_WIRE_PARTS + 1] = { 0 };
	struct jw jw;
	if (!json_is_object(object))
		return malformed("is not an object", err);
	if (set_channel(ret, name, strlen(name), err) < 0)
		return -1;
	jw_init(&jw, TEXT_MAX);
	for (size_t i = 0; i < KERNEL_WIRE_PARTS; i++) {
		const json_t *part = json_object_get(object, names[i]);
		jw.comma = false;
		if (json_is_object(part))
			jw_json(&jw, part);
		else
			jw_raw(&jw, "{}", 2);
		ends[i + 1] = jw.out.len;
	}
	bool failed = jw_failed(&jw);
	*keep = jw.out;
	for (size_t i = 0; i < KERNEL_WIRE_PARTS && !failed; i++)
		ret->parts[i] = (struct text){ keep->data + ends[i], ends[i + 1] - ends[i] };
	return failed ? malformed("is too large", err) : 0;
}

int kernel_wire_read_json(const char *data, size_t len, bool binary, struct buf *keep,
			  struct kernel_wire *ret, struct err *err)
{
	struct text text = { data, len };
	struct buf copy = BUF(len + 1); /* parsing changes it */
	*ret = (struct kernel_wire){ 0 };
	if (binary && split_buffers(data, len, &text, ret, err) < 0)
		return -1;
	(void)buf_add(&copy, text.data, text.len);
	json_t *object = copy.data ? json_parse(copy.data, copy.len, err) : NULL;
	int result = object      ? take_object(object, keep, ret, err)
		     : copy.data ? -1
				 : malformed("is empty", err);
	json_decref(object);
	buf_done(&copy);
	return result;
}

static void add_string(struct buf *to, const char *name, const char *value)
{
	(void)buf_printf(to, ",\"%s\":\"%s\"", name, value);
}

static bool add_object(struct buf *to, const struct kernel_wire *message)
{
	char id[128], type[64];
	for (size_t i = 0; i < KERNEL_WIRE_PARTS; i++) {
		const struct text *part = &message->parts[i];
		if (!part->len || !utf8_valid(part->data, part->len))
			return false;
		(void)buf_printf(to, "%s\"%s\":", i ? "," : "{", names[i]);
		(void)buf_add(to, part->data, part->len);
	}
	kernel_wire_member(&message->parts[0], "msg_id", id, sizeof id);
	kernel_wire_member(&message->parts[0], "msg_type", type, sizeof type);
	add_string(to, "msg_id", id);
	add_string(to, "msg_type", type);
	add_string(to, "channel", message->channel);
	(void)buf_str(to, ",\"buffers\":[]}");
	return !to->full;
}

bool kernel_wire_write_json(struct buf *to, const struct kernel_wire *message, bool *ret_binary)
{
	size_t count = message->buffer_count + 1, before = to->len;
	*ret_binary = message->buffer_count > 0;
	if (!*ret_binary)
		return add_object(to, message);
	/* The object's length is known only when it is there. */
	struct buf object = BUF(TEXT_MAX);
	bool fits = add_object(&object, message);
	uint64_t at = (count + 1) * COUNTS;
	write_count(to, count);
	write_count(to, at);
	at += object.len;
	for (size_t i = 0; i < message->buffer_count; i++) {
		write_count(to, at);
		at += message->buffers[i].len;
	}
	(void)buf_add(to, object.data, object.len);
	for (size_t i = 0; i < message->buffer_count; i++)
		(void)buf_add(to, message->buffers[i].data, message->buffers[i].len);
	buf_done(&object);
	return fits && !to->full && to->len - before == at && at <= UINT32_MAX;
}
