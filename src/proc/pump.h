/* pump.h - one thread that drains the output of all children and notices their ends.
 *
 * It starts with the first source, at the latest. A source belongs to it from pump_add() to its done(). */
#pragma once
#include <stdbool.h>

struct err;

struct source {
	int fd;
	bool keep; /* fd is closed by its owner, after done(); else the pump closes it */
	/* Called by the pump while there is input: never blocks, takes at most 64 KiB. False when the
	 * source has nothing more to give. */
	bool (*ready)(struct source *source);
	/* The last call: the pump has forgotten the source. */
	void (*done)(struct source *source);
	/* The pump's own. */
	struct source *previous, *next, *next_dropped;
	bool dropped;
};

/* Starts it, with the rights that this thread has now. A thread that adds the first source may look at
 * files as the user just then, and the pump would do so for good. */
int pump_start(struct err *err);

int pump_add(struct source *source, struct err *err);

/* Asks the pump to forget a source that may never end by itself; done() follows. From any thread,
 * as long as done() has not been called. */
void pump_drop(struct source *source);
