/* Commands on pipes: a new process for every command, stdout and stderr apart. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/excerpt.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/command.h"
#include "proc/limits.h"
#include "proc/signals.h"
#include "proc/user.h"
#include "shell/bash_sessions.h"

enum {
	EVENT_PIECE = 65536, /* bytes of output in one event */
	INPUT_MS = 10000,    /* for a command to take its input */
};

/* ---- exec ---- */

static const char *const command_states[] = { "running", "completed", "timed_out",
					      "killed",  "pending",   NULL };
static const char *const command_messages[] = { "Command is still running", "Command executed",
						"Command ended by hard_timeout", "Command killed" };

struct bash_exec {
	const char *session_id, *command, *exec_dir;
	struct list env;
	bool async_mode;
	double timeout, hard_timeout;
	int64_t max_output_length;
};
static const struct field exec_fields[] = {
	STR(bash_exec, command, REQUIRED, "Command to run, by bash.", .max_len = 1 << 20),
	STR(bash_exec, session_id, OPTIONAL,
	    "Session to run it in; a new one when absent or empty.", .max_len = 64, .alias = "id"),
	STR(bash_exec, exec_dir, OPTIONAL,
	    "Working directory, an absolute path. The session's later commands run there too."),
	MAP(bash_exec, env, OPTIONAL, "Environment variables for this command only."),
	BOOL(bash_exec, async_mode, OPTIONAL, "Answer at once; read the output later.",
	     .def = "false"),
	NUM(bash_exec, timeout, MIN,
	    "Seconds to wait before answering `running`; the command goes on.", .min = 0),
	NUM(bash_exec, hard_timeout, MIN, "Seconds after which the command is ended: `timed_out`.",
	    .min = 0),
	INT(bash_exec, max_output_length, MIN,
	    "Longest stdout and stderr in the answer, in characters: longer ones lose their middle. 0 for "
	    "all.",
	    .def = "50000", .min = 0),
};
static const struct schema exec_schema = SCHEMA(bash_exec, "BashExecRequest", exec_fields);

struct bash_exec_result {
	const char *session_id, *command_id, *command, *status;
	struct stream stdout_text, stderr_text;
	int64_t exit_code, offset, stderr_offset;
	bool truncated;
	enum command_state state;
};
static const struct field exec_result_fields[] = {
	STR(bash_exec_result, session_id, 0, "Session identifier."),
	STR(bash_exec_result, command_id, 0, "Command identifier."),
	STR(bash_exec_result, command, 0, "The command."),
	ENUM(bash_exec_result, status, 0,
	     "`running`; `completed`, whatever its exit code; `timed_out` by hard_timeout; `killed`.",
	     .choices = command_states),
	NAMED("stdout", STREAM, bash_exec_result, stdout_text, NULLABLE, "What it printed so far."),
	NAMED("stderr", STREAM, bash_exec_result, stderr_text, NULLABLE,
	      "What it printed as errors so far."),
	INT(bash_exec_result, exit_code, NULLABLE,
	    "Once it has ended; 128 and the number of a signal."),
	INT(bash_exec_result, offset, 0,
	    "Where the next stdout begins, in bytes: for /v1/bash/output."),
	INT(bash_exec_result, stderr_offset, 0, "Where the next stderr begins."),
	BOOL(bash_exec_result, truncated, 0,
	     "Output was lost: the disk was full, or it is more than is kept (1 GiB of each stream)."),
};
static const struct schema exec_result_schema =
	SCHEMA(bash_exec_result, "BashExecResult", exec_result_fields);
static const struct field exec_result_data = { .type = T_OBJ, .of = &exec_result_schema };

/* bash reads the command from its arguments; a snapshot is sourced before. */
static struct command *start(struct call *call, struct bash_session *session,
			     const struct bash_exec *exec, const char *dir, struct err *err)
{
	const char *text = exec->command, *cwd, *snapshot;
	if (bash_session_place(session, dir, call->arena, &cwd, &snapshot, err) < 0)
		return NULL;
	if (snapshot)
		text = arena_printf(call->arena, ". '%s'\n%s", snapshot, text);
	const struct user *user = user_sandbox(call->server->config->user, err);
	if (!user)
		return NULL;
	/* Its $0 and messages say "bash"; it need not look for itself along PATH. No command is an option. */
	char *argv[] = { (char *)"/bin/bash", (char *)"-c",   (char *)"--",
			 (char *)text,        (char *)"bash", NULL };
	struct spawn spawn = {
		.path = "/bin/bash",
		.argv = argv,
		.cwd = cwd,
		.fds = { -1, -1, -1 },
	};
	spawn_sandboxed(&spawn, call->arena, user, call->server->home, bash_session_marker(session),
			&exec->env);
	int64_t hard = isnan(exec->hard_timeout)
			       ? INT64_MAX
			       : clock_ms() + (int64_t)(fmin(exec->hard_timeout, 1e9) * 1000);
	return command_start(&spawn, hard, err);
}

static size_t read_stdout(void *arg, int64_t at, char *to, size_t room)
{
	size_t n = output_read(&command_lock(arg)->out[COMMAND_STDOUT], at, to, room);
	command_unlock(arg);
	return n;
}

static size_t read_stderr(void *arg, int64_t at, char *to, size_t room)
{
	size_t n = output_read(&command_lock(arg)->out[COMMAND_STDERR], at, to, room);
	command_unlock(arg);
	return n;
}

/* While a command runs, a character that is not whole yet is left for the next request. */
static void hold_partial(struct stream *s)
{
	char tail[4];
	int64_t from = s->end - s->start > 3 ? s->end - 3 : s->start;
	size_t n = s->read(s->arg, from, tail, (size_t)(s->end - from));
	s->end -= (int64_t)utf8_partial(tail, n);
}

static struct bash_exec_result result_of(struct command *command, const char *session_id,
					 const char *command_id, const char *text)
{
	const struct command_view *view = command_lock(command);
	const struct output *out = view->out;
	struct bash_exec_result result = {
		.session_id = session_id,
		.command_id = command_id,
		.command = text,
		.status = command_states[view->state],
		.state = view->state,
		.stdout_text = { .read = read_stdout,
				 .arg = command,
				 .end = out[COMMAND_STDOUT].size },
		.stderr_text = { .read = read_stderr,
				 .arg = command,
				 .end = out[COMMAND_STDERR].size },
		.exit_code = view->state == COMMAND_RUNNING ? INT_ABSENT : view->exit_code,
		.truncated = out[COMMAND_STDOUT].lost || out[COMMAND_STDERR].lost,
	};
	bool running = view->state == COMMAND_RUNNING;
	command_unlock(command);
	if (running) {
		hold_partial(&result.stdout_text);
		hold_partial(&result.stderr_text);
	}
	result.offset = result.stdout_text.end;
	result.stderr_offset = result.stderr_text.end;
	return result;
}

/* Waits until the command has ended, or a moment has come. -1 when the caller left. */
static int wait_end(struct call *call, struct command *command, int64_t until_ms, struct err *err)
{
	struct wait wait = call_until(call, until_ms);
	enum wake wake = WAKE_READY;
	const struct command_view *view = command_lock(command);
	while (view->state == COMMAND_RUNNING && wake == WAKE_READY)
		wake = command_wait(command, &wait);
	command_unlock(command);
	return wake == WAKE_LEFT ? wake_err(wake, err) : 0;
}

static int check_environment(const struct list *env, struct err *err)
{
	const struct pair *pairs = env->items;
	for (size_t i = 0; i < env->count; i++)
		if (!*pairs[i].name || strchr(pairs[i].name, '='))
			return err_set(err, ERR_INVALID,
				       "env: '%.80s' cannot be the name of a variable",
				       pairs[i].name);
	return 0;
}

static int stream_events(struct call *call, struct command *command,
			 struct bash_exec_result *result, int64_t until_ms, struct err *err);

/* Says how it went, and that something was lost. */
static void tell(struct call *call, const struct bash_exec *exec, struct command *command,
		 const struct bash_exec_result *r)
{
	call->message = exec->async_mode ? "Command started" : command_messages[r->state];
	if (!exec->async_mode && r->state == COMMAND_RUNNING)
		call->hint = "Read on with /v1/bash/output; /v1/bash/kill ends it.";
	if (r->truncated)
		call->hint =
			"Output was lost: there was no room for it on the disk, or it is more than 1 GiB.";
	if (command_lock(command)->starved) {
		call->message = LIMITS_STARVED;
		call->hint = LIMITS_STARVED_HINT;
	}
	command_unlock(command);
}

static int answer_exec(struct call *call, const struct bash_exec *exec, struct command *command,
		       const char *session_id, const char *id, struct err *err)
{
	int64_t until = isnan(exec->timeout)
				? INT64_MAX
				: clock_ms() + (int64_t)(fmin(exec->timeout, 1e9) * 1000);
	if (call->wants_events) {
		struct bash_exec_result r = { .session_id = session_id,
					      .command_id = id,
					      .command = exec->command };
		return stream_events(call, command, &r, until, err);
	}
	if (!exec->async_mode && wait_end(call, command, until, err) < 0)
		return -1;
	struct bash_exec_result r = result_of(command, session_id, id, exec->command);
	if (!exec->async_mode) {
		excerpt_shorten(&r.stdout_text, exec->max_output_length);
		excerpt_shorten(&r.stderr_text, exec->max_output_length);
	}
	tell(call, exec, command, &r);
	return call_reply(call, &r, err);
}

static int exec_command(struct call *call, const void *in, struct err *err)
{
	const struct bash_exec *exec = in;
	const char *dir;
	if (workdir_find(call, "exec_dir", exec->exec_dir, &dir, err) < 0 ||
	    check_environment(&exec->env, err) < 0)
		return -1;
	auto_session struct bash_session *session =
		bash_session_open(call->server->config, exec->session_id, dir, err);
	if (!session)
		return -1;
	const char *session_id = bash_session_id(session);
	struct command *command = start(call, session, exec, dir, err);
	if (!command) {
		if (!exec->session_id || !*exec->session_id) /* nobody knows its name */
			(void)sessions_close(&bash_sessions, session_id, NULL);
		return -1;
	}
	const char *id = bash_session_remember(session, exec->command, command,
					       call->server->config->max_history, call->arena);
	const struct journal_started started = {
		"bash", session_id, id, { exec->command, strlen(exec->command) }
	};
	command_record(command, started);
	int result = answer_exec(call, exec, command, session_id, id, err);
	command_unref(command);
	return result;
}

/* ---- exec as a stream of events ---- */

struct bash_piece {
	const char *session_id, *command_id;
	struct text data;
	int64_t offset;
};
static const struct field piece_fields[] = {
	STR(bash_piece, session_id, 0, "Session identifier."),
	STR(bash_piece, command_id, 0, "Command identifier."),
	TEXT(bash_piece, data, 0, "What it printed."),
	INT(bash_piece, offset, 0, "Where the stream goes on, in bytes."),
};
static const struct schema piece_schema = SCHEMA(bash_piece, "BashOutputEvent", piece_fields);
static const struct field state_fields[] = {
	STR(bash_exec_result, session_id, 0, "Session identifier."),
	STR(bash_exec_result, command_id, 0, "Command identifier."),
	ENUM(bash_exec_result, status, 0, "As in the answer.", .choices = command_states),
	INT(bash_exec_result, exit_code, NULLABLE, "Once it has ended."),
	INT(bash_exec_result, offset, 0, "Where stdout goes on, in bytes: for /v1/bash/output."),
	INT(bash_exec_result, stderr_offset, 0, "Where stderr goes on."),
};
static const struct schema state_schema = SCHEMA(bash_exec_result, "BashStateEvent", state_fields);
static const struct variant exec_events[] = {
	{ "start", &state_schema, "It runs." },
	{ "stdout", &piece_schema },
	{ "stderr", &piece_schema },
	{ "exit", &state_schema, "It has ended, or `timeout` is over and it runs on." },
};
static const struct schema exec_sends =
	TAGGED("BashExecEvent", "event", exec_events, .outside = true);

/* Sends what one of the streams has beyond *at. A character that is cut off waits for its rest. */
static int send_new(struct call *call, struct command *command, int stream, bool last,
		    const struct bash_exec_result *r, int64_t *at, bool *ret_sent, struct err *err)
{
	static const char *const names[] = { "stdout", "stderr" };
	auto_free char *piece = xmalloc(EVENT_PIECE);
	for (;;) {
		size_t n = (stream ? read_stderr : read_stdout)(command, *at, piece, EVENT_PIECE);
		size_t partial = n ? utf8_partial(piece, n) : 0;
		if (!(last && partial == n))
			n -= partial;
		if (!n)
			return 0;
		*at += (int64_t)n;
		*ret_sent = true;
		struct bash_piece event = { r->session_id, r->command_id, { piece, n }, *at };
		if (call_send(call, names[stream], NULL, &event, err) < 0)
			return -1;
	}
}

static int stream_events(struct call *call, struct command *command,
			 struct bash_exec_result *result, int64_t until_ms, struct err *err)
{
	enum wake wake = WAKE_READY;
	int64_t at[2] = { 0, 0 };
	uint64_t seen = 0;
	int failed = 0;
	result->status = "running";
	result->exit_code = INT_ABSENT;
	failed = call_send(call, "start", NULL, result, err);
	for (bool ended = false; !failed && !ended;) {
		bool sent = false;
		const struct command_view *view = command_lock(command);
		ended = view->state != COMMAND_RUNNING;
		seen = view->changes;
		command_unlock(command);
		for (int i = 0; i < 2 && !failed; i++)
			failed = send_new(call, command, i, ended, result, &at[i], &sent, err);
		if (failed || ended || wake == WAKE_STOPPING || clock_ms() >= until_ms)
			break;
		struct wait wait = call_until_ping(call, until_ms);
		wake = command_wait_next(command, &seen, false, &wait);
		if (wake == WAKE_LEFT)
			failed = wake_err(wake, err);
		if (wake == WAKE_TIMEOUT)
			failed = call_event_ping(call, err);
	}
	struct bash_exec_result end =
		result_of(command, result->session_id, result->command_id, result->command);
	end.offset = at[0];
	end.stderr_offset = at[1];
	return failed ? -1 : call_send(call, "exit", NULL, &end, err);
}

/* ---- output ---- */

struct output_request {
	const char *session_id, *command_id;
	int64_t offset, stderr_offset;
	bool wait;
	double wait_timeout;
};
static const struct field output_fields[] = {
	STR(output_request, session_id, REQUIRED, "Session.", .alias = "id"),
	STR(output_request, command_id, OPTIONAL,
	    "Command; the current or latest one when absent."),
	INT(output_request, offset, MIN, "Where to read stdout from, in bytes.", .def = "0",
	    .min = 0),
	INT(output_request, stderr_offset, MIN, "Where to read stderr from, in bytes.", .def = "0",
	    .min = 0),
	BOOL(output_request, wait, OPTIONAL, "Wait for new output, or for the end.",
	     .def = "false"),
	NUM(output_request, wait_timeout, MIN | MAX, "Seconds to wait at most.", .def = "30",
	    .min = 0, .max = 3600),
};
static const struct schema output_schema =
	SCHEMA(output_request, "BashOutputRequest", output_fields);

struct command_info {
	const char *command_id, *command, *status;
	int64_t exit_code;
};
static const struct field command_info_fields[] = {
	STR(command_info, command_id, 0, "Command identifier."),
	STR(command_info, command, 0, "The command."),
	ENUM(command_info, status, 0, "As in /v1/bash/exec.", .choices = command_states),
	INT(command_info, exit_code, NULLABLE, "Once it has ended."),
};
static const struct schema command_info_schema =
	SCHEMA(command_info, "BashCommandInfo", command_info_fields);

struct output_result {
	const char *session_id;
	struct stream stdout_text, stderr_text;
	int64_t offset, stderr_offset;
	const struct command_info *command;
	bool truncated;
};
static const struct field output_result_fields[] = {
	STR(output_result, session_id, 0, "Session identifier."),
	NAMED("stdout", STREAM, output_result, stdout_text, 0,
	      "What was printed since the offset."),
	NAMED("stderr", STREAM, output_result, stderr_text, 0,
	      "What was printed as errors since the offset."),
	INT(output_result, offset, 0, "For the next request."),
	INT(output_result, stderr_offset, 0, "For the next request."),
	OBJ(output_result, command, NULLABLE, "The command.", .of = &command_info_schema),
	BOOL(output_result, truncated, 0,
	     "Output was lost: the disk was full, or it is more than is kept."),
};
static const struct schema output_result_schema =
	SCHEMA(output_result, "BashOutputResult", output_result_fields);
static const struct field output_result_data = { .type = T_OBJ, .of = &output_result_schema };

static int wait_news(struct call *call, struct command *command,
		     const struct output_request *request, struct err *err)
{
	struct wait wait = call_until(call, clock_ms() + (int64_t)(request->wait_timeout * 1000));
	enum wake wake = WAKE_READY;
	const struct command_view *view = command_lock(command);
	while (view->state == COMMAND_RUNNING && wake == WAKE_READY &&
	       view->out[COMMAND_STDOUT].size <= request->offset &&
	       view->out[COMMAND_STDERR].size <= request->stderr_offset)
		wake = command_wait(command, &wait);
	command_unlock(command);
	return wake == WAKE_LEFT ? wake_err(wake, err) : 0;
}

static int read_output(struct call *call, const void *in, struct err *err)
{
	const struct output_request *request = in;
	auto_session struct bash_session *session = bash_session_find(request->session_id, err);
	struct command_info info;
	if (!session)
		return -1;
	struct command *command = bash_session_pick(session, request->command_id, call->arena,
						    &info.command_id, &info.command, err);
	if (!command)
		return -1;
	int result = request->wait ? wait_news(call, command, request, err) : 0;
	struct bash_exec_result all =
		result_of(command, bash_session_id(session), info.command_id, info.command);
	info.status = all.status;
	info.exit_code = all.exit_code;
	struct output_result r = { .session_id = all.session_id,
				   .stdout_text = all.stdout_text,
				   .stderr_text = all.stderr_text,
				   .command = &info,
				   .truncated = all.truncated };
	r.stdout_text.start = request->offset < r.stdout_text.end ? request->offset
								  : r.stdout_text.end;
	r.stderr_text.start = request->stderr_offset < r.stderr_text.end ? request->stderr_offset
									 : r.stderr_text.end;
	r.offset = r.stdout_text.end;
	r.stderr_offset = r.stderr_text.end;
	if (result == 0)
		result = call_reply(call, &r, err);
	command_unref(command);
	return result;
}

/* ---- write, kill ---- */

struct bash_write_request {
	const char *session_id, *command_id;
	struct text input;
	bool close;
};
static const struct field write_fields[] = {
	STR(bash_write_request, session_id, REQUIRED, "Session.", .alias = "id"),
	STR(bash_write_request, command_id, OPTIONAL, "Command; the current one when absent."),
	TEXT(bash_write_request, input, REQUIRED,
	     "Sent to its standard input as it is: no newline is added."),
	BOOL(bash_write_request, close, OPTIONAL, "Close its standard input afterwards.",
	     .def = "false"),
};
static const struct schema write_schema =
	SCHEMA(bash_write_request, "BashWriteRequest", write_fields);

/* A caller who leaves has nevertheless given all of it. */
static int give_input(struct call *call, struct command *command, const struct text *input,
		      struct err *err)
{
	struct wait wait = { clock_ms() + INPUT_MS, -1, server_stop_fd(call->server) };
	uint64_t seen = command_lock(command)->changes;
	command_unlock(command);
	for (size_t done = 0; done < input->len;) {
		ssize_t n = command_input(command, input->data + done, input->len - done, err);
		if (n < 0)
			return err_set(err, ERR_CONFLICT,
				       "the command does not read its input any more");
		done += (size_t)n;
		if (n) {
			wait.until_ms = clock_ms() + INPUT_MS;
			continue;
		}
		enum wake wake = command_wait_next(command, &seen, true, &wait);
		if (wake == WAKE_STOPPING)
			return wake_err(wake, err);
		if (wake == WAKE_TIMEOUT || clock_ms() >= wait.until_ms)
			return err_set(
				err, ERR_CONFLICT,
				"the command took %zu of %zu bytes, then did not read for %d s",
				done, input->len, INPUT_MS / 1000);
	}
	return 0;
}

static int write_input(struct call *call, const void *in, struct err *err)
{
	const struct bash_write_request *request = in;
	auto_session struct bash_session *session = bash_session_find(request->session_id, err);
	const char *id, *text;
	struct command *command = session ? bash_session_pick(session, request->command_id,
							      call->arena, &id, &text, err)
					  : NULL;
	if (!command)
		return -1;
	int result = give_input(call, command, &request->input, err);
	if (result == 0 && request->close)
		command_input_close(command);
	command_unref(command);
	call->message = "Input written";
	return result < 0 ? -1 : call_reply(call, NULL, err);
}

struct kill_request {
	const char *session_id, *command_id, *signal;
};
static const struct field kill_fields[] = {
	STR(kill_request, session_id, REQUIRED, "Session.", .alias = "id"),
	STR(kill_request, command_id, OPTIONAL,
	    "Command; all that run in the session when absent."),
	STR(kill_request, signal, OPTIONAL, "Name or number of the signal.", .def = "SIGTERM",
	    .max_len = 20),
};
static const struct schema kill_schema = SCHEMA(kill_request, "BashKillRequest", kill_fields);

static int kill_command(struct call *call, const void *in, struct err *err)
{
	const struct kill_request *request = in;
	int number = signal_number(request->signal);
	if (number <= 0)
		return err_set(err, ERR_BAD_REQUEST, "'%.20s' is not a signal", request->signal);
	auto_session struct bash_session *session = bash_session_find(request->session_id, err);
	if (!session)
		return -1;
	int sent = bash_session_signal(session, request->command_id, number);
	if (!sent) {
		call->failed = true;
		call->message = "No command is running";
	} else {
		call->message = arena_printf(call->arena, "Sent %s to %d command%s",
					     request->signal, sent, sent == 1 ? "" : "s");
	}
	return call_reply(call, NULL, err);
}

static const struct field nothing = { .type = T_JSON };

static const struct route routes[] = {
	{ "POST", "/v1/bash/exec", exec_command, &exec_schema, &exec_result_data, "Run a command",
	  "A new bash runs the command; stdout and stderr come apart. Without `timeout` the answer comes "
	  "when it ends. `status` is whether it has ended, `exit_code` how. "
	  "`cd` and `export` do not last: use `exec_dir` and `env`. A caller that leaves does not end "
	  "the command: read it with /v1/bash/output.",
	  .flags = EVENTS | RUNS, .sends = &exec_sends },
	{ "POST", "/v1/bash/output", read_output, &output_schema, &output_result_data,
	  "Read what a command printed",
	  "From byte offsets: feed the returned ones back. `wait` waits for news. Read until "
	  "`command.status` is not `running`." },
	{ "POST", "/v1/bash/write", write_input, &write_schema, &nothing,
	  "Write to a command's stdin" },
	{ "POST", "/v1/bash/kill", kill_command, &kill_schema, &nothing,
	  "Send a signal to a command's process group" },
	{ "GET", "/v1/bash/sessions", bash_session_list, NULL, &bash_session_list_data,
	  "List sessions" },
	{ "POST", "/v1/bash/sessions/create", bash_session_create, &bash_session_create_schema,
	  &bash_session_data, "Create a session", "An existing id gives that session." },
	{ "POST", "/v1/bash/sessions/{session_id}/close", bash_session_close,
	  &bash_session_close_schema, &nothing, "Close a session", "All its processes are ended." },
};
const struct route_group bash_group = { "bash", "Commands on pipes, stdout and stderr apart.",
					routes, COUNT(routes) };
