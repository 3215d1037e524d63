/* zsock.h - ZeroMQ sockets that connect to a kernel: a DEALER, or a SUB of everything.
 *
 * Ours speak ZMTP themselves (zmtp.h) instead of through libzmq, which hears nothing more from a peer
 * that once sent a longer message than ZMQ_MAXMSGSIZE allows, where we skip that message; and which
 * brings threads and 17 libraries. It is not for speed: measured side by side, neither is faster. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"

struct err;
struct zsock;

enum zsock_type { ZSOCK_DEALER, ZSOCK_SUB };

/* Connects to "/path" or "127.0.0.1:port", and says hello, with an identity or "". NULL with err: its
 * errno while nobody listens there. */
struct zsock *zsock_connect(enum zsock_type type, const char *endpoint, const char *identity,
			    struct err *err);
void zsock_free(struct zsock *sock); /* NULL is fine */

/* To be polled for POLLIN when zsock_recv() has said 0; -1 once the peer is gone. */
int zsock_fd(const struct zsock *sock);

/* Sends one message of some frames, all of it, unless the peer takes nothing for 10 s. */
int zsock_send(struct zsock *sock, const struct text *frames, size_t count, struct err *err);

/* Takes a message, if one is there: how many frames, which live until the next call; else 0. */
size_t zsock_recv(struct zsock *sock, const struct text **ret_frames);

/* Messages that were too long, and dropped. */
uint64_t zsock_dropped(const struct zsock *sock);
