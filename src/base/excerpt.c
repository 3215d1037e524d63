#include "base/excerpt.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/desc.h"
#include "base/utf8.h"

enum { PIECE = 4096, LOOK = 3 }; /* whether a character begins is seen from the bytes next to it */

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Whether a character begins at text[at], as the answer will have it: what is not UTF-8 becomes
 * characters, too. */
static bool begins(const char *text, size_t len, size_t at)
{
	if (!is_continuation(text[at]))
		return true;
	for (size_t back = 1; back <= LOOK && back <= at; back++) {
		const char *lead = text + at - back;
		if (is_continuation(*lead))
			continue;
		size_t size = utf8_char(lead, len - (at - back));
		return (size ? size : utf8_bad(lead, len - (at - back))) <= back;
	}
	return true;
}

/* Where `count` characters from the start, or before the end, of a stream are. */
static int64_t skip_characters(const struct stream *s, int64_t count, bool from_end)
{
	char text[LOOK + PIECE + LOOK];
	int64_t seen = 0;
	for (int64_t done = 0, all = s->end - s->start; done < all;) {
		int64_t size = all - done < PIECE ? all - done : PIECE;
		int64_t from = from_end ? s->end - done - size : s->start + done;
		int64_t first = from - s->start < LOOK ? s->start : from - LOOK;
		int64_t last = s->end - from - size < LOOK ? s->end : from + size + LOOK;
		size_t len = s->read(s->arg, first, text, (size_t)(last - first));
		for (int64_t i = 0; i < size; i++) {
			int64_t at = from_end ? from + size - 1 - i : from + i;
			if (at - first < (int64_t)len && begins(text, len, (size_t)(at - first)) &&
			    ++seen == (from_end ? count : count + 1))
				return at;
		}
		done += size;
	}
	return from_end ? s->start : s->end;
}

void excerpt_shorten(struct stream *s, int64_t max)
{
	if (!max || s->end - s->start <= max)
		return;
	int64_t cut = skip_characters(s, max - max / 2, false);
	int64_t resume = max < 2 ? s->end : skip_characters(s, max / 2, true);
	if (resume <= cut)
		return;
	s->cut = cut;
	s->resume = resume;
	snprintf(s->middle, sizeof s->middle, "\n... [%lld bytes left out] ...\n",
		 (long long)(resume - cut));
}
