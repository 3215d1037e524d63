#include "fs/lines.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "base/wait.h"
#include "fs/regular.h"

enum { PIECE = 128 * 1024, ASK_EVERY = 8 << 20 };

/* Goes past newlines until `line` is `until`: where that is, or len. */
static size_t skip_lines(const char *data, size_t at, size_t len, int64_t *line, int64_t until)
{
	while (*line < until && at < len) {
		const char *newline = memchr(data + at, '\n', len - at);
		if (!newline)
			return len;
		at = (size_t)(newline + 1 - data);
		++*line;
	}
	return at;
}

/* How many bytes at the end may be a character that goes on beyond them; -1 when it is no UTF-8. */
static int check(const char *data, size_t len, bool more, int64_t at, struct err *err)
{
	size_t valid = utf8_span(data, len);
	if (valid == len)
		return 0;
	size_t rest = len - valid;
	if (more && rest <= 3 && utf8_partial(data + valid, rest) == rest)
		return (int)rest;
	return err_set(
		err, EILSEQ,
		"'utf-8' codec can't decode byte 0x%02x in position %lld: the file is not UTF-8",
		(unsigned char)data[valid], (long long)at + (long long)valid);
}

int lines_find(int fd, int64_t first, int64_t last, bool (*go_on)(void *arg), void *arg,
	       struct lines *ret, struct err *err)
{
	auto_free char *data = xmalloc(PIECE);
	int64_t at = 0, line = 0, asked = 0;
	bool inside = false, open = false;
	*ret = (struct lines){ 0 };
	for (;;) {
		if (at - asked >= ASK_EVERY && !go_on(arg))
			return wake_err(WAKE_LEFT, err);
		asked = at - asked >= ASK_EVERY ? at : asked;
		ssize_t n = regular_read_at(fd, at, data, PIECE, err);
		if (n < 0)
			return -1;
		size_t len = (size_t)n, from = 0;
		if (!inside) {
			from = skip_lines(data, 0, len, &line, first);
			inside = line == first;
			ret->start = ret->end = at + (int64_t)from;
		}
		size_t to = inside ? skip_lines(data, from, len, &line, last) : from;
		int carried = 0;
		if (inside && last > first) {
			bool more = len == PIECE && line < last;
			carried = check(data + from, to - from, more, at + (int64_t)from, err);
			if (carried < 0)
				return -1;
			ret->end = at + (int64_t)to;
		}
		if (len)
			open = data[len - 1] != '\n';
		if (len < PIECE || (inside && line >= last))
			break;
		at += (int64_t)len - carried; /* a part of a character is no newline */
	}
	ret->seen = line + (open && line < last);
	ret->count = ret->seen > first ? ret->seen - first : 0;
	return 0;
}
