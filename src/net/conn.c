#include "net/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/wait.h"
#include "net/http.h"
#include "net/request.h"
#include "net/server.h"
#include "net/upstream.h"

enum {
	HEAD_MAX = 16384,
	DRAIN_MAX = 256 * 1024, /* of a body nobody read, before the connection is given up */
	LINGER_MS = 1000,
};

/* ---- sending ---- */

/* Sends all of iov, which is changed. SO_SNDTIMEO bounds how long a client may take nothing. */
static int send_all(int fd, struct iovec *iov, int count, struct err *err)
{
	while (count) {
		struct msghdr message = { .msg_iov = iov, .msg_iovlen = (size_t)count };
		ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_GONE, "the client stopped reading the response");
		while (count && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			count--;
		}
		if (count) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

int conn_send_raw(struct conn *conn, const void *data, size_t len, struct err *err)
{
	struct iovec iov = { (void *)data, len };
	return send_all(conn->fd, &iov, 1, err);
}

/* Sends the head, if it still waits, and a piece of the body after it, in one go. */
static int send_piece(struct conn *conn, const void *data, size_t len, struct err *err)
{
	char size[20];
	struct iovec iov[4];
	int count = 0;
	if (conn->head.len)
		iov[count++] = (struct iovec){ conn->head.data, conn->head.len };
	if (len && conn->chunked)
		iov[count++] =
			(struct iovec){ size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len) };
	if (len)
		iov[count++] = (struct iovec){ (void *)data, len };
	if (len && conn->chunked)
		iov[count++] = (struct iovec){ (void *)"\r\n", 2 };
	int result = send_all(conn->fd, iov, count, err);
	conn->head.len = 0;
	conn->sent += (int64_t)len;
	if (conn->left > 0)
		conn->left -= (int64_t)len;
	if (result < 0)
		conn->broken = true;
	return result;
}

static int sink_write(struct sink *sink, const void *data, size_t len, struct err *err)
{
	struct conn *conn = (struct conn *)sink;
	if (conn->head_only || !len)
		return 0;
	if (conn->left >= 0 && (int64_t)len > conn->left)
		return err_set(err, ERR_INTERNAL, "the answer is longer than was said");
	return send_piece(conn, data, len, err);
}

static int sink_file(struct sink *sink, int fd, int64_t at, int64_t len, struct err *err)
{
	struct conn *conn = (struct conn *)sink;
	off_t offset = at;
	if (conn->head_only)
		return 0;
	int on = 1, off = 0;
	setsockopt(conn->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
	int result = send_piece(conn, NULL, 0, err);
	while (result == 0 && len > 0) {
		ssize_t n = sendfile(conn->fd, fd, &offset,
				     len < 0x7ffff000 ? (size_t)len : 0x7ffff000);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			conn->broken = true;
			result = err_set(err, ERR_GONE,
					 n ? "the client does not take the file"
					   : "the file became shorter");
			break;
		}
		len -= n;
		conn->sent += n;
		conn->left -= n;
	}
	setsockopt(conn->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
	return result;
}

/* ---- the head of an answer ---- */

static void put_header(struct conn *conn, const char *name, const char *value)
{
	if (!value || strpbrk(value, "\r\n"))
		return;
	buf_str(&conn->head, name);
	buf_add(&conn->head, ": ", 2);
	buf_str(&conn->head, value);
	buf_add(&conn->head, "\r\n", 2);
}

static const char *date(void)
{
	static _Thread_local time_t when;
	static _Thread_local char text[40];
	time_t now = time(NULL);
	if (now != when) {
		struct tm tm;
		strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
		when = now;
	}
	return text;
}

static void put_cors(struct conn *conn)
{
	if (conn->vary_origin)
		put_header(conn, "Vary", "Origin");
	if (!conn->cors_origin)
		return;
	put_header(conn, "Access-Control-Allow-Origin", conn->cors_origin);
	put_header(conn, "Access-Control-Allow-Credentials", "true");
	put_header(conn, "Access-Control-Expose-Headers", "*");
}

static void put_framing(struct conn *conn, const struct answer *answer)
{
	bool bodiless = answer->status == 204 || answer->status == 304;
	conn->left = answer->length;
	conn->chunked = answer->length < 0 && conn->http.head.minor > 0;
	if (answer->length < 0 && !conn->chunked)
		conn->close_after =
			true; /* HTTP/1.0: the end of the stream is the end of the answer */
	if (bodiless)
		conn->left = 0;
	else if (conn->chunked)
		put_header(conn, "Transfer-Encoding", "chunked");
	else if (answer->length >= 0)
		buf_printf(&conn->head, "Content-Length: %lld\r\n", (long long)answer->length);
	if (conn->close_after)
		put_header(conn, "Connection", "close");
	else if (conn->http.head.minor == 0)
		put_header(conn, "Connection", "keep-alive");
}

/* Whether what is left of the request's body can be read, so that another request may follow. */
static bool can_drain(const struct http *http)
{
	return !http->failed &&
	       (http->body_done || (!http->head.expect_continue && http->left <= DRAIN_MAX));
}

static int sink_begin(struct sink *sink, const struct answer *answer, struct err *err)
{
	struct conn *conn = (struct conn *)sink;
	if (sink->begun)
		return err_set(err, ERR_INTERNAL, "the answer has already begun");
	sink->begun = true;
	conn->status = answer->status;
	if (conn->server->stopping || !can_drain(&conn->http))
		conn->close_after = true;
	conn->head.len = 0;
	buf_printf(&conn->head, "HTTP/1.1 %d %s\r\nServer: aio\r\nDate: %s\r\n", answer->status,
		   http_reason(answer->status), date());
	put_header(conn, "Content-Type", answer->type);
	put_header(conn, "X-Request-Id", conn->request_id);
	put_header(conn, "X-Content-Type-Options", "nosniff");
	put_header(conn, "Allow", conn->allow);
	put_cors(conn);
	for (size_t i = 0; i < answer->header_count; i++)
		put_header(conn, answer->headers[i].name, answer->headers[i].value);
	put_framing(conn, answer);
	if (buf_str(&conn->head, "\r\n") < 0) {
		conn->broken = true;
		return err_set(err, ERR_INTERNAL, "the head of the answer is too large");
	}
	if (answer->length < 0)
		return send_piece(conn, NULL, 0, err); /* the caller of a stream waits for this */
	return 0;
}

int conn_fail(struct conn *conn, int status, const char *detail, bool json)
{
	struct err ignored;
	struct jw jw;
	if (conn->sink.begun)
		return -1;
	jw_init(&jw, 4 << 20);
	jw_open(&jw, '{');
	jw_key(&jw, "detail");
	if (json)
		jw_raw(&jw, detail, strlen(detail));
	else
		jw_str(&jw, detail);
	jw_close(&jw, '}');
	struct answer answer = { status, "application/json", (int64_t)jw.out.len,
				 .header_count = 0 };
	const char *extra = status == 401   ? "WWW-Authenticate"
			    : status == 426 ? "Sec-WebSocket-Version"
			    : status == 503 ? "Retry-After"
					    : NULL;
	if (extra)
		answer.headers[answer.header_count++] =
			(struct pair){ extra, status == 401   ? "Bearer realm=\"aiobox\""
					      : status == 426 ? "13"
							      : "1" };
	if (status == 426)
		answer.headers[answer.header_count++] = (struct pair){ "Upgrade", "websocket" };
	int result = sink_begin(&conn->sink, &answer, &ignored);
	if (result == 0)
		result = sink_write(&conn->sink, jw.out.data, jw.out.len, &ignored);
	jw_done(&jw);
	return result;
}

/* ---- a connection's life ---- */

/* Reads the rest of a body that nobody read. Not inlined: its frame would cost every idle thread
 * a page of stack. */
static __attribute__((noinline)) bool drain(struct conn *conn)
{
	struct err err;
	char waste[4096];
	size_t drained = 0;
	ssize_t n = 0;
	while (drained < DRAIN_MAX &&
	       (n = http_read_body(&conn->http, waste, sizeof waste, &err)) > 0)
		drained += (size_t)n;
	return n == 0 && conn->http.body_done;
}

/* Ends the answer and gets ready for the next request. False when there can be none. */
static bool finish(struct conn *conn)
{
	struct err err;
	if (conn->head.len && !conn->broken)
		(void)send_piece(conn, NULL, 0, &err);
	if (conn->broken || (conn->left > 0 && !conn->head_only))
		return false; /* cut short: an end would be a lie */
	if (conn->chunked && !conn->head_only) {
		struct iovec end = { (void *)"0\r\n\r\n", 5 };
		if (send_all(conn->fd, &end, 1, &err) < 0)
			return false;
	}
	return !conn->close_after && (conn->http.body_done || drain(conn));
}

static void answer_reset(struct conn *conn)
{
	arena_done(&conn->arena);
	conn->sink.begun = conn->chunked = conn->head_only = conn->vary_origin = conn->broken =
		false;
	conn->status = 0;
	conn->left = conn->sent = 0;
	conn->request_id = conn->cors_origin = conn->allow = NULL;
}

static bool set_idle(struct conn *conn, bool idle)
{
	pthread_mutex_lock(&conn->server->lock);
	conn->from->idle = idle;
	bool stopping = conn->server->stopping;
	pthread_mutex_unlock(&conn->server->lock);
	return !stopping;
}

void conn_upgraded(struct conn *conn)
{
	if (!set_idle(conn, true))
		shutdown(conn->fd, SHUT_RD);
}

/* What the client still sends is read and dropped for a moment: closing with unread input would
 * reset the connection, and the reset may overtake the answer. */
static void linger(struct conn *conn)
{
	char waste[4096];
	int64_t until = clock_ms() + LINGER_MS;
	if (shutdown(conn->fd, SHUT_WR) < 0)
		return;
	while (clock_ms() < until && wait_until(conn->fd, POLLIN, until) &&
	       recv(conn->fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
		;
}

static bool serve(struct conn *conn)
{
	struct err err = { 0 };
	while (set_idle(conn, true)) {
		int got = http_read_head(&conn->http, &err);
		set_idle(conn, false);
		if (got == 0)
			return !conn->http.ended;
		if (got < 0) {
			if (err.code != ERR_GONE && request_refuse(conn, &err) == 0)
				linger(conn);
			answer_reset(conn);
			return false;
		}
		conn->close_after = !conn->http.head.keep_alive;
		conn->proxied ? conn->server->serve_proxied(conn) : request_serve(conn);
		bool more = finish(conn);
		bool lingering = !more && !conn->http.body_done;
		answer_reset(conn);
		if (lingering)
			linger(conn);
		if (!more)
			return false;
		http_next(&conn->http);
	}
	return false;
}

static void set_options(const struct conn *conn)
{
	int64_t ms = conn->server->options->send_ms;
	struct timeval send = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof send);
	if (!conn->server->local || conn->inside || conn->proxied)
		setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

bool conn_serve(struct peer *peer)
{
	struct server *server = peer->server;
	struct conn *conn = xcalloc(1, sizeof *conn);
	conn->sink = (struct sink){ sink_begin, sink_write, sink_file, peer->fd, false };
	conn->server = server;
	conn->from = peer;
	conn->peer = peer->name;
	conn->fd = peer->fd;
	conn->inside = peer->inside;
	conn->proxied = peer->proxied;
	conn->guard = peer->inside ? &server->inside.guard : &server->guard;
	conn->head =
		BUF(HEAD_MAX + (size_t)server->options->max_head); /* some headers are echoed */
	http_init(&conn->http, peer->fd, HTTP_REQUESTS, &server->limits);
	if (!peer->served)
		set_options(conn);
	peer->served = true;
	bool waits = serve(conn);
	http_done(&conn->http);
	upstream_job_free(conn->job);
	buf_done(&conn->head);
	free(conn);
	return waits;
}
