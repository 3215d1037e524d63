#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* The length a lead byte asks for, and the range its first continuation byte must be in. */
static size_t lead(unsigned char c, unsigned char *low, unsigned char *high)
{
	*low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	*high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	return c < 0x80                ? 1
	       : c >= 0xc2 && c < 0xe0 ? 2
	       : c >= 0xe0 && c < 0xf0 ? 3
	       : c >= 0xf0 && c < 0xf5 ? 4
				       : 0;
}

/* How many bytes at text fit a character; *ret_want is the length that its lead byte asks for. */
static size_t matched(const char *text, size_t len, size_t *ret_want)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char low, high;
	size_t want = lead(p[0], &low, &high), got = want ? 1 : 0;
	while (got && got < want && got < len && p[got] >= low && p[got] <= high) {
		got++;
		low = 0x80;
		high = 0xbf;
	}
	*ret_want = want;
	return got;
}

size_t utf8_char(const char *text, size_t len)
{
	size_t want, got = matched(text, len, &want);
	return got == want ? want : 0;
}

size_t utf8_span(const char *text, size_t len)
{
	size_t at = 0;
	while (at < len) {
		uint64_t word;
		if (len - at >= sizeof word) {
			memcpy(&word, text + at, sizeof word);
			if (!(word & 0x8080808080808080u)) {
				at += sizeof word;
				continue;
			}
		}
		size_t n = (signed char)text[at] >= 0 ? 1 : utf8_char(text + at, len - at);
		if (!n)
			break;
		at += n;
	}
	return at;
}

bool utf8_valid(const char *text, size_t len)
{
	return utf8_span(text, len) == len;
}

size_t utf8_partial(const char *text, size_t len)
{
	for (size_t tail = 1; tail <= 3 && tail <= len; tail++) {
		size_t want, got = matched(text + len - tail, tail, &want);
		if (got == tail && got < want)
			return tail;
	}
	return 0;
}

size_t utf8_fit(const char *text, size_t max)
{
	size_t len = strnlen(text, max);
	return len < max || !text[max] ? len : max - utf8_partial(text, max);
}

size_t utf8_bad(const char *text, size_t len)
{
	size_t want, got = matched(text, len, &want);
	return got ? got : 1;
}
