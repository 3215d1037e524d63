#include "desktop/rfb.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

#define HELLO "RFB 003.008\n\1\1"
enum { HELLO_LEN = 14 };

struct text {
	const char *data;
	size_t len;
};
#define TEXT(s) ((struct text){ (s), sizeof(s) - 1 })

static const struct text pixel_format = { "\0\0\0\0\40\30\0\1\0\377\0\377\0\377\20\10\0\0\0\0",
					  20 };
static const struct text update = { "\3\1\0\0\0\0\5\0\4\0", 10 };
static const struct text continuous = { "\226\1\0\0\0\0\5\0\4\0", 10 };
static const struct text fence = { "\370\0\0\0\200\0\0\1\3abc", 12 };
static const struct text key = { "\4\1\0\0\0\0\0a", 8 };
static const struct text pointer = { "\5\1\0\1\0\1", 6 };
static const struct text cut = { "\6\0\0\0\0\0\0\5hello", 13 };
static const struct text cut_extended = { "\6\0\0\0\377\377\377\372\1\0\0\1zz", 14 };
static const struct text size = { "\373\0\5\0\4\0\1\0"
				  "0123456789abcdef",
				  24 };
static const struct text xvp = { "\372\0\1\2", 4 };
static const struct text qemu_key = { "\377\0\0\1\0\0\0a\0\0\0\36", 12 };
static const struct text qemu_audio = { "\377\1\0\0", 4 };
static const struct text qemu_format = { "\377\1\0\2\3\2\0\0\254\104", 10 };

/* What passes, of bytes that come in pieces of this size; false: the connection is closed. */
static bool pass(const void *data, size_t len, size_t piece, struct buf *out)
{
	struct rfb_viewer viewer;
	struct err err;
	rfb_viewer_init(&viewer);
	out->len = 0;
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;
		char *copy = xmalloc(n); /* of exactly its size */
		memcpy(copy, (const char *)data + at, n);
		int result = rfb_viewer_pass(&viewer, copy, n, out, &err);
		free(copy);
		if (result < 0)
			return false;
	}
	return true;
}

/* Whether just `want` passes of the messages after a handshake, wherever they are split. */
static bool passes(const struct text *messages, size_t count, struct text want)
{
	auto_buf struct buf in = BUF(1 << 20), out = BUF(1 << 20);
	buf_add(&in, HELLO, HELLO_LEN);
	for (size_t i = 0; i < count; i++)
		buf_add(&in, messages[i].data, messages[i].len);
	for (size_t piece = 1; piece <= in.len; piece++)
		if (!pass(in.data, in.len, piece, &out) || out.len != HELLO_LEN + want.len ||
		    memcmp(out.data, HELLO, HELLO_LEN) != 0 ||
		    memcmp(out.data + HELLO_LEN, want.data, want.len) != 0)
			return false;
	return true;
}
#define PASSES(want, ...)                            \
	passes((const struct text[]){ __VA_ARGS__ }, \
	       COUNT(((const struct text[]){ __VA_ARGS__ })), want)

static bool closed(struct text hello, struct text rest)
{
	auto_buf struct buf in = BUF(1 << 20), out = BUF(1 << 20);
	buf_add(&in, hello.data, hello.len);
	buf_add(&in, rest.data, rest.len);
	for (size_t piece = 1; piece <= in.len; piece++)
		if (pass(in.data, in.len, piece, &out))
			return false;
	return true;
}

static void handshakes(void)
{
	auto_buf struct buf out = BUF(1000);
	CHECK(pass("RFB 003.007\n\1\0", 14, 5, &out) && out.len == 14);
	CHECK(out.data[13] == 1); /* it is shared, whatever it says */
	CHECK(!pass("RFB 003.003\n", 12, 12, &out) && out.len == 0);
	CHECK(!pass("RFB 003.889\n", 12, 1, &out));
	CHECK(!pass("GET / HTTP/1.1", 14, 14, &out) && out.len == 0);
	for (int type = 0; type < 256; type++)
		if (type != 1) {
			char hello[13] = "RFB 003.008\n";
			hello[12] = (char)type;
			if (pass(hello, 13, 13, &out) || out.len > 12)
				CHECK(!"a security type other than None");
		}
}

static void what_passes(void)
{
	CHECK(PASSES(pixel_format, pixel_format));
	CHECK(PASSES(update, update));
	CHECK(PASSES(continuous, continuous));
	CHECK(PASSES(fence, fence));
	CHECK(PASSES(TEXT("\2\0\0\0"), TEXT("\2\0\0\0")));
}

static void what_is_left_out(void)
{
	const struct text all[] = { key, pointer,  cut,        cut_extended, size,
				    xvp, qemu_key, qemu_audio, qemu_format };
	for (size_t i = 0; i < COUNT(all); i++)
		CHECK(PASSES(update, all[i], update, all[i]));
	CHECK(PASSES(TEXT(""), key, pointer, cut, cut_extended, size, xvp, qemu_key, qemu_audio,
		     qemu_format, TEXT("\6\0\0\0\0\0\0\0"), TEXT("\373\0\0\0\0\0\0\0")));
}

static void what_ends_it(void)
{
	for (int type = 0; type < 256; type++) {
		const char first = (char)type;
		bool known = strchr("\2\3\4\5\6\226\370\372\373\377", type) || !type;
		if (closed(TEXT(HELLO), (struct text){ &first, 1 }) == known)
			CHECK(!"an unknown type ends it, a known one does not");
	}
	CHECK(closed(TEXT(HELLO), TEXT("\370\0\0\0\0\0\0\0\101")));   /* a fence of 65 */
	CHECK(closed(TEXT(HELLO), TEXT("\6\0\0\0\177\377\377\377"))); /* text without end */
	CHECK(closed(TEXT(HELLO), TEXT("\6\0\0\0\200\0\0\0")));
	CHECK(closed(TEXT(HELLO), TEXT("\2\0\377\377")));
	CHECK(closed(TEXT(HELLO), TEXT("\377\2\0\0")) && closed(TEXT(HELLO), TEXT("\377\1\0\3")));
}

/* Those that would change what the client, or the server, sends become one that is unknown. */
static void encodings(void)
{
	CHECK(PASSES(TEXT("\2\0\0\4\0\0\0\7\177\377\377\377\377\377\377\041\177\377\377\377"),
		     TEXT("\2\0\0\4\0\0\0\7"
			  "\300\241\345\316"     /* extended clipboard */
			  "\377\377\377\041"     /* DesktopSize */
			  "\377\377\376\304"))); /* extended mouse buttons */
	CHECK(PASSES(TEXT("\2\0\0\1\177\377\377\377\3\1\0\0\0\0\5\0\4\0"),
		     TEXT("\2\0\0\1\377\377\376\376"), update)); /* QEMU's keys */
}

static void it_stays_closed(void)
{
	struct rfb_viewer viewer = { 0 };
	auto_buf struct buf out = BUF(1000);
	CHECK(rfb_viewer_pass(&viewer, HELLO "\1", 15, &out, NULL) == -1);
	out.len = 0;
	CHECK(rfb_viewer_pass(&viewer, update.data, update.len, &out, NULL) == -1 && !out.len);
	struct rfb_viewer narrow = { 0 };
	auto_buf struct buf small = BUF(20);
	CHECK(rfb_viewer_pass(&narrow, HELLO, 14, &small, NULL) == 0);
	CHECK(rfb_viewer_pass(&narrow, update.data, update.len, &small, NULL) == -1);
}

int main(void)
{
	handshakes();
	what_passes();
	what_is_left_out();
	what_ends_it();
	encodings();
	it_stays_closed();
	return tap_done();
}
