/* shutdown.h - boxes run their shutdown hooks before they are ended. */
#pragma once
#include <stddef.h>

struct box;
struct host;

enum {
	PART_MS = 20000
}; /* for those of all boxes, where a host ends with them: host->part_by_ms */

/* Has the servers of running boxes run their hooks, all at once, and waits until they have: 10 s at most,
 * and 2 s for one that does not respond. None runs them twice. */
void shutdown_hooks(const struct host *host, struct box *const *boxes, size_t count);
