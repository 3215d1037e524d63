/* evaluate.h - JavaScript of the caller's, in the page's own world, as in its console. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/wait.h"

struct arena;
struct err;
struct tab;

enum { EVALUATE_MAX = 4 << 20, THROWN_MAX = 4000 };

/* The value of an expression, of statements (that of the last one), or of a function, which is called;
 * promises are awaited. A new reference of plain data: what JSON cannot say is null, or text.
 * NULL with err: the page threw (ERR_CONFLICT; *ret_thrown, in the arena, has it with its stack), the document
 * went away, or the time was over, and then what runs is ended. */
json_t *evaluate(struct tab *tab, const char *expression, struct arena *arena,
		 const char **ret_thrown, const struct wait *wait, struct err *err);

/* The same, again and again until it is true as JavaScript has it, also over changes of the document: every
 * polling_ms, or 0 for every frame that is painted. */
json_t *evaluate_until(struct tab *tab, const char *expression, double polling_ms,
		       struct arena *arena, const char **ret_thrown, const struct wait *wait,
		       struct err *err);
