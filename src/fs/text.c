#include "fs/text.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

static const char bom[] = "\xef\xbb\xbf";

/* ---- encodings ---- */

static int too_large(size_t cap, struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, "the text is larger than %zu bytes", cap);
}

static unsigned unit_at(const unsigned char *data, bool big)
{
	return big ? (unsigned)data[0] << 8 | data[1] : (unsigned)data[1] << 8 | data[0];
}

static size_t put_utf8(unsigned c, char *to)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = len; --i; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)((0xf00 >> len & 0xff) | c);
	return len;
}

/* 0; 1 when it is not UTF-16 after all; -1 when it does not fit. */
static int from_utf16(const struct buf *bytes, bool big, struct buf *to)
{
	const unsigned char *data = (const unsigned char *)bytes->data;
	for (size_t at = 2; at < bytes->len; at += 2) {
		if (at + 2 > bytes->len)
			return 1;
		unsigned c = unit_at(data + at, big);
		if (c >= 0xd800 && c < 0xdc00 && at + 4 <= bytes->len) {
			unsigned low = unit_at(data + at + 2, big);
			if (low < 0xdc00 || low > 0xdfff)
				return 1;
			c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
			at += 2;
		} else if (c >= 0xd800 && c < 0xe000) {
			return 1;
		}
		char text[4];
		if (buf_add(to, text, put_utf8(c, text)) < 0)
			return -1;
	}
	return 0;
}

static void drop_front(struct buf *buf, size_t count)
{
	buf->len -= count;
	memmove(buf->data, buf->data + count, buf->len + 1);
}

int text_decode(struct buf *bytes, enum text_encoding *ret, struct err *err)
{
	*ret = TEXT_UTF8;
	if (!bytes->len)
		return 0;
	bool big = bytes->len >= 2 && !memcmp(bytes->data, "\xfe\xff", 2);
	if (big || (bytes->len >= 2 && !memcmp(bytes->data, "\xff\xfe", 2))) {
		auto_buf struct buf text = BUF(bytes->cap);
		buf_add(&text, "", 0);
		int result = from_utf16(bytes, big, &text);
		if (result < 0)
			return too_large(bytes->cap, err);
		*ret = result ? TEXT_BYTES : big ? TEXT_UTF16BE : TEXT_UTF16LE;
		if (result)
			return 0;
		struct buf old = *bytes;
		*bytes = text;
		text = old;
		return 0;
	}
	if (!utf8_valid(bytes->data, bytes->len)) {
		*ret = TEXT_BYTES;
	} else if (bytes->len >= 3 && !memcmp(bytes->data, bom, 3)) {
		drop_front(bytes, 3);
		*ret = TEXT_UTF8_BOM;
	}
	return 0;
}

static unsigned char_at(const unsigned char *text, size_t len)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned c = text[0] & masks[len];
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (text[i] & 0x3f);
	return c;
}

static int put_unit(struct buf *to, unsigned unit, bool big)
{
	char bytes[2] = { (char)(big ? unit >> 8 : unit), (char)(big ? unit : unit >> 8) };
	return buf_add(to, bytes, 2);
}

static int to_utf16(const struct buf *text, bool big, struct buf *to)
{
	int result = put_unit(to, 0xfeff, big);
	for (size_t at = 0, len; result == 0 && at < text->len; at += len) {
		len = utf8_char(text->data + at, text->len - at);
		if (!len)
			return -1;
		unsigned c = char_at((const unsigned char *)text->data + at, len);
		if (c >= 0x10000) {
			result = put_unit(to, 0xd800 + ((c - 0x10000) >> 10), big);
			c = 0xdc00 + ((c - 0x10000) & 0x3ff);
		}
		if (result == 0)
			result = put_unit(to, c, big);
	}
	return result;
}

int text_encode(struct buf *text, enum text_encoding encoding, struct err *err)
{
	if (encoding == TEXT_UTF8 || encoding == TEXT_BYTES)
		return 0;
	auto_buf struct buf bytes = BUF(text->cap * 2 + 3);
	int result = 0;
	if (encoding == TEXT_UTF8_BOM) {
		result = buf_add(&bytes, bom, 3);
		if (result == 0)
			result = buf_add(&bytes, text->data, text->len);
	} else {
		result = to_utf16(text, encoding == TEXT_UTF16BE, &bytes);
	}
	if (result < 0)
		return too_large(bytes.cap, err);
	struct buf old = *text;
	*text = bytes;
	bytes = old;
	return 0;
}

/* ---- lines ---- */

int64_t text_lines(const char *text, size_t len)
{
	int64_t count = 0;
	const char *end = text + len;
	for (const char *at = text; at < end; count++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		at = newline ? newline + 1 : end;
	}
	return count;
}

size_t text_line_at(const char *text, size_t len, int64_t line)
{
	const char *at = text, *end = text + len;
	while (line-- > 1 && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		at = newline ? newline + 1 : end;
	}
	return (size_t)(at - text);
}

int text_number(struct buf *to, const char *text, size_t len, int64_t first)
{
	int result = 0;
	const char *end = text + len;
	for (const char *at = text; result == 0 && at < end; first++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t size = (size_t)((newline ? newline : end) - at);
		size_t shown = newline && size && at[size - 1] == '\r' ? size - 1 : size;
		buf_printf(to, "%6lld\t", (long long)first);
		buf_add(to, at, shown);
		result = buf_add(to, "\n", 1);
		at += size + 1;
	}
	return result;
}

enum endings { ENDS_LF, ENDS_CRLF, ENDS_MIXED };

static enum endings endings_of(const struct buf *text)
{
	bool lf = false, crlf = false;
	const char *at = text->data, *end = at + text->len;
	while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
		bool cr = at > text->data && at[-1] == '\r';
		crlf = crlf || cr;
		lf = lf || !cr;
		at++;
	}
	return !crlf ? ENDS_LF : lf ? ENDS_MIXED : ENDS_CRLF;
}

/* With CR LF at each line's end, also where there was only LF. */
static int to_crlf(struct text in, struct buf *to)
{
	int result = 0;
	for (size_t at = 0; result == 0 && at < in.len;) {
		const char *newline = memchr(in.data + at, '\n', in.len - at);
		size_t size = newline ? (size_t)(newline - in.data) - at : in.len - at;
		bool bare = newline && (!size || newline[-1] != '\r');
		buf_add(to, in.data + at, size);
		result = newline ? buf_str(to, bare ? "\r\n" : "\n") : 0;
		at += size + (newline != NULL);
	}
	return to->full ? -1 : result;
}

/* ---- changes ---- */

void text_change_done(struct text_change *change)
{
	buf_done(&change->text);
}

static bool is_ascii(struct text text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] > 0x7f)
			return false;
	return true;
}

static int check_known(enum text_encoding encoding, struct text a, struct text b, struct err *err)
{
	if (encoding != TEXT_BYTES || (is_ascii(a) && is_ascii(b)))
		return 0;
	return err_set(err, EILSEQ,
		       "the file is not UTF-8: only ASCII text can be replaced or inserted in it");
}

static const char *find(const char *at, const char *end, struct text what)
{
	return memmem(at, (size_t)(end - at), what.data, what.len);
}

static void count(const struct buf *in, struct text from, struct text_change *ret)
{
	const char *at = in->data, *end = at + in->len, *seen = at;
	int64_t line = 1;
	ret->found = 0;
	for (; in->len && (at = find(at, end, from)); at += from.len) {
		if (ret->found < TEXT_LINES_MAX) {
			for (; (seen = memchr(seen, '\n', (size_t)(at - seen))); seen++)
				line++;
			seen = at;
			ret->lines[ret->found] = line;
		}
		ret->found++;
	}
}

/* Copies `in` with the occurrences first to last, counted from 0, replaced. */
static int rewrite(const struct buf *in, struct text from, struct text to, size_t first,
		   size_t last, struct text_change *ret)
{
	const char *at = in->data, *end = at + in->len, *hit = at;
	for (size_t i = 0; i <= last && (hit = find(hit, end, from)); i++, hit += from.len) {
		if (i < first)
			continue;
		buf_add(&ret->text, at, (size_t)(hit - at));
		if (i == first)
			ret->at = ret->text.len;
		buf_add(&ret->text, to.data, to.len);
		at = hit + from.len;
		ret->replaced++;
	}
	buf_add(&ret->text, at, (size_t)(end - at));
	return ret->text.full ? -1 : 0;
}

int text_replace(const struct buf *in, enum text_encoding encoding, struct text from,
		 struct text to, enum text_mode mode, size_t cap, struct text_change *ret,
		 struct err *err)
{
	*ret = (struct text_change){ .text = BUF(cap) };
	if (check_known(encoding, from, to, err) < 0)
		return -1;
	auto_buf struct buf from_crlf = BUF(cap * 2), to_crlf_ = BUF(cap * 2);
	enum endings endings = endings_of(in);
	if (endings != ENDS_CRLF)
		count(in, from, ret);
	if (endings == ENDS_CRLF || (endings == ENDS_MIXED && !ret->found)) {
		if (to_crlf(from, &from_crlf) < 0 || to_crlf(to, &to_crlf_) < 0)
			return too_large(cap, err);
		from = (struct text){ from_crlf.data, from_crlf.len };
		to = (struct text){ to_crlf_.data ? to_crlf_.data : "", to_crlf_.len };
		count(in, from, ret);
	}
	if (!ret->found || (mode == TEXT_UNIQUE && ret->found > 1))
		return 0;
	size_t first = mode == TEXT_LAST ? ret->found - 1 : 0;
	size_t last = mode == TEXT_FIRST ? 0 : ret->found - 1;
	return rewrite(in, from, to, first, last, ret) < 0 ? too_large(cap, err) : 0;
}

int text_insert(const struct buf *in, enum text_encoding encoding, struct text lines, int64_t after,
		size_t cap, struct text_change *ret, struct err *err)
{
	*ret = (struct text_change){ .text = BUF(cap), .found = 1, .replaced = 1 };
	const char *data = in->data;
	int64_t count_of = text_lines(data, in->len);
	if (after < 0 || after > count_of)
		return err_set(err, ERR_RANGE,
			       "It should be within the range of allowed values: [0, %lld]",
			       (long long)count_of);
	if (check_known(encoding, lines, lines, err) < 0)
		return -1;
	bool crlf = endings_of(in) == ENDS_CRLF;
	auto_buf struct buf converted = BUF(cap * 2);
	if (crlf && to_crlf(lines, &converted) < 0)
		return too_large(cap, err);
	if (crlf)
		lines = (struct text){ converted.data ? converted.data : "", converted.len };
	size_t at = text_line_at(data, in->len, after + 1);
	const char *newline = crlf ? "\r\n" : "\n";
	/* A last line without an end gets one; the new last line has none then, unless it is empty:
	 * it would be no line at all. */
	bool open = at == in->len && at && data[at - 1] != '\n';
	buf_add(&ret->text, data, at);
	if (open)
		buf_str(&ret->text, newline);
	ret->at = ret->text.len;
	ret->lines[0] = after + 1;
	buf_add(&ret->text, lines.data, lines.len);
	if (!open || !lines.len)
		buf_str(&ret->text, newline);
	buf_add(&ret->text, data + at, in->len - at);
	return ret->text.full ? too_large(cap, err) : 0;
}
