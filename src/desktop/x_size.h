/* x_size.h - what RANDR says of a screen, in so far as changing its size needs it. */
#pragma once
#include <stdint.h>

struct x_packet;

struct x_outputs {
	uint32_t stamp;        /* of the configuration */
	uint32_t crtc, output; /* the first ones */
	uint32_t mode;         /* one that has the wanted size; 0: there is none */
};

/* Of a reply to RRGetScreenResourcesCurrent. -1: it does not hold what it says, or no output. */
int x_outputs_read(const struct x_packet *packet, unsigned width, unsigned height,
		   struct x_outputs *ret);
