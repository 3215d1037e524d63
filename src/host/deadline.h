/* deadline.h - when something is to end: by a clock that nobody sets and that goes on while the machine
 * sleeps, not by the wall clock, a step of which would end all boxes at once or none. On disk both are
 * kept, because that clock begins anew with the machine. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct deadline_now {
	int64_t wall_ms; /* CLOCK_REALTIME */
	int64_t boot_ms; /* CLOCK_BOOTTIME */
	const char *boot_id;
};
struct deadline_now deadline_now(void);

/* A deadline is of CLOCK_BOOTTIME; 0: never. */
int64_t deadline_after(int64_t ms);      /* so long from now; 0 or less: never */
int64_t deadline_wall(int64_t deadline); /* by today's wall clock, to the second; 0 for never */

/* What is to be stored of one, and the one that it was, as far as can be known: without a restart of the
 * machine exactly; with one by the wall clock, but never more than there was left. Pure. */
json_t *deadline_note(int64_t deadline, const struct deadline_now *now);
int64_t deadline_read(const json_t *note, const struct deadline_now *now);
