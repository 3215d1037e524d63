#include "shell/shell.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "journal/journal.h"
#include "proc/pty.h"
#include "proc/tree.h"
#include "shell/shell_state.h"
#include "term/screen.h"

enum {
	QUEUE_MAX = 256, /* waiting */
	READY_MS = 2000,
	AHEAD_MAX = 4000, /* what a terminal takes at once */
	COLS = 120,
	ROWS = 40,
};

static void command_free(struct shell_command *command)
{
	output_done(&command->raw);
	free(command->text);
	free(command->dir);
	free(command->prompt);
	free(command->run);
	free(command);
}

void shell_command_unref(struct shell_command *command)
{
	if (command && --command->refs == 0 && command->forgotten)
		command_free(command);
}

static void forget(struct shell_command *command)
{
	command->forgotten = true;
	if (!command->refs)
		command_free(command);
}

void shell_done(struct shell *shell)
{
	for (struct shell_command *command = shell->first, *newer; command; command = newer) {
		newer = command->newer;
		forget(command);
	}
	buf_done(&shell->prompt);
	buf_done(&shell->fifo_line);
	buf_done(&shell->tail);
	buf_done(&shell->ahead);
	screen_free(shell->screen);
	free(shell->last_prompt);
	free(shell->program);
	free(shell->home);
	free(shell->cwd);
	pthread_mutex_destroy(&shell->screen_lock);
}

void shell_lock(struct shell *shell)
{
	pthread_mutex_lock(&shell->base.lock);
}

void shell_unlock(struct shell *shell)
{
	pthread_mutex_unlock(&shell->base.lock);
}

enum wake shell_wait(struct shell *shell, const struct wait *wait, const struct pollfd *also)
{
	return wait_change(wait, &shell->base.lock, &shell->waiters, also);
}

void shell_join(struct shell *shell, struct waiter *waiter)
{
	waiter_join(&shell->waiters, waiter);
}

void shell_leave(struct shell *shell, const struct waiter *waiter)
{
	waiter_leave(&shell->waiters, waiter);
}

const char *shell_id(const struct shell *shell)
{
	return shell->base.id;
}

const struct timespec *shell_created(const struct shell *shell)
{
	return &shell->base.created;
}

const struct timespec *shell_used(const struct shell *shell)
{
	return &shell->base.used;
}

void shell_touch(struct shell *shell)
{
	sessions_touch(&shell->base);
}

bool shell_ended(const struct shell *shell)
{
	return shell->base.closed;
}

bool shell_running(const struct shell *shell)
{
	return shell->machine.life == LIFE_ALIVE;
}

/* A shell whose start-up files undo our hook is believed to be ready after a while. */
bool shell_ready(const struct shell *shell)
{
	return shell_running(shell) &&
	       (shell->keys.prompted || clock_ms() - shell->started_ms >= READY_MS);
}

int *shell_no_change_s(struct shell *shell)
{
	return &shell->no_change_s;
}

int shell_exit_code(const struct shell *shell)
{
	return shell->exit_code;
}

void shell_cwd(struct shell *shell, char *to, size_t room)
{
	char link[40];
	ssize_t n = -1;
	if (shell_running(shell)) {
		snprintf(link, sizeof link, "/proc/%d/cwd", program_pid(shell->bash));
		n = readlink(link, to, room - 1);
	}
	if (n >= 0)
		to[n] = 0;
	else
		snprintf(to, room, "%s", shell->cwd);
}

struct shell_command *shell_first(const struct shell *shell)
{
	return shell->first;
}

struct shell_command *shell_current(const struct shell *shell)
{
	return shell->current;
}

struct shell_command *shell_latest(const struct shell *shell)
{
	return shell->last;
}

void shell_command_over(struct shell *shell, int code, bool shell_ended_too)
{
	static const char *const status_names[] = { [SHELL_COMPLETED] = "completed",
						    [SHELL_HARD_TIMEOUT] = "hard_timeout",
						    [SHELL_TERMINATED] = "terminated" };
	static const enum shell_status status[] = { [HALT_NONE] = SHELL_COMPLETED,
						    [HALT_STOPPED] = SHELL_TERMINATED,
						    [HALT_OVERDUE] = SHELL_HARD_TIMEOUT };
	struct shell_command *command = shell->current;
	command->exit_code = code;
	command->shell_ended = shell_ended_too;
	command->status = status[shell->machine.halt];
	journal_end(TAKE(command->run), status_names[command->status], code);
	shell->current = NULL;
	shell_keys_over(&shell->keys, clock_ms());
	shell_type_ahead(shell);
	waiter_wake(shell->waiters);
}

void shell_act(struct shell *shell, unsigned actions)
{
	struct err ignored;
	if (actions & ACTION_TYPE)
		(void)shell_type_line(shell, &ignored);
	if (actions & ACTION_CLEAR)
		shell_clear_line(shell);
	if (actions & ACTION_BEGUN) {
		shell_show_command(shell);
		shell_type_ahead(shell);
		shell->current->changed_ms = clock_ms();
	}
	if (actions & ACTION_BLANK)
		shell->prompt.len = shell->prompt_shown = 0;
	if (actions & ACTION_SIGNAL)
		shell_signal(shell);
	if (actions & ACTION_OVER) {
		shell_command_over(shell, shell->machine.code, false);
		shell_start_next(shell);
	}
}

void shell_feed(struct shell *shell, enum shell_event event)
{
	shell_act(shell, shell_machine_feed(&shell->machine, event, clock_ms()));
}

/* Starts the oldest command that waits, when none runs. */
void shell_start_next(struct shell *shell)
{
	while (!shell->current && shell->machine.life != LIFE_EXITED && !shell->base.closed) {
		struct shell_command *command = shell->first;
		struct err err;
		while (command && command->status != SHELL_QUEUED)
			command = command->newer;
		if (!command)
			return;
		if (!shell_is_ready(shell))
			return;
		shell->queued--;
		if (shell_launch(shell, command, &err) == 0)
			return;
		output_add(&command->raw, err.msg, strlen(err.msg));
		shell->current = command;
		shell->machine.halt = HALT_STOPPED;
		shell_command_over(shell, 126, false);
	}
}

static void trim(struct shell *shell)
{
	while (shell->remembered > shell->most_remembered && shell->first->status > SHELL_RUNNING) {
		struct shell_command *oldest = shell->first;
		shell->first = oldest->newer;
		shell->remembered--;
		forget(oldest);
	}
}

struct shell_command *shell_run(struct shell *shell, const char *text, const char *dir,
				bool logical, int64_t hard_ms, struct err *err)
{
	if (shell->base.closed) {
		err_set(err, ERR_CONFLICT, "the session '%s' is closed", shell->base.id);
		return NULL;
	}
	if (shell->queued >= QUEUE_MAX) {
		err_set(err, ERR_LIMIT, "%d commands wait already in session '%s'", QUEUE_MAX,
			shell->base.id);
		return NULL;
	}
	struct shell_command *command = xcalloc(1, sizeof *command);
	command->text = xstrdup(text);
	command->dir = dir ? xstrdup(dir) : NULL;
	command->logical = logical;
	command->hard_ms = hard_ms;
	command->changed_ms = clock_ms();
	command->raw = OUTPUT;
	command->refs = 1;
	if (shell->last)
		shell->last->newer = command;
	else
		shell->first = command;
	shell->last = command;
	shell->remembered++;
	shell->queued++;
	shell_touch(shell);
	shell_start_next(shell);
	shell_arm(shell);
	trim(shell);
	if (!shell->first)
		shell->last = NULL;
	return command;
}

bool shell_stop(struct shell *shell)
{
	if (!shell->current)
		return false;
	shell_act(shell, shell_machine_stop(&shell->machine, HALT_STOPPED));
	shell_arm(shell);
	return true;
}

/* Whether what is typed now has to wait until the shell has read our line. */
static bool types_ahead(const struct shell *shell)
{
	return shell_machine_hides(&shell->machine) ||
	       (shell->keys.settling && shell->queued && !shell->current);
}

ssize_t shell_type(struct shell *shell, const char *data, size_t len, struct err *err)
{
	if (!shell_running(shell))
		return err_set(err, ERR_CONFLICT, "no shell is running in session '%s'",
			       shell->base.id);
	shell_touch(shell);
	size_t room = AHEAD_MAX - shell->ahead.len;
	ssize_t n = (ssize_t)(len < room ? len : room);
	if (types_ahead(shell))
		buf_add(&shell->ahead, data, (size_t)n);
	else
		n = shell_type_bytes(shell, data, len);
	shell_keys_typed(&shell->keys, data, n > 0 ? (size_t)n : 0, shell->current, clock_ms());
	return n < 0 ? err_set(err, ERR_CONFLICT, "the terminal of session '%s' is gone",
			       shell->base.id)
		     : n;
}

int shell_input_fd(const struct shell *shell)
{
	return shell_running(shell) && !types_ahead(shell) ? fcntl(shell->pty, F_DUPFD_CLOEXEC, 3)
							   : -1;
}

unsigned shell_resize(struct shell *shell, int cols, int rows)
{
	cols = cols < 1 ? 1 : cols > 1000 ? 1000 : cols;
	rows = rows < 1 ? 1 : rows > 500 ? 500 : rows;
	pthread_mutex_lock(&shell->base.lock);
	bool changed = cols != shell->cols || rows != shell->rows;
	shell->cols = cols;
	shell->rows = rows;
	shell->size_version += changed;
	unsigned version = shell->size_version;
	pthread_mutex_unlock(&shell->base.lock);
	if (!changed)
		return version;
	shell_screen_fit(shell); /* before what runs hears of it, and draws for the new size */
	pthread_mutex_lock(&shell->base.lock);
	if (shell_running(shell))
		(void)pty_resize(shell->pty, shell->cols, shell->rows);
	waiter_wake(shell->waiters);
	pthread_mutex_unlock(&shell->base.lock);
	return version;
}

void shell_size(const struct shell *shell, int *ret_cols, int *ret_rows)
{
	*ret_cols = shell->cols;
	*ret_rows = shell->rows;
}

unsigned shell_size_version(const struct shell *shell)
{
	return shell->size_version;
}

void shell_init(struct shell *shell, const struct shell_settings *settings)
{
	pthread_mutex_init(&shell->screen_lock, NULL);
	tree_marker(shell->marker, sizeof shell->marker, shell->base.id);
	shell->user = *settings->as;
	shell->home = xstrdup(settings->home);
	shell->cwd = xstrdup(settings->cwd);
	shell->logical = settings->logical;
	shell->no_change_s = settings->no_change_s;
	shell->most_remembered = settings->history;
	shell->cols = COLS;
	shell->rows = ROWS;
	shell->pty = -1;
	shell_machine_init(&shell->machine);
	shell->prompt = BUF(PROMPT_MAX);
	shell->fifo_line = BUF(256);
	shell->tail = BUF(TAIL_MAX);
	shell->ahead = BUF(AHEAD_MAX);
}

void shell_end(struct shell *shell)
{
	pthread_mutex_lock(&shell->base.lock);
	bool started = shell->bash || shell->generation;
	struct program *bash = shell->bash ? program_ref(shell->bash) : NULL;
	(void)shell_machine_stop(&shell->machine, HALT_STOPPED); /* by the end of all of it */
	for (struct shell_command *command = shell->first; command; command = command->newer)
		if (command->status == SHELL_QUEUED)
			command->status = SHELL_TERMINATED;
	shell->queued = 0;
	waiter_wake(shell->waiters);
	pthread_mutex_unlock(&shell->base.lock);
	if (started && bash)
		program_end(bash, 0, NULL);
	else if (started) /* what it has left in the background */
		tree_end(shell->marker);
	program_unref(bash);
	pthread_mutex_lock(&shell->base.lock);
	if (started && shell->bash) /* the server may end before the pump lets go of it */
		shell_remove_dir(shell);
	pthread_mutex_unlock(&shell->base.lock);
}
