/* exec_stream.h - a command in a sandbox, whose input and output pass through descriptors of ours. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct endpoint;
struct err;
struct exec_start;

struct exec_io {
	int in, out, errors; /* in -1: none; errors -1: they go to `said` */
	struct buf *said;    /* also why it was killed; NULL: that goes to standard error */
	bool ends_here;      /* a signal ends us; else the command gets it */
	void (*moved)(void *arg,
		      size_t bytes); /* of the input; where there is none, of the output */
	void *arg;
};

/* Runs it until it has ended: its exit status, or -1. SIGINT, SIGTERM, SIGHUP and SIGQUIT stay blocked, and SIGPIPE
 * ignored. */
int exec_stream(const struct endpoint *at, const struct exec_start *start, const struct exec_io *io,
		struct err *err);
