/* x_link.h - a connection to an X server, used by one thread at a time: requests are put together and sent
 * as one, then the reply of the last is waited for. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "desktop/x_setup.h"
#include "desktop/x_wire.h"

struct err;

struct x_link {
	int fd, pass_fd; /* pass_fd: goes with the next requests, and is the caller's; -1: none */
	struct x_wire wire;
	struct x_setup setup;
	struct buf out;
	uint32_t next_id;
	uint16_t sequence,
		answered; /* of the last request put, and of the last that was waited for */
	unsigned
		refused; /* the X error of the last x_link_reply() that failed; 0: it was another */
	struct buf
		kept; /* events that came while a reply was waited for; of no room: they are dropped */
	size_t kept_at;
	unsigned char event[X_PACKET]; /* the one that was taken from there last */
	_Atomic bool broken;
};

/* 0, or -1 with err. */
int x_link_open(struct x_link *link, int number, const unsigned char cookie[X_COOKIE],
		const struct wait *wait, struct err *err);
void x_link_done(struct x_link *link);

/* Adds a request: its opcode and the byte beside it, and words; or bytes, too. */
void x_link_put(struct x_link *link, unsigned opcode, unsigned detail, const uint32_t *words,
		size_t count);
void x_link_put_tail(struct x_link *link, const struct x_request *request);

/* Sends what was put. */
int x_link_flush(struct x_link *link, const struct wait *wait, struct err *err);

/* The same, and waits for the reply of the last request, of at least `least` bytes; it lives until the next
 * call. An error of any of them fails it: link->refused says which. */
int x_link_reply(struct x_link *link, size_t least, struct x_packet *ret, const struct wait *wait,
		 struct err *err);

/* Waits until the server has done all that was put. */
int x_link_sync(struct x_link *link, const struct wait *wait, struct err *err);

/* The next event or error that comes while no reply is waited for. `also` (-1: none) ends the wait, too:
 * then *ret is of kind X_REPLY. */
int x_link_event(struct x_link *link, int also, struct x_packet *ret, const struct wait *wait,
		 struct err *err);

/* A new number for what we make; names of atoms and of extensions. 0: there is none. */
uint32_t x_link_id(struct x_link *link);
uint32_t x_link_atom(struct x_link *link, const char *name, const struct wait *wait);
unsigned x_link_extension(struct x_link *link, const char *name, const struct wait *wait);

/* A property, as 32-bit words or as bytes: how many bytes there are at *ret, until the next call; 0 with NULL
 * where the window has none. At most `most` words are asked for. */
struct x_property {
	uint32_t type;
	unsigned format;
	const unsigned char *data;
	size_t len;
	bool more; /* it is longer */
};
int x_link_property(struct x_link *link, uint32_t window, uint32_t name, bool and_delete,
		    uint32_t most, struct x_property *ret, const struct wait *wait,
		    struct err *err);

/* Of a reply to GetProperty: -1 where it does not hold what it says. */
int x_property_read(const struct x_packet *packet, struct x_property *ret);
