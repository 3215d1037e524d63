/* bash_sessions.h - sessions of bash: each remembers a directory, and its commands; several may run at
 * once. */
#pragma once
#include <stdint.h>

#include "base/desc.h"
#include "session/sessions.h"

struct arena;
struct bash_session;
struct call;
struct command;
struct config;
struct err;

/* Finds or makes one: auto_session releases it. */
struct bash_session *bash_session_open(const struct config *config, const char *id, const char *cwd,
				       struct err *err);
struct bash_session *bash_session_find(const char *id, struct err *err);
extern struct sessions bash_sessions;

/* What does not change. */
const char *bash_session_id(const struct bash_session *session);
const char *bash_session_marker(const struct bash_session *session);

/* Where its next command runs, in the arena: in dir from now on, unless that is NULL; and the script
 * that is sourced first, or NULL. */
int bash_session_place(struct bash_session *session, const char *dir, struct arena *arena,
		       const char **ret_cwd, const char **ret_snapshot, struct err *err);

/* Lists a command as its newest, and forgets ended ones beyond the `most` newest. Its id. */
const char *bash_session_remember(struct bash_session *session, const char *text,
				  struct command *command, int64_t most, struct arena *arena);

/* A command, with a reference; its id and text are in the arena. id NULL or empty: the newest that
 * runs, else the newest. */
struct command *bash_session_pick(struct bash_session *session, const char *id, struct arena *arena,
				  const char **ret_id, const char **ret_text, struct err *err);

/* Sends a signal to one, or with NULL or "" to all that run: to how many. */
int bash_session_signal(struct bash_session *session, const char *id, int number);

/* The routes that make, list and close them: what they take and answer. */
int bash_session_create(struct call *call, const void *in, struct err *err);
int bash_session_list(struct call *call, const void *in, struct err *err);
int bash_session_close(struct call *call, const void *in, struct err *err);
extern const struct schema bash_session_create_schema, bash_session_close_schema;
extern const struct field bash_session_data, bash_session_list_data;
