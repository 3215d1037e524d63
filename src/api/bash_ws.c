/* A command with its standard descriptors, or a terminal, on a WebSocket: what 'aio exec' speaks. Every
 * byte passes as it is, and little is kept: the command waits while its caller does not read. The other
 * way the caller waits until its input was taken, so that its other words are always heard. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/bash_ws.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"
#include "net/ws.h"
#include "proc/limits.h"
#include "proc/program.h"
#include "proc/signals.h"
#include "proc/user.h"
#include "shell/attached.h"

enum {
	PIECE = 65536,
	WINDOW = 1 << 20,        /* of input that was sent and not yet taken */
	TAKEN_STEP = WINDOW / 4, /* that much is told at once */
	WORD_MS = 30000,         /* for the first message */
	SEND_MS = 24 * 3600000,  /* a caller may look at a page of output for long */
	KEEPALIVE_MS = 30000,
	WORD_MAX = 4096, /* of those after the first */
};

struct bash_ws {
	struct call *call;
	struct attached command;
	bool input_ended, ended;
	int status;
	struct buf input; /* that the command had no room for */
	size_t taken;     /* of it, and not told yet */
};

/* ---- messages ---- */

static const struct field start_fields[] = {
	STR(exec_start, command, 0, "For bash."),
	BOOL(exec_start, tty, EXACT, "On a terminal.", .def = "false"),
	INT(exec_start, cols, EXACT, "Of the terminal."),
	INT(exec_start, rows, EXACT, "Of the terminal."),
	STR(exec_start, term, 0, "TERM, of a terminal."),
};
const struct schema exec_start_schema = SCHEMA(exec_start, "ExecStart", start_fields);

static const struct schema nothing_schema = { .name = "ExecNothing" };
static const struct field bytes_fields[] = {
	INT(exec_taken, bytes, EXACT, "Of input that are no longer on their way."),
};
static const struct schema bytes_schema = SCHEMA(exec_taken, "ExecTaken", bytes_fields);
static const struct field exit_fields[] = {
	INT(exec_end, exit_code, EXACT, "128 and the number of a signal."),
	STR(exec_end, message, NULLABLE,
	    "Why it may have failed: its memory ran out, or there is no network."),
};
static const struct schema exit_schema = SCHEMA(exec_end, "ExecExit", exit_fields);
static const struct field error_fields[] = {
	STR(exec_end, message, 0, "Why, and what to do."),
};
static const struct schema error_schema = SCHEMA(exec_end, "ExecError", error_fields);
static const struct variant sent[] = {
	{ "taken", &bytes_schema, "The command has read input." },
	{ "exit", &exit_schema, "The last message: the command has ended." },
	{ "error", &error_schema, "The last message: the command could not be started." },
};
const struct schema exec_sends = TAGGED("ExecMessage", "type", sent);

static const struct field size_fields[] = {
	INT(exec_size, cols, EXACT, "Columns."),
	INT(exec_size, rows, EXACT, "Rows."),
};
static const struct schema size_schema = SCHEMA(exec_size, "ExecSize", size_fields);
static const struct field signal_fields[] = {
	STR(exec_signal, signal, 0, "Its name or number."),
};
static const struct schema signal_schema = SCHEMA(exec_signal, "ExecSignal", signal_fields);
static const struct variant taken[] = {
	{ "eof", &nothing_schema, "Standard input ends." },
	{ "resize", &size_schema, "The terminal has another size." },
	{ "signal", &signal_schema, "Send a signal to the command's process group." },
};
const struct schema exec_takes = TAGGED("ExecRequest", "type", taken);

static int start(struct bash_ws *a, const struct exec_start *wish, struct err *err)
{
	const struct server *server = a->call->server;
	const struct attached_spec spec = {
		.command = wish->command,
		.cwd = server->config->workspace,
		.home = server->home,
		.as = user_sandbox(server->config->user, err),
		.terminal = wish->tty,
		.cols = wish->cols,
		.rows = wish->rows,
		.term = wish->term,
	};
	return spec.as ? attached_start(&a->command, &spec, a->call->arena, err) : -1;
}

/* ---- passing on ---- */

/* Reads once and sends it, behind a byte that tells which it is. How much; 0: there is none now. */
static ssize_t pass_output(struct bash_ws *a, int which, char *piece, struct err *err)
{
	size_t n = attached_read(&a->command, which, piece + 1, PIECE);
	piece[0] = (char)which;
	return n && ws_send(a->call->ws, WS_BINARY, piece, n + 1, err) < 0 ? -1 : (ssize_t)n;
}

/* What the command has printed before it ended. */
static int pass_rest(struct bash_ws *a, int which, char *piece, struct err *err)
{
	ssize_t left = (ssize_t)attached_held(&a->command, which), n = 1;
	while (left > 0 && n > 0) {
		n = pass_output(a, which, piece, err);
		left -= n;
	}
	return n < 0 ? -1 : 0;
}

static int pass_input(struct bash_ws *a, struct err *err)
{
	size_t done = attached_write(&a->command, a->input.data, a->input.len);
	if (done)
		memmove(a->input.data, a->input.data + done, a->input.len - done);
	a->input.len -= done;
	a->taken += done;
	if (a->input_ended && !a->input.len && !a->command.terminal)
		attached_close(&a->command, ATTACHED_IN);
	/* All of it is always told: a caller may wait for that before it sends more. */
	if (!a->taken || (a->taken < TAKEN_STEP && a->input.len))
		return 0;
	size_t told = a->taken;
	a->taken = 0;
	return call_send(a->call, "taken", NULL, &(struct exec_taken){ (int64_t)told }, err);
}

static void obey(struct bash_ws *a, const char *type, const void *in)
{
	const struct exec_size *size = in;
	const struct exec_signal *wish = in;
	if (!strcmp(type, "eof"))
		a->input_ended = true;
	else if (!strcmp(type, "resize"))
		attached_resize(&a->command, size->cols, size->rows);
	else if (!strcmp(type, "signal") && wish->signal && signal_number(wish->signal))
		(void)program_signal(a->command.program, signal_number(wish->signal), NULL);
}

static void take_word(struct bash_ws *a, const struct ws_message *message)
{
	struct arena arena = { 0 };
	struct tagged word = { 0 };
	if (message->len <= WORD_MAX &&
	    desc_message(&exec_takes, message->data, message->len, &arena, &word) == 0 && word.tag)
		obey(a, word.tag, word.value);
	arena_done(&arena);
}

/* 1: go on, 0: the caller closed, -1: it is gone. */
static int take_messages(struct bash_ws *a, struct err *err)
{
	struct ws_message message;
	for (;;) {
		int got = ws_recv(a->call->ws, &message, 0, err);
		if (got < 0 && err->code == ERR_SLOW)
			return 1;
		if (got <= 0)
			return got;
		if (message.opcode == WS_TEXT)
			take_word(a, &message);
		else if (!a->input_ended && buf_add(&a->input, message.data, message.len) < 0)
			return err_set(err, ERR_TOO_LARGE,
				       "more input than the window that 'taken' messages allow");
		if (pass_input(a, err) < 0)
			return -1;
	}
}

/* One round. 1: go on, 0: done, -1: the caller is gone. */
static int attend(struct bash_ws *a, char *piece, struct err *err)
{
	struct pollfd fds[] = {
		{ .fd = ws_fd(a->call->ws), .events = POLLIN },
		{ .fd = a->input.len ? a->command.fds[ATTACHED_IN] : -1, .events = POLLOUT },
		{ .fd = a->command.fds[ATTACHED_OUT], .events = POLLIN },
		{ .fd = a->command.fds[ATTACHED_ERR], .events = POLLIN },
		{ .fd = program_fd(a->command.program), .events = POLLIN },
	};
	int ms = ws_pending(a->call->ws) ? 0 : ws_wait_ms(a->call->ws);
	const struct wait wait = { ms < 0 ? INT64_MAX : clock_ms() + ms, -1,
				   server_stop_fd(a->call->server) };
	enum wake wake = wait_stream(&wait, fds, COUNT(fds));
	if (wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	if (fds[1].revents && pass_input(a, err) < 0)
		return -1;
	if (pass_output(a, ATTACHED_OUT, piece, err) < 0 ||
	    pass_output(a, ATTACHED_ERR, piece, err) < 0)
		return -1;
	if (fds[4].revents) {
		struct program_status how;
		(void)program_wait(a->command.program, &(struct wait){ INT64_MAX, -1, -1 }, &how);
		a->status = how.code;
		a->ended = true;
		return pass_rest(a, ATTACHED_OUT, piece, err) < 0
			       ? -1
			       : pass_rest(a, ATTACHED_ERR, piece, err);
	}
	return take_messages(a, err);
}

static int run(struct bash_ws *a, const struct exec_start *wish, struct err *err)
{
	int64_t killed = limits_killed();
	if (start(a, wish, err) < 0) {
		struct exec_end end = { .message = err->msg }; /* a close frame would cut it off */
		(void)call_send(a->call, "error", NULL, &end, NULL);
		ws_close(a->call->ws, WS_TRY_LATER, err->msg);
		return 0;
	}
	ws_set_send_timeout_ms(a->call->ws, SEND_MS);
	ws_set_keepalive_ms(a->call->ws, KEEPALIVE_MS);
	auto_free char *piece = xmalloc(PIECE + 1);
	const char *text = wish->command ? wish->command : "bash";
	const struct journal_started started = { "exec", NULL, NULL, { text, strlen(text) } };
	struct journal_run *running = journal_begin(JOURNAL_COMMAND_STARTED, &started);
	int result;
	while ((result = attend(a, piece, err)) > 0)
		;
	journal_end(running, a->ended ? "completed" : "killed", a->ended ? a->status : INT_ABSENT);
	if (a->ended) {
		char why[200];
		bool starved = a->status == 128 + SIGKILL && limits_killed() > killed;
		struct exec_end end = { a->status, starved ? limits_starved(why, sizeof why)
							   : call_hint(a->call) };
		return result < 0 ? -1 : call_send(a->call, "exit", NULL, &end, err);
	}
	/* Nobody is there any more: as when a terminal is hung up, but for all of it. */
	program_end(a->command.program, 0, NULL);
	return result;
}

static int attach(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct ws_message message;
	struct bash_ws a = { .call = call, .command = ATTACHED_NONE, .input = BUF(WINDOW) };
	int got = ws_recv(call->ws, &message, WORD_MS, err);
	if (got <= 0)
		return got;
	struct exec_start wish = { 0 };
	if (desc_message(&exec_start_schema, message.data, message.len, call->arena, &wish) < 0) {
		ws_close(call->ws, WS_UNSUPPORTED, "the first message is a JSON object");
		return 0;
	}
	int result = run(&a, &wish, err);
	attached_done(&a.command);
	buf_done(&a.input);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/bash/ws", attach, NULL, NULL, "Run a command with its input and output",
	  "The first message is JSON: {command, tty, cols, rows, term}; without a command, a shell. Then "
	  "binary messages to the server are its standard input, of which 1 MiB may be on its way. "
	  "Binary messages from the server begin with a byte, 1 for standard output and 2 for standard "
	  "error. A command whose caller leaves is ended.",
	  .flags = UPGRADE | RUNS, .sends = &exec_sends, .takes = &exec_takes },
};
const struct route_group bash_ws_group = { "bash", "Commands as streams.", routes, COUNT(routes) };
