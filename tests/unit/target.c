#include "net/target.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "net/http.h"
#include "tap.h"

/* "PATH QUERY", or "!" for a bad request. */
static const char *split(const char *text)
{
	static char shown[128];
	struct http_head head = { .target = (char *)text };
	struct target target;
	struct err err = { 0 };
	if (target_split(&head, &target, &err) < 0)
		return err.code == ERR_BAD_REQUEST ? "!" : "?";
	snprintf(shown, sizeof shown, "%.*s %s", (int)target.path_len, target.path,
		 target.query ? target.query : "-");
	return shown;
}

static void targets(void)
{
	static const struct {
		const char *target, *want;
	} rows[] = {
		{ "/", "/ -" },
		{ "/a/b?c=/d?e", "/a/b c=/d?e" },
		{ "/a?", "/a " },
		{ "*", "* -" },
		{ "http://localhost/a?b", "/a b" },
		{ "HTTP://[::1]:80/a", "/a -" },
		{ "http://localhost", "/ -" },
		{ "http://localhost?x=/y", "/ x=/y" },
		{ "http://[::1", "!" },
		{ "http://[::1/a", "!" },
		{ "http://[::1]a/b", "!" },
		{ "http://", "!" },
		{ "http:///a", "!" },
		{ "http://?a", "!" },
		{ "http://a@b/c", "!" },
		{ "http://a:0/c", "!" },
		{ "http://a/b#c", "!" },
		{ "http://a#b", "!" },
		{ "https://a/b", "!" },
		{ "a", "!" },
		{ "", "!" },
		{ "?a", "!" },
		{ "*a", "!" },
		{ "/a#b", "!" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		CHECK_STR(split(rows[i].target), rows[i].want);
}

static void ports(void)
{
	const char *rest = NULL;
	CHECK(target_port("1", 1) == 1 && target_port("65535/x", 5) == 65535);
	CHECK(!target_port("65536", 5) && !target_port("080", 3) && !target_port("", 0));
	CHECK(!target_port("80x", 3) && !target_port("100000", 6) && !target_port("-1", 2));
	CHECK(target_label("80-a-b", &rest) == 80);
	CHECK_STR(rest, "a-b");
	CHECK(target_label("0-a", &rest) == -1 && target_label("99999-a", &rest) == -1);
	CHECK(!target_label("80", &rest) && !target_label("-a", &rest) &&
	      !target_label("a", &rest));
}

static int preview(const char *host, const char *header)
{
	struct http_head head = { .target = (char *)"/" };
	if (host)
		head.headers[head.count++] = (struct http_header){ "Host", host };
	if (header)
		head.headers[head.count++] = (struct http_header){ "x-aio-proxy-port", header };
	return target_preview(&head, "box.example");
}

static void previews(void)
{
	CHECK(preview("80-localhost:8080", NULL) == 80);
	CHECK(preview("80-LOCALHOST.", NULL) == 80);
	CHECK(preview("80-a.localhost", NULL) == 80);
	CHECK(preview("80-box.example", NULL) == 80);
	CHECK(preview("80-a.box.example", NULL) == 80);
	CHECK(preview("localhost", "3000") == 3000);
	CHECK(preview("80-localhost", "3000") == 3000);
	CHECK(preview("80-localhost", "x") == 80);
	CHECK(!preview("80-evilbox.example", NULL) && !preview("80-other.example", NULL));
	CHECK(!preview("0-localhost", NULL) && !preview("localhost", "65536"));
	CHECK(!preview(NULL, NULL) && !preview("[80-localhost", NULL));
}

static void outer(void)
{
	static const struct {
		const char *given, *want;
	} rows[] = {
		{ "/sandbox", "/sandbox" },
		{ "/sandbox/", "/sandbox" },
		{ "/a/b-c_d.e~9", "/a/b-c_d.e~9" },
		{ "/", "" },
		{ "", "" },
		{ "sandbox", "" },
		{ "//evil.example", "" },
		{ "/a//b", "" },
		{ "/a?b", "" },
		{ "/a b", "" },
		{ "/a\"b", "" },
		{ "/a%2f", "" },
	};
	char to[TARGET_OUTER_MAX + 1], longest[TARGET_OUTER_MAX + 2];
	struct http_head head = { .count = 1 };
	for (size_t i = 0; i < COUNT(rows); i++) {
		head.headers[0] = (struct http_header){ "X-Forwarded-Prefix", rows[i].given };
		target_outer(&head, to);
		CHECK_STR(to, rows[i].want);
	}
	memset(longest, 'a', sizeof longest);
	longest[0] = '/';
	longest[TARGET_OUTER_MAX] = 0;
	head.headers[0].value = longest;
	target_outer(&head, to);
	CHECK_STR(to, longest);
	longest[TARGET_OUTER_MAX] = 'a';
	longest[TARGET_OUTER_MAX + 1] = 0;
	target_outer(&head, to);
	CHECK_STR(to, "");
	head.count = 0;
	target_outer(&head, to);
	CHECK_STR(to, "");
}

int main(void)
{
	outer();
	targets();
	ports();
	previews();
	return tap_done();
}
