/* Commands in shells on a terminal: what one changes (directory, variables, functions) the next one
 * finds. */
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "api/routes.h"
#include "api/shell_events.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/excerpt.h"
#include "base/json.h"
#include "base/own.h"
#include "fs/workdir.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/limits.h"
#include "shell/shell.h"
#include "shell/shells.h"
#include "term/plain.h"
#include "term/screen.h"

enum {
	OUTPUT_CHARS_MAX = 30000,
	VIEW_CHARS_MAX = 100000,
	WAIT_S = 30,
	KILL_MS = 5000,
	INPUT_MS = 10000,
	TRIES = 8, /* to get a session that nobody takes away */
	PIECE = 32768,
	SILENCE_MAX_S = 1000000000,
};

/* ---- what is said of a command ---- */

static const char *const states[] = { "running",      "completed",  "no_change_timeout",
				      "hard_timeout", "terminated", NULL };

/* Plain text made from what a terminal showed, kept like any output. */
static size_t read_plain(void *arg, int64_t at, char *to, size_t room)
{
	return output_read(arg, at, to, room);
}

static void free_plain(void *arg)
{
	output_done(arg);
}

static struct output *new_plain(struct arena *arena)
{
	struct output *plain = arena_alloc(arena, sizeof *plain);
	*plain = OUTPUT;
	arena_defer(arena, free_plain, plain);
	return plain;
}

/* Appends a command's output as plain text, without the line break at its end. Locks by pieces, so
 * that a large one does not hold up the shell. */
static void add_plain(struct shell *shell, const struct shell_command *command, struct output *to)
{
	struct plain plain;
	auto_buf struct buf text = BUF(16 << 20);
	auto_free char *piece = xmalloc(PIECE);
	plain_init(&plain);
	for (int64_t at = 0;;) {
		shell_lock(shell);
		size_t n = output_read(&command->raw, at, piece, PIECE);
		shell_unlock(shell);
		at += (int64_t)n;
		text.len = 0;
		if (n)
			plain_feed(&plain, piece, n, &text);
		else
			plain_finish(&plain, &text);
		output_add(to, text.data ? text.data : "", text.len);
		if (!n)
			break;
	}
	plain_done(&plain);
	char last;
	if (output_read(to, to->size - 1, &last, 1) && last == '\n')
		to->size--;
	if (to->fd < 0)
		to->memory.len = (size_t)to->size;
}

static struct stream plain_stream(struct output *plain, int64_t max)
{
	struct stream stream = { .read = read_plain, .arg = plain, .end = plain->size };
	excerpt_shorten(&stream, max);
	return stream;
}

struct console {
	const char *ps1, *command;
	struct stream output;
};
static const struct field console_fields[] = {
	STR(console, ps1, 0, "The prompt."),
	STR(console, command, 0, "The command."),
	STREAM(console, output, 0, "What it printed."),
};
static const struct schema console_schema = SCHEMA(console, "ConsoleRecord", console_fields);

/* A command gets its prompt when it begins. */
static const char *prompt_of(struct shell *shell, const struct shell_command *command,
			     struct arena *arena)
{
	shell_lock(shell);
	const char *prompt = arena_strdup(arena, command->prompt ? command->prompt : "");
	shell_unlock(shell);
	return prompt;
}

/* The screen, where it says more than the output: something is running on it. */
static const char *screen_of(struct shell *shell, const struct shell_command *command,
			     struct arena *arena, bool *ret_alternate)
{
	auto_buf struct buf text = BUF(4 << 20);
	const char *result = NULL;
	int64_t at;
	*ret_alternate = false;
	shell_lock(shell);
	bool over = command && command->status != SHELL_RUNNING;
	shell_unlock(shell);
	if (over)
		return NULL;
	const struct screen *screen = shell_screen(shell, &at);
	*ret_alternate = screen_alternate(screen);
	if (screen_text(screen, &text) == 0)
		result = arena_strndup(arena, text.data ? text.data : "", text.len);
	shell_screen_done(shell);
	return result;
}

struct shell_exec_result {
	const char *session_id, *command, *status, *screen;
	struct stream output;
	struct list console;
	int64_t exit_code;
};
static const struct field exec_result_fields[] = {
	STR(shell_exec_result, session_id, 0, "Session identifier."),
	STR(shell_exec_result, command, 0, "The command."),
	ENUM(shell_exec_result, status, 0,
	     "`running`: goes on; `completed`, whatever its exit code; `no_change_timeout`: goes on, silent; "
	     "`hard_timeout` and `terminated`: was stopped.",
	     .choices = states),
	STREAM(shell_exec_result, output, NULLABLE,
	       "What it printed, as plain text; the screen, while a full-screen program is on."),
	LIST(shell_exec_result, console, NULLABLE, "The same with its prompt.", .item = T_OBJ,
	     .of = &console_schema),
	INT(shell_exec_result, exit_code, NULLABLE, "Once it is completed."),
	STR(shell_exec_result, screen, NULLABLE,
	    "The terminal's screen, while something runs on it."),
};
static const struct schema exec_result_schema =
	SCHEMA(shell_exec_result, "ShellCommandResult", exec_result_fields);
static const struct field exec_result_data = { .type = T_OBJ, .of = &exec_result_schema };

static struct output *text_output(struct arena *arena, const char *text)
{
	struct output *output = new_plain(arena);
	output_add(output, text, strlen(text));
	return output;
}

static struct shell_exec_result result_of(struct call *call, struct shell *shell,
					  struct shell_command *command, int64_t max)
{
	bool alternate;
	struct console *console = arena_alloc(call->arena, sizeof *console);
	struct output *plain = new_plain(call->arena);
	const char *screen = screen_of(shell, command, call->arena, &alternate);
	add_plain(shell, command, plain);
	if (alternate)
		plain = text_output(call->arena, screen);
	*console = (struct console){ prompt_of(shell, command, call->arena),
				     arena_strdup(call->arena, command->text),
				     plain_stream(plain, max) };
	shell_lock(shell);
	struct shell_exec_result result = { .session_id = shell_id(shell),
					    .command = console->command,
					    .status = shells_status(command),
					    .output = console->output,
					    .console = { 1, console },
					    .exit_code = shells_exit_code(command),
					    .screen = screen };
	if (command->shell_ended)
		call->hint = "The command ended its shell. The next one starts a fresh shell.";
	else if (command->fresh)
		call->hint =
			"The shell of this session had ended, so a fresh one was started: its directory, "
			"variables and functions are new.";
	shell_unlock(shell);
	return result;
}

/* ---- exec ---- */

struct shell_exec {
	const char *id, *exec_dir, *command;
	bool async_mode, preserve_symlinks, truncate;
	double timeout, hard_timeout;
	int64_t no_change_timeout;
	enum tri strict;
};
static const struct field exec_fields[] = {
	STR(shell_exec, command, REQUIRED, "Command to run.", .max_len = 1 << 20),
	STR(shell_exec, id, OPTIONAL,
	    "Session to run it in. Absent or empty: a new one; of an MCP client its own.",
	    .max_len = SESSION_ID_MAX, .alias = "session_id"),
	STR(shell_exec, exec_dir, OPTIONAL, "Directory to go to first, an absolute path."),
	BOOL(shell_exec, async_mode, OPTIONAL, "Answer at once; look later with view or wait.",
	     .def = "false"),
	NUM(shell_exec, timeout, MIN,
	    "Seconds to wait before answering `running`; the command goes on.", .min = 0),
	TRI(shell_exec, strict, OPTIONAL,
	    "Answer an error when exec_dir does not exist, instead of running where the session is."),
	INT(shell_exec, no_change_timeout, MIN,
	    "Seconds without new output after which the answer is `no_change_timeout`; the command goes on. "
	    "The session's when absent.",
	    .min = 0),
	NUM(shell_exec, hard_timeout, MIN,
	    "Seconds after which the command is stopped: `hard_timeout`.", .min = 0),
	BOOL(shell_exec, preserve_symlinks, OPTIONAL,
	     "Keep the symbolic links of exec_dir in the path.", .def = "false"),
	BOOL(shell_exec, truncate, OPTIONAL, "Cut output over 30000 characters in the middle.",
	     .def = "true"),
};
static const struct schema exec_schema = SCHEMA(shell_exec, "ShellExecRequest", exec_fields);

static int64_t ms_from_now(double seconds)
{
	return isnan(seconds) ? INT64_MAX : clock_ms() + (int64_t)(fmin(seconds, 1e9) * 1000);
}

/* Waits until the command has ended or a moment has come. WAKE_TIMEOUT with *ret_silent when it was
 * silent for too long. */
static enum wake wait_command(struct call *call, struct shell *shell,
			      const struct shell_command *command, int64_t until_ms,
			      int64_t silence_ms, bool *ret_silent)
{
	enum wake wake = WAKE_READY;
	*ret_silent = false;
	shell_lock(shell);
	while (command->status <= SHELL_RUNNING && wake <= WAKE_TIMEOUT) {
		int64_t silent_at = silence_ms ? command->changed_ms + silence_ms : INT64_MAX;
		*ret_silent = clock_ms() >= silent_at;
		if (*ret_silent || clock_ms() >= until_ms) {
			wake = WAKE_TIMEOUT;
			break;
		}
		struct wait wait = call_until(call, until_ms < silent_at ? until_ms : silent_at);
		wake = shell_wait(shell, &wait, NULL);
	}
	shell_unlock(shell);
	return wake;
}

static void release(struct shell *shell, struct shell_command *command)
{
	shell_lock(shell);
	shell_command_unref(command);
	shell_unlock(shell);
}

static void say_outcome(struct call *call, const struct shell_exec *exec, const char *status,
			int64_t silence)
{
	bool silent = !strcmp(status, "no_change_timeout");
	call->message = exec->async_mode                  ? "Command started"
			: !strcmp(status, "completed")    ? "Command executed"
			: !strcmp(status, "hard_timeout") ? "Command ended by hard_timeout"
			: !strcmp(status, "terminated")   ? "Command terminated"
							  : "Command is still running";
	if (silent)
		call->message =
			arena_printf(call->arena,
				     "Command is still running, and has printed nothing for %lld s",
				     (long long)silence);
	if (!exec->async_mode && (silent || !strcmp(status, "running")))
		call->hint =
			"Wait with /v1/shell/wait, look with /v1/shell/view; /v1/shell/kill ends it.";
}

static int answer_exec(struct call *call, const struct shell_exec *exec, struct shell *shell,
		       struct shell_command *command, int64_t killed, struct err *err)
{
	bool silent = false;
	int64_t until = ms_from_now(exec->timeout);
	shell_lock(shell);
	int64_t silence = exec->no_change_timeout == INT_ABSENT ? *shell_no_change_s(shell)
								: exec->no_change_timeout;
	shell_unlock(shell);
	silence = silence < SILENCE_MAX_S ? silence : SILENCE_MAX_S;
	if (call->wants_events)
		return shell_events_stream(call, shell, command, until, err);
	if (!exec->async_mode &&
	    wait_command(call, shell, command, until, silence * 1000, &silent) == WAKE_LEFT)
		return wake_err(WAKE_LEFT, err);
	struct shell_exec_result result =
		result_of(call, shell, command, exec->truncate ? OUTPUT_CHARS_MAX : 0);
	if (silent && !strcmp(result.status, "running"))
		result.status = "no_change_timeout";
	say_outcome(call, exec, result.status, silence);
	if (result.exit_code == 128 + SIGKILL && limits_killed() > killed) {
		call->message = LIMITS_STARVED;
		call->hint = LIMITS_STARVED_HINT;
	}
	return call_reply(call, &result, err);
}

static int exec_in(struct call *call, const struct shell_exec *exec, const char *dir,
		   struct err *err)
{
	auto_shell struct shell *shell =
		shells_open(call->server, exec->id, NULL, exec->preserve_symlinks, 0, err);
	if (!shell)
		return -1;
	int64_t hard = isnan(exec->hard_timeout) ? INT64_MAX
						 : (int64_t)(fmin(exec->hard_timeout, 1e9) * 1000);
	int64_t killed = limits_killed(); /* so far */
	shell_lock(shell);
	struct shell_command *command =
		shell_run(shell, exec->command, dir, exec->preserve_symlinks, hard, err);
	shell_unlock(shell);
	if (!command)
		return -1;
	int result = answer_exec(call, exec, shell, command, killed, err);
	release(shell, command);
	return result;
}

static int exec_command(struct call *call, const void *in, struct err *err)
{
	const struct shell_exec *exec = in;
	bool unnamed = !exec->id || !*exec->id;
	const char *dir;
	if (workdir_find(call, "exec_dir", exec->exec_dir, &dir, err) < 0 &&
	    (exec->strict == YES || *exec->exec_dir != '/'))
		return -1;
	int result = exec_in(call, exec, dir, err);
	/* With all sessions in use a new one, idle until its command runs, may have made room for
	 * somebody else's: then it is closed, and nothing has run. */
	for (int i = 0; i < TRIES && result < 0 && unnamed && err->code == ERR_CONFLICT; i++)
		result = exec_in(call, exec, dir, err);
	return result;
}

/* ---- view ---- */

struct by_id {
	const char *id;
};
static const struct field by_id_fields[] = {
	STR(by_id, id, REQUIRED, "Session.", .alias = "session_id"),
};
static const struct schema view_schema = SCHEMA(by_id, "ShellViewRequest", by_id_fields);
static const struct schema kill_schema = SCHEMA(by_id, "ShellKillProcessRequest", by_id_fields);

struct view_result {
	struct stream output;
	const char *session_id, *status, *command, *screen;
	struct list console;
	int64_t exit_code;
};
static const struct field view_result_fields[] = {
	STREAM(view_result, output, 0,
	       "The session's history as plain text; the screen, while a full-screen program is on."),
	STR(view_result, session_id, 0, "Session identifier."),
	LIST(view_result, console, NULLABLE, "Its commands, each with its prompt and output.",
	     .item = T_OBJ, .of = &console_schema),
	ENUM(view_result, status, 0, "Of the latest command.", .choices = states),
	STR(view_result, command, NULLABLE, "The latest command."),
	INT(view_result, exit_code, NULLABLE, "Its exit code, once it is completed."),
	STR(view_result, screen, NULLABLE, "The terminal's screen."),
};
static const struct schema view_result_schema =
	SCHEMA(view_result, "ShellViewResult", view_result_fields);
static const struct field view_result_data = { .type = T_OBJ, .of = &view_result_schema };

/* References to the commands that have begun, in their order. */
static size_t hold_commands(struct shell *shell, struct arena *arena, struct shell_command ***ret)
{
	size_t count = 0, room = 0;
	shell_lock(shell);
	for (struct shell_command *c = shell_first(shell); c; c = c->newer)
		room++;
	*ret = arena_alloc(arena, room * sizeof **ret);
	for (struct shell_command *c = shell_first(shell); c; c = c->newer)
		if (c->status != SHELL_QUEUED) {
			c->refs++;
			(*ret)[count++] = c;
		}
	shell_unlock(shell);
	return count;
}

static int view(struct call *call, const void *in, struct err *err)
{
	const struct by_id *request = in;
	auto_shell struct shell *shell = shells_find(request->id, err);
	struct shell_command **commands;
	bool alternate;
	if (!shell)
		return -1;
	size_t count = hold_commands(shell, call->arena, &commands);
	struct shell_command *latest = count ? commands[count - 1] : NULL;
	if (call->wants_events && latest) {
		int result = shell_events_stream(call, shell, latest, INT64_MAX, err);
		for (size_t i = 0; i < count; i++)
			release(shell, commands[i]);
		return result;
	}
	struct console *console = arena_alloc(call->arena, count * sizeof *console);
	struct output *all = new_plain(call->arena);
	for (size_t i = 0; i < count; i++) {
		struct output *plain = new_plain(call->arena);
		const char *prompt = prompt_of(shell, commands[i], call->arena);
		add_plain(shell, commands[i], plain);
		console[i] = (struct console){ prompt, arena_strdup(call->arena, commands[i]->text),
					       plain_stream(plain, OUTPUT_CHARS_MAX) };
		const char *head = arena_printf(call->arena, "%s%s%s\n", all->size ? "\n" : "",
						prompt, commands[i]->text);
		output_add(all, head, strlen(head));
		add_plain(shell, commands[i], all);
	}
	const char *screen = screen_of(shell, NULL, call->arena, &alternate);
	if (alternate || !count)
		all = text_output(call->arena, screen ? screen : "");
	shell_lock(shell);
	struct view_result result = { .output = plain_stream(all, VIEW_CHARS_MAX),
				      .session_id = shell_id(shell),
				      .status = shells_status(latest),
				      .command = latest ? console[count - 1].command : NULL,
				      .exit_code = shells_exit_code(latest),
				      .console = { count, console },
				      .screen = screen };
	shell_touch(shell);
	shell_unlock(shell);
	for (size_t i = 0; i < count; i++)
		release(shell, commands[i]);
	return call_reply(call, &result, err);
}

/* ---- wait, write, kill ---- */

struct status_result {
	const char *status;
};
static const struct field status_fields[] = {
	ENUM(status_result, status, 0, "Of the latest command.", .choices = states),
};
static const struct schema wait_result_schema =
	SCHEMA(status_result, "ShellWaitResult", status_fields);
static const struct schema write_result_schema =
	SCHEMA(status_result, "ShellWriteResult", status_fields);
static const struct field wait_result_data = { .type = T_OBJ, .of = &wait_result_schema };
static const struct field write_result_data = { .type = T_OBJ, .of = &write_result_schema };

struct shell_wait_request {
	const char *id;
	int64_t seconds, max_wait_seconds;
};
static const struct field wait_fields[] = {
	STR(shell_wait_request, id, REQUIRED, "Session.", .alias = "session_id"),
	INT(shell_wait_request, seconds, MIN | MAX, "Seconds to wait at most; 30 when absent.",
	    .min = 0, .max = 86400),
	INT(shell_wait_request, max_wait_seconds, MIN | MAX, "The same.", .min = 0, .max = 86400),
};
static const struct schema wait_schema =
	SCHEMA(shell_wait_request, "ShellWaitRequest", wait_fields);

static struct shell_command *hold_latest(struct shell *shell)
{
	shell_lock(shell);
	struct shell_command *command = shell_latest(shell);
	if (command)
		command->refs++;
	shell_touch(shell);
	shell_unlock(shell);
	return command;
}

static const char *locked_status(struct shell *shell, const struct shell_command *command)
{
	shell_lock(shell);
	const char *status = shells_status(command);
	shell_unlock(shell);
	return status;
}

static int wait_for(struct call *call, const void *in, struct err *err)
{
	const struct shell_wait_request *request = in;
	auto_shell struct shell *shell = shells_find(request->id, err);
	bool silent;
	if (!shell)
		return -1;
	int64_t seconds = request->seconds != INT_ABSENT            ? request->seconds
			  : request->max_wait_seconds != INT_ABSENT ? request->max_wait_seconds
								    : WAIT_S;
	struct shell_command *command = hold_latest(shell);
	enum wake wake = WAKE_READY;
	if (command)
		wake = wait_command(call, shell, command, clock_ms() + seconds * 1000, 0, &silent);
	struct status_result result = { locked_status(shell, command) };
	if (command)
		release(shell, command);
	if (wake == WAKE_LEFT)
		return wake_err(WAKE_LEFT, err);
	return call_reply(call, &result, err);
}

struct shell_write_request {
	const char *id;
	struct text input;
	bool press_enter;
};
static const struct field write_fields[] = {
	STR(shell_write_request, id, REQUIRED, "Session.", .alias = "session_id"),
	TEXT(shell_write_request, input, REQUIRED,
	     "What to type. Control characters are keys: \\u0003 is Ctrl+C."),
	BOOL(shell_write_request, press_enter, REQUIRED, "Press Enter afterwards."),
};
static const struct schema write_schema =
	SCHEMA(shell_write_request, "ShellWriteToProcessRequest", write_fields);

/* With the lock: waits until there may be room for more. */
static int wait_room(struct shell *shell, int64_t until_ms, struct err *err)
{
	auto_close int fd = shell_input_fd(shell);
	return wake_err(shell_wait(shell, &(struct wait){ until_ms, -1, -1 },
				   &(struct pollfd){ .fd = fd, .events = POLLOUT }),
			err);
}

int shells_type(struct shell *shell, const char *data, size_t len, struct err *err)
{
	int64_t until = clock_ms() + INPUT_MS;
	size_t done = 0;
	ssize_t n = 0;
	shell_lock(shell);
	while (done < len && n >= 0) {
		n = shell_type(shell, data + done, len - done, err);
		if (n > 0) {
			done += (size_t)n;
			until = clock_ms() + INPUT_MS;
		} else if (n == 0) {
			n = wait_room(shell, until, err);
		}
	}
	shell_unlock(shell);
	if (n < 0 && err->code == ERR_SLOW)
		return err_set(err, ERR_CONFLICT,
			       "the terminal took %zu of %zu bytes, then nothing for %d s", done,
			       len, INPUT_MS / 1000);
	return n < 0 ? -1 : 0;
}

static int write_input(struct call *call, const void *in, struct err *err)
{
	const struct shell_write_request *request = in;
	auto_shell struct shell *shell = shells_find(request->id, err);
	if (!shell)
		return -1;
	shell_lock(shell);
	int started = shell_start(shell, err);
	shell_unlock(shell);
	if (started < 0 || shells_type(shell, request->input.data, request->input.len, err) < 0 ||
	    (request->press_enter && shells_type(shell, "\r", 1, err) < 0))
		return -1;
	struct shell_command *command = hold_latest(shell);
	struct status_result result = { locked_status(shell, command) };
	if (command)
		release(shell, command);
	call->message = "Input written";
	return call_reply(call, &result, err);
}

struct kill_result {
	const char *status;
	int64_t exit_code, returncode;
};
static const struct field kill_result_fields[] = {
	ENUM(kill_result, status, 0, "`terminated`, or `completed` when nothing was running.",
	     .choices = states),
	INT(kill_result, exit_code, NULLABLE,
	    "Of the command that had already ended; null when it was still running."),
	INT(kill_result, returncode, NULLABLE, "The same, under its old name."),
};
static const struct schema kill_result_schema =
	SCHEMA(kill_result, "ShellKillResult", kill_result_fields);
static const struct field kill_result_data = { .type = T_OBJ, .of = &kill_result_schema };

static int kill_process(struct call *call, const void *in, struct err *err)
{
	const struct by_id *request = in;
	auto_shell struct shell *shell = shells_find(request->id, err);
	bool silent;
	if (!shell)
		return -1;
	shell_lock(shell);
	struct shell_command *command = shell_current(shell) ? shell_current(shell)
							     : shell_latest(shell);
	if (command)
		command->refs++;
	bool running = shell_stop(shell);
	shell_touch(shell);
	shell_unlock(shell);
	if (running && command)
		wait_command(call, shell, command, clock_ms() + KILL_MS, 0, &silent);
	shell_lock(shell);
	struct kill_result result = { shells_status(command), INT_ABSENT, INT_ABSENT };
	if (!running && command)
		result.exit_code = result.returncode = shells_exit_code(command);
	shell_unlock(shell);
	if (command)
		release(shell, command);
	call->message = running ? "Process terminated" : "No process was running";
	return call_reply(call, &result, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/shell/exec", exec_command, &exec_schema, &exec_result_data,
	  "Run a command in a shell",
	  "The shell is a real one on a terminal: `cd`, `export`, functions and aliases last for the next "
	  "command with the same `id`. Commands of one session run one after another. `exit` ends the "
	  "shell, is reported as the command's exit code, and the next command gets a fresh shell.",
	  .flags = EVENTS | RUNS, .sends = &shell_events_sends },
	{ "POST", "/v1/shell/view", view, &view_schema, &view_result_data, "Look at a session",
	  "Its history, and the screen as it is now.", .flags = EVENTS,
	  .sends = &shell_events_sends },
	{ "POST", "/v1/shell/wait", wait_for, &wait_schema, &wait_result_data,
	  "Wait for a session's command to end" },
	{ "POST", "/v1/shell/write", write_input, &write_schema, &write_result_data,
	  "Type into a session's terminal" },
	{ "POST", "/v1/shell/kill", kill_process, &kill_schema, &kill_result_data,
	  "Stop the command that runs in a session",
	  "It is interrupted, then killed; the session stays." },
};
const struct route_group shell_group = { "shell", "Shells on a terminal, whose state lasts.",
					 routes, COUNT(routes) };
