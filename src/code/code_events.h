/* code_events.h - an execution as it happens: the events start, stdout, stderr, result, error and end. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct err;
struct schema;

extern const struct schema code_events_sends; /* of a route that does this */

int code_events_start(struct call *call, const char *language, const char *session_id,
		      struct err *err);

/* name: "stdout" or "stderr". No piece ends in the middle of a character. */
int code_events_text(struct call *call, const char *name, const char *data, size_t len,
		     struct err *err);

/* A message of a kernel: results, pictures, updates, errors, text; others are no event. */
int code_events_message(struct call *call, const char *type, const json_t *content,
			struct err *err);

int code_events_error(struct call *call, const char *name, const char *value,
		      const json_t *traceback, struct err *err);

/* How it ended. exit_code and count may be INT_ABSENT; notice and session_id NULL. */
struct code_events_end {
	const char *status, *session_id, *notice;
	int64_t exit_code, count;
};
int code_events_finish(struct call *call, const struct code_events_end *end, struct err *err);
