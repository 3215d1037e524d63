/* frame.h - the frames in which a process talks to the server: a type, the length of the data (32
 * bits, little endian), the data. They come in pieces of any size. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEAD = 5, FRAME_MAX = 4096 }; /* with its head: what a pipe keeps whole */

struct frame_reader {
	unsigned char held[FRAME_MAX]; /* the beginning of a frame */
	size_t count;
};

/* Takes some bytes and calls fn for each frame that is now complete. -1 once a frame is too long or
 * fn says so: what follows cannot be understood. */
typedef int frame_fn(void *arg, char type, const char *data, size_t len);
int frame_feed(struct frame_reader *reader, const char *data, size_t len, frame_fn *fn, void *arg);
