#include "base/utf8.h"

#include <stdint.h>

#include "tap.h"

#define CHAR(text)    utf8_char(text, sizeof text - 1)
#define SPAN(text)    utf8_span(text, sizeof text - 1)
#define VALID(text)   utf8_valid(text, sizeof text - 1)
#define PARTIAL(text) utf8_partial(text, sizeof text - 1)
#define BAD(text)     utf8_bad(text, sizeof text - 1)

static void characters(void)
{
	CHECK(CHAR("a") == 1);
	CHECK(CHAR("\0") == 1);
	CHECK(CHAR("\x7f") == 1);
	CHECK(CHAR("\xc2\x80") == 2);
	CHECK(CHAR("\xdf\xbfx") == 2);
	CHECK(CHAR("\xe0\xa0\x80") == 3);
	CHECK(CHAR("\xed\x9f\xbf") == 3);
	CHECK(CHAR("\xee\x80\x80") == 3);
	CHECK(CHAR("\xef\xbf\xbf") == 3);
	CHECK(CHAR("\xf0\x90\x80\x80") == 4);
	CHECK(CHAR("\xf4\x8f\xbf\xbf") == 4);
	CHECK(CHAR("\x80") == 0);
	CHECK(CHAR("\xbf") == 0);
	CHECK(CHAR("\xc0\x80") == 0);
	CHECK(CHAR("\xc1\xbf") == 0);
	CHECK(CHAR("\xe0\x9f\xbf") == 0);
	CHECK(CHAR("\xed\xa0\x80") == 0);
	CHECK(CHAR("\xf0\x8f\xbf\xbf") == 0);
	CHECK(CHAR("\xf4\x90\x80\x80") == 0);
	CHECK(CHAR("\xf5\x80\x80\x80") == 0);
	CHECK(CHAR("\xff") == 0);
	CHECK(CHAR("\xc3") == 0);
	CHECK(CHAR("\xe2\x82") == 0);
	CHECK(CHAR("\xf0\x9f\x98") == 0);
	CHECK(CHAR("\xc3\x28") == 0);
	CHECK(CHAR("\xe2\x82\x28") == 0);
	CHECK(CHAR("\xf0\x9f\x98\xc3") == 0);
}

static size_t encode(uint32_t code, char *to)
{
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = len; i-- > 1; code >>= 6)
		to[i] = (char)(0x80 | (code & 0x3f));
	to[0] = (char)(leads[len] | code);
	return len;
}

/* Every number that four bytes can hold: all are characters but surrogates and those too large. */
static void all_code_points(void)
{
	bool exact = true, cut = true;
	for (uint32_t code = 0; code < 0x200000; code++) {
		char text[4];
		size_t len = encode(code, text);
		bool real = code < 0x110000 && (code < 0xd800 || code > 0xdfff);
		exact = exact && utf8_char(text, len) == (real ? len : 0);
		for (size_t k = 1; real && k < len; k++)
			cut = cut && !utf8_char(text, k) && utf8_partial(text, k) == k;
	}
	CHECK(exact);
	CHECK(cut);
}

static void spans(void)
{
	CHECK(SPAN("") == 0);
	CHECK(SPAN("hello") == 5);
	CHECK(SPAN("0123456789abcdef") == 16);
	CHECK(SPAN("0123456789abcde\xff") == 15);
	CHECK(SPAN("0123456\xff"
		   "89abcdef") == 7);
	CHECK(SPAN("\xe2\x82\xac"
		   "0123456789\xf0\x9f\x98\x80z\xc3") == 18);
	CHECK(SPAN("0123456\xc3\xa9"
		   "9abcdef") == 16);
	CHECK(VALID(""));
	CHECK(VALID("a\0b"));
	CHECK(VALID("gr\xc3\xbc\xc3\x9f"));
	CHECK(!VALID("gr\xfc\xdf"));
	CHECK(!VALID("abc\xe2\x82"));
}

static void partial(void)
{
	CHECK(PARTIAL("") == 0);
	CHECK(PARTIAL("abc") == 0);
	CHECK(PARTIAL("ab\xc3") == 1);
	CHECK(PARTIAL("ab\xc3\xa9") == 0);
	CHECK(PARTIAL("ab\xe2") == 1);
	CHECK(PARTIAL("ab\xe2\x82") == 2);
	CHECK(PARTIAL("ab\xe2\x82\xac") == 0);
	CHECK(PARTIAL("\xf0") == 1);
	CHECK(PARTIAL("x\xf0\x9f") == 2);
	CHECK(PARTIAL("x\xf0\x9f\x98") == 3);
	CHECK(PARTIAL("x\xf0\x9f\x98\x80") == 0);
	/* These can never become characters. */
	CHECK(PARTIAL("x\x80") == 0);
	CHECK(PARTIAL("x\xc0") == 0);
	CHECK(PARTIAL("x\xe0\x80") == 0);
	CHECK(PARTIAL("x\xed\xa0") == 0);
	CHECK(PARTIAL("x\xf4\x90") == 0);
	CHECK(PARTIAL("x\xf0\x9f\x98\x80\x80") == 0);
	CHECK(PARTIAL("\xe2\xe2\x82") == 2);
	CHECK(PARTIAL("\xff") == 0);
}

/* What is cut has no half of a character at its end. */
static void fit(void)
{
	CHECK(utf8_fit("", 0) == 0 && utf8_fit("", 5) == 0);
	CHECK(utf8_fit("abc", 5) == 3 && utf8_fit("abc", 3) == 3 && utf8_fit("abc", 2) == 2);
	CHECK(utf8_fit("a\xe2\x82\xac", 4) == 4);
	CHECK(utf8_fit("a\xe2\x82\xac", 3) == 1 && utf8_fit("a\xe2\x82\xac", 2) == 1);
	CHECK(utf8_fit("\xe2\x82\xac", 2) == 0);
}

/* The examples of "maximal subparts" in the Unicode standard, section 3.9. */
static void bad(void)
{
	CHECK(BAD("\xff") == 1);
	CHECK(BAD("\x80\x80") == 1);
	CHECK(BAD("\xc0\xaf") == 1);
	CHECK(BAD("\xe0\x80\xbf") == 1);
	CHECK(BAD("\xed\xa0\x80") == 1);
	CHECK(BAD("\xf4\x91\x92\x93") == 1);
	CHECK(BAD("\xf1\x80\x80\x41") == 3);
	CHECK(BAD("\xe1\x80\xe2") == 2);
	CHECK(BAD("\xe2\xf0\x91") == 1);
	CHECK(BAD("\xf0\x91\x92\xf1") == 3);
	CHECK(BAD("\xf0\x9f\x98") == 3);
	CHECK(BAD("\xc3") == 1);
}

int main(void)
{
	characters();
	all_code_points();
	spans();
	partial();
	fit();
	bad();
	return tap_done();
}
