#include "net/tunnel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/own.h"
#include "net/auth.h"
#include "net/conn.h"
#include "net/flow.h"
#include "net/head.h"
#include "net/server.h"
#include "net/target.h"

enum { TURN_MS = 60000, INTERIM_MAX = 16 };

/* ---- addresses ---- */

bool tunnel_wanted(const struct http_head *head, const char *domain, struct preview *ret)
{
	const char *target = head->target;
	*ret = (struct preview){ .port = target_preview(head, domain) };
	if (ret->port)
		return true;
	bool whole = !strncmp(target, "/absproxy/", 10);
	if (!whole && strncmp(target, "/proxy/", 7) != 0)
		return false;
	size_t start = whole ? 10 : 7, len = strcspn(target + start, "/?");
	ret->port = target_port(target + start, len);
	if (!ret->port)
		return false;
	ret->prefix = whole ? 0 : start + len;
	return true;
}

/* ---- relaying ---- */

struct relay {
	struct conn *conn;
	struct end client, app;
	struct flow up, down;
	struct http http; /* the program's answer */
	bool answered, tunnel, asked, keep_alive, told_app, told_client;
	int interim;
	const char *why; /* it cannot be answered */
	char piece[FLOW_PIECE];
};

static int connect_port(int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons((uint16_t)port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	for (int i = 0; i < 2; i++) {
		auto_close int fd = socket(i ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		const struct sockaddr *address = i ? (struct sockaddr *)&in6
						   : (struct sockaddr *)&in;
		if (fd >= 0 && connect(fd, address, i ? sizeof in6 : sizeof in) == 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
			return TAKE_FD(fd);
		}
	}
	return -1;
}

static void put_answer(struct relay *r, const struct http_head *head, enum body_kind kind)
{
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	bool no_body = r->conn->head_only;
	struct head_response how = {
		.trusted = true, /* its cookies and policies are its own */
		.kind = no_body ? BODY_NONE : kind,
		.close = !r->keep_alive,
		.upgrade = head->status == 101,
		.length_known = http_header(head, "content-length") &&
				(kind == BODY_LENGTH || no_body),
	};
	head_response(&out, head, "", &how);
	end_put(&r->client, out.data, out.len);
	r->conn->sink.begun = true;
	r->conn->status = head->status;
}

static void begin_answer(struct relay *r)
{
	const struct http_head *head = &r->http.head;
	bool empty = r->conn->head_only || head->length == 0;
	enum body_kind kind = empty              ? BODY_NONE
			      : head->chunked    ? BODY_CHUNKED
			      : head->length > 0 ? BODY_LENGTH
						 : BODY_TO_END;
	enum body_kind shown = kind;
	if (head->status < 200 && head->status != 101) {
		if (++r->interim > INTERIM_MAX)
			r->why = "sends nothing but interim answers";
		else
			put_answer(r, head, BODY_NONE);
		r->conn->sink.begun = false;
		end_take(&r->app, head->size);
		return;
	}
	if (head->status == 101 && !r->asked) {
		r->why = "switches protocols though nobody asked";
		return;
	}
	if (head->status == 101) {
		r->keep_alive = false;
		r->tunnel = true;
	}
	if (kind == BODY_NONE && http_header(head, "content-length") && head->status != 204 &&
	    head->status != 304 && head->status != 101)
		shown = BODY_LENGTH;
	if (shown == BODY_TO_END || (kind == BODY_CHUNKED && r->conn->http.head.minor == 0)) {
		shown = BODY_TO_END;
		r->keep_alive = false;
	}
	put_answer(r, head, shown);
	flow_begin(&r->down, r->tunnel ? BODY_TO_END : kind, head->length, &r->http.parser);
	r->down.bare = kind == BODY_CHUNKED && shown == BODY_TO_END;
	if (r->tunnel)
		flow_begin(&r->up, BODY_TO_END, -1, NULL);
	end_take(&r->app, head->size);
	r->answered = true;
}

/* True when something was done. */
static bool read_answer(struct relay *r)
{
	struct err err;
	size_t held = end_held(&r->app);
	if (held > r->app.looked) {
		r->app.looked = held;
		http_done(&r->http);
		http_init(&r->http, -1, HTTP_RESPONSES, r->conn->http.limits);
		int got = http_feed(&r->http, r->app.in.data + r->app.in_at, held, &err);
		if (got > 0)
			begin_answer(r);
		else if (got < 0)
			r->why = "does not speak HTTP";
		if (got)
			return true;
	}
	if (r->app.eof) {
		r->why = "closes the connection without an answer";
		return true;
	}
	ssize_t n = r->app.readable ? recv(r->app.fd, r->piece, sizeof r->piece / 4, MSG_DONTWAIT)
				    : -1;
	if (n < 0 && (!r->app.readable || errno == EAGAIN || errno == EINTR)) {
		r->app.readable = false;
		return false;
	}
	r->app.eof = n <= 0;
	if (n > 0 && buf_add(&r->app.in, r->piece, (size_t)n) < 0)
		r->why = "sends too large a head";
	return true;
}

static void pass_end(const struct end *from, const struct flow *flow, const struct end *to,
		     bool *told)
{
	if (flow->done && from->eof && !*told && !end_pending(to)) {
		shutdown(to->fd, SHUT_WR);
		*told = true;
	}
}

/* False when there is nothing left to do. */
static bool step(struct relay *r, bool *moved)
{
	end_flush(&r->client);
	end_flush(&r->app);
	int up = r->up.done ? 0 : flow_pump(&r->up, &r->client, &r->app, r->piece), down = 0;
	if (!r->answered)
		down = read_answer(r);
	else if (!r->down.done)
		down = flow_pump(&r->down, &r->app, &r->client, r->piece);
	if (r->tunnel) {
		pass_end(&r->client, &r->up, &r->app, &r->told_app);
		pass_end(&r->app, &r->down, &r->client, &r->told_client);
	}
	*moved = up > 0 || down > 0;
	if (r->why || up < 0 || down < 0 || r->client.broken || (r->tunnel && r->app.broken)) {
		r->conn->broken |= r->answered;
		return false;
	}
	return !(r->answered && r->down.done && !end_pending(&r->client) &&
		 (!r->tunnel || r->up.done));
}

static bool wait_for(struct relay *r)
{
	bool take = !r->up.done && !end_pending(&r->app);
	bool give = (!r->answered || !r->down.done) && !end_pending(&r->client) && !r->app.eof;
	struct pollfd pfds[] = {
		{ .fd = r->client.fd,
		  .events =
			  (short)((take ? POLLIN : 0) | (end_pending(&r->client) ? POLLOUT : 0)) },
		{ .fd = give || end_pending(&r->app) ? r->app.fd : -1,
		  .events = (short)((give ? POLLIN : 0) | (end_pending(&r->app) ? POLLOUT : 0)) },
		{ .fd = server_stop_fd(r->conn->server), .events = POLLIN },
	};
	bool pending = end_pending(&r->client) || end_pending(&r->app);
	int n = poll(pfds, COUNT(pfds), pending ? (int)r->conn->server->config->send_ms : -1);
	if (n == 0 || (n < 0 && errno != EINTR) || pfds[2].revents)
		return false;
	/* The caller hung up. One that only half-closed has not: see what poll() is not asked for. */
	if (pfds[0].revents & (POLLERR | POLLHUP) && !(pfds[0].revents & POLLIN))
		return false;
	r->client.readable |= pfds[0].revents & POLLIN;
	r->app.readable |= (pfds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
	return true;
}

static void relay(struct relay *r)
{
	bool moved;
	while (step(r, &moved))
		if (!moved && !wait_for(r)) {
			r->conn->broken = true;
			return;
		}
}

static bool is_secret(void *auth, const char *text, size_t len)
{
	return auth_knows(auth, text, len);
}

void tunnel_serve(struct conn *conn, const struct tunnel *tunnel)
{
	const struct http_head *head = &conn->http.head;
	struct http *http = &conn->http;
	char text[160];
	int fd = connect_port(tunnel->to.port);
	if (fd < 0) {
		snprintf(text, sizeof text, "nothing listens on port %d in the sandbox",
			 tunnel->to.port);
		conn_fail(conn, 502, text, false);
		return;
	}
	struct relay *r = xcalloc(1, sizeof *r);
	r->conn = conn;
	end_init(&r->client, conn->fd);
	end_init(&r->app, fd);
	r->client.readable = true;
	r->asked = head->upgrade && head->length == 0;
	/* Only what has no body leaves the connection's own reader in step. */
	r->keep_alive = http->body_done && !conn->close_after && !r->asked;
	struct head_request how = { .peer = conn->peer,
				    .prefix = tunnel->to.prefix,
				    .keep_authorization = true,
				    .strip_query = tunnel->auth != NULL,
				    .is_secret = tunnel->auth ? is_secret : NULL,
				    .arg = (void *)tunnel->auth,
				    .upgrade = r->asked };
	head_request(&r->app.out, head, &how);
	flow_begin(&r->up,
		   head->chunked      ? BODY_CHUNKED
		   : head->length > 0 ? BODY_LENGTH
				      : BODY_NONE,
		   head->length, &http->parser);
	if (!r->keep_alive) {
		buf_add(&r->client.in, http->data + http->used, http->len - http->used);
		http->used = http->len;
		conn->close_after = true;
	}
	relay(r);
	if (r->why && !r->answered) {
		snprintf(text, sizeof text, "the program on port %d %s", tunnel->to.port, r->why);
		conn->close_after = true;
		conn_fail(conn, 502, text, false);
	}
	conn->close_after |= !r->keep_alive;
	http_done(&r->http);
	r->client.fd = -1; /* the connection's own */
	end_close(&r->client);
	end_close(&r->app);
	free(r);
}
