/* The desktop for people: RFB, as VNC viewers speak it, on a WebSocket. Bytes pass as they are; those of a
 * caller who may only look pass rfb.h. Little is kept: each side waits while the other does not read. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/routes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/chromium.h"
#include "config/config.h"
#include "desktop/display.h"
#include "desktop/rfb.h"
#include "desktop/rfb_release.h"
#include "net/call.h"
#include "net/dial.h"
#include "net/server.h"
#include "net/ws.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	START_MS = 60000, /* for a desktop that does not run yet */
	CONNECT_MS = 5000,
	TRIES = 3,
	SEND_MS = 30000, /* a side that takes nothing for so long is cut */
	KEEPALIVE_MS = 30000,
	LAST_MS = 1000, /* for what a caller sent before it left */
	PIECE = 65536,
	MESSAGE_MAX = 1 << 20,
};

struct vnc_tunnel {
	struct call *call;
	int rfb;
	struct rfb_viewer viewer;
	struct buf input; /* from the caller, and not taken yet */
	size_t input_at;
	int64_t stuck_ms; /* when it must have been taken */
	struct service_run *desktop;
	bool ended; /* the desktop has closed its side */
};

/* ---- to the desktop ---- */

static size_t input_left(const struct vnc_tunnel *t)
{
	return t->input.len - t->input_at;
}

static int send_input(struct vnc_tunnel *t, struct err *err)
{
	while (input_left(t)) {
		ssize_t n = send(t->rfb, t->input.data + t->input_at, input_left(t),
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return clock_ms() < t->stuck_ms
				       ? 0
				       : err_set(err, ERR_SLOW, "the desktop takes no input");
		if (n < 0) { /* what it has said before is still there */
			t->input_at = t->input.len;
			return 0;
		}
		t->input_at += (size_t)n;
		t->stuck_ms = clock_ms() + SEND_MS;
	}
	t->input.len = t->input_at = 0;
	return 0;
}

static int take_message(struct vnc_tunnel *t, const struct ws_message *message, struct err *err)
{
	if (message->opcode != WS_BINARY) {
		ws_close(t->call->ws, WS_UNSUPPORTED, "RFB is binary");
		return err_set(err, ERR_BAD_REQUEST, "RFB is binary");
	}
	t->stuck_ms = clock_ms() + SEND_MS;
	if (!t->call->view)
		return buf_add(&t->input, message->data, message->len);
	return rfb_viewer_pass(&t->viewer, message->data, message->len, &t->input, err);
}

/* 1: go on, 0: the caller closed, -1. */
static int pass_input(struct vnc_tunnel *t, struct err *err)
{
	struct ws_message message;
	while (!input_left(t)) {
		int got = ws_recv(t->call->ws, &message, 0, err);
		if (got < 0 && err->code == ERR_SLOW)
			return 1;
		if (got <= 0)
			return got;
		if (take_message(t, &message, err) < 0 || send_input(t, err) < 0)
			return -1;
		if (!ws_pending(t->call->ws))
			return 1;
	}
	return 1;
}

/* ---- from the desktop ---- */

static int pass_output(struct vnc_tunnel *t, char *piece, struct err *err)
{
	ssize_t n = recv(t->rfb, piece, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n <= 0) {
		t->ended = true;
		return 0;
	}
	return ws_send(t->call->ws, WS_BINARY, piece, (size_t)n, err) < 0 ? -1 : 1;
}

/* ---- both ---- */

static int64_t wait_until_ms(const struct vnc_tunnel *t)
{
	if (input_left(t))
		return t->stuck_ms;
	int ms = ws_pending(t->call->ws) ? 0 : ws_wait_ms(t->call->ws);
	return ms < 0 ? INT64_MAX : clock_ms() + ms;
}

static int step(struct vnc_tunnel *t, char *piece, struct err *err)
{
	bool full = input_left(t);
	struct pollfd fds[] = {
		{ .fd = full ? -1 : ws_fd(t->call->ws), .events = POLLIN },
		{ .fd = t->rfb, .events = (short)(POLLIN | (full ? POLLOUT : 0)) },
	};
	const struct wait wait = { wait_until_ms(t), full ? ws_fd(t->call->ws) : -1,
				   server_stop_fd(t->call->server) };
	enum wake wake = wait_stream(&wait, fds, COUNT(fds));
	if (wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	if (send_input(t, err) < 0)
		return -1;
	int result = fds[1].revents & ~POLLOUT ? pass_output(t, piece, err) : 1;
	return result > 0 ? pass_input(t, err) : result;
}

/* The last key that somebody pressed before they closed the page. */
static void send_last(struct vnc_tunnel *t)
{
	const struct wait wait = { clock_ms() + LAST_MS, -1, server_stop_fd(t->call->server) };
	while (!t->ended && send_input(t, NULL) == 0 && input_left(t) &&
	       wait_fd(&wait, t->rfb, POLLOUT) == WAKE_READY)
		;
}

/* As the sandbox user: at the path there may be whatever that has put there. */
static int connect_rfb(struct call *call, const struct service_run *run, const struct wait *wait,
		       struct err *err)
{
	const struct user *user = user_sandbox(call->server->config->user, err);
	const struct dial_wait patience = { .all = *wait, .connect_ms = CONNECT_MS };
	struct user_view view;
	if (!user || user_enter(user, &view, err) < 0)
		return -1;
	int fd = dial_unix(display_rfb(run), &patience, err);
	user_leave(&view);
	return fd;
}

/* One that is just being killed may still take a connection. */
static bool says_hello(struct call *call, int fd)
{
	char first;
	const struct wait wait = call_until(call, clock_ms() + CONNECT_MS);
	return wait_fd(&wait, fd, POLLIN) == WAKE_READY &&
	       recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* A connection to the desktop, which is started if need be, and a lease of that. -1 with err. */
static int open_rfb(struct call *call, struct service_run **ret, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	for (int tries = 0; tries < TRIES; tries++) {
		struct service_run *run = display_use(&wait, err);
		if (!run)
			return -1;
		const struct wait soon = call_until(call, clock_ms() + CONNECT_MS);
		auto_close int fd = connect_rfb(call, run, &soon, err);
		if (fd >= 0 && says_hello(call, fd)) {
			*ret = run;
			return TAKE_FD(fd);
		}
		if (fd >= 0)
			err_set(err, ERR_UNAVAILABLE, "the desktop does not answer");
		display_failed(run);
		service_release(run);
	}
	return -1;
}

/* A close frame has room for no more. */
static void close_with(struct call *call, int code, const char *why)
{
	char reason[120];
	snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, why);
	ws_close(call->ws, code, reason);
}

static void end(struct vnc_tunnel *t, int result, const struct err *err)
{
	send_last(t);
	if (t->ended)
		close_with(t->call, WS_GOING_AWAY,
			   display_failed(t->desktop) ? "the desktop has ended"
						      : "the desktop closed the connection");
	else if (result < 0 && err->code == ERR_FORBIDDEN)
		close_with(t->call, WS_PROTOCOL_ERROR, err->msg);
	else if (result < 0 && err->code == ERR_SLOW)
		close_with(t->call, WS_INTERNAL_ERROR, err->msg);
}

static int run(struct vnc_tunnel *t, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	ws_set_send_timeout_ms(t->call->ws, SEND_MS);
	ws_set_keepalive_ms(t->call->ws, KEEPALIVE_MS);
	chromium_watched(true);
	int result;
	while ((result = step(t, piece, err)) > 0)
		;
	end(t, result, err);
	chromium_watched(false);
	return result;
}

/* Not while the server stops: the desktop ends then, too. */
static void let_go(struct vnc_tunnel *t)
{
	const struct wait wait = { clock_ms() + LAST_MS, -1, server_stop_fd(t->call->server) };
	auto_close int fd = connect_rfb(t->call, t->desktop, &wait, NULL);
	if (fd >= 0)
		rfb_release(fd, display_gui(t->desktop), &wait);
}

static int attach(struct call *call, const void *in, struct err *err)
{
	struct vnc_tunnel t = { .call = call, .input = BUF(MESSAGE_MAX + RFB_HEAD_MAX) };
	(void)in;
	ws_set_max_message(call->ws, MESSAGE_MAX);
	t.rfb = open_rfb(call, &t.desktop, err);
	if (t.rfb < 0) {
		close_with(call, WS_TRY_LATER, err->msg);
		return 0;
	}
	int result = run(&t, err);
	close(t.rfb);
	if (!call->view && !t.ended)
		let_go(&t);
	service_release(t.desktop);
	buf_done(&t.input);
	return result;
}

/* ---- what the page asks ---- */

struct vnc_access {
	const char *scope;
};
static const struct field access_fields[] = {
	STR(vnc_access, scope, REQUIRED, "all, or view."),
};
static const struct schema access_schema = SCHEMA(vnc_access, "VncAccess", access_fields);
static const struct field access_data = { .type = T_OBJ, .of = &access_schema };

static int get_access(struct call *call, const void *in, struct err *err)
{
	const struct vnc_access access = { call->view ? "view" : "all" };
	(void)in;
	return call_reply(call, &access, err);
}

static const struct route routes[] = {
	{ "GET", "/websockify", attach, .summary = "Look at the desktop, by VNC",
	  .flags = UPGRADE | INTERNAL | VIEW, .type = "binary" },
	{ "GET", "/vnc/access", get_access, NULL, &access_data, "Whether the caller may only look",
	  .flags = BARE | INTERNAL | VIEW },
};
const struct route_group vnc_group = { "browser", "A browser on a desktop.", routes,
				       COUNT(routes) };
