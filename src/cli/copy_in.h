/* copy_in.h - an archive from a sandbox onto this machine. The archive is hostile: nothing is written outside of where
 * it is to go, and no symbolic link is followed there. */
#pragma once
#include <stdbool.h>

struct copy_notes;
struct err;
struct tar_in;

/* Writes the one file of the archive to `target`: beside it first, then with its name. */
int copy_in_file(struct tar_in *in, const char *target, struct err *err);

/* Puts what the archive has into the directory `target`, which is made where it is absent. What cannot be copied is noted,
 * and the others are. `contents`: the directory itself keeps its mode and time. */
int copy_in_tree(struct tar_in *in, const char *target, bool contents, struct copy_notes *notes,
		 struct err *err);

/* Whether a link at that depth below a directory stays inside it, whatever other such links there are: ".." stands at
 * its beginning alone, and does not lead above. */
bool copy_in_stays(const char *link, int depth);

/* Takes a name of an archive apart: without "./" at its beginning and "/" at its end. NULL for one that has "..", "." or
 * nothing between slashes, or is absolute; "" for the directory itself. `depth` is the number of its slashes. */
char *copy_in_name(char *name, int *ret_depth);
