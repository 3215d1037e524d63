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

/* Variables (struct pair items, which must stay) that every environment has from now on, in the place of
 * the server's own. To be called before the first one is made. */
void environment_give(const struct list *pairs);
