#include "host/address.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "host/uids.h"
#include "net/http.h"
#include "tap.h"

static struct address_names names_known = { .domain = "box.example" };

/* "ID PORT PREFIX origin?" of a request, or "!" where there can be none. */
static const char *finds(const char *host, const char *header, const char *port, const char *target)
{
	static char text[128];
	struct http_head head = { .target = (char *)target };
	struct address a;
	struct err err;
	if (host)
		head.headers[head.count++] = (struct http_header){ "Host", host };
	if (header)
		head.headers[head.count++] = (struct http_header){ "X-AIO-Sandbox", header };
	if (port)
		head.headers[head.count++] = (struct http_header){ "x-aio-proxy-port", port };
	if (address_find(&head, &names_known, &a, &err) < 0)
		return "!";
	snprintf(text, sizeof text, "%s %d %zu%s%s", a.id, a.port, a.prefix,
		 a.own_origin ? " own" : "",
		 a.hosts   ? " hosts"
		 : a.named ? " named"
			   : "");
	return text;
}

#define FINDS(host, header, port, target, want) CHECK_STR(finds(host, header, port, target), want)

static void names(void)
{
	FINDS("localhost:8080", NULL, NULL, "/", "default 0 0");
	FINDS(NULL, NULL, NULL, "/", "default 0 0");
	FINDS("127.0.0.1", NULL, NULL, "/", "default 0 0");
	FINDS("[::1]:80", NULL, NULL, "/", "default 0 0");
	FINDS("other.example", NULL, NULL, "/", "default 0 0");
	FINDS("abc.localhost:8080", NULL, NULL, "/", "abc 0 0 own named");
	FINDS("ABC.LocalHost.", NULL, NULL, "/", "abc 0 0 own named");
	FINDS("abc.box.example", NULL, NULL, "/", "abc 0 0 own named");
	FINDS("80-abc.localhost", NULL, NULL, "/", "abc 80 0 own named");
	FINDS("5173-localhost:8080", NULL, NULL, "/", "default 5173 0 own named");
	FINDS("5173-box.example", NULL, NULL, "/", "default 5173 0 own named");
	FINDS("65536-abc.localhost", NULL, NULL, "/", "!");
	FINDS("080-abc.localhost", NULL, NULL, "/", "!");
	FINDS("a.b.localhost", NULL, NULL, "/", "!");
	FINDS(".localhost", NULL, NULL, "/", "default 0 0");
	FINDS("notlocalhost", NULL, NULL, "/", "default 0 0");
	FINDS("evilbox.example", NULL, NULL, "/", "default 0 0");
}

static void headers_and_paths(void)
{
	FINDS("localhost", "abc", NULL, "/", "abc 0 0 named");
	FINDS("localhost", "abc", "3000", "/", "abc 3000 0 named");
	FINDS("localhost", NULL, "3000", "/", "default 3000 0");
	FINDS("localhost", NULL, "3000x", "/", "default 0 0");
	FINDS("localhost", "abc", NULL, "/s/def/x", "abc 0 0 named");
	FINDS("localhost", "abc", NULL, "/s/abc/x", "abc 0 6 named");
	FINDS("localhost", "abc", "3000", "/s/abc", "abc 3000 6 named");
	FINDS("localhost", "abc", NULL, "/s/abcd/x", "abc 0 0 named");
	FINDS("localhost", "abc", NULL, "/s/ab", "abc 0 0 named");
	FINDS("localhost", NULL, NULL, "/s/def/x", "def 0 6 named");
	FINDS("localhost", NULL, NULL, "/s/def", "def 0 6 named");
	FINDS("localhost", NULL, NULL, "/s/def?x", "def 0 6 named");
	FINDS("localhost", NULL, NULL, "/s/", "!");
	FINDS("localhost", NULL, NULL, "/s/../x", "!");
	FINDS("localhost", NULL, NULL, "/s/A/x", "!");
	FINDS("localhost", "abc/../def", NULL, "/", "!");
	FINDS("localhost", "", NULL, "/", "!");
	/* Said twice, one may be a proxy's. */
	struct http_head twice = { .target = (char *)"/",
				   .count = 2,
				   .headers = { { "x-aio-sandbox", "abc" },
						{ "X-Aio-Sandbox", "abc" } } };
	struct address none;
	struct err err;
	CHECK(address_find(&twice, &names_known, &none, &err) < 0);
	twice.count = 1;
	CHECK(address_find(&twice, &names_known, &none, &err) == 0 && !strcmp(none.id, "abc"));
	/* A page can set headers and paths: at a box's own name they say nothing. */
	FINDS("abc.localhost", "def", "3000", "/s/ghi/x", "abc 0 0 own named");
}

/* Where the plain address is the default box's own. */
static void plain_is_default(void)
{
	names_known.plain_is_default = true;
	FINDS("localhost:8080", NULL, NULL, "/", "default 0 0 own");
	FINDS("192.0.2.1", NULL, NULL, "/v1/docs", "default 0 0 own");
	FINDS(NULL, NULL, NULL, "/", "default 0 0 own");
	FINDS("localhost", NULL, "3000", "/", "default 3000 0 own");
	FINDS("localhost", "abc", NULL, "/", "abc 0 0 named");
	FINDS("localhost", NULL, NULL, "/s/abc/x", "abc 0 6 named");
	FINDS("abc.localhost", NULL, NULL, "/", "abc 0 0 own named");
	FINDS("default.localhost", NULL, NULL, "/", "default 0 0 own named");
	FINDS("host.localhost:8080", NULL, NULL, "/", "default 0 0 hosts");
	FINDS("Host.Box.Example", NULL, NULL, "/", "default 0 0 hosts");
	FINDS("host.localhost", "abc", NULL, "/", "abc 0 0 hosts");
	FINDS("80-host.localhost", NULL, NULL, "/", "host 80 0 own named");
	FINDS("host.other.example", NULL, NULL, "/", "default 0 0 own");
	names_known.plain_is_default = false;
	FINDS("host.localhost", NULL, NULL, "/", "host 0 0 own named");
}

static void ids(void)
{
	CHECK(address_is_id("a"));
	CHECK(address_is_id("a-1"));
	CHECK(!address_is_id(""));
	CHECK(!address_is_id("1a"));
	CHECK(!address_is_id("a-"));
	CHECK(!address_is_id("a--b"));
	CHECK(!address_is_id("a.b"));
	CHECK(!address_is_id("A"));
	CHECK(address_is_id("abcdefghijabcdefghijabcdefghijabcdefghij"));
	CHECK(!address_is_id("abcdefghijabcdefghijabcdefghijabcdefghijk"));
}

static void user_ids(void)
{
	CHECK(!uids_overlap(UIDS_FIRST, ""));
	CHECK(!uids_overlap(UIDS_FIRST, "ann:100000:65536\nbob:165536:65536\n"));
	CHECK(uids_overlap(UIDS_FIRST, "ann:1073741824:1\n"));
	CHECK(uids_overlap(UIDS_FIRST, "x\nann:1073700000:65536"));
	CHECK(uids_overlap(UIDS_FIRST, "ann:0:4294967295\n"));
	CHECK(!uids_overlap(UIDS_FIRST, "ann:1073741824:0\n:::\nann:1073807360:5\n"));
	struct err err;
	uint32_t taken[] = { UIDS_FIRST + UIDS_COUNT, UIDS_FIRST + 2 * UIDS_COUNT };
	char top[] = "/tmp/aio-uids-XXXXXX", dir[64], state[64];
	CHECK(mkdtemp(top) != NULL);
	snprintf(dir, sizeof dir, "%s/run/uids", top);
	snprintf(state, sizeof state, "%s/state", top);
	const struct uids one = { dir, top, 1 }, other = { dir, "/tmp", 1 };
	const struct uids gone = { dir, state, 1 };
	const uint32_t third = UIDS_FIRST + 3 * UIDS_COUNT, fourth = third + UIDS_COUNT;
	CHECK(uids_take(&one, 0, taken, 2, &err) == third);
	/* It is one's own until it is given up, and it alone. */
	CHECK(uids_take(&one, 0, taken, 2, &err) == third);
	CHECK(uids_take(&other, 0, taken, 2, &err) == fourth);
	CHECK(uids_take(&other, third, taken, 2, &err) == fourth);
	uids_keep(&other, &fourth, 1);
	CHECK(uids_take(&other, 0, taken, 2, &err) == fourth);
	uids_keep(&one, NULL, 0);
	CHECK(uids_take(&other, third, taken, 2, &err) == third);
	/* What no box has is given up, of this host alone. */
	uids_keep(&other, &fourth, 1);
	CHECK(uids_take(&one, third, taken, 2, &err) == third);
	CHECK(uids_take(&one, fourth, taken, 2, &err) == third);
	/* A host that is no more claims nothing. */
	uids_keep(&one, NULL, 0);
	CHECK(mkdir(state, 0700) == 0 && uids_take(&gone, third, taken, 2, &err) == third);
	CHECK(uids_take(&one, third, taken, 2, &err) != third);
	CHECK(rmdir(state) == 0 && uids_take(&one, third, taken, 2, &err) == third);
	uids_keep(&one, NULL, 0);
	uids_keep(&other, NULL, 0);
	CHECK(rmdir(dir) == 0);
	*strrchr(dir, '/') = 0;
	CHECK(rmdir(dir) == 0 && rmdir(top) == 0);
}

int main(void)
{
	names();
	headers_and_paths();
	plain_is_default();
	ids();
	user_ids();
	return tap_done();
}
