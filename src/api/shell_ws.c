/* The web terminal: the WebSocket that its page shows a shell session through. Any number of viewers
 * may share a session; each is served at its own pace from the newest part of the terminal's stream. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"
#include "net/call.h"
#include "net/server.h"
#include "net/ws.h"
#include "shell/shell.h"
#include "shell/shells.h"
#include "term/screen.h"

enum {
	PIECE = 32768, /* bytes of output in one message */
	REPLAY_MAX = 4 << 20,
	PING_MS = 30000,
	READY_CHECK_MS = 500,
	INPUT_MAX = 1 << 20, /* typed and not yet taken by the terminal */
	CELLS_MAX = 10000,
};

struct viewer {
	struct call *call;
	struct shell *shell;
	struct waiter waiter;
	int64_t at; /* where in the terminal's stream it is */
	unsigned size_version;
	bool told_end, told_ready;
	struct buf input; /* that the terminal had no room for */
	int64_t ping_at;
};

/* ---- messages to the page ---- */

struct words {
	struct text data;
};
static const struct field words_fields[] = { TEXT(words, data, 0, "Text.") };
static const struct schema words_schema = SCHEMA(words, "TerminalText", words_fields);
static const struct schema nothing_schema = { .name = "TerminalNothing" };

struct size {
	int64_t cols, rows;
};
static const struct field size_fields[] = {
	INT(size, cols, EXACT | MIN | MAX, "Columns.", .min = 1, .max = CELLS_MAX),
	INT(size, rows, EXACT | MIN | MAX, "Rows.", .min = 1, .max = CELLS_MAX),
};
static const struct schema size_schema = SCHEMA(size, "TerminalSize", size_fields);
struct sized {
	const struct size *data;
};
static const struct field sized_fields[] = {
	OBJ(sized, data, 0, "{cols, rows}.", .of = &size_schema),
};
static const struct schema sized_schema = SCHEMA(sized, "TerminalSized", sized_fields);

struct code {
	int64_t exit_code;
};
static const struct field code_fields[] = { INT(code, exit_code, 0, "Of the shell.") };
static const struct schema code_schema = SCHEMA(code, "TerminalExitCode", code_fields);
struct shell_ws_ended {
	const struct code *data;
};
static const struct field ended_fields[] = {
	OBJ(shell_ws_ended, data, 0, "{exit_code}.", .of = &code_schema),
};
static const struct schema ended_schema = SCHEMA(shell_ws_ended, "TerminalEnded", ended_fields);

struct beat {
	int64_t timestamp;
};
static const struct field beat_fields[] = {
	INT(beat, timestamp, 0, "Milliseconds since 1970; of a `pong`, that of the `ping`."),
};
static const struct schema beat_schema = SCHEMA(beat, "TerminalBeat", beat_fields);

static const struct variant sent[] = {
	{ "session_id", &words_schema, "First: the session's identifier." },
	{ "ready", &words_schema, "The shell reads what is typed." },
	{ "output", &words_schema, "What the terminal shows, escape sequences and all." },
	{ "restore_output", &words_schema, "What it shows already, for one who comes later." },
	{ "terminal_restored", &nothing_schema, "That was all of it." },
	{ "size", &sized_schema, "It has another size." },
	{ "exit", &ended_schema, "The shell has ended: `restart` starts another." },
	{ "error", &words_schema, "What went wrong, for people." },
	{ "ping", &beat_schema, "To be answered with `pong`." },
	{ "pong", &beat_schema, "The answer to a `ping`." },
};
static const struct schema terminal_sends = TAGGED("TerminalMessage", "type", sent);

struct shell_ws_stamp {
	double timestamp;
};
static const struct field stamp_fields[] = {
	NUM(shell_ws_stamp, timestamp, EXACT | MIN | MAX, "Any number: the `pong` has it too.",
	    .def = "0", .alias = "data", .min = -0x1p53, .max = 0x1p53),
};
static const struct schema stamp_schema = SCHEMA(shell_ws_stamp, "TerminalStamp", stamp_fields);

static const struct variant taken[] = {
	{ "input", &words_schema, "What is typed." },
	{ "resize", &sized_schema, "The page has another size." },
	{ "restart", &nothing_schema, "Start a shell where there is none." },
	{ "ping", &stamp_schema, "Answered with `pong`." },
	{ "pong", &stamp_schema },
};
static const struct schema terminal_takes = TAGGED("TerminalRequest", "type", taken);

static int send_text(struct viewer *v, const char *type, const char *text, size_t len,
		     struct err *err)
{
	return call_send(v->call, type, NULL, &(struct words){ { text, len } }, err);
}

static int send_size(struct viewer *v, int cols, int rows, struct err *err)
{
	return call_send(v->call, "size", NULL, &(struct sized){ &(struct size){ cols, rows } },
			 err);
}

static int send_ping(struct viewer *v, struct err *err)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	v->ping_at = clock_ms() + PING_MS;
	struct beat beat = { (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 };
	return call_send(v->call, "ping", NULL, &beat, err);
}

/* What the screen shows now, for a viewer that comes late or fell behind. */
static int send_screen(struct viewer *v, bool announce, struct err *err)
{
	auto_buf struct buf text = BUF(REPLAY_MAX);
	const struct screen *screen = shell_screen(v->shell, &v->at);
	if (v->at)
		screen_replay(screen, &text);
	shell_screen_done(v->shell);
	if (!announce)
		return send_text(v, "output", text.data ? text.data : "", text.len, err);
	if (send_text(v, "restore_output", text.data ? text.data : "", text.len, err) < 0)
		return -1;
	return call_send(v->call, "terminal_restored", NULL, NULL, err);
}

/* Sends what is new. A character that is cut off waits for its rest. */
static int send_output(struct viewer *v, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	for (;;) {
		shell_lock(v->shell);
		struct shell_tail tail = shell_tail(v->shell);
		bool behind = v->at < tail.start;
		size_t skip = behind ? 0 : (size_t)(v->at - tail.start);
		size_t n = tail.len - skip < PIECE ? tail.len - skip : PIECE;
		if (n)
			memcpy(piece, tail.data + skip, n);
		shell_unlock(v->shell);
		if (behind) {
			if (send_text(v, "output", "\033c", 2, err) < 0 ||
			    send_screen(v, false, err) < 0)
				return -1;
			continue;
		}
		n -= n ? utf8_partial(piece, n) : 0;
		if (!n)
			return 0;
		v->at += (int64_t)n;
		if (send_text(v, "output", piece, n, err) < 0)
			return -1;
	}
}

/* Tells about a new size, and about the end of the shell and of the session: 0 then. */
static int send_changes(struct viewer *v, struct err *err)
{
	int cols, rows;
	shell_lock(v->shell);
	bool resized = v->size_version != shell_size_version(v->shell);
	bool running = shell_running(v->shell), closed = shell_ended(v->shell);
	bool ready = shell_ready(v->shell);
	int code = shell_exit_code(v->shell);
	shell_size(v->shell, &cols, &rows);
	v->size_version = shell_size_version(v->shell);
	shell_unlock(v->shell);
	if (resized && send_size(v, cols, rows, err) < 0)
		return -1;
	if (closed) {
		ws_close(v->call->ws, WS_NORMAL, "the session was ended");
		return 0;
	}
	struct shell_ws_ended ended = { &(struct code){ code } };
	if (!running && !v->told_end && call_send(v->call, "exit", NULL, &ended, err) < 0)
		return -1;
	if (ready && !v->told_ready && send_text(v, "ready", "Terminal ready", 14, err) < 0)
		return -1;
	v->told_end = !running;
	v->told_ready = ready;
	return 1;
}

/* ---- messages from the page ---- */

static int type_more(struct viewer *v, const char *data, size_t len, struct err *err)
{
	ssize_t n = 0;
	if (!v->input.len) {
		shell_lock(v->shell);
		n = shell_running(v->shell) ? shell_type(v->shell, data, len, err) : (ssize_t)len;
		shell_unlock(v->shell);
	}
	if (n < 0)
		return send_text(v, "error", err->msg, strlen(err->msg), err);
	if (buf_add(&v->input, data + n, len - (size_t)n) < 0) {
		v->input.full = false;
		static const char text[] = "The terminal does not read: input was dropped.";
		return send_text(v, "error", text, sizeof text - 1, err);
	}
	return 0;
}

/* Types what had to wait. */
static void type_rest(struct viewer *v)
{
	shell_lock(v->shell);
	ssize_t n = shell_type(v->shell, v->input.data, v->input.len, NULL);
	shell_unlock(v->shell);
	size_t done = n < 0 ? v->input.len : (size_t)n;
	memmove(v->input.data, v->input.data + done, v->input.len - done);
	v->input.len -= done;
}

static int restart(struct viewer *v, struct err *err)
{
	shell_lock(v->shell);
	int result = shell_start(v->shell, err);
	shell_unlock(v->shell);
	return result < 0 ? send_text(v, "error", err->msg, strlen(err->msg), err) : 0;
}

static int obey(struct viewer *v, const char *type, const void *in, struct err *err)
{
	if (!strcmp(type, "input")) {
		const struct text *typed = &((const struct words *)in)->data;
		return typed->data ? type_more(v, typed->data, typed->len, err) : 0;
	}
	if (!strcmp(type, "resize")) {
		const struct size *size = ((const struct sized *)in)->data;
		if (size && size->cols != INT_ABSENT && size->rows != INT_ABSENT)
			v->size_version = shell_resize(v->shell, (int)size->cols, (int)size->rows);
		return 0;
	}
	if (!strcmp(type, "restart"))
		return restart(v, err);
	if (!strcmp(type, "ping")) {
		struct beat beat = { (int64_t)((const struct shell_ws_stamp *)in)->timestamp };
		return call_send(v->call, "pong", NULL, &beat, err);
	}
	return 0;
}

static int take_message(struct viewer *v, const struct ws_message *message, struct err *err)
{
	struct arena arena = { 0 };
	struct tagged got = { 0 };
	size_t len = strnlen(message->data, message->len);
	int result = 0;
	if (desc_message(&terminal_takes, message->data, len, &arena, &got) < 0)
		result = send_text(v, "error", "Messages are JSON objects with a type.", 38, err);
	else if (got.tag)
		result = obey(v, got.tag, got.value, err);
	arena_done(&arena);
	return result;
}

/* ---- the loop ---- */

static int take_messages(struct viewer *v, struct err *err)
{
	struct ws_message message;
	for (;;) {
		int got = ws_recv(v->call->ws, &message, 0, err);
		if (got < 0 && err->code == ERR_SLOW)
			return 1;
		if (got <= 0)
			return got;
		if (take_message(v, &message, err) < 0)
			return -1;
	}
}

/* One round: waits, then does what there is to do. 1: go on, 0: the page closed, -1: an error. */
static int attend(struct viewer *v, struct err *err)
{
	auto_close int room = -1;
	if (v->input.len) {
		shell_lock(v->shell);
		room = shell_input_fd(v->shell);
		shell_unlock(v->shell);
	}
	struct pollfd fds[] = { { .fd = ws_fd(v->call->ws), .events = POLLIN },
				{ .fd = v->waiter.fd, .events = POLLIN },
				{ .fd = room, .events = POLLOUT } };
	int64_t check_at = v->told_ready || v->told_end ? INT64_MAX : clock_ms() + READY_CHECK_MS;
	const struct wait wait = { check_at < v->ping_at ? check_at : v->ping_at, -1,
				   server_stop_fd(v->call->server) };
	enum wake wake = ws_pending(v->call->ws) ? wait_check(&wait)
						 : wait_stream(&wait, fds, COUNT(fds));
	eventfd_t ignored;
	(void)eventfd_read(v->waiter.fd, &ignored);
	if (wake == WAKE_LEFT)
		return wake_err(wake, err);
	if (wake == WAKE_STOPPING) {
		ws_close(v->call->ws, WS_GOING_AWAY, "the server stops");
		return 0;
	}
	if (v->input.len && (fds[2].revents || room < 0))
		type_rest(v);
	if (clock_ms() >= v->ping_at && send_ping(v, err) < 0)
		return -1;
	int changes = send_output(v, err) < 0 ? -1 : send_changes(v, err);
	return changes > 0 ? take_messages(v, err) : changes;
}

struct attach {
	const char *session_id;
};
static const struct field attach_fields[] = {
	STR(attach, session_id, QUERY, "Session to show; a new one when absent or empty.",
	    .max_len = SESSION_ID_MAX, .alias = "id"),
};
static const struct schema attach_schema = SCHEMA(attach, "TerminalAttach", attach_fields);

static int greet(struct viewer *v, struct err *err)
{
	shell_lock(v->shell);
	struct shell_tail tail = shell_tail(v->shell);
	/* It may run and have said nothing yet. */
	bool existing = shell_running(v->shell) || tail.start + (int64_t)tail.len > 0;
	int started = existing ? 0 : shell_start(v->shell, err), cols, rows;
	v->size_version = shell_size_version(v->shell);
	shell_size(v->shell, &cols, &rows);
	shell_unlock(v->shell);
	const char *id = shell_id(v->shell);
	if (send_text(v, "session_id", id, strlen(id), err) < 0)
		return -1;
	if (started < 0)
		return send_text(v, "error", err->msg, strlen(err->msg), err);
	if (existing && (send_size(v, cols, rows, err) < 0 || send_screen(v, true, err) < 0))
		return -1;
	return 0;
}

static int show_terminal(struct call *call, const void *in, struct err *err)
{
	const struct attach *request = in;
	struct viewer viewer = { .call = call,
				 .input = BUF(INPUT_MAX),
				 .ping_at = clock_ms() + PING_MS };
	viewer.shell = shells_open(call->server, request->session_id, NULL, false, 0, err);
	if (!viewer.shell) {
		ws_close(call->ws, WS_TRY_LATER, err->msg);
		return 0;
	}
	viewer.waiter.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* there is news at first */
	shell_lock(viewer.shell);
	shell_join(viewer.shell, &viewer.waiter);
	shell_unlock(viewer.shell);
	int result = greet(&viewer, err);
	if (result == 0)
		do
			result = attend(&viewer, err);
		while (result > 0);
	shell_lock(viewer.shell);
	shell_leave(viewer.shell, &viewer.waiter);
	shell_unlock(viewer.shell);
	close(viewer.waiter.fd);
	buf_done(&viewer.input);
	shells_release(&viewer.shell);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/shell/ws", show_terminal, &attach_schema, NULL,
	  "A shell session as a terminal", .flags = UPGRADE | RUNS, .sends = &terminal_sends,
	  .takes = &terminal_takes },
};
const struct route_group shell_ws_group = { "terminal", "Shell sessions as terminals.", routes,
					    COUNT(routes) };
