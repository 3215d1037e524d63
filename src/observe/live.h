/* live.h - a sandbox at this moment. */
#pragma once
#include "base/desc.h"
#include "observe/sample.h"

struct arena;
struct err;
struct server;
struct wait;

enum { LIVE_ROWS_MAX = 1000, LIVE_EVENTS = 20 };

struct live_event {
	const char *ts, *type, *message;
	json_t *data;
};
struct live {
	const char *captured_at, *mode;
	const struct sample_cgroup *cgroup;
	struct list disk, top_processes, recent_events;
};
extern const struct schema live_schema;

/* Takes a fifth of a second, for what is said of CPU. -1 with err: the wait was over. */
int live_take(const struct server *server, size_t rows, const struct wait *wait,
	      struct arena *arena, struct live *ret, struct err *err);
