/* Messages of a client of Jupyter on a WebSocket: what is read can be written, and read again as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "kernel/kernel_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool equal(const struct text *a, const struct text *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].len != b[i].len || (a[i].len && memcmp(a[i].data, b[i].data, a[i].len)))
			return false;
	return true;
}

static void check_same(const struct kernel_wire *a, const struct kernel_wire *b)
{
	if (strcmp(a->channel, b->channel) != 0 || a->buffer_count != b->buffer_count ||
	    !equal(a->parts, b->parts, KERNEL_WIRE_PARTS) ||
	    !equal(a->buffers, b->buffers, a->buffer_count))
		abort();
}

static void read_v1(const char *data, size_t len)
{
	struct kernel_wire message, again;
	struct buf out = BUF(len * 2 + 1024);
	if (kernel_wire_read_v1(data, len, &message, NULL) == 0 &&
	    kernel_wire_write_v1(&out, &message)) {
		if (kernel_wire_read_v1(out.data, out.len, &again, NULL) < 0)
			abort();
		check_same(&message, &again);
	}
	buf_done(&out);
}

static void read_json(const char *data, size_t len, bool binary)
{
	struct kernel_wire message, again;
	struct buf keep = BUF(0), other = BUF(0), out = BUF(len * 8 + 1024);
	if (kernel_wire_read_json(data, len, binary, &keep, &message, NULL) == 0 &&
	    kernel_wire_write_v1(&out, &message)) {
		if (kernel_wire_read_v1(out.data, out.len, &again, NULL) < 0)
			abort();
		check_same(&message, &again);
		out.len = 0;
		bool more;
		if (kernel_wire_write_json(&out, &message, &more) &&
		    (kernel_wire_read_json(out.data, out.len, more, &other, &again, NULL) < 0 ||
		     again.buffer_count != message.buffer_count))
			abort();
	}
	buf_done(&keep);
	buf_done(&other);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *copy = xmalloc(len + 1);
	memcpy(copy, data, len);
	read_v1(copy, len);
	read_json(copy, len, false);
	read_json(copy, len, true);
	return 0;
}
