/* Lines of JSON-RPC to Streamable HTTP and back: each message is a POST, whose answer is JSON or a
 * stream of events; what the server says on its own comes on a GET that stays open. */
#include "cli/mcp_relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/thread.h"
#include "cli/remote.h"
#include "mcp/exchange.h"
#include "mcp/rpc_message.h"
#include "mcp/sse_reader.h"
#include "net/client.h"
#include "net/dial.h"

enum {
	MESSAGE_MAX = 64 << 20,
	CALLS_MAX = 256,
	HEADERS_MAX = 65536,
	NAME_MAX_LEN = 256,
	PIECE = 65536,
	LOOK_MS = 100,
	RETRY_MS = 500,
	RESUME_MAX = 10,
	PLAIN_MS = 30000, /* for a message that has no reply */
	GRACE_MS = 30000, /* for replies after the end of the input */
};

/* One request that waits for its reply, or a message that has none. */
struct relay_call {
	LIST_ENTRY(relay_call) link;
	struct mcp_relay *relay;
	json_t *message;  /* NULL: the stream of what the server says on its own */
	char *text;       /* as it was sent */
	bool quiet;       /* its reply is for us */
	bool modern;      /* of the revision without sessions */
	bool answered;    /* its reply has come */
	int resumed;      /* how often its stream was resumed without anything new */
	int64_t until_ms; /* of clock_ms(); INT64_MAX: it may take as long as it likes */
	_Atomic bool cancelled;
	char session[NAME_MAX_LEN];   /* that it was sent with */
	char last_event[SSE_ID_ROOM]; /* where its stream can be resumed */
};
LIST_HEAD(relay_calls, relay_call);

struct mcp_relay {
	const struct remote *remote;
	char *const *box;
	int signals, out;
	_Atomic bool over;
	struct buf line;
	bool skipping;            /* the rest of a line that is too long */
	pthread_mutex_t writing;  /* a line is written whole */
	pthread_mutex_t renewing; /* held while a session begins */
	pthread_mutex_t lock;     /* of what follows */
	pthread_cond_t changed;
	struct relay_calls calls;
	size_t count;  /* of threads */
	uint64_t sent; /* messages that have reached the box */
	char session[NAME_MAX_LEN], revision[NAME_MAX_LEN];
	char *hello; /* the initialize of the client */
};

/* ---- to the client ---- */

/* Whether the client is gone or a signal came. */
static bool ending(struct mcp_relay *r)
{
	struct pollfd pfds[] = { { .fd = r->signals, .events = POLLIN }, { .fd = r->out } };
	if (!r->over && poll(pfds, COUNT(pfds), 0) > 0)
		r->over = true;
	return r->over;
}

static void write_line(struct mcp_relay *r, const char *text, size_t len)
{
	pthread_mutex_lock(&r->writing);
	for (size_t done = 0; done <= len && !ending(r);) {
		if (!wait_until(r->out, POLLOUT, clock_ms() + LOOK_MS))
			continue;
		/* The descriptor may block: as much as a pipe that has room takes for certain. */
		size_t left = len - done;
		ssize_t n = left ? write(r->out, text + done, left < 4096 ? left : 4096)
				 : write(r->out, "\n", 1);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			r->over = true;
		done += n > 0 ? (size_t)n : 0;
	}
	pthread_mutex_unlock(&r->writing);
}

/* Whether it is the reply to this request. */
static bool is_reply(const struct relay_call *call, const json_t *message)
{
	return call->message && !json_object_get(message, "method") &&
	       json_equal(json_object_get(message, "id"), json_object_get(call->message, "id"));
}

/* What the answer to initialize says is repeated with every message. */
static void agree(struct relay_call *call, const json_t *reply)
{
	struct mcp_relay *r = call->relay;
	const char *method = json_string_value(json_object_get(call->message, "method"));
	const char *revision = json_string_value(
		json_object_get(json_object_get(reply, "result"), "protocolVersion"));
	/* It becomes a header: a date, and nothing else that a box may send. */
	if (!method || strcmp(method, "initialize") != 0 || !revision ||
	    revision[strspn(revision, "0123456789-")])
		return;
	pthread_mutex_lock(&r->lock);
	snprintf(r->session, sizeof r->session, "%s", call->session);
	snprintf(r->revision, sizeof r->revision, "%s", revision);
	pthread_mutex_unlock(&r->lock);
}

/* All of it, NUL bytes too. */
static char *copy_of(const char *text, size_t len)
{
	char *copy = xmalloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = 0;
	return copy;
}

/* A message from the box, which is JSON: line feeds in it are only space. */
static void take_message(struct relay_call *call, char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\n' || text[i] == '\r')
			text[i] = ' ';
	auto_free char *copy = copy_of(text, len);
	json_t *message = json_parse(copy, len, NULL);
	if (is_reply(call, message)) {
		call->answered = true;
		agree(call, message);
	}
	if (message && !call->quiet && !(call->answered && call->cancelled))
		write_line(call->relay, text, len);
	json_decref(message);
}

static bool is_request(const json_t *message)
{
	return json_object_get(message, "id") && json_object_get(message, "method");
}

static bool take_event(void *arg, char *data, size_t len)
{
	struct relay_call *call = arg;
	call->resumed = 0;
	if (len)
		take_message(call, data, len);
	return !call->answered;
}

static void reply_error(struct mcp_relay *r, const json_t *id, int code, const char *text)
{
	struct jw jw;
	jw_init(&jw, PIECE);
	rpc_write_error(&jw, rpc_message_id(id), code, text, NULL);
	write_line(r, jw.out.data, jw.out.len);
	jw_done(&jw);
}

/* A request gets a reply in any case; for all else there is standard error. */
static void fail(struct relay_call *call, const char *why)
{
	const json_t *id = json_object_get(call->message, "id");
	if (call->answered || call->cancelled || ending(call->relay))
		return;
	if (is_request(call->message))
		reply_error(call->relay, id, RPC_FAILED, why);
	else
		fprintf(stderr, "aio mcp: a message to the box failed: %s\n", why);
	call->answered = true;
}

/* ---- to the box ---- */

/* As a header's value: in base64 where it cannot be one as it is. */
static void put_name(struct buf *to, const char *name)
{
	bool plain = *name && *name != ' ' && name[strlen(name) - 1] != ' ';
	for (const char *c = name; *c; c++)
		plain = plain && *c >= ' ' && *c <= '~';
	buf_str(to, "\r\nMcp-Name: ");
	if (plain) {
		buf_str(to, name);
		return;
	}
	buf_str(to, "=?base64?");
	base64_encode(to, name, strlen(name));
	buf_str(to, "?=");
}

/* The revision without sessions has headers that repeat what the message says. */
static void put_modern(struct buf *to, const json_t *message)
{
	const json_t *params = json_object_get(message, "params");
	const json_t *meta = json_object_get(params, "_meta");
	const char *method = json_string_value(json_object_get(message, "method"));
	const char *version =
		json_string_value(json_object_get(meta, "io.modelcontextprotocol/protocolVersion"));
	const char *name = json_string_value(
		json_object_get(params, !strcmp(method, "resources/read") ? "uri" : "name"));
	buf_printf(to, "\r\nMCP-Protocol-Version: %.*s\r\nMcp-Method: %.*s",
		   (int)strcspn(version ? version : "", "\r\n"), version ? version : "",
		   (int)strcspn(method, "\r\n"), method);
	if (name)
		put_name(to, name);
}

static void put_headers(struct relay_call *call, struct buf *to)
{
	struct mcp_relay *r = call->relay;
	buf_str(to, call->message ? "Accept: application/json, text/event-stream"
				  : "Accept: text/event-stream");
	for (char *const *h = r->box; *h; h++)
		buf_printf(to, "\r\n%s", *h);
	pthread_mutex_lock(&r->lock);
	snprintf(call->session, sizeof call->session, "%s",
		 call->quiet || call->modern ? "" : r->session);
	if (call->modern)
		put_modern(to, call->message);
	else if (*call->session)
		buf_printf(to, "\r\nMcp-Session-Id: %s\r\nMCP-Protocol-Version: %s", r->session,
			   r->revision);
	pthread_mutex_unlock(&r->lock);
	if (*call->last_event)
		buf_printf(to, "\r\nLast-Event-ID: %s", call->last_event);
}

static bool unwanted(void *arg)
{
	struct relay_call *call = arg;
	return call->cancelled || clock_ms() >= call->until_ms || ending(call->relay);
}

static void take_head(struct relay_call *call, const struct http_head *head)
{
	struct mcp_relay *r = call->relay;
	const char *session = http_header(head, "mcp-session-id");
	if (session)
		snprintf(call->session, sizeof call->session, "%s", session);
	pthread_mutex_lock(&r->lock);
	r->sent += call->message != NULL;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

/* Reads events until the reply, or the end of the stream. */
static void read_events(struct relay_call *call, struct client *client)
{
	struct sse_reader events;
	char piece[PIECE];
	ssize_t n;
	struct err ignored;
	sse_reader_init(&events, MESSAGE_MAX, take_event, call);
	while (!unwanted(call) && (n = client_read(client, piece, sizeof piece, &ignored)) > 0 &&
	       sse_reader_feed(&events, piece, (size_t)n))
		;
	if (events.has_id)
		snprintf(call->last_event, sizeof call->last_event, "%s", events.id);
	sse_reader_done(&events);
}

/* Reads an answer that is no stream. A refusal of MCP goes to the client as it is; one of the host,
 * in words. */
static int read_plain(struct relay_call *call, struct client *client, struct err *err)
{
	int status = client->http.head.status;
	size_t len = 0;
	auto_free char *body = client_body(client, MESSAGE_MAX, &len, err);
	if (!body)
		return -1;
	auto_free char *copy = copy_of(body, len);
	json_t *answer = json_parse(copy, len, NULL), *refusal = json_object_get(answer, "error");
	bool lost = status == 404 && *call->session;
	if (is_reply(call, answer) && !lost)
		take_message(call, body, len);
	else if (status >= 300)
		remote_error(status, refusal ? refusal : answer, err);
	json_decref(answer);
	return 0;
}

/* One request to /mcp. The status of HTTP, 0 where there is none, with err unless all went well. */
static int talk(struct relay_call *call, struct err *err)
{
	struct dial_wait wait = { .all = { call->until_ms, call->relay->out, call->relay->signals },
				  .over = unwanted,
				  .arg = call };
	struct client client;
	auto_buf struct buf headers = BUF(HEADERS_MAX);
	put_headers(call, &headers);
	bool get = !call->message || *call->last_event;
	const char *const list[] = { headers.data, NULL };
	struct client_request request = {
		get ? "GET" : "POST",        "/mcp", list, NULL, get ? NULL : call->text,
		get ? 0 : strlen(call->text)
	};
	*err = (struct err){ 0 };
	if (client_open(&client, call->relay->remote->url, &wait, err) < 0)
		return 0;
	int status = client_ask(&client, &request, err);
	const char *type = status > 0 ? http_header(&client.http.head, "content-type") : NULL;
	if (status > 0)
		take_head(call, &client.http.head);
	if (type && strstr(type, "text/event-stream"))
		read_events(call, &client);
	else if (status > 0)
		(void)read_plain(call, &client, err);
	client_close(&client);
	return status < 0 ? 0 : status;
}

/* ---- sessions ---- */

/* A call of our own, whose reply the client does not see. */
static int talk_quietly(struct mcp_relay *r, char *text, bool fresh)
{
	struct err err;
	auto_free char *copy = xstrdup(text);
	struct relay_call call = { .relay = r,
				   .message = json_parse(copy, strlen(copy), NULL),
				   .text = text,
				   .quiet = fresh,
				   .until_ms = clock_ms() + PLAIN_MS };
	int status = talk(&call, &err);
	json_decref(call.message);
	return status;
}

/* The box no longer knows the session: its server was started again. The client cannot know, so the
 * session begins again here. False: it does not. */
static bool renew(struct relay_call *call)
{
	static char initialized[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
	struct mcp_relay *r = call->relay;
	bool renewed = false;
	pthread_mutex_lock(&r->renewing);
	pthread_mutex_lock(&r->lock);
	bool known = strcmp(r->session, call->session) != 0;
	auto_free char *hello = r->hello ? xstrdup(r->hello) : NULL;
	pthread_mutex_unlock(&r->lock);
	if (known)
		renewed = true; /* by another call */
	else if (hello && *call->session)
		renewed = talk_quietly(r, hello, true) == 200 &&
			  talk_quietly(r, initialized, false) / 100 == 2;
	pthread_mutex_unlock(&r->renewing);
	return renewed;
}

/* ---- requests ---- */

static void wait_a_little(struct mcp_relay *r, int64_t ms)
{
	for (int64_t until = clock_ms() + ms; clock_ms() < until && !ending(r);)
		(void)wait_until(r->signals, POLLIN, clock_ms() + LOOK_MS);
}

/* Sends a message and passes on all that is answered. A stream that breaks is resumed where it can
 * be; a message is sent again only to a session that has not seen it. */
static void serve(struct relay_call *call)
{
	struct err err;
	bool wants = is_request(call->message), renewed = false;
	int status = talk(call, &err);
	while (!call->answered && !unwanted(call)) {
		bool broken = status == 200 && *call->last_event;
		if (wants && broken && call->resumed++ < RESUME_MAX)
			wait_a_little(call->relay, RETRY_MS);
		else if (status != 404 || renewed || *call->last_event || !renew(call))
			break;
		renewed = renewed || !broken;
		status = talk(call, &err);
	}
	if (clock_ms() >= call->until_ms)
		fail(call, "the box did not answer in time");
	else if (err.code || wants)
		fail(call, err.code ? err.msg : "the box ended its answer before the reply");
}

static void leave(struct relay_call *call)
{
	struct mcp_relay *r = call->relay;
	pthread_mutex_lock(&r->lock);
	LIST_REMOVE(call, link);
	r->count--;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	json_decref(call->message);
	free(call->text);
	free(call);
}

static void *serve_alone(void *arg)
{
	serve(arg);
	leave(arg);
	return NULL;
}

/* What the server says on its own. It is asked for again only after the client has reached the box
 * once more: a box that sleeps is not woken for this. */
static void *listen_alone(void *arg)
{
	struct relay_call *call = arg;
	struct mcp_relay *r = call->relay;
	struct err err;
	while (!ending(r)) {
		pthread_mutex_lock(&r->lock);
		uint64_t sent = r->sent;
		pthread_mutex_unlock(&r->lock);
		int status = talk(call, &err);
		if (status == 405)
			break;
		if (status == 404)
			call->last_event[0] = 0;
		wait_a_little(r, RETRY_MS);
		for (bool waits = status != 200; waits && !ending(r);) {
			pthread_mutex_lock(&r->lock);
			waits = r->sent == sent;
			pthread_mutex_unlock(&r->lock);
			wait_a_little(r, LOOK_MS);
		}
	}
	leave(call);
	return NULL;
}

static void begin(struct relay_call *call, void *(*run)(void *))
{
	struct mcp_relay *r = call->relay;
	pthread_mutex_lock(&r->lock);
	LIST_INSERT_HEAD(&r->calls, call, link);
	bool room = r->count++ < CALLS_MAX;
	pthread_mutex_unlock(&r->lock);
	if (!room || thread_start(run, call) != 0) {
		fail(call, "too many requests at once");
		leave(call);
	}
}

/* ---- from the client ---- */

static struct relay_call *call_new(struct mcp_relay *r, json_t *message)
{
	struct relay_call *call = xcalloc(1, sizeof *call);
	call->relay = r;
	call->message = message;
	call->until_ms = INT64_MAX;
	call->modern = json_object_get(message, "method") && rpc_message_is_modern(message);
	call->text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	return call;
}

/* Nobody waits for its reply any more; where there is no session, that cancels it. */
static void cancel_here(struct mcp_relay *r, const json_t *message)
{
	const json_t *id = json_object_get(json_object_get(message, "params"), "requestId");
	struct relay_call *call;
	pthread_mutex_lock(&r->lock);
	LIST_FOREACH(call, &r->calls, link)
	if (json_equal(json_object_get(call->message, "id"), id))
		call->cancelled = true;
	pthread_mutex_unlock(&r->lock);
}

/* Whatever comes next refers to it, so it is waited for. */
static void initialize(struct relay_call *call)
{
	struct mcp_relay *r = call->relay;
	pthread_mutex_lock(&r->lock);
	free(r->hello);
	r->hello = xstrdup(call->text);
	r->session[0] = r->revision[0] = 0;
	pthread_mutex_unlock(&r->lock);
	serve(call);
	if (*call->session)
		begin(call_new(r, NULL), listen_alone);
}

/* Takes the message over. What has no reply is sent in the order that it came in. */
static void take_call(struct mcp_relay *r, json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const char *wrong = rpc_message_why_invalid(message);
	if (wrong) {
		reply_error(r, json_object_get(message, "id"), RPC_INVALID, wrong);
		json_decref(message);
		return;
	}
	bool first = method && !strcmp(method, "initialize");
	if (method && !strcmp(method, "notifications/cancelled"))
		cancel_here(r, message);
	struct relay_call *call = call_new(r, message);
	if (is_request(message) && !first) {
		begin(call, serve_alone);
		return;
	}
	if (!first)
		call->until_ms = clock_ms() + PLAIN_MS;
	if (first)
		initialize(call);
	else
		serve(call);
	json_decref(call->message);
	free(call->text);
	free(call);
}

static void take_line(struct mcp_relay *r)
{
	struct err err;
	size_t i;
	json_t *message;
	bool blank = strspn(r->line.data ? r->line.data : "", " \t\r") >= r->line.len;
	json_t *value = blank ? NULL : json_parse(r->line.data, r->line.len, &err);
	r->line.len = 0;
	if (!value && !blank)
		reply_error(r, NULL, RPC_PARSE, err.msg);
	else if (json_is_array(value))
		json_array_foreach(value, i, message)
			take_call(r, json_deep_copy(message));
	else if (value)
		take_call(r, TAKE(value));
	json_decref(value);
}

/* False at the end of the input. */
static bool take_input(struct mcp_relay *r, int in)
{
	char data[PIECE];
	ssize_t n = read(in, data, sizeof data);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	for (const char *at = data, *end = data + n; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (!r->skipping && buf_add(&r->line, at, (size_t)((stop ? stop : end) - at)) < 0) {
			reply_error(r, NULL, RPC_INVALID, "the message is too large");
			r->line.len = 0;
			r->line.full = false;
			r->skipping = true;
		}
		if (stop && !r->skipping)
			take_line(r);
		r->skipping = r->skipping && !stop;
		at = stop ? stop + 1 : end;
	}
	if (n == 0 && r->line.len)
		take_line(r); /* the last line may have no end */
	return n > 0;
}

/* Whether requests are still waiting for their replies. */
static bool busy(struct mcp_relay *r)
{
	struct relay_call *call;
	bool found = false;
	pthread_mutex_lock(&r->lock);
	LIST_FOREACH(call, &r->calls, link)
	found = found || call->message;
	pthread_mutex_unlock(&r->lock);
	return found;
}

static void end_session(struct mcp_relay *r)
{
	struct err err;
	struct client client;
	struct dial_wait wait = { .all = { clock_ms() + PLAIN_MS, -1, -1 } };
	auto_free char *session = xasprintf("Mcp-Session-Id: %s", r->session);
	const char *const headers[] = { session, r->box[0], r->box[1], NULL };
	struct client_request request = { "DELETE", "/mcp", headers, NULL, NULL, 0 };
	if (!*r->session || client_open(&client, r->remote->url, &wait, &err) < 0)
		return;
	(void)client_ask(&client, &request, &err);
	client_close(&client);
}

static void end(struct mcp_relay *r)
{
	r->over = true;
	pthread_mutex_lock(&r->lock);
	while (r->count)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
	end_session(r);
	buf_done(&r->line);
	free(r->hello);
}

void mcp_relay(const struct remote *remote, char *const box[], int signals, int in, int out)
{
	struct mcp_relay r = { .remote = remote,
			       .box = box,
			       .signals = signals,
			       .out = out,
			       .line = BUF(MESSAGE_MAX),
			       .writing = PTHREAD_MUTEX_INITIALIZER,
			       .renewing = PTHREAD_MUTEX_INITIALIZER,
			       .lock = PTHREAD_MUTEX_INITIALIZER,
			       .changed = PTHREAD_COND_INITIALIZER };
	int64_t until = INT64_MAX;
	struct pollfd pfds[] = { { .fd = in, .events = POLLIN },
				 { .fd = signals, .events = POLLIN },
				 { .fd = out } };
	while (!ending(&r) && clock_ms() < until && (until == INT64_MAX || busy(&r))) {
		(void)poll(pfds, COUNT(pfds), until == INT64_MAX ? -1 : LOOK_MS);
		if (pfds[0].revents && !take_input(&r, in)) {
			pfds[0] = (struct pollfd){ .fd = -1 };
			until = clock_ms() + GRACE_MS;
		}
	}
	end(&r);
}
