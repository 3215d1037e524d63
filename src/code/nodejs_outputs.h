/* nodejs_outputs.h - code that Node.js runs, answered as a kernel would: for those who offer both. */
#pragma once
#include <stdint.h>

#include "kernel/outputs.h"

struct call;
struct err;
struct nodejs_job;

struct nodejs_outputs {
	const char *status; /* "ok", "error", "timeout" */
	const char *session_id, *notice;
	int64_t exit_code;
	struct outputs *outputs; /* freed with the call */
};

/* Runs it to its end. To a caller who wants events all of them are sent, and nothing is left to do. */
int nodejs_outputs_run(struct call *call, const struct nodejs_job *given,
		       struct nodejs_outputs *ret, struct err *err);
