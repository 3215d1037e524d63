#include "kernel/zmtp.h"

#include <string.h>

enum {
	GREETING = 64,
	MORE = 1,
	LONG = 2,
	COMMAND = 4,
	PIECE = 65536,
	KEEP = 1 << 20, /* a buffer that had to grow beyond this is given back */
};

void zmtp_init(struct zmtp *zmtp)
{
	*zmtp = (struct zmtp){ .in = BUF((size_t)ZMTP_MESSAGE_MAX + 4 * PIECE) };
}

void zmtp_done(struct zmtp *zmtp)
{
	buf_done(&zmtp->in);
}

/* ---- what comes ---- */

/* Forgets what was understood, when no frame of a message that is being gathered is in it. */
static void compact(struct zmtp *zmtp)
{
	size_t left = zmtp->in.len - zmtp->at;
	if (zmtp->count || !zmtp->at)
		return;
	if (!left && zmtp->in.room > KEEP)
		buf_done(&zmtp->in);
	else if (left)
		memmove(zmtp->in.data, zmtp->in.data + zmtp->at, left);
	zmtp->in.len = left;
	zmtp->at = 0;
}

char *zmtp_room(struct zmtp *zmtp, size_t *ret_room)
{
	compact(zmtp);
	*ret_room = PIECE;
	return buf_grow(&zmtp->in, PIECE);
}

void zmtp_take(struct zmtp *zmtp, size_t len)
{
	zmtp->in.len += len;
}

static bool fail(struct zmtp *zmtp)
{
	zmtp->failed = true;
	return false;
}

/* Signature, version 3 or later, the mechanism NULL. */
static bool take_greeting(struct zmtp *zmtp)
{
	const unsigned char *data = (const unsigned char *)zmtp->in.data + zmtp->at;
	if (zmtp->in.len - zmtp->at < GREETING)
		return false;
	if (data[0] != 0xff || data[9] != 0x7f || data[10] < 3 || memcmp(data + 12, "NULL", 5) != 0)
		return fail(zmtp);
	zmtp->at += GREETING;
	zmtp->greeted = true;
	return true;
}

struct zmtp_head {
	unsigned flags;
	uint64_t len;
	size_t size; /* of the head itself */
};

static bool take_head(struct zmtp *zmtp, struct zmtp_head *ret)
{
	const unsigned char *data = (const unsigned char *)zmtp->in.data + zmtp->at;
	size_t left = zmtp->in.len - zmtp->at;
	if (left < 2)
		return false;
	ret->flags = data[0];
	ret->size = ret->flags & LONG ? ZMTP_HEAD_MAX : 2;
	if (ret->flags > (MORE | LONG | COMMAND))
		return fail(zmtp);
	if (left < ret->size)
		return false;
	ret->len = data[1];
	for (size_t i = 2; i < ret->size; i++)
		ret->len = ret->len << 8 | data[i];
	return ret->len >> 63 ? fail(zmtp) : true;
}

/* Skips what is there of a frame that is not wanted. */
static bool skip(struct zmtp *zmtp)
{
	size_t left = zmtp->in.len - zmtp->at;
	size_t n = zmtp->skip < left ? (size_t)zmtp->skip : left;
	zmtp->at += n;
	zmtp->skip -= n;
	compact(zmtp);
	return !zmtp->skip;
}

static size_t gathered(const struct zmtp *zmtp)
{
	return zmtp->count ? zmtp->at - zmtp->starts[0] : 0;
}

/* Takes one frame, or as much of an unwanted one as is there. True when it was the last of a message
 * that is wanted. *ret_again: there may be more to take. */
static bool take_frame(struct zmtp *zmtp, bool *ret_again)
{
	struct zmtp_head head;
	*ret_again = take_head(zmtp, &head);
	if (!*ret_again)
		return false;
	bool command = head.flags & COMMAND;
	if (!command && !zmtp->ready) {
		*ret_again = fail(zmtp);
		return false;
	}
	bool too_much = zmtp->count == ZMTP_FRAMES_MAX ||
			head.len > (uint64_t)ZMTP_MESSAGE_MAX - gathered(zmtp);
	if (!command && (zmtp->dropping || too_much)) {
		zmtp->dropping = true;
		zmtp->count = 0;
		zmtp->at += head.size;
		zmtp->skip = head.len;
		zmtp->more = head.flags & MORE;
		return false;
	}
	if (command && head.len > PIECE) {
		*ret_again = fail(zmtp);
		return false;
	}
	*ret_again = zmtp->in.len - zmtp->at - head.size >= head.len;
	if (!*ret_again)
		return false;
	const char *body = zmtp->in.data + zmtp->at + head.size;
	if (command) { /* READY begins; ERROR ends; others, such as PING, are not for us */
		if (head.len >= 6 && !memcmp(body, "\5ERROR", 6))
			*ret_again = fail(zmtp);
		zmtp->ready |= head.len >= 6 && !memcmp(body, "\5READY", 6);
		zmtp->at += head.size + (size_t)head.len;
		return false;
	}
	zmtp->starts[zmtp->count] = zmtp->at + head.size;
	zmtp->frames[zmtp->count++].len = (size_t)head.len;
	zmtp->at += head.size + (size_t)head.len;
	return !(head.flags & MORE);
}

size_t zmtp_next(struct zmtp *zmtp, const struct text **ret_frames)
{
	*ret_frames = zmtp->frames;
	for (bool again = true; again && !zmtp->failed && zmtp->in.len;) {
		if (!zmtp->greeted) {
			again = take_greeting(zmtp);
			continue;
		}
		if (zmtp->skip) {
			again = skip(zmtp);
			continue;
		}
		if (zmtp->dropping && !zmtp->more) { /* its last frame was skipped */
			zmtp->dropping = false;
			zmtp->dropped++;
		}
		if (!take_frame(zmtp, &again))
			continue;
		size_t count = zmtp->count;
		for (size_t i = 0; i < count; i++)
			zmtp->frames[i].data = zmtp->in.data + zmtp->starts[i];
		zmtp->count = 0;
		return count;
	}
	return 0;
}

/* ---- what is sent ---- */

size_t zmtp_head(unsigned char to[ZMTP_HEAD_MAX], size_t len, bool more)
{
	bool is_long = len > 255;
	to[0] = (unsigned char)((more ? MORE : 0) | (is_long ? LONG : 0));
	if (!is_long) {
		to[1] = (unsigned char)len;
		return 2;
	}
	for (int i = 0; i < 8; i++)
		to[1 + i] = (unsigned char)((uint64_t)len >> (56 - 8 * i));
	return ZMTP_HEAD_MAX;
}

static void property(struct buf *to, const char *name, const char *value)
{
	unsigned char len[] = { (unsigned char)strlen(name), 0, 0, 0,
				(unsigned char)strlen(value) };
	(void)buf_add(to, len, 1);
	(void)buf_str(to, name);
	(void)buf_add(to, len + 1, 4);
	(void)buf_str(to, value);
}

void zmtp_hello(struct buf *to, const char *type, const char *identity)
{
	unsigned char greeting[GREETING] = { [0] = 0xff, [8] = 1, [9] = 0x7f, [10] = 3 };
	auto_buf struct buf ready = BUF(256);
	memcpy(greeting + 12, "NULL", 4);
	(void)buf_str(&ready, "\5READY");
	property(&ready, "Socket-Type", type);
	property(&ready, "Identity", identity);
	const unsigned char head[] = { COMMAND, (unsigned char)ready.len };
	(void)buf_add(to, greeting, sizeof greeting);
	(void)buf_add(to, head, sizeof head);
	(void)buf_add(to, ready.data, ready.len);
}
