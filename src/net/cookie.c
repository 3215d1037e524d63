#include "net/cookie.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/http.h"

void cookie_name(char to[COOKIE_NAME_ROOM], const char *host, bool shared)
{
	char name[URL_HOST_MAX + 1];
	int port = 0;
	if (shared && host && url_host_split(host, name, sizeof name, &port) == 0)
		snprintf(to, COOKIE_NAME_ROOM, COOKIE_NAME "_%d", port);
	else
		snprintf(to, COOKIE_NAME_ROOM, COOKIE_NAME);
}

bool cookie_is_ours(const char *name, size_t len)
{
	size_t start = strlen(COOKIE_NAME);
	if (len < start || strncasecmp(name, COOKIE_NAME, start) != 0)
		return false;
	return len == start ||
	       (name[start] == '_' && strspn(name + start + 1, "0123456789") >= len - start - 1);
}

char *cookie_new(const struct auth *auth, enum auth_scope scope, const char *name)
{
	char ticket[AUTH_TICKET_ROOM];
	if (auth_cookie(auth, scope, ticket, sizeof ticket) < 0)
		return NULL;
	return xasprintf("%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax", name, ticket,
			 AUTH_COOKIE_TTL_SEC);
}

bool cookie_next(const struct http_head *head, const char *name, struct cookies *it, char *to,
		 size_t room)
{
	size_t name_len = strlen(name);
	for (; it->header < head->count; it->header++, it->at = NULL) {
		if (strcasecmp(head->headers[it->header].name, "cookie") != 0)
			continue;
		if (!it->at)
			it->at = head->headers[it->header].value;
		while (*it->at) {
			const char *at = it->at + strspn(it->at, "; \t");
			size_t len = strcspn(at, ";");
			it->at = at + len;
			if (len > name_len && len - name_len <= room && at[name_len] == '=' &&
			    !strncmp(at, name, name_len)) {
				memcpy(to, at + name_len + 1, len - name_len - 1);
				to[len - name_len - 1] = 0;
				return true;
			}
		}
	}
	return false;
}

int cookie_check(const struct auth *auth, const struct http_head *head, const char *name)
{
	char value[128];
	struct cookies it = { 0 };
	int widest = -1;
	while (widest != AUTH_ALL && cookie_next(head, name, &it, value, sizeof value)) {
		int scope = auth_cookie_check(auth, value);
		widest = scope < 0 ? widest : scope;
	}
	return widest;
}
