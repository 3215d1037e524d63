/* ws_client.h - opening a WebSocket to a server. */
#pragma once
#include <stddef.h>

struct err;
struct ws;

struct ws_options {
	int timeout_ms;     /* to connect and shake hands; 0 for 10 s */
	size_t max_message; /* to receive; 0 for 16 MiB */
};

/* Connects to ws://host:port/path?query, over TLS to wss://…, or over a Unix socket to ws+unix:/socket:/path?query, and
 * shakes hands. headers ("Name: value", up to a NULL) are sent too; options may be NULL. The ws
 * owns its descriptor. NULL on failure: ERR_SLOW when it took too long, ERR_INVALID for a URL or
 * header that cannot be used, else ERR_UNAVAILABLE. */
struct ws *ws_connect(const char *url, const char *const *headers, const struct ws_options *options,
		      struct err *err);
