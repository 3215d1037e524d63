#include "api/excerpt.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/desc.h"

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Where `count` characters from the start, or before the end, of a stream are. */
static int64_t skip_characters(const struct stream *s, int64_t count, bool from_end)
{
	char piece[4096];
	int64_t seen = 0;
	if (!from_end) {
		for (int64_t at = s->start; at < s->end;) {
			size_t want = s->end - at < (int64_t)sizeof piece ? (size_t)(s->end - at) : sizeof piece;
			size_t n = s->read(s->arg, at, piece, want);
			for (size_t i = 0; i < n; i++)
				if (!is_continuation(piece[i]) && seen++ == count)
					return at + (int64_t)i;
			at += n ? (int64_t)n : (int64_t)want;
		}
		return s->end;
	}
	for (int64_t end = s->end; end > s->start;) {
		size_t want = end - s->start < (int64_t)sizeof piece ? (size_t)(end - s->start) : sizeof piece;
		size_t n = s->read(s->arg, end - (int64_t)want, piece, want);
		for (size_t i = n; i-- > 0;)
			if (!is_continuation(piece[i]) && ++seen == count)
				return end - (int64_t)want + (int64_t)i;
		end -= (int64_t)want;
	}
	return s->start;
}

void excerpt_shorten(struct stream *s, int64_t max)
{
	if (!max || s->end - s->start <= max)
		return;
	int64_t cut = skip_characters(s, max - max / 2, false), resume = skip_characters(s, max / 2, true);
	if (max < 2)
		resume = s->end;
	if (resume <= cut)
		return;
	s->cut = cut;
	s->resume = resume;
	snprintf(s->middle, sizeof s->middle, "\n... [%lld bytes left out] ...\n",
		 (long long)(resume - cut));
}
