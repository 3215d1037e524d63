#include "mcp/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/own.h"

struct mcp_stream {
	_Atomic int refs;
	uint64_t id;
	pthread_mutex_t lock; /* of what follows */
	struct waiter *waiters;
	struct stream_message *first, *last;
	size_t bytes;
	uint64_t count, turn, changes;
	int expected;
	bool endless, closed, broken;
};

struct mcp_stream *stream_new(uint64_t id, bool endless)
{
	struct mcp_stream *stream = xcalloc(1, sizeof *stream);
	stream->refs = 1;
	stream->id = id;
	stream->endless = endless;
	pthread_mutex_init(&stream->lock, NULL);
	return stream;
}

struct mcp_stream *stream_ref(struct mcp_stream *stream)
{
	atomic_fetch_add(&stream->refs, 1);
	return stream;
}

void stream_unref(struct mcp_stream *stream)
{
	if (!stream || atomic_fetch_sub(&stream->refs, 1) > 1)
		return;
	for (struct stream_message *at = stream->first, *next; at; at = next) {
		next = at->next;
		free(at);
	}
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

uint64_t stream_id(const struct mcp_stream *stream)
{
	return stream->id;
}

void stream_expect(struct mcp_stream *stream, int replies)
{
	pthread_mutex_lock(&stream->lock);
	stream->expected += replies;
	pthread_mutex_unlock(&stream->lock);
}

/* With the lock. */
static void changed(struct mcp_stream *stream)
{
	stream->changes++;
	waiter_wake(stream->waiters);
}

/* Forgets the oldest notifications of a stream that nobody reads. */
static void trim(struct mcp_stream *stream)
{
	for (struct stream_message **at = &stream->first;
	     *at && stream->bytes > STREAM_BYTES_MAX;) {
		struct stream_message *message = *at;
		if (message->reply || message == stream->last) {
			at = &message->next;
			continue;
		}
		*at = message->next;
		stream->bytes -= message->len;
		free(message);
	}
}

void stream_add(struct mcp_stream *stream, const char *text, size_t len, bool reply)
{
	struct stream_message *message = xmalloc(sizeof *message + len + 1);
	*message = (struct stream_message){ .reply = reply, .len = len };
	memcpy(message->text, text, len);
	message->text[len] = 0;
	pthread_mutex_lock(&stream->lock);
	message->number = ++stream->count;
	*(stream->last ? &stream->last->next : &stream->first) = message;
	stream->last = message;
	stream->bytes += len;
	stream->expected -= reply;
	trim(stream);
	changed(stream);
	pthread_mutex_unlock(&stream->lock);
}

size_t stream_bytes(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	size_t bytes = stream->bytes;
	pthread_mutex_unlock(&stream->lock);
	return bytes;
}

void stream_skip(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->expected--;
	changed(stream);
	pthread_mutex_unlock(&stream->lock);
}

void stream_break(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->broken = true;
	changed(stream);
	pthread_mutex_unlock(&stream->lock);
}

void stream_mend(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->broken = false;
	pthread_mutex_unlock(&stream->lock);
}

void stream_forget(struct mcp_stream *stream, uint64_t number)
{
	pthread_mutex_lock(&stream->lock);
	while (stream->first && stream->first->number <= number) {
		struct stream_message *message = stream->first;
		stream->first = message->next;
		stream->bytes -= message->len;
		if (!stream->first)
			stream->last = NULL;
		free(message);
	}
	pthread_mutex_unlock(&stream->lock);
}

enum wake stream_wait_replies(struct mcp_stream *stream, const struct wait *wait)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&stream->lock);
	while (stream->expected > 0 && wake == WAKE_READY)
		wake = wait_change(wait, &stream->lock, &stream->waiters, NULL);
	pthread_mutex_unlock(&stream->lock);
	return wake;
}

void stream_close(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->closed = true;
	changed(stream);
	pthread_mutex_unlock(&stream->lock);
}

uint64_t stream_take(struct mcp_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	uint64_t turn = ++stream->turn;
	changed(stream); /* the reader before sees that it is taken */
	pthread_mutex_unlock(&stream->lock);
	return turn;
}

enum wake stream_wait(struct mcp_stream *stream, const struct stream_state *seen,
		      const struct wait *wait)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&stream->lock);
	if (stream->changes == seen->changes)
		wake = wait_change(wait, &stream->lock, &stream->waiters, NULL);
	pthread_mutex_unlock(&stream->lock);
	return wake;
}

struct stream_state stream_look(struct mcp_stream *stream, uint64_t turn)
{
	struct stream_state state = { 0 };
	pthread_mutex_lock(&stream->lock);
	state.over = stream->closed || (!stream->endless && stream->expected <= 0);
	state.broken = stream->broken;
	state.taken = stream->turn != turn;
	state.last = stream->count;
	state.changes = stream->changes;
	for (struct stream_message *at = stream->first; at && !state.first_note; at = at->next)
		state.first_note = at->reply ? 0 : at->number;
	pthread_mutex_unlock(&stream->lock);
	return state;
}

struct stream_message *stream_next(struct mcp_stream *stream, uint64_t after)
{
	struct stream_message *copy = NULL, *at;
	pthread_mutex_lock(&stream->lock);
	for (at = stream->first; at && at->number <= after;)
		at = at->next;
	if (at) {
		copy = xmalloc(sizeof *copy + at->len + 1);
		memcpy(copy, at, sizeof *copy + at->len + 1);
		copy->next = NULL;
	}
	pthread_mutex_unlock(&stream->lock);
	return copy;
}
