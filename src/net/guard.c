#include "net/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "net/http.h"

static bool is_address(const char *name)
{
	unsigned char address[16];
	return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* name is ours, something below ours, or "PORT-" and ours. */
static bool is_below(const char *name, const char *ours)
{
	size_t len = strlen(name), ours_len = strlen(ours);
	if (len < ours_len || strcasecmp(name + len - ours_len, ours) != 0)
		return false;
	if (len == ours_len || name[len - ours_len - 1] == '.')
		return true;
	size_t digits = strspn(name, "0123456789");
	return digits && name[digits] == '-' && digits + 1 == len - ours_len;
}

bool guard_host(const char *host, const char *domain)
{
	char name[URL_HOST_MAX + 1];
	int port;
	if (!host || url_host_split(host, name, sizeof name, &port) < 0)
		return false;
	size_t len = strlen(name);
	if (len && name[len - 1] == '.')
		name[len - 1] = 0;
	return is_address(name) || is_below(name, "localhost") ||
	       (domain && *domain && is_below(name, domain));
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
	if (http_header(head, "sec-purpose")) /* a prefetch, which is "none"'s for some pages' */
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
