/* history.h - what happened to boxes, as their host saw it: kinds of events, each with its data.
 *
 * What happens inside a box is in its own journal (journal/journal.h). All that reaches this history from
 * there are the names and addresses that a box without a network tries to reach: these and nothing else, few
 * at a time, and a quarter of it at most (boxes_event()). */
#pragma once
#include <stdint.h>

#include "base/desc.h"

struct box;
struct host;

/* Each kind: its name in C and in JSON, its data, and what it says. */
/* clang-format off */
#define HISTORY_KINDS(ROW)                                                                          \
	ROW(CREATED, "created", template, "It was made.")                                           \
	ROW(STARTED, "started", nothing, "Its processes were started.")                             \
	ROW(EXEC, "exec", exec, "It was sent a request that runs something.")                       \
	ROW(DENIED, "denied", denied,                                                               \
	    "It was not allowed to reach something, or somebody had no right to reach it.")         \
	ROW(OOM, "oom", oom, "Processes of it were ended for lack of memory.")                      \
	ROW(PAUSED, "paused", why, "It was paused.")                                                \
	ROW(RESUMED, "resumed", nothing, "It was resumed.")                                         \
	ROW(STOPPED, "stopped", nothing, "It was stopped; its files stay.")                         \
	ROW(EXITED, "exited", exit, "Its processes ended on their own.")                            \
	ROW(UNMOUNTED, "unmounted", mount, "It was started without one of its mounts.")             \
	ROW(RECONNECTED, "reconnected", why, "Its network was repaired.")                           \
	ROW(FORKED, "forked", fork, "Another was made from its files.")                             \
	ROW(SNAPSHOT, "snapshot", template, "A template was made from its files.")                  \
	ROW(DELETED, "deleted", why, "It was deleted.")
/* clang-format on */

enum history_kind {
#define HISTORY_ENUM(id, name, of, help) HISTORY_##id,
	HISTORY_KINDS(HISTORY_ENUM)
#undef HISTORY_ENUM
};
extern const char *const history_names[]; /* by kind; ends with NULL */
extern const struct schema history_data_schema;
const struct schema *history_schema(enum history_kind kind); /* of its data */

/* The data of CREATED, SNAPSHOT (`template`), PAUSED, RECONNECTED, DELETED (`why`) and
 * FORKED (`to`). */
struct history_text {
	const char *value;
};
struct history_exec {
	const char *path, *command; /* command: NULL if it is not known */
};
struct history_oom {
	int64_t kills;
};
struct history_exit {
	int64_t exit_code, signal; /* INT_ABSENT: not this one */
};
struct history_mount {
	const char *target, *why;
};
struct history_denied {
	double time; /* seconds since 1970; NAN, like NULL and INT_ABSENT below: left out */
	const char *by, *host;
	int64_t port;
	const char *reason;
	int64_t times;
};

/* Adds an event to the history of a box, in memory and, a little later, on disk. data: as the kind has
 * it, NULL for those without. */
void history_add(struct host *host, struct box *box, enum history_kind kind, const void *data);
