/* save.h - writing files whole or not at all.
 *
 * A file that is new gets its name when it is whole. One that is replaced is so by a rename, and the
 * new content is on the disk before: owner, group, mode, ACL and other attributes stay. Where a rename
 * would not keep what the file is (it has several names, is a mount point, belongs to somebody else, is
 * in a directory that may not be changed, has attributes that cannot be copied), it is written in place,
 * after the room was reserved: a full disk harms nothing then either, but a crash may. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct place;

/* What is written: bytes, or the whole of an open file. */
struct save {
	const void *data;
	size_t len;
	int fd;         /* instead of data, at its start; -1: none */
	bool give_away; /* the file of fd has no name, and may become the saved one itself */
	unsigned
		mode; /* permissions, also of a file that is there; 0: as that has them, or usual */
	bool fresh;   /* there must be nothing yet: EEXIST */
};

/* Puts it at a place that is held, making directories that are missing: they go again when it fails.
 * ENOSPC, EACCES and so on leave all as it was. */
int save_put(const struct save *save, const struct place *place, struct err *err);

/* Adds bytes at the end of the file at a place that is held, or makes it. All or nothing, too. */
int save_append(const struct place *place, const void *data, size_t len, struct err *err);
