/* A file's bytes, and edits of it: decoding and encoding must give the same bytes again, a replacement
 * must be what a simple one gives, and an insertion must add lines and change none. The first byte of
 * the input says where the rest is cut into file, old and new text. */
#include "fs/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { CAP = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static struct buf copy(const void *data, size_t len)
{
	struct buf buf = BUF(CAP);
	buf_add(&buf, data, len);
	return buf;
}

static size_t occurrences(const struct buf *in, struct text what)
{
	size_t count = 0;
	const char *at = in->data, *end = at + in->len;
	for (; (at = memmem(at, (size_t)(end - at), what.data, what.len)); at += what.len)
		count++;
	return count;
}

static void replace(const struct buf *in, enum text_encoding encoding, struct text from,
		    struct text to)
{
	for (int mode = TEXT_UNIQUE; mode <= TEXT_LAST; mode++) {
		auto_change struct text_change change;
		if (text_replace(in, encoding, from, to, mode, CAP, &change, NULL) < 0)
			continue;
		must(change.replaced == (!change.found                              ? 0
					 : mode == TEXT_ALL                         ? change.found
					 : mode == TEXT_UNIQUE && change.found != 1 ? 0
										    : 1));
		if (!memchr(in->data, '\r', in->len) && !memchr(from.data, '\r', from.len)) {
			must(change.found == occurrences(in, from));
			if (change.replaced)
				must(change.text.len == in->len + change.replaced * to.len -
								change.replaced * from.len);
		}
		if (change.replaced)
			must(change.at <= change.text.len);
	}
}

static void insert(const struct buf *in, enum text_encoding encoding, struct text lines,
		   int64_t after)
{
	auto_change struct text_change change;
	int64_t before = text_lines(in->data, in->len);
	if (text_insert(in, encoding, lines, after, CAP, &change, NULL) < 0)
		return;
	must(after >= 0 && after <= before);
	must(text_lines(change.text.data, change.text.len) > before);
	size_t at = text_line_at(in->data, in->len, after + 1);
	must(!memcmp(change.text.data, in->data, at));
	must(!memcmp(change.text.data + change.text.len - (in->len - at), in->data + at,
		     in->len - at));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	if (size < 3)
		return 0;
	size_t rest = size - 2, one = input[0] * rest / 255, two = input[1] * (rest - one) / 255;
	auto_buf struct buf bytes = copy(input + 2, one), text = copy(input + 2, one);
	auto_free char *from = xmalloc(two + 1), *to = xmalloc(rest - one - two + 1);
	memcpy(from, input + 2 + one, two);
	memcpy(to, input + 2 + one + two, rest - one - two);
	enum text_encoding encoding;
	must(text_decode(&text, &encoding, NULL) == 0);
	auto_buf struct buf numbered = BUF(CAP);
	must(text_number(&numbered, text.data, text.len, 1) == 0);
	if (two)
		replace(&text, encoding, (struct text){ from, two },
			(struct text){ to, rest - one - two });
	insert(&text, encoding, (struct text){ to, rest - one - two }, input[1] % 5);
	must(text_encode(&text, encoding, NULL) == 0 && same(&text, &bytes));
	return 0;
}
