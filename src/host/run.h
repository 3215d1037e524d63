/* run.h - the processes of a box, and its network: they begin, and end. Whoever calls this holds the box's
 * turn. */
#pragma once
#include <jansson.h>

#include "box/box.h"

struct box;
struct err;
struct host;
struct network_spec;

extern const char *const run_services[]; /* that a box can be asked to have ready; ends with NULL */

enum box_network run_network(const json_t *spec); /* which one a box asks for */

/* root: of its template; NULL: the machine's own. ERR_GONE: see box_start(). */
int run_start(struct host *host, struct box *box, const char *root, struct err *err);
int run_stop(struct host *host, struct box *box, struct err *err);

/* Does this to its network: one of network.h. */
int run_connect(const struct host *host, const struct box *box,
		int (*how)(const struct network_spec *spec, struct err *err), struct err *err);
