/* environment.h - the environment of what runs in the sandbox. */
#pragma once
#include <stddef.h>

struct arena;
struct list;
struct pair;

struct user;

/* The server's own environment without its secrets, with the user's HOME, USER and so on, and with
 * the product's Python and Node.js (below home) first on the PATH. extra (struct pair items) wins
 * over everything; their names differ, but for the last one's, which wins over the others. Ends
 * with NULL; lives in the arena. */
char **environment_make(struct arena *arena, const struct user *user, const char *home,
			const struct list *extra);

/* Variables (struct pair items, which must stay) that every environment has from now on, in the place of
 * the server's own; first() is called before the first one has them (NULL: nobody is told). To be called
 * before that one is made. */
void environment_give(const struct list *pairs, void (*first)(void));

/* From now on every environment names that proxy, "http://host:port", in the place of the server's own; but not
 * for this machine. NULL: it has the server's own again. A constant. */
void environment_use_proxy(const char *url);

/* What it names it by, for programs that have an environment already: at most ENVIRONMENT_PROXY, and how many that are. */
enum { ENVIRONMENT_PROXY = 6 };
size_t environment_proxy(struct pair *ret);
