/* child.h - programs started by the server: each in its own process group, none outlives it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

/* How a program ended. */
struct child_end {
	int code;   /* exit status; -1 when a signal ended it */
	int signal; /* or 0 */
};

/* Runs argv to its end and collects its standard output (cut at out->cap; standard error is
 * dropped). env is NULL for the server's own. Past the deadline the whole group is killed: ERR_SLOW.
 * A program that is not there: ENOENT. Nothing waits for ever, even if its children keep the pipe. */
int child_run(char *const argv[], char *const env[], int64_t until_ms, struct buf *out,
	      struct child_end *ret, struct err *err);

/* Kills every group that is still running, and refuses new ones: for the end of the server. */
void child_end_all(void);
