/* observation.h - observing a sandbox for a while: samples that are written as they are taken, and in
 * guardrail mode rules that are looked at. One at a time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/desc.h"

struct arena;
struct err;
struct report;
struct server;
struct wait;

enum { OBSERVATION_KEY_MAX = 128, OBSERVATION_SECONDS_MAX = 7 * 86400 };
#define OBSERVATION_INTERVAL_MIN 0.1
#define OBSERVATION_INTERVAL_MAX 3600

void observation_setup(struct server *server); /* before anything else */

extern const char *const observation_modes[]; /* off, guardrail, capture */
const char *observation_mode(void);           /* that of now */

struct observation_request {
	const char *mode, *idempotency_key;
	int64_t duration_seconds;
	double interval_seconds;
	enum tri include_processes;
	bool include_disk;
};
struct observation_started {
	const char *session_id, *mode, *started_at, *ends_at, *runtime_dir;
	double interval_seconds;
};

/* ERR_CONFLICT while another one runs. A key that was given before: what was answered then. */
int observation_start(const struct observation_request *request, const struct wait *wait,
		      struct arena *arena, struct observation_started *ret, struct err *err);

struct observation_stopped {
	const char *session_id;
	bool stopped, report_ready;
};
/* The one that runs, if its id is this (NULL: any). One that has ended already is not stopped again. */
int observation_stop(const char *session_id, const struct wait *wait, struct arena *arena,
		     struct observation_stopped *ret, struct err *err);

struct observation_status {
	const char *mode, *session_id, *started_at, *ends_at, *last_sample_at, *runtime_dir;
	bool running;
	double interval_seconds;
	int64_t report_count;
};
void observation_status(struct arena *arena, struct observation_status *ret);

/* Makes a report: of the one with this id, or (NULL) that runs or was the last; of none where there was
 * none. A key as above. */
int observation_export(const char *session_id, const char *reason, const char *key,
		       const struct wait *wait, struct arena *arena, struct report *ret,
		       struct err *err);

/* At the end of the server: has it end, and waits for that. */
void observation_ask_end(void);
void observation_end(void);
