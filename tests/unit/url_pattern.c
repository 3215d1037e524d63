#include "browser/url_pattern.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "tap.h"

static bool match(const char *text, const char *url)
{
	struct arena arena = { 0 };
	const struct url_pattern *pattern = url_pattern_compile(text, &arena, NULL);
	bool is = pattern && url_pattern_match(pattern, url);
	arena_done(&arena);
	return is;
}
#define YES_(pattern, url) CHECK(match(pattern, url))
#define NO_(pattern, url)  CHECK(!match(pattern, url))

static void exact(void)
{
	YES_("http://x.test/a", "http://x.test/a");
	YES_("http://x.test/a", "http://x.test/a#part");
	NO_("http://x.test/a", "http://x.test/a/");
	NO_("http://x.test/a", "http://x.test/ab");
	YES_("http://x.test", "http://x.test/");
	YES_("http://x.test", "http://x.test");
	NO_("http://x.test", "http://x.test/a");
	NO_("http://x.test", "http://x.test.evil/");
	YES_("http://x.test/?a=1", "http://x.test/?a=1");
	NO_("http://x.test/?a=1", "http://x.test/xa=1");
	YES_("http://[::1]:80/", "http://[::1]:80/");
}

static void wildcards(void)
{
	YES_("**/*", "http://x.test/a");
	YES_("**", "about:blank");
	YES_("*", "http://x.test/a/b");
	YES_("**/api/*", "http://x.test/api/users");
	YES_("**/api/*", "http://x.test/v1/api/users");
	NO_("**/api/*", "http://x.test/api/users/1");
	NO_("**/api/*", "http://x.test/rapid/users");
	YES_("**/api/**", "http://x.test/api/users/1?x=y/z");
	YES_("http://x.test/**/b", "http://x.test/b");
	YES_("http://x.test/**/b", "http://x.test/a/a/b");
	NO_("http://x.test/**/b", "http://x.test/ab");
	NO_("http://x.test/*", "http://x.test/a/b");
	YES_("https://*.x.test/**", "https://a.x.test/");
	NO_("https://*.x.test/**", "https://evil/?.x.test/");
	YES_("**/*.{png,jpg}", "http://x.test/a.jpg");
	NO_("**/*.{png,jpg}", "http://x.test/a.gif");
	YES_("**/{a,}b", "http://x.test/b");
	YES_("**/{*/,}b", "http://x.test/a/b");
	YES_("http://x.test/a\\*", "http://x.test/a*");
	NO_("http://x.test/a\\*", "http://x.test/ab");
	YES_("http://x.test/{a", "http://x.test/{a");
}

static void relative(void)
{
	YES_("/api", "http://x.test/api/users?x");
	YES_("x.test", "http://x.test/");
	NO_("/api", "http://x.test/ap");
	YES_("/api/*", "http://x.test/v1/api/users");
	NO_("/api/*", "http://x.test/api/users/1");
	YES_("*.png", "http://x.test/a/b.png");
}

static void limits(void)
{
	char text[URL_PATTERN_MAX + 2];
	struct arena arena = { 0 };
	struct err err;
	CHECK(!url_pattern_compile("", &arena, &err) && err.code == ERR_INVALID);
	memset(text, '*', sizeof text);
	text[sizeof text - 1] = 0;
	CHECK(!url_pattern_compile(text, &arena, &err) && err.code == ERR_INVALID);
	text[URL_PATTERN_MAX] = 0;
	CHECK(url_pattern_compile(text, &arena, &err));
	for (size_t i = 0; i < URL_PATTERN_MAX; i++)
		text[i] = "{*,}"[i % 4];
	const struct url_pattern *pattern = url_pattern_compile(text, &arena, &err);
	memset(text, 'a', URL_PATTERN_MAX);
	CHECK(pattern && url_pattern_match(pattern, text)); /* in time */
	arena_done(&arena);
}

static void widened(const char *text, const char *wanted)
{
	struct arena arena = { 0 };
	auto_buf struct buf to = BUF(4096);
	url_pattern_widen(url_pattern_compile(text, &arena, NULL), &to);
	CHECK(!strcmp(to.data, wanted));
	arena_done(&arena);
}

int main(void)
{
	exact();
	wildcards();
	relative();
	limits();
	widened("http://x.test/a?b", "http://x.test/a\\?b");
	widened("http://x.test", "http://x.test*");
	widened("**/api/*.{png,jpg}", "*api/*.*");
	widened("/api", "*/api*");
	return tap_done();
}
