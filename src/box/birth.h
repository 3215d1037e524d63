/* birth.h - making one box, in a process that makes boxes. */
#pragma once
#include "box/inside.h"

struct box_proc;
struct box_spec;
struct err;

/* Makes the box and returns when its server is about to listen. On failure nothing of it is left but
 * its directory. */
int birth_give(const struct box_spec *spec, const char *state, inside_serve *serve,
	       struct box_proc *ret, struct err *err);
