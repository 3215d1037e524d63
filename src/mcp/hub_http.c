/* A server on the network: each message is a POST, whose answer is JSON or a stream of events. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "mcp/exchange.h"
#include "mcp/hub_client.h"
#include "mcp/revision.h"
#include "mcp/sse_reader.h"
#include "net/client.h"
#include "net/dial.h"
#include "net/server.h"
#include "service/service.h"

enum { SESSION_MAX = 256, NOTIFY_MS = 10000, PIECE = 16384, HEADERS_MAX = 65536 };

struct http_client {
	struct hub_client client; /* first */
	const char *name;
	char *target;
	char **headers;       /* "Name: value"; ends with NULL */
	pthread_mutex_t lock; /* of what follows */
	json_int_t next_id;
	char session[SESSION_MAX];
	const char *revision; /* that was agreed on; NULL: none yet */
};

/* One POST and its answer. */
struct posting {
	struct http_client *c;
	struct exchange *ex;
	json_int_t id; /* whose answer is waited for; 0: none is, and what comes is not looked at */
	int64_t until_ms;
	long status; /* of HTTP; 0: none came */
	bool streaming, large;
	char session[SESSION_MAX];
	struct buf body;
	struct sse_reader events;
	json_t *answer;
};

static struct http_client *of(struct hub_client *client)
{
	return (struct http_client *)client;
}

static void release(struct hub_client *client)
{
	struct http_client *c = of(client);
	for (char **at = c->headers; *at; at++)
		free(*at);
	free(c->headers);
	pthread_mutex_destroy(&c->lock);
	free(c->target);
	free(c);
}

/* ---- what comes back ---- */

static void post_plainly(struct http_client *c, json_t *message, const struct posting *within);

/* Nobody waits any more. */
static bool over(void *arg)
{
	const struct posting *p = arg;
	return clock_ms() >= p->until_ms || (p->ex && p->ex->cancelled) ||
	       p->c->client.server->stopping || p->c->client.run->unwanted;
}

static bool take_event(void *arg, char *data, size_t len)
{
	struct posting *p = arg;
	json_t *message = json_parse(data, len, NULL);
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *id = json_object_get(message, "id"),
		     *params = json_object_get(message, "params");
	bool ours = !method && json_is_integer(id) && json_integer_value(id) == p->id;
	if (ours && !p->answer) {
		p->answer = json_incref(message);
	} else if (method && id) {
		post_plainly(p->c, hub_answer(p->c->client.server, message), p);
	} else if (method && !strcmp(method, "notifications/progress") && p->ex) {
		exchange_progress(p->ex, json_number_value(json_object_get(params, "progress")),
				  json_number_value(json_object_get(params, "total")),
				  json_string_value(json_object_get(params, "message")));
	} else if (method) {
		hub_told(&p->c->client, message);
	}
	json_decref(message);
	return !p->answer && !over(p);
}

static bool take_body(struct posting *p, const char *data, size_t len)
{
	bool go_on = !p->id         ? true
		     : p->streaming ? sse_reader_feed(&p->events, data, len)
				    : buf_add(&p->body, data, len) == 0;
	p->large = p->events.line.full || p->events.data.full || p->body.full;
	return go_on;
}

static void take_head(struct posting *p, const struct http_head *head)
{
	const char *type = http_header(head, "content-type"),
		   *session = http_header(head, "mcp-session-id");
	p->status = head->status;
	p->streaming = type && strstr(type, "text/event-stream");
	if (session && strlen(session) < SESSION_MAX)
		strcpy(p->session, session);
}

/* ---- one POST ---- */

static void add_headers(struct http_client *c, struct buf *to)
{
	buf_str(to, "Accept: application/json, text/event-stream");
	pthread_mutex_lock(&c->lock);
	if (*c->session)
		buf_printf(to, "\r\nMcp-Session-Id: %s", c->session);
	if (c->revision)
		buf_printf(to, "\r\nMCP-Protocol-Version: %s", c->revision);
	pthread_mutex_unlock(&c->lock);
	for (char **at = c->headers; *at; at++)
		buf_printf(to, "\r\n%s", *at);
}

static int talk(struct posting *p, const char *text, size_t len, struct err *err)
{
	struct dial_wait wait = { .all = { p->until_ms, p->ex ? p->ex->cancel_fds[0] : -1,
					   server_stop_fd(p->c->client.server) },
				  .over = over,
				  .arg = p };
	struct client client;
	char piece[PIECE];
	ssize_t n = -1;
	auto_buf struct buf headers = BUF(HEADERS_MAX);
	add_headers(p->c, &headers);
	const char *const list[] = { headers.data, NULL };
	struct client_request request = { "POST", p->c->target, list, NULL, text, len };
	if (client_open_out(&client, p->c->client.spec->url, &wait, err) < 0)
		return -1;
	if (client_ask(&client, &request, err) >= 0) {
		take_head(p, &client.http.head);
		do
			n = client_read(&client, piece, sizeof piece, err);
		while (n > 0 && take_body(p, piece, (size_t)n) && !over(p));
	}
	client_close(&client);
	return n < 0 ? -1 : 0;
}

static void take_plain_answer(struct posting *p)
{
	if (p->streaming || !p->body.len || p->answer)
		return;
	json_t *one = json_parse(p->body.data, p->body.len, NULL);
	p->answer = json_is_object(one) ? json_incref(one) : NULL;
	json_decref(one);
}

/* Takes the message over. The status, or -1 with err. */
static long post(struct posting *p, json_t *message, struct err *err)
{
	struct jw jw;
	struct err why = { 0 };
	jw_init(&jw, HUB_MESSAGE_MAX);
	jw_json(&jw, message);
	json_decref(message);
	p->body = BUF(HUB_MESSAGE_MAX);
	sse_reader_init(&p->events, HUB_MESSAGE_MAX, take_event, p);
	int result = jw_failed(&jw) ? err_set(&why, ERR_TOO_LARGE, "the message is too large")
				    : talk(p, jw.out.data, jw.out.len, &why);
	jw_done(&jw);
	take_plain_answer(p);
	buf_done(&p->body);
	sse_reader_done(&p->events);
	if (p->answer)
		return p->status;
	if (p->large)
		return err_set(err, ERR_UNAVAILABLE,
			       "the MCP server %s sent a message larger than 16 MiB", p->c->name);
	if (why.code == ERR_SLOW || over(p))
		return err_set(err, ERR_SLOW,
			       p->ex && p->ex->cancelled
				       ? "the call of the MCP server %s was cancelled"
				       : "the MCP server %s did not answer in time",
			       p->c->name);
	if (result == 0)
		return p->status;
	return err_set(err, ERR_UNAVAILABLE, "the MCP server %s cannot be reached: %s", p->c->name,
		       why.msg);
}

/* Within the time of what it is part of; NULL: of nothing. */
static void post_plainly(struct http_client *c, json_t *message, const struct posting *within)
{
	struct posting p = { .c = c, .until_ms = clock_ms() + NOTIFY_MS };
	struct err ignored;
	if (within) {
		p.ex = within->ex;
		p.until_ms = within->until_ms < p.until_ms ? within->until_ms : p.until_ms;
	}
	(void)post(&p, message, &ignored);
	json_decref(p.answer);
}

/* ---- requests ---- */

/* What the answer to initialize says: it is repeated with every message. */
static void agree(struct http_client *c, const json_t *result)
{
	int found =
		mcp_revision_find(json_string_value(json_object_get(result, "protocolVersion")));
	pthread_mutex_lock(&c->lock);
	c->revision = found < 0 ? NULL : mcp_revision_names[found];
	pthread_mutex_unlock(&c->lock);
}

static json_t *request(struct hub_client *client, const char *method, const json_t *params,
		       struct exchange *ex, int64_t timeout_ms, struct err *err)
{
	struct http_client *c = of(client);
	json_t *sent = params ? json_deep_copy(params) : json_object(), *result = NULL;
	pthread_mutex_lock(&c->lock);
	struct posting p = {
		.c = c, .ex = ex, .id = ++c->next_id, .until_ms = clock_ms() + timeout_ms
	};
	pthread_mutex_unlock(&c->lock);
	if (ex && ex->token)
		json_object_set_new(sent, "_meta", json_pack("{s:I}", "progressToken", p.id));
	long status = post(&p,
			   json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", p.id, "method",
				     method, "params", sent),
			   err);
	if (status == 404 || (status < 0 && err->code == ERR_UNAVAILABLE))
		service_lost(client->run, status == 404 ? "its session is gone" : err->msg);
	if (status > 0 && *p.session) {
		pthread_mutex_lock(&c->lock);
		snprintf(c->session, sizeof c->session, "%s", p.session);
		pthread_mutex_unlock(&c->lock);
	}
	bool understood = json_object_get(p.answer, "result") || json_object_get(p.answer, "error");
	if (understood)
		result = hub_result(c->name, p.answer, err);
	else if (status >= 0)
		err_set(err, ERR_UNAVAILABLE, "the MCP server %s answered with HTTP status %ld",
			c->name, status);
	json_decref(p.answer);
	if (result && !strcmp(method, "initialize"))
		agree(c, result);
	return result;
}

static int notify(struct hub_client *client, const char *method, struct err *err)
{
	(void)err;
	post_plainly(of(client), json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", method), NULL);
	return 0;
}

struct hub_client *hub_http_open(const struct hub_client *from, struct err *err)
{
	static const struct hub_client_ops ops = { request, notify, NULL, release };
	const struct hub_spec *spec = from->spec;
	struct url_parts url;
	if (url_split(spec->url, &url, err) < 0)
		return NULL;
	struct http_client *c = xcalloc(1, sizeof *c);
	*c = (struct http_client){ .client = *from,
				   .name = spec->name,
				   .target = xstrdup(url.target) };
	c->client.ops = &ops;
	pthread_mutex_init(&c->lock, NULL);
	c->headers = xcalloc(spec->header_count + 1, sizeof *c->headers);
	for (size_t i = 0; i < spec->header_count; i++)
		c->headers[i] = xasprintf("%s: %s", spec->headers[i].name, spec->headers[i].value);
	return &c->client;
}
