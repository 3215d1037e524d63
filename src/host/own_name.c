#include "host/own_name.h"

#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/buf.h"
#include "base/html.h"
#include "base/log.h"
#include "base/own.h"
#include "base/url.h"
#include "net/call.h"
#include "net/head.h"
#include "net/http.h"
#include "net/target.h"

/* With all that is below them; '*': with all that begins so. */
static const char *const pages[] = { "/vnc*",    "/code-server", "/vscode",
				     "/jupyter", "/lab",         "/index.html" };

static bool is_below(const char *path, const char *page)
{
	size_t len = strcspn(page, "*");
	return !strncmp(path, page, len) && (page[len] || !path[len] || path[len] == '/');
}

bool own_name_is_page(const char *path)
{
	for (size_t i = 0; i < COUNT(pages); i++)
		if (is_below(path, pages[i]))
			return true;
	return !strcmp(path, "/");
}

bool own_name_is_visit(const struct http_head *head)
{
	const char *dest = http_header(head, "sec-fetch-dest");
	return head_is_visit(head) && !strcmp(head->method, "GET") &&
	       (!dest || !strcmp(dest, "document"));
}

/* ---- its name ---- */

/* Safari, and all browsers of iOS, ask a resolver for names below localhost, which mostly knows none. */
static bool is_webkit(const struct http_head *head)
{
	const char *agent = http_header(head, "user-agent");
	return agent && strstr(agent, "AppleWebKit/") && !strstr(agent, "Chrome/");
}

/* What the browser has called, if a proxy says so. */
static int find_host(const struct http_head *head, char *name, size_t room, int *ret_port)
{
	char first[URL_HOST_MAX + 16];
	const char *host = http_header(head, "host");
	const char *forwarded = http_header(head, "x-forwarded-host");
	if (forwarded) {
		snprintf(first, sizeof first, "%.*s", (int)strcspn(forwarded, ", "), forwarded);
		if (url_host_split(first, name, room, ret_port) == 0)
			return 0;
	}
	return host ? url_host_split(host, name, room, ret_port) : -1;
}

static bool is_here(const char *name)
{
	return !strcmp(name, "localhost") || !strncmp(name, "127.", 4) || !strcmp(name, "::1");
}

enum own_name own_name_find(const struct http_head *head, const char *domain, const char *id,
			    struct buf *to)
{
	char name[URL_HOST_MAX + 1];
	int port;
	bool known = true;
	if (find_host(head, name, sizeof name, &port) < 0)
		return OWN_NAME_NONE;
	if (is_here(name)) {
		known = !is_webkit(head);
		domain = "localhost";
	} else if (target_below(name, "localhost")) {
		domain = "localhost";
	}
	if (!domain)
		return OWN_NAME_NONE;
	buf_printf(to, "//%s.%s", id, domain);
	if (port)
		buf_printf(to, ":%d", port);
	return known ? OWN_NAME_KNOWN : OWN_NAME_UNSURE;
}

/* ---- the page ---- */

static struct {
	char text[8192];
	const char *rest; /* after the address; NULL: there is no page */
} page;

void own_name_load(const char *home)
{
	static const char here[] = "<!-- own_name.c writes the address here -->";
	auto_free char *path = xasprintf("%s/%s", home, page_files[PAGE_OWN_NAME].path);
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(page.text, 1, sizeof page.text - 1, file) : 0;
	if (file)
		fclose(file);
	page.text[len] = 0;
	char *at = strstr(page.text, here);
	if (!at) {
		log_warn("people are not told where pages are: '%s' is missing or not the page",
			 path);
		return;
	}
	page.rest = at + strlen(here);
	*at = 0;
}

static void add_link(struct buf *to, const char *before, const char *path, const char *shown)
{
	buf_str(to, "<a href=\"");
	html_escape(to, before);
	html_escape(to, path);
	buf_str(to, "\">");
	html_escape(to, shown);
	buf_str(to, "</a>");
}

bool own_name_tell(const char *to, const char *prefix, struct answer *ret, struct buf *ret_page)
{
	if (!page.rest)
		return false;
	buf_str(ret_page, page.text);
	if (*to) {
		buf_str(ret_page, "<p class=\"to\">");
		add_link(ret_page, "", to, to + 2); /* without the "//" */
		buf_str(ret_page, "</p>\n");
	}
	buf_str(ret_page, "<p>At this address there are the host's ");
	add_link(ret_page, prefix, "/v1/docs", "API explorer");
	buf_str(ret_page, " and a ");
	add_link(ret_page, prefix, "/terminal", "terminal");
	buf_str(ret_page, ".</p>");
	buf_str(ret_page, page.rest);
	*ret = (struct answer){ 200, "text/html; charset=utf-8", (int64_t)ret_page->len,
				.headers = { { "Content-Security-Policy",
					       page_files[PAGE_OWN_NAME].policy },
					     { "Referrer-Policy", "no-referrer" },
					     { "Cache-Control", "no-store" } },
				.header_count = 3 };
	return true;
}
