/* shells.h - shell sessions, for the routes that run commands in them and those that show them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/sessions.h"

struct err;
struct server;
struct shell;
struct shell_command;

/* Of struct shell. */
extern struct sessions shell_sessions;

/* A session, to be released; NULL with err. */
struct shell *shells_find(const char *id, struct err *err);

/* Finds or makes a session (id NULL or empty: a new one), to be released. dir NULL: the workspace;
 * no_change_s 0: the usual. */
struct shell *shells_open(struct server *server, const char *id, const char *dir, bool logical,
			  int no_change_s, struct err *err);

void shells_release(struct shell **shell);
#define auto_shell __attribute__((cleanup(shells_release)))

/* Types all of it, waiting a while for a terminal that is full. */
int shells_type(struct shell *shell, const char *data, size_t len, struct err *err);

/* What is said of a command (NULL: none was run), with the shell's lock. */
const char *shells_status(const struct shell_command *command);
int64_t shells_exit_code(const struct shell_command *command); /* or INT_ABSENT */
