#include "net/guard.h"

#include <string.h>

#include "base/own.h"
#include "net/http.h"
#include "tap.h"

static void hosts(void)
{
	static const struct {
		const char *host, *domain;
		bool good;
	} rows[] = {
		/* clang-format off */
		{ "localhost", NULL, true },
		{ "localhost:8080", NULL, true },
		{ "LocalHost:8080", NULL, true },
		{ "localhost.", NULL, true },
		{ "localhost.:80", NULL, true },
		{ "a.localhost", NULL, true },
		{ "a.b.localhost:1", NULL, true },
		{ "3000-localhost", NULL, true },
		{ "3000-localhost:8080", NULL, true },
		{ "127.0.0.1", NULL, true },
		{ "127.0.0.1:8080", NULL, true },
		{ "192.168.1.7:80", NULL, true },
		{ "[::1]", NULL, true },
		{ "[::1]:8080", NULL, true },
		{ "[fe80::1]:8080", NULL, true },
		{ "box.example.com", "box.example.com", true },
		{ "BOX.example.com:443", "box.example.com", true },
		{ "a.box.example.com", "box.example.com", true },
		{ "3000-box.example.com", "box.example.com", true },
		{ "localhost", "box.example.com", true },
		{ NULL, NULL, false },
		{ "", NULL, false },
		{ ":8080", NULL, false },
		{ "example.com", NULL, false },
		{ "example.com", "", false },
		{ "evil.com", "box.example.com", false },
		{ "example.com", "box.example.com", false },
		{ "evilbox.example.com", "box.example.com", false },
		{ "evil-box.example.com", "box.example.com", false },
		{ "3000-evil-box.example.com", "box.example.com", false },
		{ "-box.example.com", "box.example.com", false },
		{ "3000box.example.com", "box.example.com", false },
		{ "box.example.com.evil.com", "box.example.com", false },
		{ "notlocalhost", NULL, false },
		{ "localhost.evil.com", NULL, false },
		{ "127.0.0.1.evil.com", NULL, false },
		{ "127.0.0.1.nip.io", NULL, false },
		{ "localhost:8080@evil.com", NULL, false },
		{ "evil.com/localhost", NULL, false },
		{ "evil.com localhost", NULL, false },
		{ "localhost:99999", NULL, false },
		{ "localhost:x", NULL, false },
		{ "[::1", NULL, false },
		{ "[evil]", NULL, false },
		{ "::1", NULL, false },
		/* clang-format on */
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!CHECK(guard_host(rows[i].host, rows[i].domain) == rows[i].good))
			printf("# %s, %s\n", rows[i].host, rows[i].domain);
}

static void origins(void)
{
	static const struct {
		const char *origin, *host, *configured;
		bool good;
	} rows[] = {
		/* clang-format off */
		{ "http://localhost:8080", "localhost:8080", NULL, true },
		{ "https://localhost:8080", "localhost:8080", NULL, true },
		{ "HTTP://LOCALHOST:8080", "localhost:8080", NULL, true },
		{ "http://[::1]:8080", "[::1]:8080", NULL, true },
		{ "https://app.example.com", "localhost", "https://app.example.com", true },
		{ "https://app.example.com", "localhost", "https://a.b, https://app.example.com,https://c", true },
		{ "https://APP.example.com", "localhost", "https://app.example.com", true },
		{ "https://anything", "localhost", "*", true },
		{ "null", "localhost", "https://a, *", true },
		{ "null", "localhost", "null", true },
		{ "null", "localhost", NULL, false },
		{ "null", "null", NULL, false },
		{ "", "", NULL, false },
		{ "http://localhost", "localhost:8080", NULL, false },
		{ "http://localhost:8080", "localhost", NULL, false },
		{ "http://localhost:8080", NULL, NULL, false },
		{ "http://evil.com", "localhost", NULL, false },
		{ "ftp://localhost", "localhost", NULL, false },
		{ "localhost", "localhost", NULL, false },
		{ "http://localhost.evil.com", "localhost", NULL, false },
		{ "https://app.example.com.evil.com", "localhost", "https://app.example.com", false },
		{ "https://app.example.co", "localhost", "https://app.example.com", false },
		{ "http://app.example.com", "localhost", "https://app.example.com", false },
		{ "https://a", "localhost", "", false },
		{ "https://a", "localhost", ",, ,", false },
		{ "https://a", "localhost", "**", false },
		{ "", "localhost", "https://a, ", false },
		/* clang-format on */
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!CHECK(guard_origin(rows[i].origin, rows[i].host, rows[i].configured) ==
			   rows[i].good))
			printf("# %s, %s, %s\n", rows[i].origin, rows[i].host, rows[i].configured);
}

/* What Chromium sends. */
static void unseen(void)
{
	static const struct {
		const char *site, *mode, *dest, *purpose;
		bool unseen, unseen_but_frames;
	} rows[] = {
		/* clang-format off */
		{ NULL, NULL, NULL, NULL, false, false },               /* a program */
		{ NULL, NULL, NULL, "prefetch", false, false },
		{ "none", "navigate", "document", NULL, false, false }, /* typed */
		{ "none", "navigate", "document", "prefetch", true, true }, /* speculation rules */
		{ "same-origin", "no-cors", "script", NULL, false, false },
		{ "same-origin", "cors", "empty", "prefetch", false, false },
		{ "cross-site", "navigate", "document", NULL, false, false }, /* a link */
		{ "cross-site", "navigate", "document", "prefetch;prerender", true, true },
		{ "cross-site", "navigate", "iframe", NULL, true, false },
		{ "same-site", "navigate", "iframe", NULL, true, false },
		{ "cross-site", "no-cors", "script", NULL, true, true },
		{ "same-site", "no-cors", "image", NULL, true, true },
		{ "Same-Site", "cors", "empty", NULL, true, true },
		{ "cross-site", "cors", "document", NULL, true, true },
		{ "cross-site", NULL, NULL, NULL, true, true },
		{ "anything", "no-cors", "script", NULL, true, true },
		/* clang-format on */
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		static const char *const names[] = { "sec-fetch-site", "sec-fetch-mode",
						     "sec-fetch-dest", "sec-purpose" };
		const char *const values[] = { rows[i].site, rows[i].mode, rows[i].dest,
					       rows[i].purpose };
		struct http_head head = { 0 };
		for (size_t j = 0; j < COUNT(names); j++)
			if (values[j])
				head.headers[head.count++] =
					(struct http_header){ names[j], values[j] };
		if (!CHECK(guard_unseen(&head, false) == rows[i].unseen) ||
		    !CHECK(guard_unseen(&head, true) == rows[i].unseen_but_frames))
			printf("# row %zu\n", i);
	}
}

static void pages(void)
{
	static const struct {
		const char *origin, *referer, *page;
	} rows[] = {
		{ NULL, NULL, "" },
		{ "http://a:1", NULL, "http://a:1" },
		{ "null", "http://b/c", "null" },
		{ "", "http://b/c", "" },
		{ NULL, "http://b:2/c?d", "http://b:2" },
		{ NULL, "http://b", "http://b" },
		{ NULL, "https://b?http://c", "https://b" },
		{ NULL, "about:blank", "" },
		{ NULL, "http://much-too-long-for-this/", "" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct http_head head = { 0 };
		char page[24];
		if (rows[i].origin)
			head.headers[head.count++] =
				(struct http_header){ "origin", rows[i].origin };
		if (rows[i].referer)
			head.headers[head.count++] =
				(struct http_header){ "referer", rows[i].referer };
		guard_page(&head, page, sizeof page);
		if (!CHECK(!strcmp(page, rows[i].page)))
			printf("# row %zu: %s\n", i, page);
	}
}

int main(void)
{
	hosts();
	origins();
	unseen();
	pages();
	return tap_done();
}
