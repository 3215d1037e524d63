/* upstream.h - a request answered by another server of this machine, which a RELAY route names. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct auth;
struct call;
struct conn;
struct err;

struct upstream {
	int port;           /* on 127.0.0.1, else ::1; 0: it listens on a Unix socket */
	const char *socket; /* the path of that */
	/* Opens a stream to it instead, with the call of the route: for one that has to be started. It is called
	 * again if the server ends before it has answered a request that may be repeated. */
	int (*connect)(struct call *call, struct err *err);
	struct call *call;
	/* The route's own part of the path, set before the route is asked: the server does not see it, and
	 * Locations and cookies' paths of its answers get it back. A route sets NULL for a server that
	 * sees whole paths, and answers with them. */
	const char *prefix;
	/* It is a program of the sandbox, at an address that this server's own pages have, too: it gets no
	 * power over those. */
	bool guest;
	bool workers; /* a guest's pages may have service workers, below the paths of these */
};

/* Relays the request whose head conn->http holds, and its answer, whole: after an upgrade, bytes both
 * ways until one side ends. Each request has a stream of its own. Credentials that auth knows stay
 * here (NULL: there are none). */
void upstream_serve(struct conn *conn, const struct upstream *upstream, const struct auth *auth);
