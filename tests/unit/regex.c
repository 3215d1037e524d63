#include "base/regex.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

static struct err err;

/* "start-end" of the first match, "none", or "error". */
static const char *find(const char *pattern, unsigned flags, const char *text)
{
	static char result[64];
	size_t start, end;
	err.code = 0;
	struct regex *regex = regex_compile(pattern, strlen(pattern), flags, &err);
	int found = regex ? regex_find(regex, text, strlen(text), 0, false, &start, &end, &err)
			  : -1;
	regex_free(regex);
	if (found > 0)
		snprintf(result, sizeof result, "%zu-%zu", start, end);
	return found > 0 ? result : found ? "error" : "none";
}

static void matches(void)
{
	CHECK_STR(find("b+", 0, "abbc"), "1-3");
	CHECK_STR(find("B+", 0, "abbc"), "none");
	CHECK_STR(find("B+", REGEX_FOLD, "abbc"), "1-3");
	CHECK_STR(find("a.c", REGEX_LITERAL, "abc a.c"), "4-7");
	CHECK_STR(find("A.C", REGEX_LITERAL | REGEX_FOLD, "abc a.c"), "4-7");
	CHECK_STR(find("^b.d", REGEX_LINES, "a\nb\nd"), "2-5");
	CHECK_STR(find("^b", 0, "a\nb"), "none");
	CHECK_STR(find("a.b", 0, "a\nb"), "none");
	CHECK_STR(find("\xc3\xa9.", 0, "x\xc3\xa9\xe2\x82\xac"), "1-6");
	CHECK_STR(find("\xc3\x89", REGEX_FOLD, "\xc3\xa9"), "0-2");
	CHECK_STR(find("\\w+", 0, "\xc3\xa9t\xc3\xa9"), "0-5");
	CHECK_STR(find("b", 0,
		       "\xff\xfe"
		       "b\xff"),
		  "2-3");
	CHECK_STR(find("(?<=a)b(?!c)", 0, "abc ab"), "5-6");
	CHECK_STR(find("", 0, ""), "0-0");
	CHECK_STR(find("a\\Kb", 0, "ab"), "1-2");
}

static void refusals(void)
{
	CHECK_STR(find("(", 0, "x"), "error");
	CHECK(err.code == ERR_PATTERN && strstr(err.msg, "character 1"));
	CHECK_STR(find("\\C", 0, "x"), "error");
	CHECK_STR(find("(?:(?:a{1000}){1000}){1000}", 0, "x"), "error");
}

static void limits(void)
{
	auto_free char *text = xmalloc(100001);
	memset(text, 'a', 100000);
	text[100000] = 0;
	CHECK_STR(find("(a+)+$", 0, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"), "error");
	CHECK(err.code == ERR_PATTERN && strstr(err.msg, "too many steps"));
	CHECK_STR(find("(*NO_JIT)(a+)+$", 0, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
		  "error");
	CHECK_STR(find("(*LIMIT_MATCH=4000000000)(a+)+$", 0,
		       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
		  "error");
	CHECK_STR(find("a*$", 0, text), "0-100000");
}

int main(void)
{
	matches();
	refusals();
	limits();
	return tap_done();
}
