/* shell.h - a real interactive shell on a terminal, that commands are run in one after another.
 *
 * A command is a file that the shell sources; the line that does so is typed. The wrapper around it
 * reports the exit code through a FIFO, by path, with a nonce: no output can be taken for it, and a
 * command may close or redirect what it likes. Where its output begins and ends in the stream of the
 * terminal is told by escape sequences with the same nonce, which are taken out again. A command
 * that is interrupted (Ctrl+C) skips the wrapper's end; PROMPT_COMMAND then reports instead. The end
 * of the shell itself is seen by its pidfd; the next command starts a new one.
 *
 * Everything but shell_init(), shell_done() and shell_end() needs shell_lock(). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/wait.h"
#include "proc/output.h"

struct err;
struct journal_run;
struct screen;
struct shell;
struct user;

enum shell_status {
	SHELL_QUEUED,
	SHELL_RUNNING,
	SHELL_COMPLETED,
	SHELL_HARD_TIMEOUT,
	SHELL_TERMINATED
};

/* One command of a shell. */
struct shell_command {
	struct shell_command *newer;
	char *text, *dir,
		*prompt; /* dir: where to go first, or NULL; prompt: what stood before it */
	bool logical;    /* keep the symbolic links of dir */
	enum shell_status status;
	int exit_code;
	bool shell_ended;   /* its end was the shell's */
	bool fresh;         /* a new shell was started for it, because the one before had ended */
	struct output raw;  /* what the terminal showed, escape sequences and all */
	int64_t hard_ms;    /* how long it may run; INT64_MAX: for ever */
	int64_t changed_ms; /* when it last printed something */
	struct journal_run *run; /* while it runs */
	int refs;
	bool forgotten;
};

struct shell_settings {
	const char *cwd, *home; /* where it starts; the product's home */
	bool logical;
	const struct user *as;
	int no_change_s;
	size_t history; /* how many commands it remembers */
};

/* Of shells.c, whose sessions shells are: for a new one, whose shell starts with its first command or
 * viewer; and for one without references. */
void shell_init(struct shell *shell, const struct shell_settings *settings);
void shell_done(struct shell *shell);

/* Ends all processes of a session that was closed. Takes the lock itself. */
void shell_end(struct shell *shell);

void shell_lock(struct shell *shell);
void shell_unlock(struct shell *shell);

/* Waits, without the lock meanwhile, until something of it changes: see wait_change(). Who waits for
 * more than one thing joins and leaves instead. */
enum wake shell_wait(struct shell *shell, const struct wait *wait, const struct pollfd *also);
void shell_join(struct shell *shell, struct waiter *waiter);
void shell_leave(struct shell *shell, const struct waiter *waiter);

/* What does not change, or is only looked at. */
const char *shell_id(const struct shell *shell);
const struct timespec *shell_created(const struct shell *shell);
const struct timespec *shell_used(const struct shell *shell);
void shell_touch(struct shell *shell);
bool shell_ended(const struct shell *shell);   /* its session is closed */
bool shell_running(const struct shell *shell); /* there is a shell process */
bool shell_ready(const struct shell *shell);   /* the same, and it reads what is typed */
int *shell_no_change_s(struct shell *shell);   /* the session's silence limit */
void shell_cwd(struct shell *shell, char *to, size_t room);

/* Commands, the oldest first. The running one, else NULL; the latest, else NULL. */
struct shell_command *shell_first(const struct shell *shell);
struct shell_command *shell_current(const struct shell *shell);
struct shell_command *shell_latest(const struct shell *shell);

/* Runs a command after those that wait already. The caller gets a reference to it. */
struct shell_command *shell_run(struct shell *shell, const char *text, const char *dir,
				bool logical, int64_t hard_ms, struct err *err);
void shell_command_unref(struct shell_command *command);

/* Stops the command that is running: interrupts it, then kills it, then its shell. False when none
 * is running. */
bool shell_stop(struct shell *shell);

/* Starts the shell if there is none: for a viewer. */
int shell_start(struct shell *shell, struct err *err);

/* Types as much as the terminal takes at once: how much; -1 when there is no shell. For the rest, a
 * descriptor to be polled for POLLOUT, and closed by the caller; -1: none, a waiter will be woken. */
ssize_t shell_type(struct shell *shell, const char *data, size_t len, struct err *err);
int shell_input_fd(const struct shell *shell);
void shell_size(const struct shell *shell, int *ret_cols, int *ret_rows);
/* Changes with every resize. */
unsigned shell_size_version(const struct shell *shell);
int shell_exit_code(const struct shell *shell); /* of the shell that ended last */

/* The newest part of what the terminal showed: bytes [start, start + len) of its stream. */
struct shell_tail {
	const char *data;
	size_t len;
	int64_t start;
};
struct shell_tail shell_tail(const struct shell *shell);

/* The terminal as it looks now, brought up to date: as far as *ret_at in its stream. Called without the
 * shell's lock, which it takes now and then; nobody else has the screen before shell_screen_done(). */
struct screen *shell_screen(struct shell *shell, int64_t *ret_at);
void shell_screen_done(struct shell *shell);

/* Without the lock, too. Returns what shell_size_version() was then. */
unsigned shell_resize(struct shell *shell, int cols, int rows);
