/* disk.h - where a box writes, and how much it can.
 *
 * DIR/rw without a limit, or with one where the file system counts by project (prjquota) or, on btrfs,
 * by subvolume, which DIR/rw then is. Elsewhere a limit is that of DIR/disk, an ext4 image whose space
 * is taken at once; a few are kept ready. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;
struct live_copy_users;

enum disk_means { DISK_NONE, DISK_PROJECT, DISK_SUBVOLUME, DISK_IMAGE };

/* By which means a limit can be kept below a directory. */
enum disk_means disk_probe(const char *dir);

/* The box's tree, attached nowhere, made when it is not there yet: its mount ends with its last
 * user. `state` has the ready images; `project` is the box's own number. */
int disk_open(const char *dir, const char *state, int64_t limit, uint32_t project, struct err *err);

/* Makes another image for the next box of that size; nothing to do where none is used. */
void disk_restock(const char *state, int64_t limit);

/* Bytes that a box has written. */
int64_t disk_used(const char *dir);

/* Removes what is quicker removed as a whole; the rest of DIR is files. */
void disk_remove(const char *dir);

/* Copies all of it. users: see live_copy.h. */
int disk_copy(const char *from_dir, const char *to_dir, const struct live_copy_users *users,
	      struct err *err);
