/* temp.h - a file that gets its name only when it is whole.
 *
 * It has none while it is written, where the file system can do that (O_TMPFILE), so that nothing is
 * left of it however the server ends. To replace another file it needs one for the moment between two
 * system calls: the same for the same target each time, so that what a server left behind that was
 * killed in that moment goes with the next write. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct err;

/* How the name begins that it has then. */
#define TEMP_PREFIX ".aio-"

/* Whether a name is one of these, or what the kernel calls a file that has none: watchers report
 * neither. */
bool temp_is_name(const char *name);
bool temp_is_nameless(const char *name);

struct temp {
	int fd, dir;   /* -1: none */
	bool named;    /* it has had to be given a name at once */
	bool borrowed; /* fd is somebody else's */
	char name[40]; /* of its own */
};

/* Makes one in the directory of `path`. */
int temp_open(struct temp *temp, const char *path, struct err *err);

/* Takes a file without a name for one, instead: temp_put() says EXDEV when it is elsewhere. */
int temp_adopt(struct temp *temp, int fd, const char *path, struct err *err);

/* Gives it the name `path`, in the same directory: in place of what has that name, or -1 with EEXIST
 * where something has it. */
int temp_put(struct temp *temp, const char *path, bool replace, struct err *err);

/* Closes it, and removes it unless it was put. */
void temp_done(struct temp *temp);
#define auto_temp __attribute__((cleanup(temp_done)))
