/* files.h - whole trees of files, whose names and depth others chose. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

struct err;

/* Copies what is in a directory into another, with owners, modes, times, links, attributes and the
 * marks of overlays. `keep` says whether an entry is to be copied ("path below the first"); NULL:
 * all. Sockets and devices are left out. */
int files_copy(const char *from, const char *to,
	       bool (*keep)(const char *path, const struct stat *st), struct err *err);

/* Removes a tree, however deep. Fine when it is not there. */
int files_remove(const char *path, struct err *err);
