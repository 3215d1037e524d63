/* observe_dir.h - where observations and reports are: below the sandbox user's home, and handled with its
 * rights. Programs of the sandbox may put anything there: links are not followed, and nothing but regular
 * files is opened. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct arena;
struct err;
struct server;

/* From here to observe_dir_leave() this thread has the user's rights. sub: "sessions" or "reports". Its
 * directory, opened; made if it is missing. -1 with err, also left then. */
struct observe_dir;
struct observe_dir *observe_dir_enter(const struct server *server, const char *sub,
				      struct err *err);
void observe_dir_leave(struct observe_dir *dir); /* NULL is fine */
int observe_dir_fd(const struct observe_dir *dir);
const char *observe_dir_path(const struct observe_dir *dir);

/* Opens a regular file, or makes it (0600). -1 with errno. */
int observe_open(int dir, const char *name, int flags);

/* "PREFIX-20260131T120000123456Z-1a2b3c", which sorts by when it was made; and whether a text could be one. */
void observe_id(const char *prefix, char *to, size_t room);
bool observe_is_id(const char *prefix, const char *text);
