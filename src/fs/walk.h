/* walk.h - everything below a directory, whatever its depth, in no particular order.
 *
 * What cannot be read is passed over; so are, unless the walk begins in one or is to go everywhere, the
 * file systems below that are no files (/proc, /sys). */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

struct walk_entry {
	const char *path, *name; /* relative to where the walk began; its last part */
	int dir_fd;              /* of the directory it is in */
	unsigned char type; /* DT_REG, DT_DIR, DT_LNK, …; never DT_UNKNOWN, unless it has gone */
	size_t depth;       /* 1 for what is in the directory itself */
};

enum walk_next { WALK_ON, WALK_INTO /* this directory, or this link to one */, WALK_STOP };

/* Calls fn for each entry. -1 when the directory itself cannot be read. */
int walk_tree(const char *root, bool everywhere,
	      enum walk_next (*fn)(const struct walk_entry *entry, void *arg), void *arg,
	      struct err *err);

/* The mount points below a directory that a walk from there passes over, each relative to it and ended
 * by NUL, one after the other, with an empty one at the end. */
struct buf;
void walk_passed_over(const char *root, struct buf *to);
