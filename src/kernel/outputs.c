#include "kernel/outputs.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"

struct outputs_item {
	char name[8];    /* of a stream; "": another output */
	struct buf text; /* of a stream */
	size_t line;     /* where its last line begins */
	bool returned;   /* a carriage return came last */
	bool tail;       /* beyond the first half of the limit: may lose its beginning */
	size_t size;     /* bytes of data */
	char *display_id;
	json_t *value;
};

void outputs_init(struct outputs *outputs, size_t text_max)
{
	*outputs = (struct outputs){ .text_max = text_max, .first_tail = SIZE_MAX };
}

static void clear(struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		buf_done(&outputs->items[i].text);
		json_decref(outputs->items[i].value);
		free(outputs->items[i].display_id);
	}
	free(outputs->items);
}

void outputs_done(struct outputs *outputs)
{
	clear(outputs);
	outputs_init(outputs, outputs->text_max);
}

static struct outputs_item *last(const struct outputs *outputs)
{
	return outputs->count ? &outputs->items[outputs->count - 1] : NULL;
}

static struct outputs_item *add(struct outputs *outputs)
{
	if (!outputs->items || outputs->count == outputs->room) {
		outputs->room = outputs->room ? outputs->room * 2 : 8;
		outputs->items = xrealloc(outputs->items, outputs->room * sizeof *outputs->items);
	}
	struct outputs_item *item = &outputs->items[outputs->count++];
	*item = (struct outputs_item){ .text = BUF(SIZE_MAX / 2) };
	return item;
}

/* ---- text ---- */

/* Puts text at the end of a stream's. A returned line is kept until something else is written to it. */
static void append(struct outputs_item *item, const char *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t end = at;
		while (end < len && data[end] != '\r' && data[end] != '\n')
			end++;
		if (end > at && item->returned) {
			item->text.len = item->line;
			item->returned = false;
		}
		(void)buf_add(&item->text, data + at, end - at);
		if (end < len && data[end] == '\n') {
			(void)buf_str(&item->text, item->returned ? "\r\n" : "\n");
			item->line = item->text.len;
		}
		item->returned = end < len && data[end] == '\r';
		at = end + 1;
	}
}

/* Drops the oldest of the second half until `keep` bytes of it are left. */
static void trim(struct outputs *outputs, size_t keep)
{
	for (size_t i = outputs->first_tail; i < outputs->count && outputs->tail > keep; i++) {
		struct outputs_item *item = &outputs->items[i];
		if (!item->tail || !item->text.len)
			continue;
		size_t n = outputs->tail - keep;
		if (n > item->text.len)
			n = item->text.len;
		while (n < item->text.len && ((unsigned char)item->text.data[n] & 0xc0) == 0x80)
			n++;
		memmove(item->text.data, item->text.data + n, item->text.len - n);
		item->text.len -= n;
		item->line = item->line > n ? item->line - n : 0;
		outputs->tail -= n;
		outputs->dropped_text += n;
		if (!item->text.len)
			outputs->first_tail = i;
	}
}

/* The stream's item that text goes to now: the last one, or a new one. */
static struct outputs_item *stream_item(struct outputs *outputs, const char *name, bool tail)
{
	struct outputs_item *item = last(outputs);
	if (item && !strcmp(item->name, name) && item->tail == tail)
		return item;
	if (outputs->count >= OUTPUTS_ITEMS_MAX)
		return NULL;
	item = add(outputs);
	snprintf(item->name, sizeof item->name, "%s", name);
	item->tail = tail;
	if (tail && outputs->first_tail == SIZE_MAX)
		outputs->first_tail = outputs->count - 1;
	return item;
}

void outputs_stream(struct outputs *outputs, const char *name, const char *data, size_t len)
{
	size_t half = outputs->text_max / 2;
	while (len) {
		bool tail = outputs->first_tail != SIZE_MAX || outputs->head >= half;
		struct outputs_item *item = stream_item(outputs, name, tail);
		if (!item) {
			outputs->dropped_text += len;
			return;
		}
		size_t n = tail || len <= half - outputs->head ? len : half - outputs->head;
		while (n < len && ((unsigned char)data[n] & 0xc0) == 0x80)
			n++;
		size_t before = item->text.len;
		append(item, data, n);
		*(tail ? &outputs->tail : &outputs->head) += item->text.len - before;
		if (outputs->tail > half + half / 8) /* not with every piece: that would be slow */
			trim(outputs, half);
		data += n;
		len -= n;
	}
}

/* ---- other outputs ---- */

static void copy_key(json_t *to, const json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);
	json_t *none = strcmp(key, "execution_count") ? json_object() : json_null();
	json_object_set_new(to, key, value ? json_deep_copy(value) : json_incref(none));
	json_decref(none);
}

json_t *outputs_shape(const char *type, const json_t *content)
{
	bool result = !strcmp(type, "execute_result"), error = !strcmp(type, "error"),
	     stream = !strcmp(type, "stream");
	if (!result && !error && !stream && strcmp(type, "display_data") != 0)
		return NULL;
	static const char *const of_stream[] = { "name", "text", NULL };
	static const char *const of_error[] = { "ename", "evalue", "traceback", NULL };
	static const char *const of_data[] = { "data", "metadata", "execution_count", NULL };
	json_t *shape = json_object();
	json_object_set_new(shape, "output_type", json_string(type));
	const char *const *keys = stream ? of_stream : error ? of_error : of_data;
	for (; *keys; keys++)
		if (result || strcmp(*keys, "execution_count") != 0)
			copy_key(shape, content, *keys);
	return shape;
}

enum { VALUE_SIZE = 64, NAME_LEN = 200 }; /* of a value itself; of a name that is kept */

static size_t size_of(const json_t *value)
{
	const char *key;
	size_t size = json_string_length(value), index;
	json_t *each;
	if (json_is_object(value))
		json_object_foreach((json_t *)value, key, each)
			size += strlen(key) + size_of(each);
	json_array_foreach(value, index, each)
		size += size_of(each);
	return size + VALUE_SIZE;
}

static const char *display_id(const json_t *content)
{
	return json_string_value(
		json_object_get(json_object_get(content, "transient"), "display_id"));
}

/* A word about an output, in its place. */
static json_t *left_out(const json_t *value, size_t size)
{
	char text[80];
	const char *name = json_string_value(json_object_get(value, "ename"));
	json_t *result = json_object(), *count = json_object_get(value, "execution_count");
	snprintf(text, sizeof text, "[an output of %zu bytes was left out: too much]", size);
	json_object_set(result, "output_type", json_object_get(value, "output_type"));
	if (json_object_get(value, "traceback")) {
		bool fits = name && strlen(name) <= NAME_LEN;
		json_object_set_new(result, "ename", json_string(fits ? name : "Error"));
		json_object_set_new(result, "evalue", json_string(text));
		json_object_set_new(result, "traceback", json_array());
		return result;
	}
	json_object_set_new(result, "data", json_pack("{s:s}", "text/plain", text));
	json_object_set_new(result, "metadata", json_object());
	if (json_is_integer(count))
		json_object_set(result, "execution_count", count);
	return result;
}

/* Gives an item a value; one that does not fit any more is replaced by a word about it. */
static void set_value(struct outputs *outputs, struct outputs_item *item, json_t *value)
{
	size_t size = size_of(value);
	outputs->data -= item->size;
	if (outputs->data + size > OUTPUTS_DATA_MAX) {
		json_t *word = left_out(value, size);
		json_decref(value);
		value = word;
		size = size_of(value);
	}
	json_decref(item->value);
	item->value = value;
	item->size = size;
	outputs->data += size;
}

static void add_value(struct outputs *outputs, const char *type, const json_t *content)
{
	json_t *value = outputs_shape(type, content);
	const char *id = display_id(content);
	if (!value)
		return;
	if (outputs->count >= OUTPUTS_ITEMS_MAX && strcmp(type, "error") != 0) {
		outputs->dropped_items++;
		json_decref(value);
		return;
	}
	/* There is room for one error more: the latest. */
	bool full = outputs->count > OUTPUTS_ITEMS_MAX;
	struct outputs_item *item = full ? last(outputs) : add(outputs);
	outputs->dropped_items += full;
	if (!full && id && strlen(id) <= NAME_LEN)
		item->display_id = xstrdup(id);
	set_value(outputs, item, value);
}

/* New data for everything that was displayed under that id. */
static void update(struct outputs *outputs, const json_t *content)
{
	const char *id = display_id(content);
	for (size_t i = 0; id && i < outputs->count; i++) {
		struct outputs_item *item = &outputs->items[i];
		if (!item->display_id || strcmp(item->display_id, id) != 0)
			continue;
		json_t *value = json_copy(item->value);
		copy_key(value, content, "data");
		copy_key(value, content, "metadata");
		set_value(outputs, item, value);
	}
}

void outputs_add(struct outputs *outputs, const char *type, const json_t *content)
{
	bool stream = !strcmp(type, "stream"), updates = !strcmp(type, "update_display_data");
	if (!strcmp(type, "clear_output")) {
		outputs->clear_later = json_is_true(json_object_get(content, "wait"));
		if (!outputs->clear_later)
			outputs_done(outputs);
		return;
	}
	if (updates) {
		update(outputs, content);
		return;
	}
	if (!stream && strcmp(type, "display_data") != 0 && strcmp(type, "execute_result") != 0 &&
	    strcmp(type, "error") != 0)
		return;
	if (outputs->clear_later)
		outputs_done(outputs);
	if (!stream) {
		add_value(outputs, type, content);
		return;
	}
	const json_t *text = json_object_get(content, "text");
	const char *name = json_string_value(json_object_get(content, "name"));
	if (json_is_string(text) && json_string_length(text))
		outputs_stream(outputs, name && !strcmp(name, "stderr") ? "stderr" : "stdout",
			       json_string_value(text), json_string_length(text));
}

/* ---- what is said of them ---- */

static void put_text(const struct outputs *outputs, size_t index, struct buf *to)
{
	const struct outputs_item *item = &outputs->items[index];
	bool first = item->tail && (!index || !outputs->items[index - 1].tail);
	for (size_t i = 0; first && i < index; i++)
		first = !outputs->items[i].tail;
	if (first && outputs->dropped_text)
		(void)buf_printf(to, "\n[… %zu bytes of output were left out …]\n",
				 outputs->dropped_text);
	if (item->text.len)
		(void)buf_add(to, item->text.data, item->text.len);
}

static void write_stream(const char *name, struct buf *text, struct jw *jw)
{
	if (text->len) {
		jw_open(jw, '{');
		jw_key_str(jw, "output_type", "stream");
		jw_key_str(jw, "name", name);
		jw_key(jw, "text");
		jw_text(jw, text->data, text->len);
		jw_close(jw, '}');
	}
	text->len = 0;
}

void outputs_write(void *arg, const struct schema *of, struct jw *jw)
{
	const struct outputs *outputs = arg;
	auto_buf struct buf text = BUF(SIZE_MAX / 2);
	(void)of;
	for (size_t i = 0; i < outputs->count; i++) {
		const struct outputs_item *item = &outputs->items[i];
		if (item->value) {
			jw_json(jw, item->value);
			continue;
		}
		put_text(outputs, i, &text);
		bool more = i + 1 < outputs->count &&
			    !strcmp(outputs->items[i + 1].name, item->name);
		if (!more) /* its second half is one with its first */
			write_stream(item->name, &text, jw);
	}
	if (outputs->dropped_items) {
		(void)buf_printf(&text, "[%zu more outputs were left out]\n",
				 outputs->dropped_items);
		write_stream("stderr", &text, jw);
	}
}

void outputs_write_results(void *arg, const struct schema *of, struct jw *jw)
{
	const struct outputs *outputs = arg;
	(void)of;
	for (size_t i = 0; i < outputs->count; i++)
		if (json_object_get(outputs->items[i].value, "data"))
			jw_json(jw, outputs->items[i].value);
}

void outputs_text(const struct outputs *outputs, const char *name, struct buf *to)
{
	for (size_t i = 0; i < outputs->count; i++)
		if (!strcmp(outputs->items[i].name, name))
			put_text(outputs, i, to);
}

const json_t *outputs_error(const struct outputs *outputs)
{
	for (size_t i = outputs->count; i-- > 0;)
		if (json_object_get(outputs->items[i].value, "traceback"))
			return outputs->items[i].value;
	return NULL;
}
