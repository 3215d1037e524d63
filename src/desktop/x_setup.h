/* x_setup.h - how a connection to an X server begins: what we say, and what it says of itself. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum { X_COOKIE = 16 };

struct x_setup {
	uint32_t id_base, id_mask; /* of what we make */
	uint32_t root;
	unsigned width, height; /* when we connected */
	unsigned depth, first_keycode, last_keycode;
};

void x_setup_ask(struct buf *to, const unsigned char cookie[X_COOKIE]);

/* -1 with err: it refuses us, or is not as we need it: true colour, 32 bits a pixel, blue first. */
int x_setup_read(const unsigned char *data, size_t len, struct x_setup *ret, struct err *err);
