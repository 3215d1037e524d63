/* place.h - where a path leads to: through its symbolic links to a file, or to a name that is free.
 * While it is held, no other thread of the server changes what is there. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct err;
struct place_lock;

struct place {
	char path[PATH_MAX]; /* no symbolic link itself; a directory on the way may be one */
	bool exists;
	bool exact;     /* the path is a name of the file, which may be replaced under it */
	struct stat st; /* where it exists */
	struct place_lock *lock;
};

/* Finds and holds the place. -1 with err: ELOOP and the like; that nothing is there is no error. */
int place_hold(const char *path, struct place *ret, struct err *err);

/* Gives it up; fine for one that was never held. */
void place_release(struct place *place);

#define auto_release __attribute__((cleanup(place_release)))
