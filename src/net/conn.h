/* conn.h - a connection that is being served: its thread reads requests and writes answers in turn. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "net/call.h"
#include "net/http.h"

struct guard;
struct peer;
struct upstream_job;
struct server;

struct conn {
	struct sink sink; /* first: handlers answer through it */
	struct server *server;
	struct peer *from;
	const char *peer;          /* its name */
	bool inside;               /* of a program of the sandbox: see local.h */
	bool proxied;              /* it asks the forward proxy */
	const struct guard *guard; /* of the listener that it came in by */
	int fd;
	struct http http;
	struct arena arena; /* of the current request */

	/* The answer being given. */
	struct buf head; /* not sent yet */
	int status;      /* 0: none yet */
	int64_t left;    /* of a known length; -1: unknown */
	int64_t sent;    /* bytes of its body */
	bool chunked, head_only, close_after;
	bool broken; /* it cannot be ended as it began: the connection ends instead */
	const char *request_id, *cors_origin, *allow;
	bool vary_origin;

	struct upstream_job *job; /* of the last relayed request, for the next one; NULL: none */
};

/* Serves a peer until nothing has come from it for a moment (true: it may be parked), or until it can
 * be served no more. */
bool conn_serve(struct peer *peer);

/* Answers a request that no handler saw: {"detail": …}. `json` says detail is JSON already. */
int conn_fail(struct conn *conn, int status, const char *detail, bool json);

/* Says that it is a WebSocket from now on: when the server stops, its input ends. */
void conn_upgraded(struct conn *conn);

/* Sends bytes as they are, for a protocol other than HTTP. */
int conn_send_raw(struct conn *conn, const void *data, size_t len, struct err *err);
