/* elements.h - the elements of a page that a person could use, and their indexes: share/browser/elements.js. */
#pragma once
#include <stdint.h>

#include "base/wait.h"

struct err;
struct tab;

/* Whether an index means an element that is there, in which numbering; the elements are listed first if they
 * never were. -1 with err that says why it means none. */
int elements_known(struct tab *tab, int64_t index, int64_t *ret_numbering, const struct wait *wait,
		   struct err *err);

/* Draws a numbered frame around each of them, in all frames; or takes those away again. */
int elements_mark(struct tab *tab, const struct wait *wait, struct err *err);
void elements_unmark(struct tab *tab, const struct wait *wait);
