#include "base/base64.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/buf.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int encode(struct buf *to, const unsigned char *data, size_t len, const char *alphabet,
		  bool pad)
{
	char *out = buf_grow(to, pad ? (len + 2) / 3 * 4 : len / 3 * 4 + (len % 3 * 4 + 2) / 3);
	if (!out)
		return -1;
	char *at = out;
	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)data[i] << 16 | (n > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
				(n > 2 ? data[i + 2] : 0);
		for (size_t k = 0; k < 4; k++) {
			if (k <= n)
				*at++ = alphabet[bits >> (18 - 6 * k) & 63];
			else if (pad)
				*at++ = '=';
		}
	}
	*at = 0;
	to->len += (size_t)(at - out);
	return 0;
}

int base64_encode(struct buf *to, const void *data, size_t len)
{
	return encode(to, data, len, standard, true);
}

int base64url_encode(struct buf *to, const void *data, size_t len)
{
	return encode(to, data, len, url_safe, false);
}

enum { BAD = -1, BLANK = -2, PAD = -3 };

/* What each character is: its six bits, or one of the above. */
static void classify(signed char kinds[256], const char *alphabet, bool lax)
{
	memset(kinds, BAD, 256);
	for (int i = 0; i < 64; i++)
		kinds[(unsigned char)alphabet[i]] = (signed char)i;
	if (lax) {
		kinds['\t'] = kinds['\n'] = kinds['\r'] = kinds[' '] = BLANK;
		kinds['='] = PAD;
	}
}

/* Writes the whole bytes that the digits of text make. Returns how many those are, or -1. */
static ssize_t decode_digits(char *out, const signed char kinds[256], const char *text, size_t len)
{
	const char *start = out;
	uint32_t bits = 0;
	size_t digits = 0, pads = 0;
	for (size_t i = 0; i < len; i++) {
		signed char kind = kinds[(unsigned char)text[i]];
		if (kind == BAD || (kind >= 0 && pads))
			return -1;
		pads += kind == PAD;
		if (kind < 0)
			continue;
		bits = bits << 6 | (uint32_t)kind;
		if (++digits % 4 == 0) {
			*out++ = (char)(bits >> 16);
			*out++ = (char)(bits >> 8);
			*out++ = (char)bits;
			bits = 0;
		}
	}
	size_t rest = digits % 4;
	if (rest == 1 || (pads && (rest + pads != 4 || rest < 2)))
		return -1;
	if ((rest == 2 && bits & 15) || (rest == 3 && bits & 3))
		return -1;
	if (rest >= 2)
		*out++ = (char)(bits >> (rest == 2 ? 4 : 10));
	if (rest == 3)
		*out++ = (char)(bits >> 2);
	return out - start;
}

static int decode(struct buf *to, const char *text, size_t len, const char *alphabet, bool lax)
{
	signed char kinds[256];
	classify(kinds, alphabet, lax);
	size_t digits = 0;
	for (size_t i = 0; i < len; i++)
		digits += kinds[(unsigned char)text[i]] >= 0;
	char *out = buf_grow(to, digits / 4 * 3 + digits % 4 * 3 / 4);
	if (!out)
		return -1;
	ssize_t n = decode_digits(out, kinds, text, len);
	out[n < 0 ? 0 : n] = 0;
	to->len += n < 0 ? 0 : (size_t)n;
	return n < 0 ? -1 : 0;
}

int base64_decode(struct buf *to, const char *text, size_t len)
{
	return decode(to, text, len, standard, true);
}

int base64url_decode(struct buf *to, const char *text, size_t len)
{
	return decode(to, text, len, url_safe, false);
}
