/* zsock.h - ZeroMQ sockets that connect to a kernel. libzmq is loaded with the first one.
 *
 * A socket is used by one thread at a time; a lock, or a hand-over under one, is between two. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/desc.h"

struct err;
struct zsock;

enum zsock_type { ZSOCK_DEALER, ZSOCK_SUB }; /* SUB: of everything */

enum {
	ZSOCK_FRAMES_MAX = 64,      /* a message with more is dropped whole */
	ZSOCK_FRAME_MAX = 64 << 20, /* a peer that sends a longer one is cut off */
	ZSOCK_QUEUE = 256,          /* messages that wait to be taken; more wait at the sender */
};

/* Connects, in the background, to "ipc://…" or "tcp://…". NULL with err. */
struct zsock *zsock_connect(enum zsock_type type, const char *endpoint, struct err *err);
void zsock_free(struct zsock *sock); /* NULL is fine; what was not sent yet is dropped */

/* To be polled for POLLIN, but only when zsock_recv() has just said 0: it tells of changes. */
int zsock_fd(const struct zsock *sock);

/* Sends one message of some frames; it never blocks. */
int zsock_send(struct zsock *sock, const struct text *frames, size_t count, struct err *err);

/* Takes a message: how many frames, which live until the next call; 0 when there is none. */
size_t zsock_recv(struct zsock *sock, const struct text **ret_frames);

/* When all are freed: ends the library's threads. */
void zsock_end(void);
