#include "node/frame.h"

#include "base/buf.h"
#include "tap.h"

/* Writes down what comes: type, length and data of each frame. */
static int note(void *arg, char type, const char *data, size_t len)
{
	buf_printf(arg, "%c%zu:", type, len);
	buf_add(arg, data, len);
	return type == '!' ? -1 : 0;
}

static int feed(struct frame_reader *reader, struct buf *to, const char *data, size_t len)
{
	return frame_feed(reader, data, len, note, to);
}

#define ONE   "o\5\0\0\0hello"
#define EMPTY "e\0\0\0\0"
#define LAST  "J\2\0\0\0{}"
static const char three[] = ONE EMPTY LAST;
static const char heard[] = "o5:helloe0:J2:{}";

static void whole(void)
{
	struct frame_reader reader = { 0 };
	auto_buf struct buf to = BUF(10000);
	CHECK(feed(&reader, &to, three, sizeof three - 1) == 0);
	CHECK_STR(to.data, heard);
	CHECK(feed(&reader, &to, three, sizeof three - 1) == 0 && to.len == 2 * strlen(heard));
	CHECK(feed(&reader, &to, "", 0) == 0 && to.len == 2 * strlen(heard));
}

static void pieces(void)
{
	for (size_t size = 1; size < sizeof three; size++) {
		struct frame_reader reader = { 0 };
		auto_buf struct buf to = BUF(10000);
		bool good = true;
		for (size_t at = 0; at < sizeof three - 1; at += size) {
			size_t left = sizeof three - 1 - at;
			good = good &&
			       feed(&reader, &to, three + at, size < left ? size : left) == 0;
		}
		CHECK(good && to.data && !strcmp(to.data, heard));
	}
}

static void incomplete(void)
{
	struct frame_reader reader = { 0 };
	auto_buf struct buf to = BUF(10000);
	CHECK(feed(&reader, &to, ONE "e\3\0\0\0ab", sizeof ONE - 1 + 7) == 0);
	CHECK_STR(to.data, "o5:hello");
	CHECK(feed(&reader, &to, "c", 1) == 0);
	CHECK_STR(to.data, "o5:helloe3:abc");
}

static void longest(void)
{
	struct frame_reader reader = { 0 };
	auto_buf struct buf to = BUF(10000);
	char frame[FRAME_MAX] = { 'o', (char)((FRAME_MAX - 5) & 0xff), (FRAME_MAX - 5) >> 8 };
	memset(frame + FRAME_HEAD, 'x', sizeof frame - FRAME_HEAD);
	CHECK(feed(&reader, &to, frame, sizeof frame) == 0);
	CHECK(to.len == strlen("o4091:") + FRAME_MAX - FRAME_HEAD);
	frame[1]++;
	CHECK(feed(&reader, &to, frame, FRAME_HEAD - 1) == 0);
	CHECK(feed(&reader, &to, frame + FRAME_HEAD - 1, 1) == -1);
}

static void broken(void)
{
	static const char *const heads[] = { "o\377\377\377\377", "garb age", "J\0\0\1\0",
					     "J\0\0\0\200" };
	for (size_t i = 0; i < 4; i++) {
		struct frame_reader reader = { 0 };
		auto_buf struct buf to = BUF(10000);
		CHECK(feed(&reader, &to, heads[i], 5) == -1 && !to.len);
	}
	struct frame_reader reader = { 0 };
	auto_buf struct buf to = BUF(10000);
	CHECK(feed(&reader, &to, ONE "!\0\0\0\0" LAST, sizeof ONE - 1 + 5 + 7) == -1);
	CHECK_STR(to.data, "o5:hello!0:"); /* and nothing after it */
}

int main(void)
{
	whole();
	pieces();
	incomplete();
	longest();
	broken();
	return tap_done();
}
