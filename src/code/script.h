/* script.h - a program run once, by an interpreter in a process of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/desc.h"
#include "kernel/outputs.h"

struct call;
struct err;

struct script_job {
	const char *language; /* "python" or "bash" */
	struct text code;
	const char *cwd; /* absolute; NULL or empty: the workspace */
	int64_t timeout; /* seconds; then all its processes are ended */
	bool events;     /* what it prints is sent as events, as it comes */
	bool value;      /* of Python: that of the last expression is an output too */
};

struct script_result {
	const char *status; /* "ok", "error", "timeout" */
	const char *notice; /* something else to know; NULL */
	int64_t exit_code;
	struct outputs *outputs; /* freed with the call */
};

int script_run(struct call *call, const struct script_job *job, struct script_result *ret,
	       struct err *err);

/* The path of the interpreter, in the arena; NULL with err. */
const char *script_interpreter(struct call *call, const char *language, struct err *err);
