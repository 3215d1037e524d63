#include "outbound/rule.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

enum { MOST = 8 };

static struct {
	struct rule_mapping all[MOST];
	size_t count;
} mappings;

static void clear(void)
{
	while (mappings.count)
		rule_mapping_done(&mappings.all[--mappings.count]);
}

static void map(const char *source, const char *target)
{
	struct err err;
	int result = rule_mapping_parse(source, target, &mappings.all[mappings.count], &err);
	CHECK(result == 0);
	mappings.count += result == 0;
}

/* "HOST:PORT/PATH" where that leads; "" for nowhere else. In a static buffer. */
static const char *leads(const char *scheme, const char *host, int port, const char *path)
{
	static char text[300];
	const struct rule_url url = { scheme, host, port, path };
	const struct rule_mapping *found = rule_mapping_find(mappings.all, mappings.count, &url);
	auto_free char *to = found && path ? rule_mapping_path(found, path) : NULL;
	*text = 0;
	if (found)
		snprintf(text, sizeof text, "%s:%d%s", found->to_host, found->to_port,
			 to ? to : "");
	return text;
}
#define LEADS(to, ...) CHECK_STR(leads(__VA_ARGS__), to)

static void hosts(void)
{
	map("myapp.com", ":3000");
	LEADS("127.0.0.1:3000/a?b", "http", "myapp.com", 80, "/a?b");
	LEADS("127.0.0.1:3000/", "http", "myapp.com", 8080, "/");
	LEADS("127.0.0.1:3000", "https", "myapp.com", 443, NULL);
	LEADS("127.0.0.1:3000", NULL, "myapp.com", 22, NULL);
	LEADS("", "http", "www.myapp.com", 80, "/");
	LEADS("", "http", "myapp.com.evil", 80, "/");
	clear();
	map("*.Staging.app.com:8080", "192.168.1.5:3000");
	LEADS("192.168.1.5:3000/", "http", "a.b.staging.app.com", 8080, "/");
	LEADS("", "http", "a.staging.app.com", 80, "/");
	LEADS("", "http", "staging.app.com", 8080, "/");
	clear();
	map("[::1]:80", "[::2]:81");
	LEADS("::2:81/", "http", "::1", 80, "/");
	clear();
	map("a*b*c.test", "1");
	LEADS("127.0.0.1:1/", "http", "abbbcc.test", 80, "/");
	LEADS("", "http", "abbb.test", 80, "/");
	clear();
}

static void paths(void)
{
	map("api.test/v1/*", "127.0.0.1:8081/v2/");
	LEADS("127.0.0.1:8081/v2/x", "http", "api.test", 80, "/v1/x");
	LEADS("127.0.0.1:8081/v2", "http", "api.test", 80, "/v1");
	LEADS("127.0.0.1:8081/v2?q", "http", "api.test", 80, "/v1?q");
	LEADS("", "http", "api.test", 80, "/v10");
	LEADS("", "http", "api.test", 80, "/");
	LEADS("", "https", "api.test", 443, NULL);
	clear();
	map("api.test/v1", ":1/");
	LEADS("127.0.0.1:1/x", "http", "api.test", 80, "/v1/x");
	LEADS("127.0.0.1:1/", "http", "api.test", 80, "/v1");
	LEADS("127.0.0.1:1/?q", "http", "api.test", 80, "/v1?q");
	clear();
	map("api.test", ":1/app");
	LEADS("127.0.0.1:1/app/x", "http", "api.test", 80, "/x");
	LEADS("127.0.0.1:1/app/", "http", "api.test", 80, "/");
	LEADS("", "https", "api.test", 443, NULL);
	const struct rule_url hidden = { "https", "api.test", 443, NULL };
	CHECK(rule_mapping_missed(mappings.all, mappings.count, &hidden) == mappings.all);
	clear();
}

static void the_most_specific(void)
{
	map("*", ":1");
	map("*.app.test", ":2");
	map("one.app.test", ":3");
	map("http://one.app.test", ":4");
	map("one.app.test:81", ":5");
	map("one.app.test/a", ":6");
	map("one.app.test/a/b", ":7");
	LEADS("127.0.0.1:1/", "http", "x", 80, "/");
	LEADS("127.0.0.1:2/", "http", "two.app.test", 80, "/");
	LEADS("127.0.0.1:3", "https", "one.app.test", 443, NULL);
	LEADS("127.0.0.1:4/", "http", "one.app.test", 80, "/");
	LEADS("127.0.0.1:5/a", "http", "one.app.test", 81, "/a");
	clear();
	map("app.test/a", ":6");
	map("app.test/a/b", ":7");
	LEADS("127.0.0.1:6/a/c", "http", "app.test", 80, "/a/c");
	LEADS("127.0.0.1:7/a/b/c", "http", "app.test", 80, "/a/b/c");
	clear();
}

static void the_same(void)
{
	map("HTTP://App.test/a/", ":1");
	map("http://app.test/a/*", ":2/x");
	map("app.test/a", ":2");
	CHECK(rule_mapping_same(&mappings.all[0], &mappings.all[1]));
	CHECK(!rule_mapping_same(&mappings.all[0], &mappings.all[2]));
	clear();
}

/* What a pattern says of a host. */
static bool is_in(const char *pattern, const char *host, int port)
{
	struct rule_pattern one = { 0 };
	struct err err;
	int result = rule_pattern_parse(pattern, &one, &err);
	CHECK(result == 0);
	bool found = result == 0 && rule_pattern_find(&one, 1, host, port) == &one;
	if (result == 0)
		rule_pattern_done(&one);
	return found;
}
#define YES_(...) CHECK(is_in(__VA_ARGS__))
#define NO_(...)  CHECK(!is_in(__VA_ARGS__))

static void patterns(void)
{
	YES_("x.test", "x.test", 80);
	NO_("x.test", "a.x.test", 80);
	NO_("x.test", "xx.test", 80);
	YES_(".x.test", "x.test", 80);
	YES_(".x.test", "a.b.x.test", 80);
	NO_(".x.test", "ax.test", 80);
	NO_("*.x.test", "x.test", 80);
	YES_("*.X.test", "a.b.x.test", 80);
	YES_("*", "x", 80);
	YES_("x.test:81", "x.test", 81);
	NO_("x.test:81", "x.test", 80);
	YES_("10.0.0.0/8", "10.255.0.1", 80);
	NO_("10.0.0.0/8", "11.0.0.1", 80);
	NO_("10.0.0.0/8", "10.x", 80);
	YES_("192.168.1.64/26", "192.168.1.127", 80);
	NO_("192.168.1.64/26", "192.168.1.128", 80);
	YES_("0.0.0.0/0", "8.8.8.8", 80);
	NO_("0.0.0.0/0", "::1", 80);
	YES_("fd00::/8", "fdff::1", 80);
	NO_("fd00::/8", "fe80::1", 80);
	YES_("1.2.3.4/32", "1.2.3.4", 80);
	YES_("1.2.3.4", "1.2.3.4", 80);
	YES_("::1", "::1", 80);
	YES_("[::1]:80", "::1", 80);
}

static void lists(void)
{
	const char *at = " a,,b\t c ";
	size_t len;
	CHECK(rule_list_next(&at, &len)[0] == 'a' && len == 1);
	CHECK(rule_list_next(&at, &len)[0] == 'b' && len == 1);
	CHECK(rule_list_next(&at, &len)[0] == 'c' && len == 1);
	CHECK(!rule_list_next(&at, &len));
}

static void what_is_none(void)
{
	static const char *const sources[] = { "",        "/",    "a b",   "x:0",  "x:65536",
					       "ftp://x", "://x", "x//\n", "x/*y", "x/?y",
					       "..",      ".x",   "[::1",  "u@x",  "x:y",
					       "x/\x7f",  "x/#" };
	static const char *const targets[] = { "",      "x",       ":",     ":0",    ":65536",
					       "x:",    "x:1:2",   "a b:1", "x:1/ ", ":1/?",
					       "u@x:1", "unix:/x", ":+1",   ": 1",   ":1x",
					       "x/:1",  "*:1" };
	static const char *const none[] = { "",          " ",           "10.0.0.0/33",
					    "10.0.0.0/", "10.0.0.0/8x", "x/8",
					    "1.2.3/8",   "::/129",      "http://x",
					    "a b",       "..",          "x:0" };
	struct rule_mapping mapping;
	struct rule_pattern pattern;
	struct err err;
	for (size_t i = 0; i < COUNT(sources); i++)
		CHECK(rule_mapping_parse(sources[i], ":1", &mapping, &err) < 0 &&
		      err.code == ERR_INVALID);
	for (size_t i = 0; i < COUNT(targets); i++)
		CHECK(rule_mapping_parse("x", targets[i], &mapping, &err) < 0 &&
		      err.code == ERR_INVALID);
	for (size_t i = 0; i < COUNT(none); i++)
		CHECK(rule_pattern_parse(none[i], &pattern, &err) < 0 && err.code == ERR_INVALID);
	CHECK(rule_mapping_parse("https://x/a", ":1", &mapping, &err) < 0);
	CHECK(rule_mapping_parse("https://x", ":1/a", &mapping, &err) < 0);
}

int main(void)
{
	hosts();
	paths();
	the_most_specific();
	the_same();
	patterns();
	lists();
	what_is_none();
	return tap_done();
}
