/* stream.h - messages on their way to a client: those that belong to one POST, or a session's own.
 *
 * Whoever serves a request adds; a connection reads and waits. Messages stay for a while after they
 * were sent, so that a client whose connection broke can ask for those it missed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct stream_message {
	struct stream_message *next;
	uint64_t number; /* from 1 */
	bool reply;      /* answers a request; else a notification, or a request of ours */
	size_t len;
	char text[];
};

struct mcp_stream;

enum {
	STREAM_BYTES_MAX = 4 << 20, /* of messages that wait; the oldest notifications go first */
	STREAM_REPLY_MAX = 64 << 20,
};

/* endless: it goes on after all replies that were expected have come. */
struct mcp_stream *stream_new(uint64_t id, bool endless);
struct mcp_stream *stream_ref(struct mcp_stream *stream);
void stream_unref(struct mcp_stream *stream); /* NULL is fine */
uint64_t stream_id(const struct mcp_stream *stream);

/* More replies will come: the stream is not over before. */
void stream_expect(struct mcp_stream *stream, int replies);

/* Adds a message. A reply is one of those expected. */
void stream_add(struct mcp_stream *stream, const char *text, size_t len, bool reply);

/* One reply that was expected will not come. */
void stream_skip(struct mcp_stream *stream);

/* Asks the connection that sends it to end now, and the client to come back for the rest. */
void stream_break(struct mcp_stream *stream);

/* The client has been told. */
void stream_mend(struct mcp_stream *stream);

/* Forgets what was sent and will not be asked for again: all up to this number. */
void stream_forget(struct mcp_stream *stream, uint64_t number);

/* Waits until all replies that were expected have been added, or will not come. */
enum wake stream_wait_replies(struct mcp_stream *stream, const struct wait *wait);

/* Ends a stream that expects nothing. */
void stream_close(struct mcp_stream *stream);

/* The bytes of all its messages. */
size_t stream_bytes(struct mcp_stream *stream);

/* How things are. */
struct stream_state {
	bool over;           /* nothing will be added */
	bool broken;         /* see stream_break() */
	bool taken;          /* another connection reads it now */
	uint64_t last;       /* the newest message's number */
	uint64_t first_note; /* the oldest message that is no reply; 0: none */
	uint64_t changes;    /* of all this; see stream_wait() */
};

/* A new reader takes the stream over: what it is known by. */
uint64_t stream_take(struct mcp_stream *stream);
struct stream_state stream_look(struct mcp_stream *stream, uint64_t turn);

/* Waits for what has changed since that look. */
enum wake stream_wait(struct mcp_stream *stream, const struct stream_state *seen,
		      const struct wait *wait);

/* A copy of the first message after a number, to be freed; NULL when there is none. */
struct stream_message *stream_next(struct mcp_stream *stream, uint64_t after);
