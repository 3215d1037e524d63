/* unpack.h - archives into the root of this process, which is confined to it (confine.h). What is in
 * them is hostile: no name, link or whiteout may reach outside, nothing may be run to read them, and
 * what they may hold is limited. Device nodes, sockets and FIFOs are left out. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

/* What may still be unpacked. */
struct unpack_room {
	int64_t bytes, entries;
};

/* Loads libarchive: while its files are the machine's, not an image's. */
int unpack_load(struct err *err);

/* Unpacks a tar archive, compressed or not; as a layer, over what is there. */
int unpack(int fd, bool layer, struct unpack_room *room, struct err *err);
