/* subvolume.h - a directory of btrfs that is counted, and limited, by itself. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Whether there can be such below a directory: it is btrfs, and its operator has turned quotas on. */
bool subvolume_possible(int dir);

/* Makes one, empty, root's, 0755. -1 with EEXIST in errno if something is there. */
int subvolume_make(int dir, const char *name);

/* Removes one with all that is in it. -1 if it is none, or not there. */
int subvolume_remove(int dir, const char *name);

/* All that it may hold, files' names and the like included. -1: it is none. */
int subvolume_limit(int fd, int64_t limit, struct err *err);

/* What it holds, as of the last commit of the file system; -1: it is none. */
int64_t subvolume_used(int fd);
