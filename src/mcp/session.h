/* session.h - a client that said "initialize": what it can do, what it waits for, what it missed. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/wait.h"
#include "mcp/revision.h"

struct err;
struct exchange;
struct mcp_session;
struct mcp_stream;
struct sessions;

/* All of them. */
extern struct sessions mcp_sessions;

/* A new one, with a reference. only: see struct exchange_from. */
struct mcp_session *session_open(enum mcp_revision revision, const json_t *capabilities,
				 const char *only, struct err *err);
/* One by its id, with a reference. */
struct mcp_session *session_find(const char *id, struct err *err);
int session_close(const char *id, struct err *err);

void session_ref(struct mcp_session *session);
void session_unref(struct mcp_session *session); /* NULL is fine */

const char *session_id(const struct mcp_session *session);
/* The id of the sessions of bash, a terminal, a kernel and Node.js that are this client's own and end
 * with it. NULL, which is fine, has none. */
const char *session_own(const struct mcp_session *session);
enum mcp_revision session_revision(const struct mcp_session *session);
const char *session_only(const struct mcp_session *session); /* NULL: all */
const json_t *session_capabilities(const struct mcp_session *session);
int session_log_level(struct mcp_session *session);
void session_set_log_level(struct mcp_session *session, int level);

/* On a session that speaks through one pipe, what a client can do is known only later. */
void session_begin(struct mcp_session *session, enum mcp_revision revision,
		   const json_t *capabilities);

/* The stream of what is not part of any reply. Borrowed. */
struct mcp_stream *session_stream(struct mcp_session *session);

/* A new stream for a reply, with a reference. Once its numbers were told to the client it is kept,
 * so that session_find_stream() finds it, with a reference. */
struct mcp_stream *session_new_stream(struct mcp_session *session);
void session_keep_stream(struct mcp_session *session, struct mcp_stream *stream);
struct mcp_stream *session_find_stream(struct mcp_session *session, uint64_t id);

/* The exchanges that are not over. */
void session_remember(struct mcp_session *session, struct exchange *ex);
void session_forget(struct mcp_session *session, const struct exchange *ex);
void session_cancel(struct mcp_session *session, const json_t *id);

/* Questions to the client: a new id, to be told when the eventfd is signalled; the client's answer
 * arrives; and is fetched: {"result": …} or {"error": …}, NULL for none. */
json_t *session_ask(struct mcp_session *session, int event_fd);
void session_answered(struct mcp_session *session, const json_t *message);
json_t *session_asked(struct mcp_session *session, const json_t *id);

/* What it wants to be told about. -1 when there are too many. */
int session_subscribe(struct mcp_session *session, const char *uri, struct err *err);
void session_unsubscribe(struct mcp_session *session, const char *uri);

/* Tells all sessions and listeners: one of the lists changed, or a resource did. */
enum news { NEWS_TOOLS, NEWS_PROMPTS, NEWS_RESOURCES, NEWS_UPDATED };
void session_tell(enum news news, const char *uri);

/* Tells all sessions whose log level allows it. */
void session_log(int rank, const char *logger, const char *text);

/* A client without a session that listens, to what `wanted` says: the parameter "notifications" of
 * subscriptions/listen. Stays until the returned listener is removed. */
struct session_listener;
struct session_listener *session_listen(struct mcp_stream *stream, const json_t *id,
					const json_t *wanted);
void session_unlisten(struct session_listener *listener);
