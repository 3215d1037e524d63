/* har.h - the requests of a tab as an HTTP archive (HAR 1.2).
 *
 * Bodies of responses are in it where the page still has them, up to HAR_BODY_MAX each and HAR_BODIES_MAX
 * together; where one is left out, the content's comment says why. */
#pragma once
#include "base/wait.h"

struct arena;
struct err;
struct jw;
struct tab;

enum { HAR_BODY_MAX = 1 << 20, HAR_BODIES_MAX = 16 << 20, HAR_MAX = 128 << 20 };

/* Writes it; how many requests it has. */
size_t har_write(struct tab *tab, const char *creator_version, struct arena *arena, struct jw *jw,
		 const struct wait *wait);
