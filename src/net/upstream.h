/* upstream.h - a request answered by another server of this machine, which a RELAY route names. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct auth;
struct call;
struct conn;
struct err;
struct http_head;
struct upstream_job;

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
	/* What a proxy before this server has taken from the path ("" for nothing), set before the route
	 * is asked, and whether the server sees that, too, before a whole path. */
	const char *outer;
	bool sees_outer;
	bool program; /* a program of the sandbox, on `port`: see head_request() */
	/* Looks at the response's head: true where the request is to be sent again, as `prefix` and
	 * sees_outer say then. own_path is where its Location leads, as the client would ask for it, or
	 * NULL. Not asked where the request has a body. NULL: nobody looks. */
	bool (*again)(struct upstream *upstream, const struct http_head *request, int status,
		      const char *own_path);
	const char *own; /* the route's own part of the path, for again(), which counts */
	int tries;
	/* Has the last word on a failure, with upstream->call: the text for {"detail": …}, or NULL where it
	 * has answered. refused: nothing listens there. NULL: nobody has. */
	const char *(*failed)(const struct upstream *upstream, int status, bool refused,
			      const char *text);
	/* Set before the route is asked. */
	const char *host; /* as the client named it; may be NULL */
	bool visit;       /* a person opens a page */
	bool stranger;    /* the caller has shown no credentials: a preflight */
	/* It is a program of the sandbox, at an address that this server's own pages have, too: it gets no
	 * power over those. */
	bool guest;
	bool workers; /* a guest's pages may have service workers, below the paths of these */
};

/* Relays the request whose head conn->http holds, and its answer, whole: after an upgrade, bytes both
 * ways until one side ends. A stream to a port is used again for requests of the same client connection that
 * may be repeated, while that is busy, and never for another client's. Credentials that auth knows stay
 * here (NULL: there are none). */
void upstream_serve(struct conn *conn, struct upstream *upstream, const struct auth *auth);

/* Closes what the last request has left open for the next one. NULL is fine. */
void upstream_job_free(struct upstream_job *job);
