#include "mcp/stdio.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/wait.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/method.h"
#include "mcp/rpc_message.h"
#include "mcp/session.h"
#include "mcp/stream.h"
#include "net/server.h"

enum { READ_SIZE = 65536, TICK_MS = 1000, GRACE_MS = 30000 };

struct stdio {
	struct server *server;
	struct mcp_session *session;
	struct mcp_stream *stream; /* the session's: everything goes there */
	int in, out, signal_fd;    /* a signal stays there: everybody sees it */
	struct buf line;
	bool skipping; /* the rest of a line that is too long */
	_Atomic bool gone;
};

/* ---- writing ---- */

/* The descriptor may block, and is not only ours to change: as much at a time as a pipe that has room
 * takes for certain. A client that does not read is not waited for once there is a signal. */
static bool write_line(struct stdio *s, char *text, size_t len)
{
	text[len] = '\n'; /* in place of the NUL at its end */
	for (size_t done = 0; done <= len;) {
		const struct wait wait = { INT64_MAX, -1, s->signal_fd };
		size_t left = len + 1 - done;
		if (wait_fd(&wait, s->out, POLLOUT) != WAKE_READY)
			return false;
		ssize_t n = write(s->out, text + done, left < PIPE_BUF ? left : PIPE_BUF);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void *writer(void *arg)
{
	struct stdio *s = arg;
	struct stream_message *message;
	uint64_t sent = 0, turn = stream_take(s->stream);
	while (!s->gone) {
		struct stream_state state = stream_look(s->stream, turn);
		while ((message = stream_next(s->stream, sent))) {
			sent = message->number;
			s->gone = s->gone || !write_line(s, message->text, message->len);
			free(message);
			stream_forget(s->stream, sent);
		}
		if (state.over)
			break;
		const struct wait wait = { clock_ms() + TICK_MS, s->out, -1 };
		enum wake wake = stream_wait(s->stream, &state, &wait);
		if (wake == WAKE_TIMEOUT)
			exchange_tick(s->stream);
		s->gone = s->gone || wake == WAKE_LEFT;
	}
	return NULL;
}

/* ---- reading ---- */

static void refuse(struct stdio *s, const json_t *id, int code, const char *text,
		   const json_t *data)
{
	struct jw jw;
	jw_init(&jw, READ_SIZE);
	rpc_write_error(&jw, rpc_message_id(id), code, text, data);
	stream_add(s->stream, jw.out.data, jw.out.len, false);
	jw_done(&jw);
}

/* Whether a message of the revision without sessions says all it has to. */
static bool check_modern(struct stdio *s, const json_t *message)
{
	struct rpc_message_problem problem;
	if (rpc_message_check_meta(message, &problem) == 0)
		return true;
	refuse(s, json_object_get(message, "id"), problem.code, problem.text, problem.data);
	json_decref(problem.data);
	return false;
}

/* Takes the message over. */
static void take_message(struct stdio *s, json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *id = json_object_get(message, "id");
	const char *wrong = rpc_message_why_invalid(message);
	bool modern = rpc_message_is_modern(message);
	struct exchange_from from = { .server = s->server,
				      .session = s->session,
				      .revision = modern ? MCP_2026_07_28
							 : session_revision(s->session),
				      .base_url = "",
				      .listens = true };
	if (wrong) {
		refuse(s, id, RPC_INVALID, wrong, NULL);
	} else if (!method) {
		session_answered(s->session, message);
	} else if (!id && !strncmp(method, "notifications/", 14)) {
		method_notified(&from, message);
	} else if (!modern || !id || check_modern(s, message)) {
		struct exchange *ex = exchange_new(&from, s->stream, TAKE(message));
		exchange_start(ex);
		exchange_unref(ex);
	}
	json_decref(message);
}

static void take_line(struct stdio *s)
{
	struct err err;
	size_t i;
	json_t *message;
	if (s->skipping || strspn(s->line.data ? s->line.data : "", " \t\r") >= s->line.len) {
		s->skipping = false;
		s->line.len = 0;
		return;
	}
	json_t *value = json_parse(s->line.data, s->line.len, &err);
	s->line.len = 0;
	if (!value)
		refuse(s, NULL, RPC_PARSE, err.msg, NULL);
	else if (json_is_array(value) && session_revision(s->session) > MCP_2025_03_26)
		refuse(s, NULL, RPC_INVALID, "batches are not part of this revision", NULL);
	else if (json_is_array(value))
		json_array_foreach(value, i, message)
			take_message(s, json_deep_copy(message));
	else
		take_message(s, TAKE(value));
	json_decref(value);
}

/* False at the end of the input. */
static bool take_input(struct stdio *s)
{
	char data[READ_SIZE];
	ssize_t n = read(s->in, data, sizeof data);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	for (const char *at = data, *end = data + n; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (!s->skipping && buf_add(&s->line, at, (size_t)((stop ? stop : end) - at)) < 0) {
			refuse(s, NULL, RPC_INVALID, "the message is too large", NULL);
			s->line.len = 0;
			s->line.full = false;
			s->skipping = true;
		}
		if (stop)
			take_line(s);
		at = stop ? stop + 1 : end;
	}
	if (n == 0 && s->line.len)
		take_line(s); /* the last line may have no end */
	return n > 0;
}

/* Reads to the end of the input. False: the client is gone, or a signal came. */
static bool read_all(struct stdio *s)
{
	struct pollfd pfds[] = { { .fd = s->in, .events = POLLIN },
				 { .fd = s->signal_fd, .events = POLLIN } };
	while (!s->gone) {
		const struct wait tick = { clock_ms() + TICK_MS, -1, -1 };
		if (wait_poll(&tick, pfds, COUNT(pfds)) != WAKE_READY)
			continue;
		if (pfds[1].revents)
			return false;
		if (!take_input(s))
			return true;
	}
	return false;
}

/* The client has said all, and may still wait for replies. */
static void await_replies(struct stdio *s)
{
	int64_t until_ms = clock_ms() + GRACE_MS;
	enum wake wake = WAKE_TIMEOUT;
	while (wake == WAKE_TIMEOUT && !s->gone && clock_ms() < until_ms) {
		const struct wait tick = { clock_ms() + TICK_MS, s->out, s->signal_fd };
		wake = stream_wait_replies(s->stream, &tick);
	}
}

int stdio_serve(struct server *server, int in, int out)
{
	struct err err;
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	auto_close int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	struct stdio s = { .server = server,
			   .in = in,
			   .out = out,
			   .signal_fd = signal_fd,
			   .line = BUF((size_t)server->config->net.max_body) };
	pthread_t thread;
	s.session = session_open(MCP_NEWEST_SESSION, NULL, NULL, &err);
	if (!s.session) {
		log_error("%s", err.msg);
		return -1;
	}
	s.stream = session_stream(s.session);
	int result = thread_start_joinable(&thread, writer, &s) ? -1 : 0;
	if (result == 0 && read_all(&s))
		await_replies(&s);
	server->stopping = true;
	(void)eventfd_write(server->stop_fd, 1);
	stream_close(s.stream);
	if (result == 0)
		pthread_join(thread, NULL);
	(void)session_close(session_id(s.session), NULL);
	session_unref(s.session);
	buf_done(&s.line);
	return result;
}
