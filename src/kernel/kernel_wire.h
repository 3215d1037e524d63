/* kernel_wire.h - the messages of the Jupyter protocol as WebSockets carry them, in both ways that there are:
 * parts with their offsets ("v1.kernel.websocket.jupyter.org"), or one JSON object, after which buffers may
 * follow. Here are bytes only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/desc.h"

struct err;

#define KERNEL_WIRE_V1 "v1.kernel.websocket.jupyter.org"

enum {
	KERNEL_WIRE_PARTS =
		4, /* header, parent_header, metadata, content: JSON as the kernel has it */
	KERNEL_WIRE_BUFFERS = 50,
	KERNEL_WIRE_CHANNEL = 16,
};

struct kernel_wire {
	char channel[KERNEL_WIRE_CHANNEL];
	struct text parts[KERNEL_WIRE_PARTS], buffers[KERNEL_WIRE_BUFFERS];
	size_t buffer_count;
};

/* Reads a message, whose parts point into data or, of an object, into *keep. -1: ERR_BAD_REQUEST. */
int kernel_wire_read_v1(const char *data, size_t len, struct kernel_wire *ret, struct err *err);
int kernel_wire_read_json(const char *data, size_t len, bool binary, struct buf *keep,
			  struct kernel_wire *ret, struct err *err);

/* Appends it. False: it does not fit, or its parts are not UTF-8. *ret_binary: it has buffers. */
bool kernel_wire_write_v1(struct buf *to, const struct kernel_wire *message);
bool kernel_wire_write_json(struct buf *to, const struct kernel_wire *message, bool *ret_binary);

/* The string that a member of a part is: its first, as it stands there. "" where there is none, no room, or
 * something escaped. */
void kernel_wire_member(const struct text *part, const char *name, char *to, size_t room);
