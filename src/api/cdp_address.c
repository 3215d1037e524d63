#include "api/cdp_address.h"

#include <string.h>

#include "base/arena.h"
#include "net/call.h"

/* A client that can set no header has its key or ticket in each URL. "" or "?api_key=…". */
static const char *credentials(const struct call *call)
{
	static const char *const names[] = { "api_key=", "ticket=", "token=" };
	const char *kept = "";
	for (const char *at = call->query; at && *at; at += *at == '&') {
		size_t len = strcspn(at, "&");
		for (size_t i = 0; i < COUNT(names); i++)
			if (!strncmp(at, names[i], strlen(names[i])))
				kept = arena_printf(call->arena, "%s%s%.*s", kept,
						    *kept ? "&" : "?", (int)len, at);
		at += len;
	}
	if (!*kept && call->ticket)
		return arena_printf(call->arena, "?ticket=%s", call->ticket);
	return kept;
}

const char *cdp_address_bare(const struct call *call, const char *path)
{
	const char *host = strstr(call->base_url, "://");
	return arena_printf(call->arena, "%s%s", host ? host + 3 : call->base_url, path);
}

const char *cdp_address(const struct call *call, const char *path)
{
	bool secure = !strncmp(call->base_url, "https", 5);
	return arena_printf(call->arena, "%s://%s%s", secure ? "wss" : "ws",
			    cdp_address_bare(call, path), credentials(call));
}
