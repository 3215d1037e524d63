#include "kernel/zmtp.h"

#include "base/own.h"
#include "tap.h"

static const char greeting[] = "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
			       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
static const char ready[] = "\4\32\5READY\13Socket-Type\0\0\0\4XPUB";
enum { GREETING = 64, READY = 2 + 26 };

static void feed(struct zmtp *z, const void *data, size_t len)
{
	const char *from = data;
	while (len) {
		size_t room;
		char *to = zmtp_room(z, &room);
		size_t n = len < room ? len : room;
		if (!to)
			return;
		memcpy(to, from, n);
		zmtp_take(z, n);
		from += n;
		len -= n;
	}
}

static void begin(struct zmtp *z)
{
	const struct text *frames;
	zmtp_init(z);
	feed(z, greeting, GREETING);
	feed(z, ready, READY);
	(void)zmtp_next(z, &frames);
}

static bool is(const struct text *frame, const char *text)
{
	return frame->len == strlen(text) && !memcmp(frame->data, text, frame->len);
}

static void handshake(void)
{
	struct zmtp z;
	const struct text *frames;
	zmtp_init(&z);
	CHECK(zmtp_next(&z, &frames) == 0 && !z.failed && !z.ready);
	feed(&z, greeting, 10);
	CHECK(zmtp_next(&z, &frames) == 0 && !z.greeted && !z.failed);
	feed(&z, greeting + 10, GREETING - 10);
	CHECK(zmtp_next(&z, &frames) == 0 && z.greeted && !z.ready && !z.failed);
	feed(&z, ready, READY);
	CHECK(zmtp_next(&z, &frames) == 0 && z.ready && !z.failed);
	zmtp_done(&z);
	zmtp_init(&z);
	feed(&z, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nServer: somebody\r\n\r\n", 65);
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed);
	zmtp_done(&z);
	zmtp_init(&z);
	feed(&z, greeting, GREETING);
	feed(&z, "\0\1x", 3); /* a message before it is ready */
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed);
	zmtp_done(&z);
	zmtp_init(&z);
	feed(&z, greeting, GREETING);
	feed(&z, "\4\13\5ERROR\4nope", 13);
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed && !z.ready);
	zmtp_done(&z);
}

static void messages(void)
{
	struct zmtp z;
	const struct text *frames;
	begin(&z);
	feed(&z, "\1\3abc\0\0\0\2de", 11);
	CHECK(zmtp_next(&z, &frames) == 2 && is(&frames[0], "abc") && is(&frames[1], ""));
	CHECK(zmtp_next(&z, &frames) == 1 && is(&frames[0], "de"));
	CHECK(zmtp_next(&z, &frames) == 0);
	feed(&z, "\4\4\4PING\0\1!",
	     9); /* its length is one too small: what follows is not a frame */
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed);
	zmtp_done(&z);
	begin(&z); /* byte by byte */
	static const char stream[] = "\1\2hi\4\5\4PING\0\3you\0\1z";
	size_t seen = 0;
	for (size_t i = 0; i < sizeof stream - 1; i++) {
		feed(&z, stream + i, 1);
		size_t n = zmtp_next(&z, &frames);
		if (n)
			seen = seen * 10 + n;
		if (n == 2)
			CHECK(is(&frames[0], "hi") && is(&frames[1], "you"));
	}
	CHECK(seen == 21 && !z.failed);
	feed(&z, "\x40\1x", 3);
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed);
	zmtp_done(&z);
}

/* A head of 9 bytes and so many times 'x'. */
static void feed_long(struct zmtp *z, size_t len, bool more)
{
	unsigned char head[ZMTP_HEAD_MAX];
	const struct text *frames;
	auto_free char *body = xmalloc(len);
	memset(body, 'x', len);
	feed(z, head, zmtp_head(head, len, more));
	for (size_t at = 0; at < len; at += 65536) {
		feed(z, body + at, len - at < 65536 ? len - at : 65536);
		if (at + 65536 < len)
			(void)zmtp_next(z, &frames);
	}
}

static void limits(void)
{
	struct zmtp z;
	const struct text *frames;
	begin(&z);
	feed_long(&z, 1000000, false);
	CHECK(zmtp_next(&z, &frames) == 1 && frames[0].len == 1000000 &&
	      frames[0].data[999999] == 'x');
	feed_long(&z, ZMTP_MESSAGE_MAX + 1, true);
	CHECK(z.in.room < 1000000); /* it is not held */
	feed(&z, "\1\1a\0\1b\0\1c", 9);
	CHECK(zmtp_next(&z, &frames) == 1 && is(&frames[0], "c") && z.dropped == 1);
	for (int i = 0; i < ZMTP_FRAMES_MAX; i++)
		feed(&z, "\1\1a", 3);
	feed(&z, "\0\1b\0\1d", 6);
	CHECK(zmtp_next(&z, &frames) == 1 && is(&frames[0], "d") && z.dropped == 2);
	for (int i = 0; i < 3; i++)
		feed_long(&z, ZMTP_MESSAGE_MAX / 2 - 100, i < 2);
	feed(&z, "\0\1e", 3);
	CHECK(zmtp_next(&z, &frames) == 1 && is(&frames[0], "e") && z.dropped == 3);
	feed(&z, "\2\xff\xff\xff\xff\xff\xff\xff\xff", 9);
	CHECK(zmtp_next(&z, &frames) == 0 && z.failed);
	zmtp_done(&z);
}

static void sending(void)
{
	unsigned char head[ZMTP_HEAD_MAX];
	CHECK(zmtp_head(head, 255, false) == 2 && !memcmp(head, "\0\xff", 2));
	CHECK(zmtp_head(head, 0, true) == 2 && !memcmp(head, "\1\0", 2));
	CHECK(zmtp_head(head, 0x10203, true) == 9 && !memcmp(head, "\3\0\0\0\0\0\1\2\3", 9));
	auto_buf struct buf hello = BUF(512);
	zmtp_hello(&hello, "DEALER", "");
	CHECK(hello.len == 64 + 2 + 41 &&
	      !memcmp(hello.data + 64, "\4)\5READY\13Socket-Type\0\0\0\6DEALER", 30));
	struct zmtp z; /* we understand ourselves */
	const struct text *frames;
	zmtp_init(&z);
	feed(&z, hello.data, hello.len);
	CHECK(zmtp_next(&z, &frames) == 0 && z.ready && !z.failed);
	zmtp_done(&z);
}

int main(void)
{
	handshake();
	messages();
	limits();
	sending();
	return tap_done();
}
