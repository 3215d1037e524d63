/* The first four bytes are two sizes, the rest is drawn: half on the one, half on the other. It
 * must be the same in pieces, and a replay must draw the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "term/screen.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Pieces are as long as the input's own bytes say, up to most. */
static void feed(struct screen *screen, const void *data, size_t size, size_t most)
{
	const uint8_t *input = data;
	for (size_t at = 0, n; at < size; at += n) {
		n = most ? 1 + (size_t)(input[size - 1 - at] ^ at) % most : size;
		n = n < size - at ? n : size - at;
		auto_free char *copy = xmalloc(n);
		memcpy(copy, input + at, n);
		screen_feed(screen, copy, n);
	}
}

static void look(const struct screen *screen, struct buf *to)
{
	int col, row;
	screen_cursor(screen, &col, &row);
	buf_printf(to, "%d %d %d\n", col, row, screen_alternate(screen));
	screen_text(screen, to);
	if (to->full || !utf8_valid(to->data, to->len))
		abort();
}

static void must_equal(const struct buf *a, const struct buf *b)
{
	if (a->full || b->full || a->len != b->len || memcmp(a->data, b->data, a->len))
		abort();
}

static struct screen *draw(const uint8_t *input, size_t size, size_t most)
{
	size_t half = 4 + (size - 4) / 2;
	struct screen *screen = screen_new(input[0], input[1] % 32);
	feed(screen, input + 4, half - 4, most);
	screen_resize(screen, input[2], input[3] % 32);
	feed(screen, input + half, size - half, most);
	return screen;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	if (size < 4)
		return 0;
	auto_buf struct buf one = BUF(1 << 28), two = BUF(1 << 28), three = BUF(1 << 28);
	auto_buf struct buf replay = BUF(1 << 28), again = BUF(1 << 28);
	struct screen *whole = draw(input, size, 0), *split = draw(input, size, 5);
	struct screen *replayed = screen_new(input[2], input[3] % 32);
	look(whole, &one);
	look(split, &two);
	must_equal(&one, &two);
	if (screen_replay(whole, &replay) < 0 || screen_replay(split, &again) < 0)
		abort();
	must_equal(&replay, &again);
	feed(replayed, replay.data, replay.len, 0);
	look(replayed, &three);
	must_equal(&one, &three);
	screen_free(whole);
	screen_free(split);
	screen_free(replayed);
	return 0;
}
