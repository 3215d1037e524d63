#include "net/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/url.h"
#include "net/http.h"
#include "net/wire.h"

/* Skips the "http://host" of an absolute URL. NULL: its host is malformed. */
static const char *skip_authority(const char *target)
{
	static const char scheme[] = "http://";
	char host[URL_HOST_MAX + 16], name[URL_HOST_MAX + 1];
	int ignored;
	if (strncasecmp(target, scheme, strlen(scheme)) != 0)
		return target;
	target += strlen(scheme);
	size_t len = strcspn(target, "/?#");
	if (len >= sizeof host)
		return NULL;
	memcpy(host, target, len);
	host[len] = 0;
	return url_host_split(host, name, sizeof name, &ignored) < 0 ? NULL : target + len;
}

int target_split(const struct http_head *head, struct target *ret, struct err *err)
{
	const char *path = skip_authority(head->target);
	if (!path)
		return err_set(err, ERR_BAD_REQUEST, "the request target has a malformed host");
	size_t len = strcspn(path, "?");
	ret->query = path[len] ? path + len + 1 : NULL;
	if (path > head->target && !len)
		path = "/";
	ret->path = path;
	ret->path_len = len ? len : 1;
	if ((*path != '/' && strcmp(path, "*") != 0) || strchr(path, '#'))
		return err_set(err, ERR_BAD_REQUEST, "the request target must be a path");
	return 0;
}

int target_name(const char *host, char *to, size_t room)
{
	int ignored;
	if (!host || url_host_split(host, to, room, &ignored) < 0)
		return -1;
	size_t len = strlen(to);
	if (len && to[len - 1] == '.')
		to[len - 1] = 0;
	return 0;
}

bool target_below(const char *name, const char *domain)
{
	size_t len = strlen(name), below = domain ? strlen(domain) : 0;
	return below && len >= below && !strcasecmp(name + len - below, domain) &&
	       (len == below || name[len - below - 1] == '.');
}

int target_port(const char *text, size_t len)
{
	if (!len || len > 5 || text[0] == '0' || strspn(text, "0123456789") < len)
		return 0;
	int port = atoi(text);
	return port <= 65535 ? port : 0;
}

int target_label(const char *name, const char **ret_rest)
{
	size_t digits = strspn(name, "0123456789");
	if (!digits || name[digits] != '-')
		return 0;
	*ret_rest = name + digits + 1;
	int port = target_port(name, digits);
	return port ? port : -1;
}

void target_outer(const struct http_head *head, char to[TARGET_OUTER_MAX + 1])
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.~/";
	const char *prefix = http_header(head, "x-forwarded-prefix");
	size_t len = prefix ? strspn(prefix, allowed) : 0;
	to[0] = 0;
	if (!len || prefix[len] || len > TARGET_OUTER_MAX || *prefix != '/' || strstr(prefix, "//"))
		return;
	len -= prefix[len - 1] == '/';
	memcpy(to, prefix, len);
	to[len] = 0;
}

int target_preview(const struct http_head *head, const char *domain)
{
	const char *header = http_header(head, WIRE_PORT), *rest;
	char name[URL_HOST_MAX + 1];
	int port = header ? target_port(header, strlen(header)) : 0;
	if (port)
		return port;
	if (target_name(http_header(head, "host"), name, sizeof name) < 0)
		return 0;
	port = target_label(name, &rest);
	return port > 0 && (target_below(rest, "localhost") || target_below(rest, domain)) ? port
											   : 0;
}
