/* nearest.h - which known word a mistyped one was meant to be. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { NEAREST_FAR = 1000 };

/* How many letters have to be put in, left out, changed, or swapped with the next one to make one word
 * of the other. Of long words only the first 40 letters count. */
size_t nearest_distance(const char *a, const char *b);

/* Whether `known` is near enough to be what was meant, and nearer than *best, at first NEAREST_FAR:
 * then *best is its distance. */
bool nearest_better(const char *word, const char *known, size_t *best);
