/* Frames of a process: whole and in pieces they must say the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "node/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static int note(void *arg, char type, const char *data, size_t len)
{
	if (len > FRAME_MAX - FRAME_HEAD)
		abort();
	buf_add(arg, &type, 1);
	buf_add(arg, &len, sizeof len);
	return buf_add(arg, data, len) < 0 || type == '!' ? -1 : 0;
}

/* Pieces are as long as the input's own bytes say, up to most. */
static int read_all(struct buf *to, const uint8_t *input, size_t size, size_t most)
{
	struct frame_reader reader = { 0 };
	for (size_t at = 0, n; at < size; at += n) {
		n = most ? 1 + (size_t)(input[size - 1 - at] ^ at) % most : size;
		n = n < size - at ? n : size - at;
		auto_free char *copy = xmalloc(n);
		memcpy(copy, input + at, n);
		if (frame_feed(&reader, copy, n, note, to) < 0)
			return -1;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const size_t most[] = { 1, 3, 17, 90 };
	auto_buf struct buf whole = BUF(1 << 28);
	int result = read_all(&whole, input, size, 0);
	for (size_t i = 0; i < COUNT(most); i++) {
		auto_buf struct buf split = BUF(1 << 28);
		if (read_all(&split, input, size, most[i]) != result || split.len != whole.len ||
		    (whole.len && memcmp(split.data, whole.data, whole.len) != 0))
			abort();
	}
	return 0;
}
