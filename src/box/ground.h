/* ground.h - what all boxes are made from, prepared once in a process: a mount namespace of its own,
 * with trees in it that each box gets a copy of. */
#pragma once

struct err;

/* Where the product's own files are in a box. */
#define GROUND_HOME "/usr/lib/aiobox"

struct ground {
	char stage[4096]; /* a tmpfs of ours: dev/, product/; layers/ and root/ to mount at */
	int dev, product; /* the first two of these, with all that is mounted in them; read-only */
};

/* Leaves the machine's mount namespace for good. NULL when that fails. `state` is a directory. */
const struct ground *ground_get(const char *state, struct err *err);
