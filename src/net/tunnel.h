/* tunnel.h - a request answered by another server: a program that listens in the sandbox. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct auth;
struct conn;
struct http_head;

/* What a preview's address says. */
struct preview {
	int port;
	size_t prefix; /* bytes of the target that the program does not see */
};

/* Whether a request is for a program's port: host name "PORT-NAME" (NAME: localhost, domain, which
 * may be NULL, or below them), header x-aio-proxy-port, or path /proxy/PORT/… (which the program
 * does not see) or /absproxy/PORT/… (which it does). */
bool tunnel_wanted(const struct http_head *head, const char *domain, struct preview *ret);

struct tunnel {
	struct preview to;       /* on 127.0.0.1, else ::1 */
	const struct auth *auth; /* whose credentials the program must not see; NULL: none */
};

/* Relays the request whose head conn->http holds, and its answer, whole: after an upgrade, bytes both
 * ways until one side ends. */
void tunnel_serve(struct conn *conn, const struct tunnel *tunnel);
