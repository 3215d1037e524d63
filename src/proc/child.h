/* child.h - a program run to its end for what it prints; the end of the server is its end too. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/wait.h"
#include "proc/program.h"

struct err;
struct user;

/* What to run, and how. */
struct child_spec {
	char *const *argv;       /* the first is the program's path */
	char *const *env;        /* NULL: the server's own */
	const char *dir;         /* to start in; NULL: the server's own */
	const struct user *user; /* whom to become; NULL: nobody else */
	struct wait wait;        /* until its end; else the whole group is killed */
	int extra[2], extras;    /* to be its descriptors 3 and 4: how many there are */
	/* Gets the output as it comes, instead of a buffer. False: that is enough, and the program is
	 * ended, which is no failure. */
	bool (*take)(void *arg, const char *data, size_t len);
	void *arg;
};

/* Runs a program to its end and collects its standard output (cut at out->cap; standard error is
 * dropped); what is left of its group then is killed. One that is not waited for any more: as
 * wake_err(). A program that cannot be started: its errno. out may be NULL with take. Nothing waits for
 * ever, even if its children keep the pipe. Never call it in the pump's thread. */
int child_run(const struct child_spec *spec, struct buf *out, struct program_status *ret,
	      struct err *err);

/* Kills every program that is still running, and refuses new ones: for the end of the server. */
void child_end_all(void);
