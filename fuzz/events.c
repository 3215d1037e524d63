/* Server-Sent Events in two pieces must give what they give in one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "mcp/sse_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool note(void *arg, char *data, size_t len)
{
	struct buf *all = arg;
	buf_add(all, data ? data : "", len);
	buf_str(all, "|");
	return !(len == 4 && !memcmp(data, "stop", 4));
}

static bool feed(const uint8_t *data, size_t len, size_t cut, struct buf *all)
{
	struct sse_reader events;
	sse_reader_init(&events, 256, note, all);
	bool more = sse_reader_feed(&events, (const char *)data, cut) &&
		    sse_reader_feed(&events, (const char *)data + cut, len - cut);
	sse_reader_done(&events);
	return more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_buf struct buf one = BUF(1 << 20), two = BUF(1 << 20);
	if (len < 1)
		return 0;
	size_t cut = data[0] % len;
	bool a = feed(data + 1, len - 1, len - 1, &one);
	bool b = feed(data + 1, len - 1, cut < len - 1 ? cut : len - 1, &two);
	if (a != b || one.len != two.len || (one.len && memcmp(one.data, two.data, one.len) != 0))
		abort();
	return 0;
}
