#include "base/glob.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "tap.h"

static unsigned match(const char *pattern, const char *path, bool hidden)
{
	struct glob *glob = glob_compile(pattern, NULL);
	unsigned result = glob ? glob_match(glob, path, hidden) : 99;
	glob_free(glob);
	return result;
}
#define YES_(pattern, path) CHECK(match(pattern, path, false) & GLOB_YES)
#define NO_(pattern, path)  CHECK(!(match(pattern, path, false) & GLOB_YES))

static void names(void)
{
	YES_("a", "a");
	NO_("a", "b");
	NO_("a", "ab");
	YES_("*", "abc");
	YES_("a*c", "abbbc");
	YES_("a*c", "ac");
	NO_("a*c", "abd");
	YES_("*a*b*c*", "xxaxxbxxcxx");
	NO_("*a*b*c*", "xxaxxcxxbxx");
	YES_("?", "x");
	NO_("?", "");
	YES_("?", "\xe2\x82\xac");
	YES_("??", "\xff\xfe");
	YES_("a\\*b", "a*b");
	NO_("a\\*b", "axb");
	YES_("a\\", "a\\");
	YES_("***", "x");
	YES_("a**b", "axyb");
	NO_("*a*a*a*a*a*a*a*a*a*a*a*a*b",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static void classes(void)
{
	YES_("[abc]", "b");
	NO_("[abc]", "d");
	YES_("[a-c]x", "bx");
	YES_("[!a-c]", "d");
	YES_("[^a-c]", "d");
	NO_("[!a-c]", "a");
	YES_("[]]", "]");
	YES_("[!]]", "x");
	YES_("[a-]", "-");
	YES_("[-a]", "-");
	YES_("[\\]]", "]");
	YES_("[\xc3\xa9-\xc3\xaf]", "\xc3\xab");
	NO_("[\xc3\xa9]", "e");
	NO_("[z-a]", "m");
	YES_("[a", "[a"); /* without an end it is itself */
	YES_("[!", "[!");
	YES_("x[", "x[");
	NO_("[a/b]", "a");
	YES_("[a/b]", "[a/b]");
}

static void braces(void)
{
	YES_("{a,b}", "a");
	YES_("{a,b}", "b");
	NO_("{a,b}", "{a,b}");
	YES_("*.{js,ts{,x}}", "a.tsx");
	YES_("*.{js,ts{,x}}", "a.ts");
	YES_("{a,b}/{c,d}", "b/c");
	YES_("{a/b,c}", "a/b");
	YES_("{a", "{a");
	YES_("a}", "a}");
	YES_("\\{a,b\\}", "{a,b}");
	YES_("[{]a", "{a");
	YES_("{[,],x}", ",");
	YES_("{}", "");
	CHECK(match("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "aaaaaaaa", false) & GLOB_YES);
	CHECK(match("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "x", false) == 99);
}

static void paths(void)
{
	NO_("*", "a/b");
	YES_("*/*", "a/b");
	YES_("**", "a");
	YES_("**", "a/b/c");
	YES_("**/c", "c");
	YES_("**/c", "a/b/c");
	YES_("a/**", "a/b/c");
	YES_("a/**", "a");
	YES_("a/**/b", "a/b");
	YES_("a/**/b", "a/x/y/b");
	NO_("a/**/b", "a/x/y/c");
	YES_("**/a/**/b/**", "x/a/y/b/z");
	YES_("/a", "a");
	YES_("./a//b/", "a/b");
	NO_("*", "");
	CHECK(match("a/b/c", "a", false) == GLOB_BELOW);
	CHECK(match("a/b/c", "a/b", false) == GLOB_BELOW);
	CHECK(match("a/b/c", "x", false) == GLOB_NO);
	CHECK(match("a/b/c", "a/b/c", false) == GLOB_YES);
	CHECK(match("a/b/c", "a/b/c/d", false) == GLOB_NO);
	CHECK(match("**/x", "a/b", false) == GLOB_BELOW);
	CHECK(match("a/**", "a/b", false) == (GLOB_YES | GLOB_BELOW));
	CHECK(match("../a", "a", false) == 99);
}

static void hidden(void)
{
	NO_("*", ".a");
	NO_("?a", ".a");
	NO_("[.]a", ".a");
	YES_(".*", ".a");
	YES_("\\.a", ".a");
	NO_("**/x", ".a/x");
	YES_(".a/**", ".a/x");
	NO_(".a/**", ".a/.x");
	CHECK(match("*", ".a", true) & GLOB_YES);
	CHECK(match("**/x", ".a/x", true) & GLOB_YES);
	CHECK(match("**/x", ".a", false) == GLOB_NO);
}

static void limits(void)
{
	char text[GLOB_LENGTH_MAX + 2];
	struct err err = { 0 };
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = 0;
	CHECK(!glob_compile(text, &err) && err.code == ERR_PATTERN);
	for (size_t i = 0; i + 1 < 200; i += 2)
		memcpy(text + i, "a/", 2);
	text[200] = 0;
	CHECK(!glob_compile(text, &err) && strstr(err.msg, "directories"));
	/* As deep as a pattern may be long, on the stack of whoever asks. */
	char deep[GLOB_LENGTH_MAX + 1] = "";
	memset(deep, '{', 2040);
	deep[2040] = 'a';
	memset(deep + 2041, '}', 2040);
	CHECK(match(deep, "a", false) == 99);
	deep[0] = 0;
	for (int i = 0; i < 64; i++)
		strcat(deep, "{a}");
	CHECK(match(deep, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		    false) == GLOB_YES);
	strcat(deep, "{a}");
	CHECK(match(deep, "a", false) == 99);
}

static const char *text_of(const char *pattern, bool *exact)
{
	static char kept[256];
	auto_buf struct buf text = BUF(4096);
	struct glob *glob = glob_compile(pattern, NULL);
	*exact = glob_text(glob, 0, &text);
	snprintf(kept, sizeof kept, "%s", text.data);
	glob_free(glob);
	return kept;
}

static void texts(void)
{
	bool exact;
	CHECK_STR(text_of("*.py", &exact), "*.py");
	CHECK(exact);
	CHECK_STR(text_of("a?b", &exact), "a*b");
	CHECK(!exact);
	CHECK_STR(text_of("[ab]x[", &exact), "*x\\[");
	CHECK(!exact);
	CHECK_STR(text_of("src/**/x", &exact), "/src/**/x");
	CHECK(exact);
	CHECK_STR(text_of("dir/", &exact), "dir/");
	CHECK_STR(text_of("!a#b c", &exact), "\\!a\\#b\\ c");
	CHECK_STR(text_of("a**b*?", &exact), "a*b*");
	CHECK_STR(text_of("a\\**", &exact), "a\\**");
}

static void sets(void)
{
	const char *items[] = { "node_modules", "*.min.js", "a/b", "logs/" };
	struct globs globs;
	CHECK(globs_compile(&globs, &(struct list){ 4, items }, NULL) == 0);
	CHECK(globs_match(&globs, "node_modules", true));
	CHECK(globs_match(&globs, "x/node_modules", true));
	CHECK(globs_match(&globs, "x/y.min.js", false));
	CHECK(globs_match(&globs, "a/b", true));
	CHECK(!globs_match(&globs, "x/a/b", true));
	CHECK(globs_match(&globs, "x/logs", true));
	CHECK(!globs_match(&globs, "x/logs", false));
	CHECK(!globs_match(&globs, "node_modules/x", false));
	CHECK(globs_cover(&globs, "node_modules/x/y", false));
	CHECK(globs_cover(&globs, "logs/x", false));
	CHECK(!globs_cover(&globs, "x/y", false));
	globs_done(&globs);
	const char *many[40]; /* each a pattern of 256 alternatives */
	for (size_t i = 0; i < 40; i++)
		many[i] = "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}";
	struct err err;
	CHECK(globs_compile(&globs, &(struct list){ 39, many }, NULL) == 0);
	globs_done(&globs);
	CHECK(globs_compile(&globs, &(struct list){ 40, many }, &err) < 0 &&
	      err.code == ERR_PATTERN && !globs.items);
	const char *bad[] = { "a", ".." };
	CHECK(globs_compile(&globs, &(struct list){ 2, bad }, NULL) < 0 && !globs.items);
	CHECK(globs_compile(&globs, &(struct list){ 0, NULL }, NULL) == 0);
	CHECK(!globs_cover(&globs, "a", false));
	globs_done(&globs);
}

int main(void)
{
	names();
	classes();
	braces();
	paths();
	hidden();
	limits();
	texts();
	sets();
	return tap_done();
}
