/* environment.h - the environment of what runs in the sandbox. */
#pragma once
#include <stddef.h>

struct arena;
struct list;
struct user;

/* The server's own environment without its secrets, with the user's HOME, USER and so on, and with
 * the product's Python and Node.js (below home) first on the PATH. extra (struct pair items) wins
 * over everything; their names differ, but for the last one's, which wins over the others. Ends
 * with NULL; lives in the arena. */
char **environment_make(struct arena *arena, const struct user *user, const char *home,
			const struct list *extra);
