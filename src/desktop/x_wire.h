/* x_wire.h - the framing of the X11 protocol: what the server sends, taken apart; numbers in its bytes.
 * All of it is hostile: a program of the sandbox may be the server. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	X_PACKET = 32,         /* what everything that the server sends begins with */
	X_REPLY_MAX = 4 << 20, /* bytes; a longer reply is a broken protocol */
	X_ERROR = 0,           /* kinds of packets; all others are events */
	X_REPLY = 1,
	X_SETUP_HEAD = 8,
};

struct x_packet {
	unsigned kind;     /* X_ERROR, X_REPLY, or the code of an event */
	uint16_t sequence; /* of the request that it answers, or followed */
	const unsigned char *data;
	size_t len; /* at least X_PACKET */
};

struct x_wire {
	struct buf in;
	size_t at;   /* what lies before was taken */
	bool failed; /* the server does not speak X11 */
};

void x_wire_init(struct x_wire *wire);
void x_wire_done(struct x_wire *wire);

/* Where the next bytes may be put, and how many; then how many there were. NULL: no room, failed. */
char *x_wire_room(struct x_wire *wire, size_t *ret_room);
void x_wire_take(struct x_wire *wire, size_t len);

/* The next whole packet, which lives until x_wire_room(). False: there is none yet, or never will be. */
bool x_wire_next(struct x_wire *wire, struct x_packet *ret);

/* The answer to the connection setup, which is framed in another way. */
bool x_wire_setup(struct x_wire *wire, const unsigned char **ret_data, size_t *ret_len);

/* ---- numbers: we have said that ours are little-endian, and so are the server's ---- */

static inline uint16_t x_get16(const unsigned char *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t x_get32(const unsigned char *at)
{
	return x_get16(at) | (uint32_t)x_get16(at + 2) << 16;
}

static inline uint32_t x_pair(unsigned low, unsigned high)
{
	return (low & 0xffff) | (uint32_t)(high & 0xffff) << 16;
}

/* ---- what is sent ---- */

/* Adds a request: its opcode and the byte beside it, further words, and bytes, which are padded. */
struct x_request {
	unsigned opcode, detail;
	const uint32_t *words;
	size_t count;
	const void *tail;
	size_t tail_len;
};
int x_wire_put(struct buf *to, const struct x_request *request);
