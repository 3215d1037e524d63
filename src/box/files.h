/* files.h - whole trees of files, whose names and depth others chose. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct err;

/* Copies what is in a directory into another, with owners, modes, times, links, attributes and the
 * marks of overlays. Where ids cannot be mapped, the copy's owners differ from the
 * others as those of the two directories do.
 * `keep` says whether an entry is to be copied ("path below the first"); NULL:
 * all. Sockets and devices are left out. */
int files_copy(const char *from, const char *to,
	       bool (*keep)(const char *path, const struct stat *st), struct err *err);

/* Copies one file to a new one, with its holes, whose space is taken all the same. */
int files_copy_one(const char *from, const char *to, struct err *err);

/* The disk space that a tree takes, or a file. */
int64_t files_size(const char *path);

/* Removes a tree, however deep. Fine when it is not there. */
int files_remove(const char *path, struct err *err);
