/* files.h - whole trees of files, whose names and depth others chose. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct err;

/* Whether an entry, "path below the first", is to be copied. */
typedef bool files_keep(const char *path, const struct stat *st);

/* Copies what is in a directory into another, with owners, modes, times, links, attributes and the
 * marks of overlays. Where ids cannot be mapped, the copy's owners differ from the
 * others as those of the two directories do.
 * keep: NULL for all. Sockets and devices are left out. */
int files_copy(const char *from, const char *to, files_keep *keep, struct err *err);

/* The same of files that are in use, in passes: files_copy_moving() as often as that is worth it, then
 * files_copy_rest() while nothing changes them. Only then the copy is that of one moment.
 * The first pass copies everything. Later ones add what is missing, remove what is gone, and copy again
 * what has changed `since`: a moment before the previous pass at which nothing was in the middle of a change,
 * by CLOCK_REALTIME_COARSE; 0 if that clock was set meanwhile. */
struct files_copy;
struct files_copy *files_copy_new(const char *from, const char *to, struct err *err);
void files_copy_keep(struct files_copy *copy, files_keep *keep);
void files_copy_free(struct files_copy *copy); /* NULL is fine */
/* Returns about how many bytes it wrote, or -1. It ends early when all passes have written twice what there
 * was at first, so that nobody can keep it busy, and does nothing on file systems on which changes cannot be
 * seen (others than ext4, XFS and btrfs). */
int64_t files_copy_moving(struct files_copy *copy, const struct timespec *since, struct err *err);
int files_copy_rest(struct files_copy *copy, const struct timespec *since, struct err *err);

/* Copies one file to a new one, with its holes, whose space is taken all the same. */
int files_copy_one(const char *from, const char *to, struct err *err);

/* The disk space that a tree takes, or a file. */
int64_t files_size(const char *path);

/* Removes a tree, however deep. Fine when it is not there. */
int files_remove(const char *path, struct err *err);
int files_remove_at(int dir, const char *name, struct err *err); /* at most 200 deep */
