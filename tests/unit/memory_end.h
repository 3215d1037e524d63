/* memory_end.h - an end of a relay that is no socket: what it sends is given, what it is sent is kept. */
#pragma once
#include <errno.h>
#include <string.h>

#include "net/flow.h"

struct memory_end {
	struct end end; /* first */
	const char *input;
	size_t left;    /* of the input */
	size_t at_once; /* most that one call reads or writes; a write of 0 bytes is EAGAIN */
	bool open;      /* behind its input it waits, and has not ended */
	bool blocked;   /* takes nothing for now */
	bool told;      /* that the other side sends no more */
	struct buf got;
};

static ssize_t memory_receive(struct end *end, void *to, size_t room)
{
	struct memory_end *memory = (struct memory_end *)end;
	size_t n = memory->left < room ? memory->left : room;
	if (n > memory->at_once)
		n = memory->at_once;
	if (!n && memory->open) {
		errno = EAGAIN;
		return -1;
	}
	if (n)
		memcpy(to, memory->input, n);
	memory->input += n;
	memory->left -= n;
	return (ssize_t)n;
}

static ssize_t memory_send(struct end *end, struct iovec *parts, size_t count)
{
	struct memory_end *memory = (struct memory_end *)end;
	size_t room = memory->blocked ? 0 : memory->at_once, sent = 0;
	for (size_t i = 0; i < count && sent < room; i++) {
		size_t n = parts[i].iov_len < room - sent ? parts[i].iov_len : room - sent;
		buf_add(&memory->got, parts[i].iov_base, n);
		sent += n;
	}
	errno = EAGAIN;
	return sent ? (ssize_t)sent : -1;
}

static void memory_half_close(struct end *end)
{
	((struct memory_end *)end)->told = true;
}

static const struct end_io memory_io = { memory_receive, memory_send, memory_half_close };

static inline void memory_end_init(struct memory_end *memory, const char *input, size_t len)
{
	*memory = (struct memory_end){
		.input = input, .left = len, .at_once = SIZE_MAX, .got = BUF(1 << 24)
	};
	end_init(&memory->end, -1);
	memory->end.io = &memory_io;
	memory->end.readable = true;
}

static inline void memory_end_done(struct memory_end *memory)
{
	end_close(&memory->end);
	buf_done(&memory->got);
}
