/* node.h - JavaScript and TypeScript run by Node.js: a program in a process of its own, or code in a
 * process that keeps its state. Handlers use code/nodejs_execute.h, which has the sessions. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/desc.h"

struct arena;
struct err;
struct node;
struct user;

enum {
	NODE_OUTPUT_MAX = 4 << 20, /* bytes of output that one execution gives; more is left out */
	NODE_CODE_MAX = 16 << 20,
};

enum node_stream { NODE_STDOUT, NODE_STDERR };

/* What to run. */
struct node_request {
	struct text code;
	bool typescript;
	bool value; /* of a program: give that of its last expression, as a session does */
	int64_t timeout_ms;
	const char *cwd; /* absolute; NULL: a fresh directory, or in a session: where it is */
	/* Of a program only: */
	struct text input; /* standard input */
	struct list files; /* of struct pair: relative path and content, put where it runs */
};

enum node_output_type { NODE_STREAM, NODE_VALUE, NODE_ERROR };

/* One of the things that came of it, in their order. */
struct node_output {
	enum node_output_type type;
	enum node_stream stream; /* of a NODE_STREAM */
	struct text text;        /* its text; or a NODE_VALUE's, as console.log() would show it */
	json_t *json;            /* a value's JSON, where it has one; or NULL */
	const char *name, *message;
	struct list trace; /* of const char *: the lines of an error's stack */
};

enum node_status { NODE_OK, NODE_FAILED, NODE_TIMEOUT };
extern const char *const node_status_names[]; /* "ok", "error", "timeout" */

/* How it went. All of it lives in the arena. */
struct node_result {
	enum node_status status;
	int exit_code; /* the process's, 128 and a signal's number; of code that kept it alive 0 or 1 */
	struct text out, err;
	struct list outputs; /* of struct node_output */
	int64_t count;       /* which execution of its session this was, from 1; 0: of none */
	bool unborn;         /* the session's process had ended before it took the code */
	const char *cwd;     /* where the session is now; or NULL */
	const char *notice;  /* what else the caller should know: that the state is lost; or NULL */
};

/* Who waits for it. */
struct node_caller {
	/* Whose leaving ends a program; but not what runs in a session, whose state is worth more. */
	int client_fd, stop_fd;
	/* Gets each piece of output as it comes, never half a character; and nothing, where there is
	 * none for long. -1: the caller has left. NULL: nobody wants it. */
	int (*write)(void *arg, enum node_stream stream, const char *data, size_t len,
		     struct err *err);
	void *arg;
};

/* Which Node.js, and as whom. */
struct node_where {
	const char *program; /* the path of node */
	const char *home;    /* the product's: share/node/ below it */
	const struct user *user;
	bool transforms; /* it knows --experimental-transform-types */
};

/* Runs a program to its end, or to its time-out: then all its processes are ended. */
int node_run(const struct node_where *where, const struct node_request *request,
	     const struct node_caller *caller, struct arena *arena, struct node_result *ret,
	     struct err *err);

/* A process that keeps its state, in a directory. NULL with err. */
struct node *node_open(const struct node_where *where, const char *id, const char *cwd,
		       struct err *err);
void node_end(struct node *node); /* ends its processes; what waits in node_execute() returns */
struct node *node_ref(struct node *node);
void node_unref(struct node *node); /* NULL is fine; ends nothing */

bool node_alive(struct node *node);

/* Whether it, which is alive, is the first to end where the memory of a box runs out. */
void node_set_expendable(struct node *node, bool expendable);

/* Runs code in it; one at a time: the caller sees to that. When this ends the process, by the code's
 * own doing or because it could not be interrupted, ret->notice says so. */
int node_execute(struct node *node, const struct node_request *request,
		 const struct node_caller *caller, struct arena *arena, struct node_result *ret,
		 struct err *err);
