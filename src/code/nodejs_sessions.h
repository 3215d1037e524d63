/* nodejs_sessions.h - sessions of Node.js: each has a process, and one execution at a time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/desc.h"
#include "node/node.h"
#include "session/sessions.h"

struct arena;
struct call;
struct config;
struct err;
struct nodejs_session;
struct wait;

/* What a new one is like. */
struct nodejs_session_wish {
	const char *id;  /* any; NULL or empty: a new one */
	const char *cwd; /* absolute; NULL: the workspace */
	const char *program;
	int64_t idle_ms;
	const char *context;  /* the name of a context; NULL: it is none */
	const char *language; /* of a context */
	bool wanted; /* as such, and not only for what is run in it: it is kept as if it had a name */
};

/* Finds or makes one: auto_session releases it. */
struct nodejs_session *nodejs_session_open(const struct config *config,
					   const struct nodejs_session_wish *wish, bool *ret_made,
					   struct err *err);
struct nodejs_session *nodejs_session_find(const char *id, struct err *err);
int nodejs_session_close(const char *id, struct err *err);
extern struct sessions nodejs_sessions;

/* What does not change. */
const char *nodejs_session_id(const struct nodejs_session *session);
const char *nodejs_session_program(const struct nodejs_session *session);

/* Waits for it to be free, and takes it. */
int nodejs_session_take(struct nodejs_session *session, const struct wait *wait, struct err *err);
void nodejs_session_give_back(struct nodejs_session *session);

/* For who has taken it: has its process started; runs code. */
int nodejs_session_start(struct nodejs_session *session, const struct node_where *where,
			 struct err *err);
int nodejs_session_execute(struct nodejs_session *session, const struct node_where *where,
			   const struct node_request *what, const struct node_caller *caller,
			   struct arena *arena, struct node_result *ret, struct err *err);

/* Changes where its next code runs (NULL: nowhere else), and how long it may be idle (INT_ABSENT). */
void nodejs_session_change(struct nodejs_session *session, const char *cwd, int64_t idle_ms);

/* What is said of one. */
struct nodejs_session_info {
	const char *id, *cwd, *program, *context, *language;
	bool busy;
	double created, used; /* milliseconds since 1970 */
	int64_t idle_ms, age_seconds;
};
struct nodejs_session_info nodejs_session_describe(struct nodejs_session *session,
						   struct arena *arena);
/* Of all: of struct nodejs_session_info. Those that were idle for too long are ended first. */
struct list nodejs_session_list(struct arena *arena);
