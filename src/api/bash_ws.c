/* A command with its standard descriptors, or a terminal, on a WebSocket: what 'aio exec' speaks. Every
 * byte passes as it is, and little is kept: the command waits while its caller does not read. The other
 * way the caller waits until its input was taken, so that its other words are always heard. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/bash_ws.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/offline.h"
#include "net/server.h"
#include "net/ws.h"
#include "proc/limits.h"
#include "proc/program.h"
#include "proc/pty.h"
#include "proc/signals.h"
#include "proc/tree.h"
#include "proc/user.h"

enum {
	PIECE = 65536,
	WINDOW = 1 << 20,        /* of input that was sent and not yet taken */
	TAKEN_STEP = WINDOW / 4, /* that much is told at once */
	WORD_MS = 30000,         /* for the first message */
	SEND_MS = 24 * 3600000,  /* a caller may look at a page of output for long */
	KEEPALIVE_MS = 30000,
	CELLS_MAX = 1000,
	WORD_MAX = 4096,          /* of those after the first */
	TERMINAL_MAX = 2 * PIECE, /* more than a terminal holds that nobody has read */
};

enum { IN, OUT, ERR };

struct attached {
	struct call *call;
	struct program *program;
	int fds[3]; /* our ends; of a terminal IN and OUT are the same one. -1: closed */
	bool terminal, input_ended, ended;
	int status;
	struct buf input; /* that the command had no room for */
	size_t taken;     /* of it, and not told yet */
	char marker[112];
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

/* ---- the command's descriptors ---- */

static void set_size(int fd, int64_t cols, int64_t rows)
{
	if (cols >= 1 && cols <= CELLS_MAX && rows >= 1 && rows <= CELLS_MAX)
		(void)pty_resize(fd, (int)cols, (int)rows);
}

static int open_terminal(struct attached *a, const struct user *user, const struct exec_start *wish,
			 int theirs[3], struct err *err)
{
	if (pty_open(user, &a->fds[IN], &theirs[IN], err) < 0)
		return -1;
	set_size(a->fds[IN], wish->cols, wish->rows);
	a->fds[OUT] = fcntl(a->fds[IN], F_DUPFD_CLOEXEC, 3);
	theirs[OUT] = fcntl(theirs[IN], F_DUPFD_CLOEXEC, 3);
	theirs[ERR] = fcntl(theirs[IN], F_DUPFD_CLOEXEC, 3);
	return a->fds[OUT] < 0 || theirs[OUT] < 0 || theirs[ERR] < 0
		       ? err_set(err, errno, "no descriptor for a terminal")
		       : 0;
}

/* They are the user's, who may open them again by the names /dev/stdout and so on. */
static int open_pipes(struct attached *a, const struct user *user, int theirs[3], struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_set(err, errno, "pipe");
		theirs[i] = ends[i != IN];
		a->fds[i] = ends[i == IN];
		fcntl(a->fds[i], F_SETFL, O_NONBLOCK);
		if (user->other)
			(void)!fchown(theirs[i], user->uid, (gid_t)-1);
	}
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start(struct attached *a, const struct exec_start *wish, struct err *err)
{
	struct call *call = a->call;
	const char *text = wish->command;
	const struct user *user = user_sandbox(call->server->config->user, err);
	int theirs[3] = { -1, -1, -1 };
	if (!user)
		return -1;
	tree_marker(a->marker, sizeof a->marker, "exec");
	struct pair extra[] = { { "TERM", wish->term ? wish->term : "xterm-256color" },
				{ "PS1", "\\u@\\h:\\w\\$ " } };
	struct list more = { !a->terminal ? 0 : text ? 1 : 2, extra };
	char *command[] = { (char *)"bash", (char *)"-c", (char *)"--", (char *)text, NULL };
	char *shell[] = { (char *)"bash", a->terminal ? (char *)"-i" : NULL, NULL };
	struct program_spec spec = {
		.spawn = { .path = "/bin/bash",
			   .argv = text ? command : shell,
			   .cwd = call->server->config->workspace,
			   .terminal = a->terminal },
		.marker = a->marker,
	};
	spawn_sandboxed(&spec.spawn, call->arena, user, call->server->home, a->marker, &more);
	int result = a->terminal ? open_terminal(a, user, wish, theirs, err)
				 : open_pipes(a, user, theirs, err);
	memcpy(spec.spawn.fds, theirs, sizeof theirs);
	if (result == 0)
		a->program = program_start(&spec, err);
	for (int i = 0; i < 3; i++)
		close_fd(&theirs[i]);
	return a->program ? 0 : -1;
}

/* ---- passing on ---- */

/* Reads once and sends it, behind a byte that tells which it is. How much; 0: there is none now. */
static ssize_t pass_output(struct attached *a, int which, char *piece, struct err *err)
{
	if (a->fds[which] < 0)
		return 0;
	ssize_t n = read(a->fds[which], piece + 1, PIECE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		close_fd(&a->fds[which]);
		return 0;
	}
	piece[0] = (char)which;
	return ws_send(a->call->ws, WS_BINARY, piece, (size_t)n + 1, err) < 0 ? -1 : n;
}

/* What the command has printed before it ended. Others may hold the pipe, and fill it for ever. */
static int pass_rest(struct attached *a, int which, char *piece, struct err *err)
{
	int held = TERMINAL_MAX;
	if (!a->terminal && a->fds[which] >= 0)
		(void)ioctl(a->fds[which], FIONREAD, &held);
	ssize_t left = held, n = 1;
	while (left > 0 && n > 0) {
		n = pass_output(a, which, piece, err);
		left -= n;
	}
	return n < 0 ? -1 : 0;
}

static int pass_input(struct attached *a, struct err *err)
{
	size_t had = a->input.len;
	while (a->input.len && a->fds[IN] >= 0) {
		ssize_t n = write(a->fds[IN], a->input.data, a->input.len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n < 0) /* nobody reads it any more */
			close_fd(&a->fds[IN]);
		size_t done = n < 0 ? a->input.len : (size_t)n;
		memmove(a->input.data, a->input.data + done, a->input.len - done);
		a->input.len -= done;
	}
	if (a->fds[IN] < 0)
		a->input.len = 0;
	a->taken += had - a->input.len;
	if (a->input_ended && !a->input.len && !a->terminal)
		close_fd(&a->fds[IN]);
	/* All of it is always told: a caller may wait for that before it sends more. */
	if (!a->taken || (a->taken < TAKEN_STEP && a->input.len))
		return 0;
	size_t told = a->taken;
	a->taken = 0;
	return call_send(a->call, "taken", NULL, &(struct exec_taken){ (int64_t)told }, err);
}

static void obey(struct attached *a, const char *type, const void *in)
{
	const struct exec_size *size = in;
	const struct exec_signal *wish = in;
	if (!strcmp(type, "eof"))
		a->input_ended = true;
	else if (!strcmp(type, "resize") && a->terminal && a->fds[IN] >= 0)
		set_size(a->fds[IN], size->cols, size->rows);
	else if (!strcmp(type, "signal") && wish->signal && signal_number(wish->signal))
		(void)program_signal(a->program, signal_number(wish->signal), NULL);
}

static void take_word(struct attached *a, const struct ws_message *message)
{
	struct arena arena = { 0 };
	struct tagged word = { 0 };
	if (message->len <= WORD_MAX &&
	    desc_message(&exec_takes, message->data, message->len, &arena, &word) == 0 && word.tag)
		obey(a, word.tag, word.value);
	arena_done(&arena);
}

/* 1: go on, 0: the caller closed, -1: it is gone. */
static int take_messages(struct attached *a, struct err *err)
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
			return err_set(err, ERR_TOO_LARGE, "more input than was taken");
		if (pass_input(a, err) < 0)
			return -1;
	}
}

/* One round. 1: go on, 0: done, -1: the caller is gone. */
static int attend(struct attached *a, char *piece, struct err *err)
{
	struct pollfd fds[] = {
		{ .fd = ws_fd(a->call->ws), .events = POLLIN },
		{ .fd = a->input.len ? a->fds[IN] : -1, .events = POLLOUT },
		{ .fd = a->fds[OUT], .events = POLLIN },
		{ .fd = a->fds[ERR], .events = POLLIN },
		{ .fd = program_fd(a->program), .events = POLLIN },
	};
	int ms = ws_pending(a->call->ws) ? 0 : ws_wait_ms(a->call->ws);
	const struct wait wait = { ms < 0 ? INT64_MAX : clock_ms() + ms, -1,
				   server_stop_fd(a->call->server) };
	enum wake wake = wait_stream(&wait, fds, COUNT(fds));
	if (wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	if (fds[1].revents && pass_input(a, err) < 0)
		return -1;
	if (pass_output(a, OUT, piece, err) < 0 || pass_output(a, ERR, piece, err) < 0)
		return -1;
	if (fds[4].revents) {
		struct program_status how;
		(void)program_wait(a->program, &(struct wait){ INT64_MAX, -1, -1 }, &how);
		a->status = how.code;
		a->ended = true;
		return pass_rest(a, OUT, piece, err) < 0 ? -1 : pass_rest(a, ERR, piece, err);
	}
	return take_messages(a, err);
}

static int run(struct attached *a, const struct exec_start *wish, struct err *err)
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
	program_end(a->program, 0, NULL);
	return result;
}

static int attach(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct ws_message message;
	struct attached a = { .call = call, .fds = { -1, -1, -1 }, .input = BUF(WINDOW) };
	int got = ws_recv(call->ws, &message, WORD_MS, err);
	if (got <= 0)
		return got;
	struct exec_start wish = { 0 };
	if (desc_message(&exec_start_schema, message.data, message.len, call->arena, &wish) < 0) {
		ws_close(call->ws, WS_UNSUPPORTED, "the first message is a JSON object");
		return 0;
	}
	a.terminal = wish.tty;
	int result = run(&a, &wish, err);
	for (int i = 0; i < 3; i++)
		close_fd(&a.fds[i]);
	program_unref(a.program);
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
