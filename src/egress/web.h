/* web.h - the requests of an HTTP connection, watched as they pass: each must be for one host. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <llhttp.h>

struct web {
	llhttp_t parser;
	llhttp_settings_t settings;
	const char *wanted; /* host, lower case */
	char host[256];     /* of the request that is being read */
	size_t host_len, field_len, url_len, hosts;
	bool is_host, in_value;
	bool upgrade; /* was asked for: what follows is no request, if the server agrees */
};

/* wanted must outlive it. */
void web_init(struct web *web, const char *wanted);

/* Takes the next bytes of the client. -1: a request for another host, or none, or not HTTP; nothing
 * of these bytes may then be passed on. */
int web_feed(struct web *web, const char *data, size_t len);
