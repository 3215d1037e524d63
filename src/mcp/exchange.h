/* exchange.h - one request of a client, from its arrival to its reply.
 *
 * Its reply, and what is said before it, go to a stream. Quick requests are served by the thread
 * that brought them; those that may take long have a thread of their own, because a session's
 * client may leave and come back for the reply. */
#pragma once
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "mcp/revision.h"
#include "mcp/stream.h"

struct call;
struct err;
struct exchange;
struct mcp_session;
struct server;
struct sink;

/* Errors of JSON-RPC and of MCP. */
enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_FAILED = -32000,
	RPC_NO_RESOURCE = -32002,
	RPC_HEADER_MISMATCH = -32020,
	RPC_NEEDS_CAPABILITY = -32021,
	RPC_REVISION = -32022,
	RPC_CANCELLED = -32800,
};

/* Who asks, and how. */
struct exchange_from {
	struct server *server;
	struct mcp_session *session; /* NULL: none */
	enum mcp_revision revision;
	const char *base_url, *only; /* only: the one server whose tools are wanted; NULL: all */
	const char *within;          /* the server a tool must be of; NULL: any */
	bool listens;                /* what comes before the reply can be delivered */
	bool bare;                   /* a plain client: a tool's failure is an error */
	bool inside;                 /* as in struct call */
};

struct exchange {
	struct exchange_from from;
	struct mcp_stream *stream;
	json_t *message; /* owned; what follows is in it */
	const json_t *id, *params, *meta, *token;
	const json_t *capabilities; /* of the client; NULL: unknown */
	int log_level;              /* the least wanted; above all: none */
	struct arena arena;
	struct jw jw; /* the members of the result */
	const char *result_type;
	int error, status; /* of JSON-RPC, and HTTP for it */
	char reason[600];
	json_t *error_data;

	_Atomic int refs;
	_Atomic bool cancelled;
	int cancel_fds[2]; /* a pipe: the first end hangs up when it is cancelled */
	int64_t started_ms;
	struct exchange *next, *next_running;

	pthread_mutex_t telling; /* of what follows */
	double told, ticked;     /* the progress that was told last; by exchange_tick() */
	bool tells_progress;     /* the tool itself does */
	bool replied;
};

enum log_rank { RANK_DEBUG, RANK_INFO, RANK_NOTICE, RANK_WARNING, RANK_ERROR, RANK_NONE = 8 };
extern const char *const exchange_levels[]; /* ends with NULL */

/* Takes a request's message over, which no other thread may then use. The reply is expected on the
 * stream. */
struct exchange *exchange_new(const struct exchange_from *from, struct mcp_stream *stream,
			      json_t *message);
struct exchange *exchange_ref(struct exchange *ex);
void exchange_unref(struct exchange *ex); /* NULL is fine */

/* Serves it, in this thread or in one of its own. */
void exchange_start(struct exchange *ex);

/* Says that nobody wants the reply any more. */
void exchange_cancel(struct exchange *ex);

/* Tells those that wait on a stream for a long time how long it has been. */
void exchange_tick(struct mcp_stream *stream);

/* Waits until every exchange has its thread ended: for the end of the server. */
void exchange_end_all(void);

/* ---- for those that serve ---- */

/* An error instead of a result; returns -1. */
int exchange_fail(struct exchange *ex, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Takes params over; NULL for none. */
void exchange_notify(struct exchange *ex, const char *method, json_t *params);
/* Says how far a tool is, by its own account. It goes on from what exchange_tick() has told before, and
 * what is no further than that is not told. */
void exchange_progress(struct exchange *ex, double progress, double total, const char *message);
void exchange_log(struct exchange *ex, enum log_rank rank, const char *logger, const char *text);

/* What a tool may ask of its client and tell it. Of our own, none does yet: tests/fixture has some that do.
 * Asks the client for something and waits. params are taken over. NULL with err on failure. */
json_t *exchange_ask(struct exchange *ex, const char *method, json_t *params, int64_t timeout_ms,
		     struct err *err);

/* Whether the client said it can do something: "sampling", "elicitation". */
bool exchange_can(const struct exchange *ex, const char *capability);

/* Waits a moment. False once it is cancelled or the server stops. */
bool exchange_sleep(struct exchange *ex, int ms);

/* A message without a result, as text: for errors before there is an exchange. */
void rpc_write_error(struct jw *jw, const json_t *id, int code, const char *text,
		     const json_t *data);
