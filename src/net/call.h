/* call.h - one use of a declared operation, whoever makes it: an HTTP request, an MCP client, a
 * command line. A handler sees its request struct and this, never a connection. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"
#include "base/json.h"
#include "base/wait.h"

struct arena;
struct err;
struct route;
struct server;
struct ws;

/* The beginning of an answer. */
struct answer {
	int status;
	const char *type;
	int64_t length; /* -1: not known yet */
	struct pair headers[8];
	size_t header_count;
};

/* Where an answer goes. Each function returns 0, or -1 with ERR_GONE when nobody listens. */
struct sink {
	int (*begin)(struct sink *sink, const struct answer *answer, struct err *err);
	int (*write)(struct sink *sink, const void *data, size_t len, struct err *err);
	int (*file)(struct sink *sink, int fd, int64_t at, int64_t len, struct err *err);
	int client_fd; /* to be polled: a hang-up means that the caller left; -1: none */
	bool begun;    /* an answer has begun: no other one can be given */
};

struct call {
	const struct route *route;
	struct server *server;
	struct arena *arena; /* lives until the answer is given */
	struct sink *sink;
	struct ws *ws;    /* of an UPGRADE route */
	bool subprotocol; /* the WebSocket speaks the route's `type`, which the client asked for */
	const char *id;   /* in the log */
	const char *base_url; /* as the caller reached us: "http://localhost:8080" */
	const char *query;    /* of the request, as it came, without its '?'; NULL: none */
	const char *ticket;   /* of an URLS route: for the URLs; NULL: none is needed */
	const char *if_none_match, *if_range, *range; /* for call_file(); may be NULL */
	bool head_only;                               /* the caller wants no body */
	bool wants_events;                            /* the caller accepts Server-Sent Events */
	bool view;   /* the caller may only look: what a VIEW route does is to keep to that */
	bool inside; /* the caller is a program of the sandbox: it gets no rights but its user's */

	const char *message, *hint; /* of the envelope; NULL: the usual */
	bool failed;                /* "success": false */
	const void *extra;          /* a struct as route->extra says */
	uint64_t began;             /* of offline_moment(); 0: names are of no interest */
	struct jw jw;
};

/* What its envelope will have as hint; NULL: none. */
const char *call_hint(const struct call *call);

/* Answers with data, as route->data describes it; NULL for null. */
int call_reply(struct call *call, const void *data, struct err *err);

/* The same for data that is written by hand, piece by piece: between the two one JSON value is
 * written to the returned writer, which streams what is large. */
struct jw *call_reply_begin(struct call *call, struct err *err);
int call_reply_end(struct call *call, struct err *err);

/* Answers with text of any media type. */
int call_text(struct call *call, const char *type, const char *text, size_t len, struct err *err);

/* Answers with a file, honouring Range, If-None-Match and If-Range. `name`, when not NULL, makes
 * it a download of that name. headers are further ones; count at most 4. */
int call_file(struct call *call, int fd, const char *type, const char *name,
	      const struct pair *headers, size_t count, struct err *err);

int call_redirect(struct call *call, const char *to, struct err *err);

/* Sends one Server-Sent Event, beginning the stream if need be. id may be NULL; data is one or more
 * lines of text. call_event_ping() keeps the stream alive and notices a caller who left. */
int call_event(struct call *call, const char *event, const char *id, const char *data, size_t len,
	       struct err *err);
int call_event_ping(struct call *call, struct err *err);

/* Sends a struct as route->sends describes it under that name: as an event, whose id may be NULL, or as
 * a message of its WebSocket. */
int call_send(struct call *call, const char *name, const char *id, const void *value,
	      struct err *err);

/* What a handler waits with: until a moment, until its caller leaves, until the server stops. */
struct wait call_until(const struct call *call, int64_t until_ms);

/* The same at most until the next moment to keep a stream of events alive: call_event_ping(). */
struct wait call_until_ping(const struct call *call, int64_t until_ms);

/* Waits so for an eventfd: see wait_event(). */
enum wake call_wait(struct call *call, int event_fd, int64_t until_ms);

/* The same for one who is sent events: the stream is kept alive meanwhile. */
enum wake call_wait_events(struct call *call, int event_fd, int64_t until_ms);
