#include "net/relay.h"

#include <string.h>

#include "base/err.h"
#include "net/http.h"
#include "net/mime.h"

enum {
	HEAD_READ = 16384,
	INTERIM_MAX = 16,
	LINGER_MS = 1000,
};

void relay_init(struct relay *relay, const struct http_head *request)
{
	relay->keep_alive = request->keep_alive && request->minor > 0;
	relay->http10 = request->minor == 0;
	relay->head_only = !strcmp(request->method, "HEAD");
	relay->get = !strcmp(request->method, "GET");
	relay->upgrade = request->upgrade && request->length == 0 && request->minor > 0;
	relay->head = (struct head_response){ 0 };
	relay->look = NULL;
}

void relay_begin(struct relay *relay, const struct http *http, int64_t now_ms)
{
	const struct http_head *head = &http->head;
	flow_begin(&relay->up,
		   head->chunked      ? BODY_CHUNKED
		   : head->length > 0 ? BODY_LENGTH
				      : BODY_NONE,
		   head->length, &http->parser);
	flow_begin(&relay->down, BODY_NONE, 0, NULL);
	relay->up.splice = relay->splice;
	relay->answered = relay->tunnel = relay->events = relay->last = false;
	relay->told_server = relay->told_client = false;
	relay->status = relay->interim = 0;
	relay->moved_ms = now_ms;
	relay->server->corked = !relay->up.done && end_held(relay->client) > 0;
	if (!relay->server->corked)
		end_flush(relay->server);
}

static void switch_protocols(struct relay *relay)
{
	relay->keep_alive = false;
	relay->tunnel = true;
	flow_begin(&relay->up, BODY_TO_END, -1, NULL);
	flow_begin(&relay->down, BODY_TO_END, -1, NULL);
}

void relay_tunnel(struct relay *relay, int64_t now_ms)
{
	switch_protocols(relay);
	relay->answered = true;
	relay->status = 200;
	relay->moved_ms = now_ms;
}

/* Looks at a head only when it may be whole or has doubled since: one that drips in is not parsed once
 * per byte, and garbage is seen at once. */
int relay_head(struct end *end, bool request, const struct relay_tools *tools, struct err *err)
{
	size_t held = end_held(end);
	if (!held)
		return 0;
	const char *data = end->in.data + end->in_at;
	if (held < end->looked * 2 && !memmem(data, held, "\r\n\r\n", 4))
		return 0;
	end->looked = held;
	http_done(tools->http);
	http_init(tools->http, -1, request ? HTTP_REQUESTS : HTTP_RESPONSES, tools->limits);
	return http_feed(tools->http, data, held, err);
}

/* ---- the response's head ---- */

/* What its first line says behind the status, as far as it is harmless. */
static void reason_of(const struct end *server, char *to, size_t room)
{
	const char *at = server->in.data + server->in_at;
	size_t n = 0;
	for (at += strlen("HTTP/1.1 200"); n + 1 < room && *at >= ' ' && *at < 127; at++)
		if (n || *at != ' ')
			to[n++] = *at;
	to[n] = 0;
}

static void put_head(struct relay *relay, const struct http_head *head, enum body_kind kind)
{
	char reason[64];
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	struct head_response how = relay->head;
	how.kind = relay->head_only ? BODY_NONE : kind;
	how.close = !relay->keep_alive;
	how.upgrade = head->status == 101;
	how.length_known = http_header(head, "content-length") &&
			   (kind == BODY_LENGTH || relay->head_only);
	if (head->status < 200)
		how.cookie = NULL;
	reason_of(relay->server, reason, sizeof reason);
	head_response(&out, head, reason, &how);
	if (end_pending(relay->client) || head->status < 200 || kind == BODY_NONE ||
	    !end_held(relay->server)) {
		end_put(relay->client, out.data, out.len);
		return;
	}
	buf_add(&relay->client->out, out.data, out.len);
	relay->client->corked = true;
}

static enum relay_step begin_body(struct relay *relay, const struct http_head *head)
{
	end_take(relay->server, head->size);
	if (relay->head_size)
		end_take(relay->client, relay->head_size);
	relay->head_size = 0;
	relay->answered = true;
	relay->status = head->status;
	return RELAY_MOVED;
}

static enum relay_step interim_response(struct relay *relay, const struct http_head *head,
					const char **ret_why)
{
	if (head->status == 101 && !relay->upgrade) {
		*ret_why = "switched protocols without having been asked to";
		return RELAY_WRONG;
	}
	if (head->status == 101) {
		switch_protocols(relay);
		put_head(relay, head, BODY_NONE);
		return begin_body(relay, head);
	}
	if (++relay->interim > INTERIM_MAX) {
		*ret_why = "sends nothing but interim answers";
		return RELAY_WRONG;
	}
	if (!relay->http10)
		put_head(relay, head, BODY_NONE);
	end_take(relay->server, head->size);
	return RELAY_MOVED;
}

static enum relay_step begin_response(struct relay *relay, const struct http *http,
				      const char **ret_why)
{
	const struct http_head *head = &http->head;
	if (head->status < 100) {
		*ret_why = "answered with an invalid status";
		return RELAY_WRONG;
	}
	if (head->status < 200)
		return interim_response(relay, head, ret_why);
	enum body_kind kind = relay->head_only || head->length == 0 ? BODY_NONE
			      : head->chunked                       ? BODY_CHUNKED
			      : head->length > 0                    ? BODY_LENGTH
								    : BODY_TO_END;
	enum body_kind shown = kind;
	if (kind == BODY_NONE && head->length == 0 && http_header(head, "content-length") &&
	    head->status != 204 && head->status != 304)
		shown = BODY_LENGTH; /* of nothing */
	if (kind == BODY_CHUNKED && relay->http10)
		shown = BODY_TO_END;
	if (relay->look && relay->look(relay->look_arg, head))
		return RELAY_AGAIN;
	/* A response without a length ends with its connection, whatever the server sends next. */
	if (shown == BODY_TO_END)
		relay->keep_alive = false;
	put_head(relay, head, shown);
	flow_begin(&relay->down, kind, head->length, &http->parser);
	relay->down.splice = relay->splice;
	relay->down.bare = kind == BODY_CHUNKED && relay->http10;
	relay->events = relay->get &&
			mime_is(http_header(head, "content-type"), "text/event-stream");
	relay->last = !head->keep_alive || kind == BODY_TO_END;
	return begin_body(relay, head);
}

static enum relay_step read_response(struct relay *relay, const struct relay_tools *tools,
				     const char **ret_why)
{
	struct err err;
	if (end_pending(relay->client))
		return RELAY_WAITS;
	int got = relay_head(relay->server, false, tools, &err);
	if (got > 0)
		return begin_response(relay, tools->http, ret_why);
	if (got < 0) {
		*ret_why = "does not speak HTTP";
		return RELAY_WRONG;
	}
	if (relay->server->eof) {
		*ret_why = "closed the connection without an answer";
		return RELAY_CLOSED;
	}
	return end_fill(relay->server, tools->piece, HEAD_READ) ? RELAY_MOVED : RELAY_WAITS;
}

/* ---- steps ---- */

static void pass_half_close(const struct end *from, const struct flow *flow, struct end *to,
			    bool *told)
{
	if (flow->done && from->eof && !*told && !end_pending(to)) {
		to->io->half_close(to);
		*told = true;
	}
}

static enum relay_step step_tunnel(struct relay *relay, const struct relay_tools *tools)
{
	struct end *client = relay->client, *server = relay->server;
	int up = relay->up.done ? 0 : flow_pump(&relay->up, client, server, tools->piece);
	int down = relay->down.done ? 0 : flow_pump(&relay->down, server, client, tools->piece);
	pass_half_close(client, &relay->up, server, &relay->told_server);
	pass_half_close(server, &relay->down, client, &relay->told_client);
	if (up < 0 || down < 0 || client->broken || server->broken)
		return RELAY_CUT;
	if (relay->up.done && relay->down.done && !end_pending(client))
		return RELAY_DONE;
	return up || down ? RELAY_MOVED : RELAY_WAITS;
}

static enum relay_step step_response(struct relay *relay, const struct relay_tools *tools)
{
	int down = relay->down.done
			   ? 0
			   : flow_pump(&relay->down, relay->server, relay->client, tools->piece);
	if (relay->client->corked)
		end_flush(relay->client);
	if (down < 0 || relay->client->broken)
		return RELAY_CUT;
	if (relay->down.done)
		return RELAY_DONE;
	return down ? RELAY_MOVED : RELAY_WAITS;
}

static enum relay_step step(struct relay *relay, const struct relay_tools *tools,
			    const char **ret_why)
{
	if (relay->tunnel)
		return step_tunnel(relay, tools);
	int up = relay->up.done ? 0
				: flow_pump(&relay->up, relay->client, relay->server, tools->piece);
	if (relay->server->corked)
		end_flush(relay->server);
	if (up < 0) /* the server must not take it for whole */
		return RELAY_CUT;
	enum relay_step result = relay->answered ? step_response(relay, tools)
						 : read_response(relay, tools, ret_why);
	return result == RELAY_WAITS && up ? RELAY_MOVED : result;
}

enum relay_step relay_step(struct relay *relay, const struct relay_tools *tools,
			   const char **ret_why)
{
	if (!relay->client->corked)
		end_flush(relay->client);
	if (!relay->server->corked)
		end_flush(relay->server);
	enum relay_step result = step(relay, tools, ret_why);
	if (result == RELAY_MOVED)
		relay->moved_ms = tools->now_ms;
	return result;
}

bool relay_reads_client(const struct relay *relay)
{
	return !relay->up.done && !end_pending(relay->server);
}

bool relay_reads_server(const struct relay *relay)
{
	return (!relay->answered || !relay->down.done) && !end_pending(relay->client) &&
	       !relay->server->eof;
}

/* ---- time ---- */

static enum relay_fault waits_for(const struct relay *relay, const struct relay_patience *patience,
				  int64_t *ret_ms)
{
	if (end_pending(relay->client) || end_pending(relay->server)) {
		*ret_ms = relay->tunnel ? patience->tunnel_send_ms : patience->send_ms;
		return RELAY_STUCK;
	}
	if (relay->tunnel) {
		*ret_ms = relay->down.done ? LINGER_MS : 0;
		return RELAY_STUCK;
	}
	*ret_ms = relay->answered ? 0 : !relay->up.done ? patience->body_ms : patience->first_ms;
	return relay->up.done ? RELAY_SLOW_SERVER : RELAY_SLOW_CLIENT;
}

enum relay_fault relay_waits_for(const struct relay *relay, const struct relay_patience *patience,
				 int64_t *ret_until_ms)
{
	int64_t ms;
	enum relay_fault fault = waits_for(relay, patience, &ms);
	*ret_until_ms = ms ? relay->moved_ms + ms : INT64_MAX;
	return ms ? fault : RELAY_IN_TIME;
}
