/* hook.h - commands that are run at a point in the sandbox's life, as the sandbox user. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct server;
struct wait;

struct hook {
	const char *name, *event; /* in the log and in events */
	const char *command;      /* a line of shell, or several */
	int64_t timeout_ms;
};

/* Runs them side by side in the workspace, each until its time is over or `wait` is; what is left of one
 * then is killed, wherever it has gone. What a hook leaves in the background when it ends in time goes on.
 * Its output goes to the log, its end to the log and the events. Returns how many have failed. */
size_t hook_run(const struct server *server, const struct hook *hooks, size_t count,
		const struct wait *wait);
