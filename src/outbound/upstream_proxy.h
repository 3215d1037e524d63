/* upstream_proxy.h - the proxy that requests are passed on to, and what it is shown as credentials. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"
#include "base/wait.h"

struct err;
struct server;

/* One that was configured; it never changes, but for the credentials that its command printed. */
struct upstream_proxy;

/* "[http://][user:password@]host:port", and a command that prints "user:password", or NULL. NULL with
 * ERR_INVALID. */
struct upstream_proxy *upstream_proxy_new(struct server *server, const char *text,
					  const char *auth_cmd, struct err *err);
struct upstream_proxy *upstream_proxy_ref(struct upstream_proxy *proxy);
void upstream_proxy_unref(struct upstream_proxy *proxy); /* NULL is fine */

const char *upstream_proxy_host(const struct upstream_proxy *proxy);
int upstream_proxy_port(const struct upstream_proxy *proxy);
const char *upstream_proxy_address(const struct upstream_proxy *proxy); /* "host:port" */

/* The value of Proxy-Authorization, to be freed: NULL where it has no credentials, and, with err, where its
 * command does not give any. refused: what it was shown and refused, or NULL; where that is still all there
 * is, that is an error too. */
char *upstream_proxy_authorization(struct upstream_proxy *proxy, const char *refused,
				   struct err *err);

/* The user name that it is shown, to be freed; NULL: none. */
char *upstream_proxy_user(struct upstream_proxy *proxy);

/* Why its command gave no credentials when it was run last; false: it did. */
bool upstream_proxy_trouble(struct upstream_proxy *proxy, char *to, size_t room);
