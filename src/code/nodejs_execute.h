/* nodejs_execute.h - running JavaScript and TypeScript for a caller: what /v1/nodejs and /v1/code share. */
#pragma once
#include <stdbool.h>

#include "node/node.h"

struct call;
struct err;

/* What to run, and where. */
struct nodejs_job {
	struct node_request request;
	const char *version;    /* "node22" or "22"; NULL or empty: the one found first */
	bool stateful;          /* in a session, made on first use */
	const char *session_id; /* any; NULL or empty: a new one */
	/* Gets each piece of output as it comes (never half a character), in the caller's thread; -1
	 * when nobody listens any more: what runs is then ended. NULL: none. */
	int (*write)(void *arg, enum node_stream stream, const char *data, size_t len,
		     struct err *err);
	void *arg;
};

/* Runs it to its end. What the code does wrong is in *ret, which lives in the call's arena; -1 is for
 * what the caller does wrong (a version that is not there, a bad directory), or that Node.js is not
 * installed. *ret_session is the session's id, or NULL when there is none. */
int nodejs_execute(struct call *call, const struct nodejs_job *job, struct node_result *ret,
		   const char **ret_session, struct err *err);
