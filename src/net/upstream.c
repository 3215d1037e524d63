#include "net/upstream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "net/auth.h"
#include "net/conn.h"
#include "net/dial.h"
#include "net/guard.h"
#include "net/relay.h"
#include "net/relay_drive.h"
#include "net/server.h"

struct upstream_job {
	struct conn *conn;
	struct upstream *upstream;
	struct end client, server;
	struct relay relay;
	struct http http; /* the response's */
	bool may_repeat;  /* the request, once, where the server ends without a word */
	int kept_port;    /* of the program that server leads to, for the next request; 0: none */
	char piece[FLOW_PIECE];
};

/* ---- relaying ---- */

static void answer_failure(struct conn *conn, const struct upstream *upstream, int status,
			   bool refused, const char *text)
{
	if (upstream->failed && !conn->sink.begun)
		text = upstream->failed(upstream, status, refused, text);
	if (text)
		conn_fail(conn, status, text, false);
}

static void fail(struct upstream_job *job, int status, const char *what)
{
	const struct upstream *upstream = job->upstream;
	char text[400];
	if (upstream->socket)
		snprintf(text, sizeof text, "the server on %s %s", upstream->socket, what);
	else
		snprintf(text, sizeof text, "the program on port %d %s", upstream->port, what);
	job->conn->close_after = true;
	answer_failure(job->conn, upstream, status, false, text);
}

/* Nothing has moved for too long. */
static void fail_late(struct upstream_job *job, enum relay_fault fault)
{
	char text[64];
	if (fault == RELAY_SLOW_SERVER) {
		snprintf(text, sizeof text, "did not answer within %g s",
			 (double)job->conn->server->options->upstream_ms / 1000);
		fail(job, 504, text);
	} else if (fault == RELAY_SLOW_CLIENT) {
		job->conn->close_after = true;
		conn_fail(job->conn, 408, "the body took too long to arrive", false);
	} else {
		job->conn->broken = true;
	}
}

/* Goes on until there is nothing to wait for. False: the wait was in vain, and said so. */
static bool run(struct upstream_job *job, enum relay_step *ret_step, const char **ret_why)
{
	const struct server_options *options = job->conn->server->options;
	const struct relay_patience patience = { .send_ms = options->send_ms,
						 .tunnel_send_ms = options->send_ms,
						 .body_ms = options->body_ms,
						 .first_ms = options->upstream_ms };
	const struct relay_drive drive = { .relay = &job->relay,
					   .http = &job->http,
					   .limits = job->conn->http.limits,
					   .piece = job->piece,
					   .patience = &patience,
					   .stop_fd = server_stop_fd(job->conn->server),
					   .stale_fd = -1 };
	enum relay_fault fault;
	relay_begin(&job->relay, &job->conn->http, clock_ms());
	*ret_step = relay_drive(&drive, ret_why, &fault);
	if (*ret_step == RELAY_WAITS)
		fail_late(job, fault);
	return *ret_step != RELAY_WAITS;
}

/* The last bytes may not have been taken yet. */
static bool is_sent(struct upstream_job *job)
{
	struct err ignored;
	const struct end *client = &job->client;
	size_t left = client->out.len - client->out_at;
	return !left ||
	       conn_send_raw(job->conn, client->out.data + client->out_at, left, &ignored) == 0;
}

/* The program has got the whole request and said all that it has to say. */
static bool may_keep(const struct upstream_job *job)
{
	const struct end *server = &job->server;
	return job->upstream->program && !job->relay.tunnel && !job->relay.last &&
	       job->relay.up.done && !server->eof && !server->broken && !end_held(server) &&
	       !end_pending(server) && !job->conn->close_after;
}

/* False: the request is to be sent once more, of which nothing was said. */
static bool relay(struct upstream_job *job)
{
	struct conn *conn = job->conn;
	enum relay_step step;
	const char *why;
	bool ran = run(job, &step, &why);
	if (ran && ((step == RELAY_CLOSED && job->may_repeat) || step == RELAY_AGAIN))
		return false;
	if (job->relay.answered) {
		conn->status = job->relay.status;
		conn->sink.begun = true;
	}
	if (ran && (step == RELAY_CLOSED || step == RELAY_WRONG))
		fail(job, 502, why);
	else if (ran && (step != RELAY_DONE || !is_sent(job)))
		conn->broken = true;
	conn->close_after |= !job->relay.keep_alive;
	if (ran && step == RELAY_DONE && may_keep(job))
		job->kept_port = job->upstream->port;
	return true;
}

static bool is_secret(void *auth, const char *text, size_t len)
{
	return auth_knows(auth, text, len);
}

static bool look(void *arg, const struct http_head *head)
{
	struct upstream_job *job = arg;
	const char *location = http_header(head, "location");
	return job->upstream->again(job->upstream, &job->conn->http.head, head->status,
				    location ? head_own_path(location, &job->relay.head) : NULL);
}

/* The client's address, without its port: behind the host, as that says last. */
static const char *client_of(struct conn *conn)
{
	const char *said = conn->server->local && !conn->inside
				   ? http_header(&conn->http.head, "x-forwarded-for")
				   : NULL;
	const char *last = said ? strrchr(said, ',') : NULL;
	const char *from = conn->peer + (*conn->peer == '[');
	const char *end = strpbrk(conn->peer, *conn->peer == '[' ? "]" : ":");
	return last   ? last + 1 + strspn(last + 1, " ")
	       : said ? said
		      : arena_strndup(&conn->arena, from,
				      end ? (size_t)(end - from) : strlen(from));
}

static void write_request(struct upstream_job *job, const struct auth *auth)
{
	struct conn *conn = job->conn;
	const struct upstream *upstream = job->upstream;
	struct http *http = &conn->http;
	const char *own = upstream->prefix ? upstream->prefix : "";
	const char *said = conn->server->local ? "" : upstream->outer; /* the host adds it itself */
	int port = upstream->program ? upstream->port : 0;
	bool below = port && !upstream->sees_outer;
	const struct pair above = { "X-Forwarded-Prefix",
				    below ? arena_printf(&conn->arena, "%s%s", upstream->outer, own)
					  : NULL };
	struct head_request how = { .peer = client_of(conn),
				    .prefix = strlen(own),
				    .before = upstream->sees_outer ? upstream->outer : NULL,
				    .program = port,
				    .own = &above,
				    .own_count = 1,
				    .keep_authorization = true,
				    .strip_query = auth != NULL,
				    .is_secret = auth ? is_secret : NULL,
				    .arg = (void *)auth,
				    .upgrade = job->relay.upgrade };
	head_request(&job->server.out, &http->head, &how);
	job->relay.head = (struct head_response){
		.trusted = true,
		.guest = upstream->guest,
		.program = port,
		.prefix = *said || *own ? arena_printf(&conn->arena, "%s%s", said, own) : NULL,
		.host = http_header(&http->head, "host")
	};
	if (upstream->again && !http->head.chunked && http->head.length <= 0 &&
	    !job->relay.upgrade) {
		job->relay.look = look;
		job->relay.look_arg = job;
	}
	/* Only what has no body leaves the connection's own reader in step. */
	job->relay.keep_alive = http->body_done && !conn->close_after && !job->relay.upgrade;
	if (!job->relay.keep_alive) {
		buf_add(&job->client.in, http->data + http->used, http->len - http->used);
		http->used = http->len;
		conn->close_after = true;
	}
}

static int connect_to(struct conn *conn, const struct upstream *upstream)
{
	/* A server that stops hangs up on its clients, too, once it has no more time for them. */
	const struct dial_wait wait = { .all = { INT64_MAX, conn->fd, -1 },
					.connect_ms = (int)conn->server->options->upstream_ms };
	struct err err;
	/* As the sandbox user: another server of this machine may take root for more than that. */
	uid_t user = conn->server->inside.user;
	int before = user ? setfsuid(user) : 0;
	int fd = upstream->socket ? dial_unix(upstream->socket, &wait, &err)
				  : dial_port(upstream->port, &wait, &err);
	if (user)
		setfsuid((uid_t)before);
	if (fd >= 0)
		return fd;
	bool slow = err.code == ERR_SLOW, refused = upstream->port && err.code == ERR_UNAVAILABLE;
	if (refused)
		err_set(&err, err.code, "nothing listens on port %d in the sandbox",
			upstream->port);
	answer_failure(conn, upstream, slow ? 504 : 502, refused, err.msg);
	return -1;
}

static int open_stream(struct conn *conn, const struct upstream *upstream)
{
	struct err err;
	if (!upstream->connect)
		return connect_to(conn, upstream);
	int fd = upstream->connect(upstream->call, &err);
	if (fd < 0 && err.code == ERR_GONE)
		conn->broken = true;
	else if (fd < 0)
		conn_fail(conn, err_status(err.code), err.msg, false);
	return fd;
}

/* Whether the stream of the request before is still good: quiet, and to the same program. */
static bool is_kept(const struct upstream_job *job, const struct upstream *upstream)
{
	char byte;
	return job->server.fd >= 0 && upstream->program && job->kept_port == upstream->port &&
	       job->may_repeat && recv(job->server.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}

static int next_stream(struct upstream_job *job, const struct upstream *upstream)
{
	if (is_kept(job, upstream))
		return 0;
	end_close(&job->server);
	int fd = open_stream(job->conn, upstream);
	if (fd < 0)
		return -1;
	end_init(&job->server, fd);
	job->may_repeat &= upstream->connect != NULL;
	return 0;
}

/* Sends the request. False: it is to be sent once more. */
static bool serve(struct upstream_job *job, const struct auth *auth)
{
	job->relay.client = &job->client;
	job->relay.server = &job->server;
	job->kept_port = 0;
	relay_init(&job->relay, &job->conn->http.head);
	write_request(job, auth);
	bool done = true;
	if (job->server.out.full)
		conn_fail(job->conn, 431, "the head is too large to be passed on", false);
	else
		done = relay(job);
	http_done(&job->http);
	job->http = (struct http){ 0 };
	if (!job->kept_port)
		end_close(&job->server);
	return done;
}

void upstream_serve(struct conn *conn, struct upstream *upstream, const struct auth *auth)
{
	const struct http_head *head = &conn->http.head;
	if (upstream->guest && !upstream->workers && http_header(head, "service-worker")) {
		conn_fail(conn, 403, "no service worker on an address that programs share", false);
		return;
	}
	struct upstream_job *job = conn->job;
	if (!job) {
		conn->job = job = xcalloc(1, sizeof *job);
		end_init(&job->server, -1);
	}
	job->conn = conn;
	job->upstream = upstream;
	job->may_repeat = guard_is_safe(head) && conn->http.body_done;
	end_init(&job->client, conn->fd);
	job->client.readable = true;
	while (next_stream(job, upstream) == 0 && !serve(job, auth))
		job->may_repeat = false;
	job->client.fd = -1; /* the connection's own */
	end_close(&job->client);
}

void upstream_job_free(struct upstream_job *job)
{
	if (job)
		end_close(&job->server);
	free(job);
}
