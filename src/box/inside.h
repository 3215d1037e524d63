/* inside.h - the first process of a box: it builds the box around itself and becomes its init. */
#pragma once
#include <stdint.h>

#include "box/group.h"
#include "box/template.h"

struct box_spec;

/* Where its init has the box's log, for a host that comes later. */
enum { INSIDE_LOG = 5 };

/* What its maker hands to it once its ids are mapped: descriptors, which the two share. */
struct inside {
	struct {
		char at[64];
		int layers[TEMPLATE_LAYERS], count;
	} places[TEMPLATE_PLACES];
	int place_count;
	int writable; /* the box's own directory: an upper and a work directory for each place */
	int dev, product; /* trees */
	int mounts[16];   /* trees of the spec's mounts */
	int status;       /* file that the exit status is written to */
	int hold, hides;  /* on the template and on what hides parts of it, or -1 */
	struct cgroup group;
};

/* The program's own `serve` command: what the second process of a box goes on as. */
typedef int inside_serve(int argc, char **argv);

/* Waits for the struct on ends[1], does everything, and says there what failed, as a struct err; says
 * nothing and closes it when the box's server runs. Ends when its maker, a pidfd, does so before. What
 * the spec says is wiped from the memory of each process that does not need it. */
_Noreturn void inside_run(const struct box_spec *spec, inside_serve *run, const int ends[2],
			  int maker);
