#include "base/buf.h"

#include "tap.h"

static void adding(void)
{
	auto_buf struct buf buf = BUF(1000);
	CHECK(!buf.data && !buf.len && !buf.full);
	CHECK(buf_str(&buf, "hello") == 0);
	CHECK(buf_add(&buf, "\0 world", 7) == 0);
	CHECK(buf.len == 12);
	CHECK(!memcmp(buf.data, "hello\0 world", 13));
	CHECK(buf_add(&buf, NULL, 0) == 0 && buf.len == 12 && !buf.data[12]);
	CHECK(buf_printf(&buf, "%d%s%%", 7, "x") == 0);
	CHECK(buf.len == 15 && !memcmp(buf.data + 12, "7x%", 4));
	buf_done(&buf);
	CHECK(!buf.data && !buf.len && !buf.room && buf.cap == 1000);
	CHECK(buf_str(&buf, "again") == 0);
	CHECK_STR(buf.data, "again");
}

static void growing(void)
{
	auto_buf struct buf buf = BUF(100000);
	for (int i = 0; i < 100000; i++)
		if (buf_add(&buf, &(char){ (char)('a' + i % 26) }, 1) < 0)
			break;
	bool kept = buf.len == 100000 && strlen(buf.data) == 100000;
	for (size_t i = 0; kept && i < buf.len; i++)
		kept = buf.data[i] == (char)('a' + i % 26);
	CHECK(kept);
	CHECK(!buf.full);
	CHECK(buf_str(&buf, "x") == -1 && buf.full && buf.len == 100000);
	auto_buf struct buf grown = BUF(1000);
	char *to = buf_grow(&grown, 1000);
	CHECK(to && to == grown.data && !grown.len && grown.room > 1000);
	memset(to, 'x', 1000);
	to[1000] = 0;
	grown.len = 1000;
	CHECK(buf_grow(&grown, 0) == grown.data + 1000);
	CHECK(!grown.full);
}

static void cap(void)
{
	auto_buf struct buf buf = BUF(5);
	CHECK(buf_str(&buf, "abc") == 0);
	CHECK(buf_str(&buf, "def") == -1);
	CHECK(buf.full && buf.len == 3);
	CHECK_STR(buf.data, "abc");
	/* What follows a gap would read as if nothing were missing. */
	CHECK(buf_str(&buf, "d") == -1);
	CHECK(!buf_grow(&buf, 0));
	CHECK(buf_printf(&buf, "d") == -1);
	CHECK_STR(buf.data, "abc");
	buf_done(&buf);
	CHECK(!buf.full && buf.cap == 5);
	CHECK(buf_str(&buf, "abcde") == 0);
	CHECK_STR(buf.data, "abcde");
	CHECK(!buf.full);
	CHECK(buf_add(&buf, "f", (size_t)-1) == -1);
	auto_buf struct buf none = BUF(0);
	CHECK(buf_str(&none, "") == 0);
	CHECK_STR(none.data, "");
	CHECK(buf_str(&none, "x") == -1);
}

/* Texts around the size up to which buf_printf() formats only once. */
static void long_printf(void)
{
	char text[2001];
	memset(text, 'y', sizeof text);
	text[2000] = 0;
	for (int len = 509; len <= 514; len++) {
		auto_buf struct buf buf = BUF(1000);
		CHECK(buf_printf(&buf, "%.*s", len, text) == 0);
		CHECK(buf.len == (size_t)len && strlen(buf.data) == (size_t)len);
	}
	auto_buf struct buf buf = BUF(2003);
	CHECK(buf_printf(&buf, "<%s>", text) == 0 && buf.len == 2002);
	CHECK(buf.data[0] == '<' && buf.data[2001] == '>' && !buf.data[2002]);
	CHECK(buf_printf(&buf, "%s", text) == -1 && buf.full && buf.len == 2002);
}

int main(void)
{
	adding();
	growing();
	cap();
	long_printf();
	return tap_done();
}
