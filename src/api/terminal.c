/* The web terminal: a page, and the WebSocket it shows a shell session through. Any number of viewers
 * may share a session; each is served at its own pace from the newest part of the terminal's stream. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/routes.h"
#include "api/shells.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"
#include "net/call.h"
#include "net/server.h"
#include "net/static.h"
#include "net/ws.h"
#include "proc/shell.h"
#include "term/screen.h"

enum {
	PIECE = 32768, /* bytes of output in one message */
	REPLAY_MAX = 4 << 20,
	PING_MS = 30000,
	READY_CHECK_MS = 500,
	INPUT_MAX = 1 << 20, /* typed and not yet taken by the terminal */
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

static int send_text(struct viewer *v, const char *type, const char *text, size_t len,
		     struct err *err)
{
	struct jw jw;
	jw_init(&jw, REPLAY_MAX * 6 + 1024);
	jw_open(&jw, '{');
	jw_key_str(&jw, "type", type);
	if (text) {
		jw_key(&jw, "data");
		jw_text(&jw, text, len);
	}
	jw_close(&jw, '}');
	int result = ws_send(v->call->ws, WS_TEXT, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

static int send_raw(struct viewer *v, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int send_raw(struct viewer *v, struct err *err, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return ws_send(v->call->ws, WS_TEXT, text, (size_t)len, err);
}

static int send_size(struct viewer *v, int cols, int rows, struct err *err)
{
	return send_raw(v, err, "{\"type\":\"size\",\"data\":{\"cols\":%d,\"rows\":%d}}", cols,
			rows);
}

static int send_ping(struct viewer *v, struct err *err)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	v->ping_at = clock_ms() + PING_MS;
	return send_raw(v, err, "{\"type\":\"ping\",\"timestamp\":%lld}",
			(long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
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
	return send_text(v, "terminal_restored", NULL, 0, err);
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
	if (!running && !v->told_end &&
	    send_raw(v, err, "{\"type\":\"exit\",\"data\":{\"exit_code\":%d}}", code) < 0)
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

static int take_message(struct viewer *v, const struct ws_message *message, struct err *err)
{
	auto_free char *text = xstrndup(message->data, message->len);
	json_t *object = json_parse(text, strlen(text), NULL);
	const char *type = json_string_value(json_object_get(object, "type"));
	json_t *data = json_object_get(object, "data");
	int result = 0;
	if (!type) {
		result = send_text(v, "error", "Messages are JSON objects with a type.", 38, err);
	} else if (!strcmp(type, "input") && json_is_string(data)) {
		result = type_more(v, json_string_value(data), json_string_length(data), err);
	} else if (!strcmp(type, "resize")) {
		json_int_t cols = json_integer_value(json_object_get(data, "cols"));
		json_int_t rows = json_integer_value(json_object_get(data, "rows"));
		if (cols > 0 && rows > 0 && cols <= 10000 && rows <= 10000)
			v->size_version = shell_resize(v->shell, (int)cols, (int)rows);
	} else if (!strcmp(type, "restart")) {
		shell_lock(v->shell);
		result = shell_start(v->shell, err);
		shell_unlock(v->shell);
		if (result < 0)
			result = send_text(v, "error", err->msg, strlen(err->msg), err);
	} else if (!strcmp(type, "ping")) {
		json_t *stamp = json_object_get(object, "timestamp");
		result = send_raw(v, err, "{\"type\":\"pong\",\"timestamp\":%lld}",
				  (long long)json_number_value(stamp ? stamp : data));
	}
	json_decref(object);
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
	struct pollfd pfds[] = { { .fd = ws_fd(v->call->ws), .events = POLLIN },
				 { .fd = v->waiter.fd, .events = POLLIN },
				 { .fd = server_stop_fd(v->call->server), .events = POLLIN },
				 { .fd = room, .events = POLLOUT } };
	int64_t left = v->ping_at - clock_ms();
	left = !v->told_ready && !v->told_end && left > READY_CHECK_MS ? READY_CHECK_MS : left;
	if (!ws_pending(v->call->ws) && poll(pfds, COUNT(pfds), left > 0 ? (int)left : 0) < 0 &&
	    errno != EINTR)
		return err_set(err, errno, "poll");
	eventfd_t ignored;
	(void)eventfd_read(v->waiter.fd, &ignored);
	if (pfds[2].revents) {
		ws_close(v->call->ws, WS_GOING_AWAY, "the server stops");
		return 0;
	}
	if (v->input.len && (pfds[3].revents || room < 0))
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
	shell_unref(viewer.shell);
	return result;
}

/* ---- the page ---- */

static int page(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return static_file(call, "web/terminal/index.html", err);
}

static const struct route routes[] = {
	{ "GET", "/terminal", page, .flags = INTERNAL },
	{ "GET", "/v1/shell/ws", show_terminal, &attach_schema, NULL,
	  "A shell session as a terminal",
	  "JSON messages. From the server: session_id, ready, output, restore_output, terminal_restored, "
	  "size, exit, error, ping. To it: input, resize {cols, rows}, restart, ping, pong.",
	  .flags = UPGRADE | RUNS },
};
const struct route_group terminal_group = { "terminal", "Shell sessions as terminals.", routes,
					    COUNT(routes) };
