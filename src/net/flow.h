/* flow.h - the two ends of a relayed connection, and a body that flows from one to the other.
 *
 * A body is passed on framed anew: chunks are taken apart and made again, without extensions and
 * trailers, so that both sides see the same end whatever their parsers forgive. At most one read's
 * worth waits to be written; until it is, nothing more is read. */
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "net/head.h"

enum { FLOW_PIECE = 128 * 1024, FLOW_OUT_MAX = 1 << 20 };

struct end;

/* What an end is read and written by: as recv(), sendmsg() and shutdown(), never waiting. */
struct end_io {
	ssize_t (*receive)(struct end *end, void *to, size_t room);
	ssize_t (*send)(struct end *end, struct iovec *parts, size_t count);
	void (*half_close)(struct end *end);
};

struct end {
	int fd;                   /* -1: none. Not blocking. */
	const struct end_io *io;  /* of a socket, unless its owner says otherwise */
	uint32_t watched, wanted; /* events: what epoll looks for, what we need */
	bool readable;            /* there may be input */
	bool eof, broken;         /* it sends no more; it takes no more */
	bool reset;               /* it has ended without reading all that it was sent */
	bool corked; /* what waits to be written is a head whose body is at hand: they go together */
	struct buf in, out;
	size_t looked; /* how much of the input was parsed in vain */
	int pipe[2];   /* of a large body on its way here, which is never copied; both -1: none */
	size_t piped;  /* bytes in it */
	size_t in_at, out_at; /* in.data[in_at..] is not taken yet, out.data[out_at..] not sent */
};

void end_init(struct end *end, int fd);
void end_close(struct end *end);

static inline bool end_pending(const struct end *end)
{
	return end->out_at < end->out.len || end->piped;
}

static inline size_t end_held(const struct end *end)
{
	return end->in.len - end->in_at;
}

/* Writes now what can be written, and keeps the rest. An end that is broken swallows everything. */
void end_flush(struct end *end);
void end_put(struct end *end, const char *data, size_t len);

/* Reads up to `room` bytes more into what is held, by way of `piece`. False when nothing came. */
bool end_fill(struct end *end, char *piece, size_t room);

/* Forgets n bytes of the input that is held. */
void end_take(struct end *end, size_t n);

struct flow {
	enum body_kind kind;
	bool done;
	bool splice;     /* neither end blocks: what is large may go by splice() */
	bool bare;       /* the data of chunks is passed on without framing */
	int64_t left;    /* of a length */
	struct buf *tap; /* gets a copy of the data, while it has room; NULL: nobody looks */
	llhttp_t parser;
	size_t overhead; /* bytes of framing since the last byte of data */
	struct end *to;
};

/* Begins a body; `after_head` is the parser that has just read its head, for chunks. */
void flow_begin(struct flow *flow, enum body_kind kind, int64_t length, const llhttp_t *after_head);

/* Moves some of the body. 1: something moved; 0: nothing can now; -1: the body is malformed, or its
 * end came too soon. `piece` has room for FLOW_PIECE bytes. */
int flow_pump(struct flow *flow, struct end *from, struct end *to, char *piece);
