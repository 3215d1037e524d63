#include "outbound/passage.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "net/conn.h"
#include "net/relay_drive.h"
#include "net/server.h"

enum { IDLE_MS = 3600000 };

struct passage_job {
	const struct passage *passage;
	struct end client, server;
	struct relay relay;
	struct http http; /* the response's */
	char piece[FLOW_PIECE];
};

static struct passage_job *job_new(const struct passage *passage)
{
	struct passage_job *job = xcalloc(1, sizeof *job);
	job->passage = passage;
	end_init(&job->client, passage->conn->fd);
	end_init(&job->server, passage->fd);
	job->client.readable = true;
	job->relay.client = &job->client;
	job->relay.server = &job->server;
	relay_init(&job->relay, &passage->conn->http.head);
	return job;
}

static void job_free(struct passage_job *job)
{
	http_done(&job->http);
	job->client.fd = -1; /* the connection's own */
	end_close(&job->client);
	end_close(&job->server);
	free(job);
}

/* What the client has sent behind the head is the relay's from now on. */
static void take_input(struct passage_job *job)
{
	struct http *http = &job->passage->conn->http;
	buf_add(&job->client.in, http->data + http->used, http->len - http->used);
	http->used = http->len;
	job->relay.keep_alive = false;
}

static enum relay_step drive(struct passage_job *job, int stale_fd, const char **ret_why,
			     enum relay_fault *ret_fault)
{
	const struct conn *conn = job->passage->conn;
	const struct server_options *options = conn->server->options;
	const struct relay_patience patience = { .send_ms = options->send_ms,
						 .tunnel_send_ms = options->send_ms,
						 .body_ms = options->body_ms,
						 .first_ms = options->upstream_ms };
	const struct relay_drive how = { .relay = &job->relay,
					 .http = &job->http,
					 .limits = conn->http.limits,
					 .piece = job->piece,
					 .patience = &patience,
					 .stop_fd = server_stop_fd(conn->server),
					 .idle_ms = IDLE_MS,
					 .stale_fd = stale_fd };
	return relay_drive(&how, ret_why, ret_fault);
}

static void fail(const struct passage *passage, int status, const char *what)
{
	char text[400];
	snprintf(text, sizeof text, "%s %s", passage->who, what);
	passage->conn->close_after = true;
	(void)conn_fail(passage->conn, status, text, false);
}

/* Nothing has moved for too long. */
static void fail_late(const struct passage_job *job, enum relay_fault fault)
{
	if (fault == RELAY_SLOW_SERVER)
		fail(job->passage, 504, "did not answer in time");
	else if (fault == RELAY_SLOW_CLIENT)
		fail(job->passage, 408, "did not get the whole body in time");
	else
		job->passage->conn->broken = true;
}

/* The last bytes may not have been taken yet. */
static bool is_sent(const struct passage_job *job)
{
	struct err ignored;
	const struct end *client = &job->client;
	size_t left = client->out.len - client->out_at;
	return !left || conn_send_raw(job->passage->conn, client->out.data + client->out_at, left,
				      &ignored) == 0;
}

/* ---- a request ---- */

static bool wants_credentials(void *arg, const struct http_head *head)
{
	(void)arg;
	return head->status == 407;
}

static bool pass(struct passage_job *job)
{
	struct conn *conn = job->passage->conn;
	enum relay_fault fault;
	const char *why;
	relay_begin(&job->relay, &conn->http, clock_ms());
	enum relay_step step = drive(job, -1, &why, &fault);
	if (step == RELAY_AGAIN)
		return false;
	if (job->relay.answered) {
		conn->status = job->relay.status;
		conn->sink.begun = true;
	}
	if (step == RELAY_WAITS)
		fail_late(job, fault);
	else if (step == RELAY_CLOSED || step == RELAY_WRONG)
		fail(job->passage, 502, why);
	else if (step != RELAY_DONE || !is_sent(job))
		conn->broken = true;
	conn->close_after |= !job->relay.keep_alive;
	return true;
}

bool passage_request(const struct passage *passage, const struct head_forward *head)
{
	struct passage_job *job = job_new(passage);
	struct conn *conn = passage->conn;
	struct head_forward how = *head;
	bool answered = true;
	how.upgrade = job->relay.upgrade;
	head_forward(&job->server.out, &conn->http.head, &how);
	job->relay.head = (struct head_response){ .trusted = true, .forwarded = true };
	job->relay.look = passage->by_proxy ? wants_credentials : NULL;
	/* Only what has no body leaves the connection's own reader in step. */
	if (!conn->http.body_done || job->relay.upgrade)
		take_input(job);
	if (job->server.out.full)
		(void)conn_fail(conn, 431, "the head is too large to be passed on", false);
	else
		answered = pass(job);
	job_free(job);
	return answered;
}

/* ---- a tunnel ---- */

void passage_tunnel(const struct passage *passage, struct text early, int stale_fd)
{
	struct passage_job *job = job_new(passage);
	struct conn *conn = passage->conn;
	enum relay_fault fault;
	const char *why;
	buf_add(&job->server.in, early.data, early.len);
	take_input(job);
	relay_tunnel(&job->relay, clock_ms());
	enum relay_step step = drive(job, stale_fd, &why, &fault);
	conn->status = job->relay.status;
	conn->sink.begun = true;
	conn->close_after = true;
	conn->broken = step != RELAY_DONE || !is_sent(job);
	job_free(job);
}
