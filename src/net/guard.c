#include "net/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/url.h"
#include "net/http.h"
#include "net/target.h"

static bool is_address(const char *name)
{
	unsigned char address[16];
	return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* name is ours, something below ours, or "PORT-" and ours. */
static bool is_ours(const char *name, const char *ours)
{
	const char *rest;
	return target_below(name, ours) ||
	       (target_label(name, &rest) > 0 && !strcasecmp(rest, ours));
}

bool guard_host(const char *host, const char *domain)
{
	char name[URL_HOST_MAX + 1];
	if (target_name(host, name, sizeof name) < 0)
		return false;
	return is_address(name) || is_ours(name, "localhost") ||
	       (domain && *domain && is_ours(name, domain));
}

static bool is_listed(const char *origin, const char *list)
{
	size_t len = strlen(origin);
	for (const char *at = list; at && *at;) {
		at += strspn(at, ", ");
		size_t n = strcspn(at, ", ");
		if ((n && n == len && !strncasecmp(at, origin, n)) || (n == 1 && *at == '*'))
			return true;
		at += n;
	}
	return false;
}

bool guard_origin(const char *origin, const char *host, const char *configured)
{
	const char *authority = !strncasecmp(origin, "http://", 7)    ? origin + 7
				: !strncasecmp(origin, "https://", 8) ? origin + 8
								      : NULL;
	return (authority && host && !strcasecmp(authority, host)) || is_listed(origin, configured);
}

static bool header_is(const struct http_head *head, const char *name, const char *value)
{
	const char *given = http_header(head, name);
	return given && !strcasecmp(given, value);
}

bool guard_unseen(const struct http_head *head, bool frames)
{
	if (!http_header(head, "sec-fetch-site") ||
	    header_is(head, "sec-fetch-site", "same-origin"))
		return false;
	/* A prefetch says "none" as what a person typed does, although a page may have asked for it. */
	if (http_header(head, "sec-purpose"))
		return true;
	return !header_is(head, "sec-fetch-site", "none") &&
	       (!header_is(head, "sec-fetch-mode", "navigate") ||
		(!frames && !header_is(head, "sec-fetch-dest", "document")));
}

void guard_page(const struct http_head *head, char *to, size_t room)
{
	const char *origin = http_header(head, "origin"), *page = http_header(head, "referer");
	const char *scheme = page ? strstr(page, "://") : NULL;
	size_t len = scheme ? (size_t)(scheme - page) + 3 + strcspn(scheme + 3, "/?#") : 0;
	if (origin)
		len = strlen(page = origin);
	snprintf(to, room, "%.*s", (int)(len < room ? len : 0), page ? page : "");
}

bool guard_is_safe(const struct http_head *head)
{
	return !head->upgrade && (!strcmp(head->method, "GET") || !strcmp(head->method, "HEAD") ||
				  !strcmp(head->method, "OPTIONS"));
}

void guard_allow(const struct http_head *head, struct pair *ret)
{
	const char *headers = http_header(head, "access-control-request-headers");
	ret[0] = (struct pair){ "Access-Control-Allow-Methods",
				"GET, HEAD, POST, PUT, PATCH, DELETE" };
	ret[1] = (struct pair){ "Access-Control-Allow-Headers", headers ? headers : "*" };
	ret[2] = (struct pair){ "Access-Control-Max-Age", "600" };
}

int guard_foreign(const char *origin, struct err *err)
{
	return err_set(err, ERR_FORBIDDEN,
		       "pages of origin '%.100s' may not call this address: see --cors-origins",
		       origin);
}

int guard_check(const struct guard *guard, const struct guard_caller *caller, struct err *err)
{
	const struct http_head *head = caller->head;
	const char *host = http_header(head, "host"), *origin = http_header(head, "origin");
	if (caller->open && !guard->any_host && host && !guard_host(host, guard->domain))
		return err_set(err, ERR_FORBIDDEN,
			       "Host '%.100s' is not a name of this server: use localhost, an IP "
			       "address, or start it with --domain",
			       host);
	if (caller->open && !caller->known && guard_unseen(head, caller->frames))
		return err_set(err, ERR_FORBIDDEN,
			       "pages of other origins may not use this address: see "
			       "--cors-origins");
	if (origin && !caller->known && !caller->vouched && !guard_is_safe(head))
		return guard_foreign(origin, err);
	return 0;
}

bool guard_knows(const struct guard *guard, const struct http_head *head)
{
	char page[URL_HOST_MAX + 32];
	guard_page(head, page, sizeof page);
	return guard_origin(page, http_header(head, "host"), guard->cors_origins);
}
