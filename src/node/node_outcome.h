/* node_outcome.h - what comes of running JavaScript, collected as it comes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "node/node.h"

struct outcome;

/* Lives in the arena. caller's write(), when there is one, gets the output. */
struct outcome *outcome_new(struct arena *arena, const struct node_caller *caller);

/* Adds a piece of output, as far as there is room. -1: the caller does not want it any more. */
int outcome_output(struct outcome *outcome, enum node_stream stream, const char *data, size_t len,
		   struct err *err);

/* Says that output was lost on the way. */
void outcome_lost(struct outcome *outcome, enum node_stream stream, int64_t bytes);

/* Adds what a process says: {"text", "json"} of a value, {"name", "message", "trace"} of an error. What
 * has another shape is ignored: any code can write to any descriptor. An error that nobody has printed
 * is added to the text of stderr. */
void outcome_value(struct outcome *outcome, const json_t *value);
void outcome_error(struct outcome *outcome, const json_t *error, bool printed);

/* Fills out, err and outputs; after it nothing is added. */
int outcome_finish(struct outcome *outcome, struct node_result *ret, struct err *err);
