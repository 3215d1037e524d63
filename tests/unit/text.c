#include "fs/text.h"

#include <errno.h>

#include "base/err.h"
#include "tap.h"

#define T(literal) ((struct text){ literal, sizeof(literal) - 1 })
enum { CAP = 1 << 16 };

static struct buf of(const char *bytes, size_t len)
{
	struct buf buf = BUF(CAP);
	buf_add(&buf, bytes, len);
	return buf;
}
#define OF(literal) of(literal, sizeof(literal) - 1)

static bool is(const struct buf *buf, const char *bytes, size_t len)
{
	return buf->len == len && !memcmp(buf->data, bytes, len);
}
#define IS(buf, literal) is(buf, literal, sizeof(literal) - 1)

/* Decodes, looks, encodes, and wants what there was. */
static void encoding(const char *bytes, size_t len, enum text_encoding want, const char *text)
{
	auto_buf struct buf buf = of(bytes, len);
	enum text_encoding got;
	CHECK(text_decode(&buf, &got, NULL) == 0 && got == want);
	if (text)
		CHECK_STR(buf.data, text);
	CHECK(text_encode(&buf, got, NULL) == 0 && is(&buf, bytes, len));
}
#define ENCODING(bytes, want, text) encoding(bytes, sizeof(bytes) - 1, want, text)

static void encodings(void)
{
	ENCODING("", TEXT_UTF8, "");
	ENCODING("caf\xc3\xa9", TEXT_UTF8, "caf\xc3\xa9");
	ENCODING("\xef\xbb\xbf", TEXT_UTF8_BOM, "");
	ENCODING("\xef\xbb\xbfx", TEXT_UTF8_BOM, "x");
	ENCODING("\xef\xbb", TEXT_BYTES, NULL);
	ENCODING("caf\xe9", TEXT_BYTES, "caf\xe9");
	ENCODING("\xff\xfe", TEXT_UTF16LE, "");
	ENCODING("\xfe\xff", TEXT_UTF16BE, "");
	ENCODING("\xff\xfe\xe4\x00\xac\x20\x3d\xd8\x00\xde", TEXT_UTF16LE,
		 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	ENCODING("\xfe\xff\x00\xe4\x20\xac\xd8\x3d\xde\x00", TEXT_UTF16BE,
		 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	ENCODING("\xff\xfe\x00", TEXT_BYTES, NULL);        /* half a unit */
	ENCODING("\xff\xfe\x3d\xd8", TEXT_BYTES, NULL);    /* half a pair */
	ENCODING("\xff\xfe\x3d\xd8x\0", TEXT_BYTES, NULL); /* its other half is none */
	ENCODING("\xff\xfe\x00\xde", TEXT_BYTES, NULL);    /* the second alone */
	ENCODING("\xff\xfe\xff\xff\xfe\xff", TEXT_UTF16LE, NULL);
	struct buf full = BUF(8);
	enum text_encoding got;
	struct err err;
	buf_add(&full, "\xff\xfe\xac\x20\xac\x20\xac\x20", 8);
	CHECK(text_decode(&full, &got, &err) < 0 && err.code == ERR_TOO_LARGE);
	buf_done(&full);
}

static void lines(void)
{
	CHECK(text_lines("", 0) == 0 && text_lines("a", 1) == 1 && text_lines("a\n", 2) == 1);
	CHECK(text_lines("\n\n", 2) == 2 && text_lines("a\nb", 3) == 2);
	CHECK(text_line_at("a\nbc\nd", 6, 1) == 0 && text_line_at("a\nbc\nd", 6, 2) == 2);
	CHECK(text_line_at("a\nbc\nd", 6, 3) == 5 && text_line_at("a\nbc\nd", 6, 4) == 6);
	CHECK(text_line_at("a\n", 2, 2) == 2 && text_line_at("", 0, 1) == 0);
	auto_buf struct buf out = BUF(CAP);
	CHECK(text_number(&out, "a\r\n\n\rb\r", 7, 99999) == 0);
	CHECK_STR(out.data, " 99999\ta\n100000\t\n100001\t\rb\r\n");
	auto_buf struct buf small = BUF(3);
	CHECK(text_number(&small, "abc", 3, 1) < 0);
}

static void replace(struct text in, struct text from, struct text to, enum text_mode mode,
		    struct text want)
{
	auto_buf struct buf buf = of(in.data, in.len);
	auto_change struct text_change change;
	CHECK(text_replace(&buf, TEXT_UTF8, from, to, mode, CAP, &change, NULL) == 0);
	CHECK(is(&change.text, want.data, want.len));
	CHECK(!memcmp(change.text.data + change.at, to.data, to.len < 1 ? 0 : 1));
}

static void replacing(void)
{
	replace(T("a b a"), T("b"), T("x"), TEXT_UNIQUE, T("a x a"));
	replace(T("a b a"), T("a"), T("x"), TEXT_ALL, T("x b x"));
	replace(T("a b a"), T("a"), T("x"), TEXT_FIRST, T("x b a"));
	replace(T("a b a"), T("a"), T("x"), TEXT_LAST, T("a b x"));
	replace(T("aaaa"), T("aa"), T(""), TEXT_ALL, T(""));
	replace(T("aaa"), T("aa"), T("x"), TEXT_ALL, T("xa"));
	replace(T("a\0b"), T("\0"), T("--"), TEXT_ALL, T("a--b"));
	replace(T("a\r\nb\r\n"), T("a\nb"), T("1\n2"), TEXT_UNIQUE, T("1\r\n2\r\n"));
	replace(T("a\r\nb\r\n"), T("a\r\nb"), T("1\n2\r\n3"), TEXT_UNIQUE, T("1\r\n2\r\n3\r\n"));
	replace(T("a\r\nb\nc\n"), T("a\nb"), T("1\n2"), TEXT_UNIQUE, T("1\r\n2\nc\n"));
	replace(T("a\nb\nc\r\n"), T("a\nb"), T("1\n2"), TEXT_UNIQUE, T("1\n2\nc\r\n"));
	replace(T("a\rb"), T("\r"), T("\n"), TEXT_UNIQUE, T("a\nb"));
}

static void not_replacing(void)
{
	auto_buf struct buf buf = OF("x\ny\nx\n");
	struct text_change change;
	struct err err = { 0 };
	CHECK(text_replace(&buf, TEXT_UTF8, T("x"), T("z"), TEXT_UNIQUE, CAP, &change, NULL) == 0);
	CHECK(change.found == 2 && !change.replaced && change.lines[0] == 1 &&
	      change.lines[1] == 3);
	CHECK(text_replace(&buf, TEXT_UTF8, T("q"), T("z"), TEXT_ALL, CAP, &change, NULL) == 0);
	CHECK(!change.found && !change.replaced && !change.text.data);
	CHECK(text_replace(&buf, TEXT_BYTES, T("x"), T("\xc3\xa9"), TEXT_ALL, CAP, &change, &err) <
	      0);
	CHECK(err.code == EILSEQ);
	CHECK(text_replace(&buf, TEXT_UTF8, T("x"), T("12345678"), TEXT_ALL, 10, &change, &err) <
	      0);
	CHECK(err.code == ERR_TOO_LARGE);
	text_change_done(&change);
	auto_buf struct buf empty = OF("");
	CHECK(text_replace(&empty, TEXT_UTF8, T("x"), T("z"), TEXT_ALL, CAP, &change, NULL) == 0);
	CHECK(!change.found);
	auto_buf struct buf many = BUF(CAP);
	for (int i = 0; i < 50; i++)
		buf_str(&many, "x\n\n");
	CHECK(text_replace(&many, TEXT_UTF8, T("x"), T("z"), TEXT_UNIQUE, CAP, &change, NULL) == 0);
	CHECK(change.found == 50 &&
	      change.lines[TEXT_LINES_MAX - 1] == 1 + 2 * (TEXT_LINES_MAX - 1));
}

static void insert(struct text in, int64_t after, struct text what, struct text want, size_t at)
{
	auto_buf struct buf buf = of(in.data, in.len);
	auto_change struct text_change change;
	CHECK(text_insert(&buf, TEXT_UTF8, what, after, CAP, &change, NULL) == 0);
	CHECK(is(&change.text, want.data, want.len) && change.at == at);
}

static void inserting(void)
{
	insert(T(""), 0, T("x"), T("x\n"), 0);
	insert(T("a\nb\n"), 0, T("x"), T("x\na\nb\n"), 0);
	insert(T("a\nb\n"), 1, T("x\ny"), T("a\nx\ny\nb\n"), 2);
	insert(T("a\nb\n"), 2, T("x"), T("a\nb\nx\n"), 4);
	insert(T("a\nb"), 2, T("x"), T("a\nb\nx"), 4);
	insert(T("a\nb"), 2, T(""), T("a\nb\n\n"), 4);
	insert(T("a\r\n"), 1, T("x\ny"), T("a\r\nx\r\ny\r\n"), 3);
	insert(T("a\r\nb"), 2, T("x"), T("a\r\nb\r\nx"), 6);
	insert(T("a\r\nb\n"), 1, T("x"), T("a\r\nx\nb\n"), 3);
	auto_buf struct buf buf = OF("a\nb");
	struct text_change change;
	struct err err = { 0 };
	CHECK(text_insert(&buf, TEXT_UTF8, T("x"), 3, CAP, &change, &err) < 0 &&
	      err.code == ERR_RANGE);
	CHECK(text_insert(&buf, TEXT_UTF8, T("x"), -1, CAP, &change, &err) < 0 &&
	      err.code == ERR_RANGE);
	CHECK(text_insert(&buf, TEXT_BYTES, T("\xc3\xa9"), 0, CAP, &change, &err) < 0);
	CHECK(err.code == EILSEQ);
	CHECK(text_insert(&buf, TEXT_UTF8, T("x"), 0, 4, &change, &err) < 0);
	CHECK(err.code == ERR_TOO_LARGE);
	text_change_done(&change);
}

int main(void)
{
	encodings();
	lines();
	replacing();
	not_replacing();
	inserting();
	return tap_done();
}
