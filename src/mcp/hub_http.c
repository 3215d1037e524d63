/* A server on the network, spoken to with libcurl: each message is a POST, whose answer is JSON or a
 * stream of events. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/library.h"
#include "base/own.h"
#include "mcp/events.h"
#include "mcp/exchange.h"
#include "mcp/hub_client.h"
#include "mcp/revision.h"
#include "net/server.h"

static struct {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_easy_init) *init;
	CURLcode (*set)(CURL *, CURLoption, ...);
	__typeof__(curl_easy_perform) *perform;
	CURLcode (*get)(CURL *, CURLINFO, ...);
	__typeof__(curl_easy_cleanup) *cleanup;
	__typeof__(curl_easy_strerror) *strerror;
	__typeof__(curl_slist_append) *append;
	__typeof__(curl_slist_free_all) *free_list;
} curl;
static const struct library_symbol symbols[] = {
	{ "curl_global_init", &curl.global_init },  { "curl_easy_init", &curl.init },
	{ "curl_easy_setopt", &curl.set },          { "curl_easy_perform", &curl.perform },
	{ "curl_easy_getinfo", &curl.get },         { "curl_easy_cleanup", &curl.cleanup },
	{ "curl_easy_strerror", &curl.strerror },   { "curl_slist_append", &curl.append },
	{ "curl_slist_free_all", &curl.free_list },
};
static struct library library = LIBRARY("libcurl.so.4", "libcurl4", symbols);
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

enum { CONNECT_MS = 10000, SESSION_MAX = 256, NOTIFY_MS = 10000 };

struct http_client {
	struct hub_client client; /* first */
	struct server *server;
	char *name, *url;
	char **headers; /* "Name: value"; ends with NULL */
	struct hub_events events;
	const _Atomic bool *abandoned;
	_Atomic bool dead;
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
	bool streaming, large;
	char session[SESSION_MAX];
	struct buf body;
	struct events events;
	json_t *answer;
};

static struct http_client *of(struct hub_client *client)
{
	return (struct http_client *)client;
}

static void unref(struct hub_client *client)
{
	struct http_client *c = of(client);
	if (atomic_fetch_sub(&client->refs, 1) > 1)
		return;
	for (char **at = c->headers; *at; at++)
		free(*at);
	free(c->headers);
	c->events.release(c->events.arg);
	pthread_mutex_destroy(&c->lock);
	free(c->name);
	free(c->url);
	free(c);
}

static bool alive(struct hub_client *client)
{
	return !of(client)->dead;
}

/* ---- what libcurl calls ---- */

static void post_plainly(struct http_client *c, json_t *message, const struct posting *within);

/* Nobody waits any more. */
static bool over(const struct posting *p)
{
	return clock_ms() >= p->until_ms || (p->ex && p->ex->cancelled) || p->c->server->stopping ||
	       *p->c->abandoned;
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
		post_plainly(p->c, hub_answer(p->c->server, message), p);
	} else if (method && !strcmp(method, "notifications/progress") && p->ex) {
		p->ex->tells_progress = true;
		exchange_progress(p->ex, json_number_value(json_object_get(params, "progress")),
				  json_number_value(json_object_get(params, "total")),
				  json_string_value(json_object_get(params, "message")));
	} else if (method) {
		hub_told(p->c->name, message, &p->c->events);
	}
	json_decref(message);
	return !p->answer && !over(p);
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
	struct posting *p = arg;
	size_t len = size * count;
	bool go_on = !p->id         ? true
		     : p->streaming ? events_feed(&p->events, data, len)
				    : buf_add(&p->body, data, len) == 0;
	p->large = p->events.line.full || p->events.data.full || p->body.full;
	return go_on ? len : 0;
}

static size_t take_header(char *data, size_t size, size_t count, void *arg)
{
	struct posting *p = arg;
	size_t len = size * count;
	while (len && strchr("\r\n ", data[len - 1]))
		len--;
	if (len > 13 && !strncasecmp(data, "content-type:", 13)) {
		auto_free char *value = xstrndup(data + 13, len - 13);
		p->streaming = strstr(value, "text/event-stream") != NULL;
	} else if (len > 15 && !strncasecmp(data, "mcp-session-id:", 15)) {
		const char *value = data + 15;
		for (len -= 15; len && *value == ' '; len--)
			value++;
		if (len < SESSION_MAX)
			snprintf(p->session, sizeof p->session, "%.*s", (int)len, value);
	}
	return size * count;
}

static int check(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return over(arg);
}

/* ---- one POST ---- */

static struct curl_slist *make_headers(struct http_client *c)
{
	char line[SESSION_MAX + 64];
	struct curl_slist *list = curl.append(NULL, "Content-Type: application/json");
	list = curl.append(list, "Accept: application/json, text/event-stream");
	list = curl.append(list, "Expect:");
	pthread_mutex_lock(&c->lock);
	if (*c->session) {
		snprintf(line, sizeof line, "Mcp-Session-Id: %s", c->session);
		list = curl.append(list, line);
	}
	if (c->revision) {
		snprintf(line, sizeof line, "MCP-Protocol-Version: %s", c->revision);
		list = curl.append(list, line);
	}
	pthread_mutex_unlock(&c->lock);
	for (char **at = c->headers; *at; at++)
		list = curl.append(list, *at);
	return list;
}

static void set_options(CURL *easy, struct posting *p, const char *text, size_t len,
			struct curl_slist *headers)
{
	curl.set(easy, CURLOPT_URL, p->c->url);
	curl.set(easy, CURLOPT_NOSIGNAL, 1L);
	curl.set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.set(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl.set(easy, CURLOPT_POSTFIELDSIZE, (long)len);
	curl.set(easy, CURLOPT_POSTFIELDS, text);
	curl.set(easy, CURLOPT_HTTPHEADER, headers);
	curl.set(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl.set(easy, CURLOPT_WRITEDATA, p);
	curl.set(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl.set(easy, CURLOPT_HEADERDATA, p);
	curl.set(easy, CURLOPT_NOPROGRESS, 0L);
	curl.set(easy, CURLOPT_XFERINFOFUNCTION, check);
	curl.set(easy, CURLOPT_XFERINFODATA, p);
}

/* Takes the message over. The status, or -1 with err. */
static long post(struct posting *p, json_t *message, struct err *err)
{
	struct jw jw;
	jw_init(&jw, HUB_MESSAGE_MAX);
	jw_json(&jw, message);
	json_decref(message);
	CURL *easy = curl.init();
	struct curl_slist *headers = make_headers(p->c);
	p->body = BUF(HUB_MESSAGE_MAX);
	events_init(&p->events, HUB_MESSAGE_MAX, take_event, p);
	set_options(easy, p, jw.out.data, jw.out.len, headers);
	CURLcode code = jw_failed(&jw) ? CURLE_OUT_OF_MEMORY : curl.perform(easy);
	long status = 0;
	curl.get(easy, CURLINFO_RESPONSE_CODE, &status);
	curl.free_list(headers);
	curl.cleanup(easy);
	jw_done(&jw);
	if (!p->streaming && p->body.len && !p->answer) {
		json_t *one = json_parse(p->body.data, p->body.len, NULL);
		p->answer = json_is_object(one) ? json_incref(one) : NULL;
		json_decref(one);
	}
	buf_done(&p->body);
	events_done(&p->events);
	if (code == CURLE_OK || p->answer)
		return status;
	if (p->large)
		return err_set(err, ERR_UNAVAILABLE,
			       "the MCP server %s sent a message larger than 16 MiB", p->c->name);
	if (code == CURLE_ABORTED_BY_CALLBACK || over(p))
		return err_set(err, ERR_SLOW,
			       p->ex && p->ex->cancelled
				       ? "the call of the MCP server %s was cancelled"
				       : "the MCP server %s did not answer in time",
			       p->c->name);
	return err_set(err, ERR_UNAVAILABLE, "the MCP server %s cannot be reached: %s", p->c->name,
		       curl.strerror(code));
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
		c->dead = true; /* its session is gone, or it is: the next call begins anew */
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

static void prepare(void)
{
	curl.global_init(CURL_GLOBAL_DEFAULT);
}

struct hub_client *hub_http_start(struct server *server, const struct hub_spec *spec,
				  const struct hub_events *events, struct err *err)
{
	static const struct hub_client_ops ops = { request, notify, alive, unref };
	if (library_load(&library, err) < 0)
		return NULL;
	pthread_once(&prepared, prepare);
	struct http_client *c = xcalloc(1, sizeof *c);
	*c = (struct http_client){ .client = { &ops, 1 },
				   .server = server,
				   .name = xstrdup(spec->name),
				   .url = xstrdup(spec->url),
				   .events = *events,
				   .abandoned = spec->abandoned };
	pthread_mutex_init(&c->lock, NULL);
	c->headers = xcalloc(spec->header_count + 1, sizeof *c->headers);
	for (size_t i = 0; i < spec->header_count; i++)
		c->headers[i] = xasprintf("%s: %s", spec->headers[i].name, spec->headers[i].value);
	return &c->client;
}
