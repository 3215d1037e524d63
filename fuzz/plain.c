/* Terminal output: whole and in pieces it must give the same text, without what text has not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "term/plain.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Pieces are as long as the input's own bytes say, up to most. */
static void convert(struct buf *to, const uint8_t *input, size_t size, size_t most)
{
	struct plain plain;
	plain_init(&plain);
	for (size_t at = 0, n; at < size; at += n) {
		n = most ? 1 + (size_t)(input[size - 1 - at] ^ at) % most : size;
		n = n < size - at ? n : size - at;
		auto_free char *copy = xmalloc(n);
		memcpy(copy, input + at, n);
		if (plain_feed(&plain, copy, n, to) < 0)
			abort();
	}
	if (plain_finish(&plain, to) < 0)
		abort();
	plain_done(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const size_t most[] = { 1, 3, 17, 90 };
	auto_buf struct buf whole = BUF(1 << 28);
	convert(&whole, input, size, 0);
	for (size_t i = 0; i < whole.len; i++) {
		unsigned char c = (unsigned char)whole.data[i];
		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			abort();
	}
	for (size_t i = 0; i < COUNT(most); i++) {
		auto_buf struct buf split = BUF(1 << 28);
		convert(&split, input, size, most[i]);
		if (split.len != whole.len ||
		    (whole.len && memcmp(split.data, whole.data, whole.len)))
			abort();
	}
	return 0;
}
