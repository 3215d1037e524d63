/* birth.h - making one box, in a process that makes boxes. */
#pragma once
#include "box/inside.h"

struct box_proc;
struct box_spec;
struct err;

/* What it leaves in the box's directory: the path of what the box's files lie over, and how it ended. */
#define BIRTH_BASE "base"
#define BIRTH_EXIT "exit"
/* Releases up to 0.1.0 had one file for both, a line each. */
#define BIRTH_NOTE "note"

/* Makes the box and returns when its server is about to listen. On failure nothing of it is left but
 * its directory. */
int birth_give(const struct box_spec *spec, const char *state, inside_serve *serve,
	       struct box_proc *ret, struct err *err);
