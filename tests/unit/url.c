#include "base/url.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "tap.h"

typedef int codec(struct buf *to, const char *text, size_t len);

/* Whether fn appends exactly want, with no more room than that needs. */
static bool gives(codec *fn, const char *text, size_t len, const char *want, size_t want_len)
{
	auto_buf struct buf buf = BUF(1 + want_len);
	buf_str(&buf, "<");
	bool ok = fn(&buf, text, len) == 0 && buf.len == 1 + want_len &&
		  !memcmp(buf.data + 1, want, want_len + 1);
	if (!ok)
		printf("# '%s' gave '%s'\n", text, buf.data);
	return ok;
}

static bool refuses(codec *fn, const char *text, size_t len)
{
	auto_buf struct buf buf = BUF(1000);
	buf_str(&buf, "<");
	return fn(&buf, text, len) == -1 && buf.len == 1 && !strcmp(buf.data, "<") && !buf.full;
}

#define GIVES(fn, text, want) CHECK(gives(fn, text, sizeof text - 1, want, sizeof want - 1))
#define REFUSES(fn, text)     CHECK(refuses(fn, text, sizeof text - 1))

static void decoding(void)
{
	GIVES(url_decode, "", "");
	GIVES(url_decode, "plain", "plain");
	GIVES(url_decode, "a%20b", "a b");
	GIVES(url_decode, "%41%7a%7A", "Azz");
	GIVES(url_decode, "a+b", "a+b");
	GIVES(url_decode, "%2541", "%41");
	GIVES(url_decode, "gr%C3%BC%c3%9f", "gr\xc3\xbc\xc3\x9f");
	GIVES(url_decode, "%ff%01", "\xff\x01");
	REFUSES(url_decode, "%");
	REFUSES(url_decode, "a%4");
	REFUSES(url_decode, "%4g");
	REFUSES(url_decode, "%g4");
	REFUSES(url_decode, "ok%%41");
	REFUSES(url_decode, "% 41");
	REFUSES(url_decode, "%+4");
	REFUSES(url_decode, "a%00b");
	REFUSES(url_decode, "a\0b");
	/* Only len bytes count, also where an escape goes on beyond them. */
	CHECK(refuses(url_decode, "a%41", 3));
	CHECK(gives(url_decode, "a%41", 1, "a", 1));

	GIVES(url_query_decode, "", "");
	GIVES(url_query_decode, "a+b%20c%2B", "a b c+");
	GIVES(url_query_decode, "100%", "100%");
	GIVES(url_query_decode, "%4", "%4");
	GIVES(url_query_decode, "%zz%+%%41", "%zz% %A");
	GIVES(url_query_decode, "a%00b", "a\0b");
	CHECK(gives(url_query_decode, "a%41", 3, "a%4", 3));
}

static void full(void)
{
	auto_buf struct buf buf = BUF(2);
	CHECK(url_decode(&buf, "%41%42%43", 9) == -1 && buf.full && !buf.len);
	buf_done(&buf);
	CHECK(url_decode(&buf, "%41%42", 6) == 0);
	CHECK_STR(buf.data, "AB");
	buf_done(&buf);
	CHECK(url_query_decode(&buf, "abc", 3) == -1 && buf.full && !buf.len);
	buf_done(&buf);
	CHECK(url_encode(&buf, "/") == -1 && buf.full);
}

static void encoding(void)
{
	char all[256] = { 0 };
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	auto_buf struct buf text = BUF(1000), back = BUF(1000);
	CHECK(url_encode(&text, "AZaz09-._~") == 0);
	CHECK_STR(text.data, "AZaz09-._~");
	CHECK(url_encode(&text, " /?#[]@!$&'()*+,;=%\"\n\x7f\xc3\xbc") == 0);
	CHECK_STR(text.data, "AZaz09-._~%20%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%25"
			     "%22%0A%7F%C3%BC");
	buf_done(&text);
	url_encode(&text, all);
	CHECK(url_decode(&back, text.data, text.len) == 0);
	CHECK_STR(back.data, all);
}

/* The first value of a parameter, found by going through them. */
static int find_first(const char *query, const char *name, struct buf *ret)
{
	auto_buf struct buf found = BUF(strlen(name));
	struct url_query it = { query };
	while (url_query_next(&it, &found, ret))
		if (!found.full && found.len == strlen(name) &&
		    !memcmp(found.data, name, found.len))
			return ret->full ? -1 : 0;
	return -1;
}

static bool get(const char *query, const char *name, const char *want)
{
	auto_buf struct buf value = BUF(100);
	buf_str(&value, "old");
	int ret = find_first(query, name, &value);
	return want ? ret == 0 && !strcmp(value.data, want) && value.len == strlen(want)
		    : ret == -1 && !value.len;
}

static void query_get(void)
{
	CHECK(get("a=1&b=2", "a", "1"));
	CHECK(get("a=1&b=2", "b", "2"));
	CHECK(get("a=1&b=2", "c", NULL));
	CHECK(get("a=1&a=2", "a", "1"));
	CHECK(get("ab=1&a=2", "a", "2"));
	CHECK(get("a=1&ab=2", "ab", "2"));
	CHECK(get("a", "a", ""));
	CHECK(get("a=", "a", ""));
	CHECK(get("x&a&y", "a", ""));
	CHECK(get("a=b=c", "a", "b=c"));
	CHECK(get("&&a=1&&", "a", "1"));
	CHECK(get("A=1", "a", NULL));
	CHECK(get("", "a", NULL));
	CHECK(get(NULL, "a", NULL));
	CHECK(get("=1", "", "1"));
	CHECK(get("a=1", "", NULL));
	CHECK(get("a;b=1", "b", NULL));
	CHECK(get("pa%74h=%2Ftmp%2Fa+b%26c&x=1", "path", "/tmp/a b&c"));
	CHECK(get("a+b=1", "a b", "1"));
	CHECK(get("a%3Db=1", "a=b", "1"));
	CHECK(get("n=50%&m=%e2%82%ac", "n", "50%"));
	CHECK(get("n=50%&m=%e2%82%ac", "m", "\xe2\x82\xac"));
	CHECK(get("a%00b=1", "a", NULL));

	auto_buf struct buf value = BUF(3);
	CHECK(find_first("long=abcdef&a=abc", "a", &value) == 0);
	CHECK_STR(value.data, "abc");
	CHECK(find_first("a=abcd&a=b", "a", &value) == -1);
	CHECK(value.full && !value.len);
	CHECK(find_first("a=b", "a", &value) == 0 && !value.full);
	CHECK(find_first("a=x%00y", "a", &value) == 0);
	CHECK(value.len == 3 && !memcmp(value.data, "x\0y", 4));
}

static void query_all(void)
{
	auto_buf struct buf name = BUF(100), value = BUF(4), all = BUF(1000);
	struct url_query it = { "&a=1&&b&c=x=y&=z&=&%63+=%20&d=12345&e=1234&" };
	while (url_query_next(&it, &name, &value))
		buf_printf(&all, "[%s|%s%s]", name.data, value.full ? "!" : "",
			   value.data ? value.data : "");
	CHECK_STR(all.data, "[a|1][b|][c|x=y][|z][|][c | ][d|!][e|1234]");
	CHECK(!url_query_next(&it, &name, &value));
	it.at = NULL;
	CHECK(!url_query_next(&it, &name, &value));
}

static bool clean(const char *path, const char *want)
{
	auto_buf struct buf file = BUF(20);
	buf_str(&file, "old");
	int ret = url_path_clean(path, &file);
	if (want ? ret != 0 || strcmp(file.data, want) : ret != -1 || file.len || *file.data) {
		printf("# '%s' gave %d '%s'\n", path, ret, file.data);
		return false;
	}
	return true;
}

static void paths(void)
{
	CHECK(clean("/", ""));
	CHECK(clean("/a", "a"));
	CHECK(clean("/a/b.c", "a/b.c"));
	CHECK(clean("/a/", "a/"));
	CHECK(clean("/a/b/", "a/b/"));
	CHECK(clean("/a%20b/%c3%bc", "a b/\xc3\xbc"));
	CHECK(clean("/a+b", "a+b"));
	CHECK(clean("/...", "..."));
	CHECK(clean("/..a/.b/a..", "..a/.b/a.."));
	CHECK(clean("/%25", "%"));
	CHECK(clean("", NULL));
	CHECK(clean("a", NULL));
	CHECK(clean("*", NULL));
	CHECK(clean("//", NULL));
	CHECK(clean("//a", NULL));
	CHECK(clean("/a//b", NULL));
	CHECK(clean("/a//", NULL));
	CHECK(clean("/.", NULL));
	CHECK(clean("/..", NULL));
	CHECK(clean("/../", NULL));
	CHECK(clean("/a/..", NULL));
	CHECK(clean("/a/../b", NULL));
	CHECK(clean("/a/./b", NULL));
	CHECK(clean("/%2e%2E/a", NULL));
	CHECK(clean("/a/.%2e", NULL));
	CHECK(clean("/a/%2e", NULL));
	CHECK(clean("/a%2fb", NULL));
	CHECK(clean("/..%2f..", NULL));
	CHECK(clean("/%2Fetc", NULL));
	CHECK(clean("/a\\b", NULL));
	CHECK(clean("/..%5ca", NULL));
	CHECK(clean("/a%00", NULL));
	CHECK(clean("/a%", NULL));
	CHECK(clean("/a%4x", NULL));
	CHECK(clean("/%ff", NULL));
	CHECK(clean("/a\xc3", NULL));
	/* Two halves of a character are none, even with only a slash between them. */
	CHECK(clean("/%c3/%bc", NULL));
	CHECK(clean("/12345678901234567890", "12345678901234567890"));
	CHECK(clean("/123456789012345678901", NULL));
	CHECK(clean("/1234567890123456789/", "1234567890123456789/"));
	CHECK(clean("/12345678901234567890/", NULL));
	auto_buf struct buf none = BUF(3);
	CHECK(url_path_clean("/abcd", &none) == -1 && none.full);
	CHECK(url_path_clean("/abc", &none) == 0 && !none.full);
	CHECK_STR(none.data, "abc");
}

static bool host(const char *text, const char *want, int want_port)
{
	char name[64] = "old";
	int port = -7, ret = url_host_split(text, name, sizeof name, &port);
	bool ok = want ? ret == 0 && !strcmp(name, want) && port == want_port
		       : ret == -1 && !strcmp(name, "old") && port == -7;
	if (!ok)
		printf("# '%s' gave %d '%s' %d\n", text, ret, name, port);
	return ok;
}

static void hosts(void)
{
	CHECK(host("example.com", "example.com", 0));
	CHECK(host("LocalHost:8080", "localhost", 8080));
	CHECK(host("a:1", "a", 1));
	CHECK(host("a:65535", "a", 65535));
	CHECK(host("a:00080", "a", 80));
	CHECK(host("a:", "a", 0));
	CHECK(host("127.0.0.1:80", "127.0.0.1", 80));
	CHECK(host("my_box-1.example.", "my_box-1.example.", 0));
	CHECK(host("[::1]:80", "::1", 80));
	CHECK(host("[::1]", "::1", 0));
	CHECK(host("[0:0:0:0:0:0:0:1]", "::1", 0));
	CHECK(host("[FE80::A]:", "fe80::a", 0));
	CHECK(host("[::ffff:1.2.3.4]", "::ffff:1.2.3.4", 0));
	CHECK(host("", NULL, 0));
	CHECK(host(":80", NULL, 0));
	CHECK(host("a:0", NULL, 0));
	CHECK(host("a:65536", NULL, 0));
	CHECK(host("a:000080", NULL, 0));
	CHECK(host("a:99999999999999999999", NULL, 0));
	CHECK(host("a:-1", NULL, 0));
	CHECK(host("a:+1", NULL, 0));
	CHECK(host("a: 1", NULL, 0));
	CHECK(host("a:1 ", NULL, 0));
	CHECK(host("a:80x", NULL, 0));
	CHECK(host("a:80:80", NULL, 0));
	CHECK(host("::1", NULL, 0));
	CHECK(host("[::1", NULL, 0));
	CHECK(host("[", NULL, 0));
	CHECK(host("[]", NULL, 0));
	CHECK(host("[::1]x", NULL, 0));
	CHECK(host("[::1]]", NULL, 0));
	CHECK(host("[::g]", NULL, 0));
	CHECK(host("[1.2.3.4]", NULL, 0));
	CHECK(host("[fe80::1%25eth0]", NULL, 0));
	CHECK(host("::1]", NULL, 0));
	CHECK(host("a b", NULL, 0));
	CHECK(host("a/b", NULL, 0));
	CHECK(host("user@a", NULL, 0));
	CHECK(host("a,b", NULL, 0));
	CHECK(host(".", NULL, 0));
	CHECK(host("a..b", NULL, 0));
	CHECK(host("b\xc3\xbc"
		   "cher.example",
		   NULL, 0));
	CHECK(host("a%41", NULL, 0));
	CHECK(host("a\r\nX: y", NULL, 0));

	char name[4];
	int port;
	CHECK(url_host_split("abc", name, sizeof name, &port) == 0);
	CHECK(url_host_split("abcd", name, sizeof name, &port) == -1);
	char text[300], room[300];
	memset(text, 'a', sizeof text);
	text[URL_HOST_MAX] = 0;
	CHECK(url_host_split(text, room, sizeof room, &port) == 0);
	text[URL_HOST_MAX] = 'a';
	text[URL_HOST_MAX + 1] = 0;
	CHECK(url_host_split(text, room, sizeof room, &port) == -1);
}

static bool split(const char *url, const char *want)
{
	struct url_parts parts;
	struct err err;
	auto_buf struct buf got = BUF(1000);
	if (url_split(url, &parts, &err) < 0)
		return !want && err.code == ERR_INVALID;
	buf_printf(&got, "%s %s %s %d %s %s", parts.scheme, parts.secure ? "tls" : "plain",
		   parts.host, parts.port, parts.authority, parts.target);
	if (!want || strcmp(got.data, want))
		printf("# '%s' gave '%s'\n", url, got.data);
	return want && !strcmp(got.data, want);
}

static void urls(void)
{
	CHECK(split("http://a/", "http plain a 80 a /"));
	CHECK(split("https://a/b?c=d", "https tls a 443 a /b?c=d"));
	CHECK(split("WS://A.Example:9222/X", "ws plain a.example 9222 a.example:9222 /X"));
	CHECK(split("wss://a:443/x", "wss tls a 443 a /x"));
	CHECK(split("ws://a:443/x", "ws plain a 443 a:443 /x"));
	CHECK(split("wss://a:80/x", "wss tls a 80 a:80 /x"));
	CHECK(split("http://a", "http plain a 80 a /"));
	CHECK(split("http://a:/", "http plain a 80 a /"));
	CHECK(split("http://a?b=/c", "http plain a 80 a /?b=/c"));
	CHECK(split("http://a#b/c", "http plain a 80 a /"));
	CHECK(split("http://a/b?c#d?e", "http plain a 80 a /b?c"));
	CHECK(split("http://[::1]/x", "http plain ::1 80 [::1] /x"));
	CHECK(split("ws://[0::1]:8080", "ws plain ::1 8080 [::1]:8080 /"));
	CHECK(split("http://a/b@c:d://e", "http plain a 80 a /b@c:d://e"));
	CHECK(split("http://a//b/../c", "http plain a 80 a //b/../c"));
	CHECK(split("", NULL));
	CHECK(split("a", NULL));
	CHECK(split("/a", NULL));
	CHECK(split("://a", NULL));
	CHECK(split("ftp://a/", NULL));
	CHECK(split("httpx://a/", NULL));
	CHECK(split("htt://a/", NULL));
	CHECK(split(" http://a/", NULL));
	CHECK(split("http:/a/", NULL));
	CHECK(split("http:///a", NULL));
	CHECK(split("http://?a", NULL));
	CHECK(split("http://:80/", NULL));
	CHECK(split("http://a:x/", NULL));
	CHECK(split("http://a:65536/", NULL));
	CHECK(split("http://user@a/", NULL));
	CHECK(split("http://user:pw@a/", NULL));
	CHECK(split("http://::1/", NULL));
	CHECK(split("http://[::1/", NULL));
	CHECK(split("http://a b/", NULL));
	CHECK(split("http://a\\b/", NULL));
	CHECK(split("http://a/b c", NULL));
	CHECK(split("http://a/b\r\nX: y", NULL));
	CHECK(split("http://a/\x7f", NULL));
	CHECK(split("http://a/\xc3\xbc", NULL));
}

static void url_limits(void)
{
	static char url[URL_TARGET_MAX + 100];
	static struct url_parts parts;
	struct err err;
	memset(url, 'x', sizeof url);
	memcpy(url, "http://a/", 9);
	url[8 + URL_TARGET_MAX] = 0;
	CHECK(url_split(url, &parts, &err) == 0);
	CHECK(strlen(parts.target) == URL_TARGET_MAX && !strcmp(parts.target, url + 8));
	url[8 + URL_TARGET_MAX] = 'x';
	url[9 + URL_TARGET_MAX] = 0;
	CHECK(url_split(url, &parts, &err) == -1);
	CHECK_STR(err.msg, "the URL is longer than 8191 bytes");
	CHECK(strlen(parts.target) == URL_TARGET_MAX);
	/* A path that is not there counts too: "/" goes before the query. */
	url[8] = '?';
	url[8 + URL_TARGET_MAX - 1] = 0;
	CHECK(url_split(url, &parts, &err) == 0 && strlen(parts.target) == URL_TARGET_MAX);
	url[8 + URL_TARGET_MAX - 1] = 'x';
	url[8 + URL_TARGET_MAX] = 0;
	CHECK(url_split(url, &parts, &err) == -1);
	memset(url, 'x', 7 + URL_HOST_MAX);
	memcpy(url, "http://", 7);
	strcpy(url + 7 + URL_HOST_MAX, ":65535/");
	CHECK(url_split(url, &parts, &err) == 0);
	CHECK(strlen(parts.host) == URL_HOST_MAX && strlen(parts.authority) == URL_HOST_MAX + 6);
	CHECK(url_split("x", &parts, NULL) == -1);
}

int main(void)
{
	decoding();
	full();
	encoding();
	query_get();
	query_all();
	paths();
	hosts();
	urls();
	url_limits();
	return tap_done();
}
