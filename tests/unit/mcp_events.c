/* Server-Sent Events, whole and in pieces. */
#include "mcp/sse_reader.h"

#include <stdio.h>

#include "base/buf.h"
#include "tap.h"

static bool note(void *arg, char *data, size_t len)
{
	struct buf *all = arg;
	buf_str(all, "<");
	buf_add(all, data ? data : "", len);
	buf_str(all, ">");
	return true;
}

static const char *feed(const char *text, size_t piece, size_t cap)
{
	static struct buf all;
	struct sse_reader events;
	buf_done(&all);
	buf_init(&all, 4096);
	buf_str(&all, "");
	sse_reader_init(&events, cap, note, &all);
	for (size_t at = 0, len = strlen(text); at < len; at += piece)
		if (!sse_reader_feed(&events, text + at, at + piece < len ? piece : len - at)) {
			buf_str(&all, "!");
			break;
		}
	sse_reader_done(&events);
	static char copy[4096];
	snprintf(copy, sizeof copy, "%s", all.data ? all.data : "");
	buf_done(&all);
	return copy;
}

int main(void)
{
	static const char some[] =
		": hello\n\nid: 1\nevent: message\ndata: {\"a\":1}\n\ndata:b\r\ndata: c\r\n\r\n"
		"data\n\nretry: 5\n\ndatax: no\n\ndata:  two\r\rdata: unfinished\n";
	static const char want[] = "<{\"a\":1}><b\nc><>< two>";
	CHECK_STR(feed(some, sizeof some, 100), want);
	for (size_t piece = 1; piece < 20; piece++)
		CHECK_STR(feed(some, piece, 100), want);
	CHECK_STR(feed("data: 0123456789\n\n", 3, 8), "!");
	CHECK_STR(feed("data: 01\ndata: 23\ndata: 45\n\n", 30, 7), "!");
	CHECK_STR(feed("", 1, 8), "");
	return tap_done();
}
