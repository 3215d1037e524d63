/* http_host.h - the requests of an HTTP connection, watched as they pass: each must be for one host. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <llhttp.h>

struct http_host {
	llhttp_t parser;
	llhttp_settings_t settings;
	const char *wanted; /* host, lower case */
	char port[8];       /* that was called */
	/* Of the request that is being read, as far as they fit: */
	struct http_host_text {
		char text[264];
		size_t len;
	} field, host, protocol;
	size_t url_len, hosts, requests;
	bool in_value;
	bool upgrade; /* the first request asks for a WebSocket: if the server agrees, none follows */
};

/* wanted must outlive it. */
void http_host_init(struct http_host *watch, const char *wanted, unsigned port);

/* Takes the next bytes of the client. -1: a request for another host, or none, or not HTTP; nothing
 * of these bytes may then be passed on. */
int http_host_feed(struct http_host *watch, const char *data, size_t len);
