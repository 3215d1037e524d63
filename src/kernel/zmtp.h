/* zmtp.h - the wire protocol of ZeroMQ, ZMTP 3.0 with the NULL mechanism: bytes into messages, and
 * messages into bytes. A message is one or more frames. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/desc.h"

enum {
	ZMTP_FRAMES_MAX = 64,       /* of a message; one with more is dropped */
	ZMTP_MESSAGE_MAX = 64 << 20 /* bytes; a longer one is dropped, without being held */
};

/* What comes. */
struct zmtp {
	struct buf in;
	size_t at;     /* what lies before was understood */
	uint64_t skip; /* bytes of a frame that are not wanted */
	bool greeted, ready, failed;
	bool dropping; /* this message is not wanted */
	bool more;     /* the frame that is being skipped is not its message's last */
	size_t starts[ZMTP_FRAMES_MAX], count;
	struct text frames[ZMTP_FRAMES_MAX];
	uint64_t dropped; /* messages */
};

void zmtp_init(struct zmtp *zmtp);
void zmtp_done(struct zmtp *zmtp);

/* Where the next bytes may be put, and how many; then how many there were. */
char *zmtp_room(struct zmtp *zmtp, size_t *ret_room);
void zmtp_take(struct zmtp *zmtp, size_t len);

/* The next whole message: how many frames, which live until zmtp_room() or the next call; 0: there is
 * none yet, or the peer does not speak ZMTP (failed). */
size_t zmtp_next(struct zmtp *zmtp, const struct text **ret_frames);

/* What a peer of a socket type ("DEALER", "SUB") begins with. A ROUTER knows it by its identity ("": by
 * one of the ROUTER's own making). It may send messages only when the other is ready, the first of a SUB
 * being its subscription: 1 and a prefix. */
void zmtp_hello(struct buf *to, const char *type, const char *identity);

/* What comes before the content of a frame: how many bytes. */
enum { ZMTP_HEAD_MAX = 9 };
size_t zmtp_head(unsigned char to[ZMTP_HEAD_MAX], size_t len, bool more);
