/* The Model Context Protocol over HTTP: one address that takes messages and gives streams of events,
 * for clients of every revision. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/method.h"
#include "mcp/rpc_message.h"
#include "mcp/session.h"
#include "mcp/stream.h"
#include "net/call.h"
#include "net/guard.h"
#include "net/server.h"

enum {
	BATCH_MAX = 100,
	PATIENCE_MS = 1000, /* for a reply, before an answer becomes a stream of events */
	TICK_MS = 1000,     /* between two reports of progress */
	PING_MS = 15000,
	RETRY_MS = 500,
};

struct mcp_request {
	struct text body;
	const char *session, *accept, *protocol, *method, *name, *last_event, *origin, *host;
	const char *search, *old_session;
};
static const struct field fields[] = {
	TEXT(mcp_request, body, HIDDEN, "One message of JSON-RPC, or a batch of them."),
	NAMED("mcp-session-id", STR, mcp_request, session, HEADER,
	      "From the answer to `initialize`."),
	NAMED("mcp-protocol-version", STR, mcp_request, protocol, HEADER,
	      "The revision that was agreed."),
	NAMED("mcp-method", STR, mcp_request, method, HEADER,
	      "From 2026-07-28 on: the message's method."),
	NAMED("mcp-name", STR, mcp_request, name, HEADER, "From 2026-07-28 on: what it is about."),
	NAMED("last-event-id", STR, mcp_request, last_event, HEADER, "Where a stream broke."),
	NAMED("accept", STR, mcp_request, accept, HEADER | HIDDEN, NULL),
	NAMED("origin", STR, mcp_request, origin, HEADER | HIDDEN, NULL),
	NAMED("host", STR, mcp_request, host, HEADER | HIDDEN, NULL),
	STR(mcp_request, search, QUERY, "Only the tools of this server.", .max_len = 128),
	NAMED("sessionId", STR, mcp_request, old_session, QUERY | HIDDEN, NULL),
};
static const struct schema request_schema = SCHEMA(mcp_request, "McpRequest", fields);

/* ---- answers without a stream ---- */

static int answer(struct call *call, int status, const struct mcp_session *session,
		  const char *text, size_t len, struct err *err)
{
	struct answer a = { status, len ? "application/json" : NULL, (int64_t)len,
			    .header_count = 0 };
	if (session)
		a.headers[a.header_count++] =
			(struct pair){ "Mcp-Session-Id", session_id(session) };
	if (status == 405)
		a.headers[a.header_count++] = (struct pair){ "Allow", "POST, OPTIONS" };
	if (call->sink->begin(call->sink, &a, err) < 0)
		return -1;
	return len ? call->sink->write(call->sink, text, len, err) : 0;
}

static int answer_error(struct call *call, int status, const json_t *id, int code, const char *text,
			const json_t *data, struct err *err)
{
	struct jw jw;
	jw_init(&jw, 1 << 20);
	rpc_write_error(&jw, id, code, text, data);
	int result = answer(call, status, NULL, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

/* ---- sending a stream ---- */

/* What is sent: to whom, and what has been sent. */
struct sending {
	struct call *call;
	struct mcp_session *session; /* NULL: none, and events have no ids */
	struct mcp_stream *stream;
	enum mcp_revision revision;
	uint64_t sent, turn;
	bool primed;
};

static int send_event(struct sending *s, uint64_t number, const char *text, size_t len,
		      struct err *err)
{
	char id[48];
	snprintf(id, sizeof id, "%llu_%llu", (unsigned long long)stream_id(s->stream),
		 (unsigned long long)number);
	return call_event(s->call, number ? "message" : NULL, s->session ? id : NULL, text, len,
			  err);
}

/* An empty event, so that a client knows from where on to ask. Older clients take it for a message. */
static int prime(struct sending *s, struct err *err)
{
	if (s->primed || !s->session)
		return 0;
	s->primed = true;
	return s->revision >= MCP_2025_11_25 ? send_event(s, s->sent, "", 0, err) : 0;
}

static int send_waiting(struct sending *s, struct err *err)
{
	struct stream_message *message;
	int result = prime(s, err);
	while (result == 0 && (message = stream_next(s->stream, s->sent))) {
		result = send_event(s, message->number, message->text, message->len, err);
		s->sent = message->number;
		free(message);
	}
	if (!s->session) /* nobody can ask for them again */
		stream_forget(s->stream, s->sent);
	return result;
}

static int send_break(struct sending *s, struct err *err)
{
	char text[40];
	int len = snprintf(text, sizeof text, "retry: %d\n\n", RETRY_MS);
	stream_mend(s->stream);
	return s->call->sink->write(s->call->sink, text, (size_t)len, err);
}

/* Whether the client has ended its side. It may still listen: only writing to it tells. */
static bool may_have_left(const struct call *call)
{
	struct pollfd pfd = { .fd = call->sink->client_fd, .events = POLLRDHUP };
	return poll(&pfd, 1, 0) > 0;
}

/* Sends events until the stream is over, somebody else reads it, or the client is gone. */
static int send_events(struct sending *s, struct err *err)
{
	int64_t ping = clock_ms() + PING_MS;
	if (!s->call->sink->begun && call_event_ping(s->call, err) < 0)
		return -1;
	for (;;) {
		struct stream_state state = stream_look(s->stream, s->turn);
		if (state.taken)
			return 0;
		if (send_waiting(s, err) < 0)
			return -1;
		if (state.broken)
			return send_break(s, err);
		if (state.over && s->sent >= state.last)
			return 0;
		struct wait wait = call_until(s->call, clock_ms() + TICK_MS);
		enum wake wake = stream_wait(s->stream, &state, &wait);
		if (wake == WAKE_STOPPING)
			return 0;
		if (wake == WAKE_LEFT)
			return err_set(err, ERR_GONE, "the client left its stream");
		if (wake == WAKE_TIMEOUT)
			exchange_tick(s->stream);
		if (wake == WAKE_TIMEOUT && (clock_ms() >= ping || may_have_left(s->call))) {
			ping = clock_ms() + PING_MS;
			if (call_event_ping(s->call, err) < 0)
				return -1;
		}
	}
}

/* ---- POST: its replies ---- */

struct post {
	struct sending sending;
	const struct mcp_request *request;
	struct exchange_from from;
	json_t *value; /* what was sent */
	bool batch, created;
	struct exchange *exchanges[BATCH_MAX];
	size_t count;
};

/* All replies at once, as JSON. */
static int reply_json(struct post *post, struct err *err)
{
	struct sending *s = &post->sending;
	auto_buf struct buf text = BUF((size_t)STREAM_REPLY_MAX * 2);
	struct stream_message *message;
	size_t replies = 0;
	if (post->batch)
		buf_str(&text, "[");
	for (uint64_t after = 0; (message = stream_next(s->stream, after));) {
		after = message->number;
		if (message->reply) {
			buf_str(&text, replies++ ? "," : "");
			buf_add(&text, message->text, message->len);
		}
		free(message);
	}
	if (post->batch)
		buf_str(&text, "]");
	if (!replies)
		return answer_error(s->call, 200, post->exchanges[0]->id, RPC_CANCELLED,
				    "the request was cancelled", NULL, err);
	int status = post->count == 1 ? post->exchanges[0]->status : 200;
	return answer(s->call, status, post->created ? s->session : NULL, text.data, text.len, err);
}

static bool accepts(const char *accept, const char *type)
{
	return !accept || !*accept || strstr(accept, type) || strstr(accept, "*/*");
}

/* As JSON when the replies come at once and nothing before them, else as events where the client
 * takes those. */
static int reply(struct post *post, struct err *err)
{
	struct sending *s = &post->sending;
	bool events = s->call->wants_events;
	bool only_events = events && !accepts(post->request->accept, "application/json");
	int64_t patience = clock_ms() + PATIENCE_MS;
	struct wait wait = call_until(s->call, events ? patience : INT64_MAX);
	if (!events) /* which is all that it can get */
		wait.stop_fd = -1;
	for (;;) {
		struct stream_state state = stream_look(s->stream, s->turn);
		if (events && (only_events || state.first_note || state.broken ||
			       (!state.over && clock_ms() >= patience)))
			break;
		if (state.over)
			return reply_json(post, err);
		enum wake wake = stream_wait(s->stream, &state, &wait);
		if (wake == WAKE_LEFT)
			return err_set(err, ERR_GONE, "the client left before the reply");
		if (wake == WAKE_STOPPING)
			break;
	}
	if (s->session)
		session_keep_stream(s->session, s->stream);
	return send_events(s, err);
}

/* ---- POST: its messages ---- */

/* What is wrong with one of the headers that repeat what a message says; NULL: nothing. */
static const char *header_problem(const struct mcp_request *in, const json_t *message)
{
	const json_t *params = json_object_get(message, "params");
	const char *method = json_string_value(json_object_get(message, "method"));
	const char *version =
		json_string_value(json_object_get(json_object_get(params, "_meta"),
						  "io.modelcontextprotocol/protocolVersion"));
	const char *subject = NULL;
	if (!in->protocol)
		return "the header MCP-Protocol-Version is missing";
	if (version && strcmp(version, in->protocol) != 0)
		return "MCP-Protocol-Version is not what _meta says";
	if (!in->method || !method || strcmp(in->method, method) != 0)
		return in->method ? "Mcp-Method is not the message's method"
				  : "the header Mcp-Method is missing";
	if (!strcmp(method, "tools/call") || !strcmp(method, "prompts/get"))
		subject = json_string_value(json_object_get(params, "name"));
	else if (!strcmp(method, "resources/read"))
		subject = json_string_value(json_object_get(params, "uri"));
	if (!subject)
		return NULL;
	if (!in->name)
		return "the header Mcp-Name is missing";
	auto_buf struct buf decoded = BUF(16384);
	const char *name = in->name;
	size_t len = strlen(name);
	if (len > 11 && !strncmp(name, "=?base64?", 9) && !strcmp(name + len - 2, "?=")) {
		if (base64_decode(&decoded, name + 9, len - 11) < 0)
			return "Mcp-Name is not base64";
		name = decoded.data ? decoded.data : "";
	}
	return strcmp(name, subject) ? "Mcp-Name is not what the message is about" : NULL;
}

/* Whether a message says all that the revision without sessions asks for; else it is answered. */
static bool check_modern(struct post *post, const json_t *message, int *ret_result, struct err *err)
{
	struct rpc_message_problem problem;
	const char *wrong;
	bool right = rpc_message_check_fields(message, &problem) == 0;
	if (right && (wrong = header_problem(post->request, message))) {
		problem = (struct rpc_message_problem){ RPC_HEADER_MISMATCH, wrong, NULL };
		right = false;
	} else if (right) {
		right = rpc_message_check_version(message, &problem) == 0;
	}
	if (right)
		return true;
	*ret_result = answer_error(post->sending.call, 400,
				   rpc_message_id(json_object_get(message, "id")), problem.code,
				   problem.text, problem.data, err);
	json_decref(problem.data);
	return false;
}

/* A message of the revision without sessions says so itself, or a header does. */
static bool is_modern(const struct mcp_request *in, const json_t *message)
{
	return rpc_message_is_modern(message) ||
	       (in->protocol && !strcmp(in->protocol, mcp_revision_names[MCP_2026_07_28]));
}

static void take_message(struct post *post, json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *id = json_object_get(message, "id");
	struct exchange_from from = post->from;
	if (!method) {
		if (from.session)
			session_answered(from.session, message);
		return;
	}
	if (!id && !strncmp(method, "notifications/", 14)) {
		method_notified(&from, message);
		return;
	}
	from.bare = !id || json_is_null(id);
	/* Nothing of a message may be shared with the thread that serves it. */
	struct exchange *ex =
		exchange_new(&from, post->sending.stream,
			     post->batch ? json_deep_copy(message) : TAKE(post->value));
	post->exchanges[post->count++] = ex;
	exchange_start(ex);
}

static int refuse_message(struct post *post, const char *why, struct err *err)
{
	return answer_error(post->sending.call, 400,
			    rpc_message_id(json_object_get(post->value, "id")), RPC_INVALID, why,
			    NULL, err);
}

/* ---- POST: who sends ---- */

static enum mcp_revision wanted_revision(const json_t *message)
{
	const json_t *params = json_object_get(message, "params");
	int found =
		mcp_revision_find(json_string_value(json_object_get(params, "protocolVersion")));
	return found < 0 || found > MCP_NEWEST_SESSION ? MCP_NEWEST_SESSION
						       : (enum mcp_revision)found;
}

/* Finds or makes the session. False once it is answered. */
static bool find_session(struct post *post, int *ret_result, struct err *err)
{
	const struct mcp_request *in = post->request;
	struct call *call = post->sending.call;
	const char *method = json_string_value(json_object_get(post->value, "method"));
	const char *id = in->session ? in->session : in->old_session;
	struct err why;
	if (method && !strcmp(method, "initialize") && !in->old_session) {
		post->from.revision = wanted_revision(post->value);
		post->from.session =
			session_open(post->from.revision,
				     json_object_get(json_object_get(post->value, "params"),
						     "capabilities"),
				     in->search, &why);
		post->created = true;
	} else if (id) {
		post->from.session = session_find(id, &why);
	} else {
		int known = mcp_revision_find(in->protocol);
		post->from.revision = known < 0 ? MCP_2025_03_26 : (enum mcp_revision)known;
		return true;
	}
	if (post->from.session && in->old_session &&
	    stream_bytes(session_stream(post->from.session)) > STREAM_REPLY_MAX) {
		*ret_result = answer_error(call, 429, json_object_get(post->value, "id"),
					   RPC_FAILED, "read the replies on the other stream first",
					   NULL, err);
		return false;
	}
	if (!post->from.session) {
		bool busy = why.code == ERR_LIMIT;
		*ret_result =
			answer_error(call, busy ? 429 : 404, json_object_get(post->value, "id"),
				     RPC_FAILED,
				     busy ? why.msg : "Session not found: send initialize again",
				     NULL, err);
		return false;
	}
	if (!post->created)
		post->from.revision = session_revision(post->from.session);
	if (!in->search)
		post->from.only = session_only(post->from.session);
	return true;
}

/* Whether the headers of a client with a session, or with none, are right; and then whose it is. */
static bool check_legacy(struct post *post, int *ret_result, struct err *err)
{
	const struct mcp_request *in = post->request;
	const char *wrong = NULL;
	if (in->protocol && mcp_revision_find(in->protocol) < 0)
		wrong = "Unsupported protocol version: 2024-11-05, 2025-03-26, 2025-06-18, "
			"2025-11-25 and 2026-07-28 are spoken here";
	else if (!find_session(post, ret_result, err))
		return false;
	else if (post->batch && post->from.revision != MCP_2025_03_26 &&
		 post->from.revision != MCP_2024_11_05)
		wrong = "batches are not part of this revision: send one message at a time";
	if (wrong)
		*ret_result = refuse_message(post, wrong, err);
	return !wrong;
}

static int accept_messages(struct post *post, struct err *err)
{
	size_t i;
	json_t *message;
	if (post->batch)
		json_array_foreach(post->value, i, message)
			take_message(post, message);
	else
		take_message(post, post->value);
	if (!post->count) /* told us something, and wants nothing */
		return answer(post->sending.call, 202, NULL, "", 0, err);
	if (post->request->old_session) /* the replies come on the other stream */
		return answer(post->sending.call, 202, NULL, "", 0, err);
	post->sending.turn = stream_take(post->sending.stream);
	return reply(post, err);
}

static const char *batch_problem(const struct post *post)
{
	size_t i;
	json_t *message;
	if (!post->batch)
		return rpc_message_why_invalid(post->value);
	if (!json_array_size(post->value) || json_array_size(post->value) > BATCH_MAX)
		return "a batch has 1 to 100 messages";
	json_array_foreach(post->value, i, message) {
		const char *method = json_string_value(json_object_get(message, "method"));
		const char *problem = rpc_message_why_invalid(message);
		if (problem)
			return problem;
		if (method && !strcmp(method, "initialize"))
			return "initialize cannot be part of a batch";
	}
	return NULL;
}

static int serve_post(struct post *post, struct err *err)
{
	const char *problem = batch_problem(post);
	int result = 0;
	if (problem)
		return refuse_message(post, problem, err);
	bool modern = !post->batch && is_modern(post->request, post->value) &&
		      json_object_get(post->value, "method");
	if (modern) {
		post->from.revision = MCP_2026_07_28;
		if (json_object_get(post->value, "id") &&
		    !check_modern(post, post->value, &result, err))
			return result;
	} else if (!check_legacy(post, &result, err)) {
		return result;
	}
	struct sending *s = &post->sending;
	s->session = post->from.session;
	s->revision = post->from.revision;
	s->stream = post->request->old_session ? stream_ref(session_stream(s->session))
		    : s->session               ? session_new_stream(s->session)
					       : stream_new(1, false);
	return accept_messages(post, err);
}

static int post_message(struct call *call, const void *in, struct err *err)
{
	const struct mcp_request *request = in;
	struct post *post = arena_alloc(call->arena, sizeof *post);
	struct err wrong;
	*post = (struct post){ .sending = { .call = call },
			       .request = request,
			       .from = { .server = call->server,
					 .base_url = call->base_url,
					 .inside = call->inside,
					 .only = request->search,
					 .listens = call->wants_events || request->old_session } };
	/* The parser changes the text, which is ours alone. */
	post->value = json_parse((char *)request->body.data, request->body.len, &wrong);
	if (!post->value) {
		char text[600];
		snprintf(text, sizeof text, "Parse error: %s", wrong.msg);
		return answer_error(call, 400, NULL, RPC_PARSE, text, NULL, err);
	}
	post->batch = json_is_array(post->value);
	int result = serve_post(post, err);
	bool left = result < 0 && err->code == ERR_GONE;
	for (size_t i = 0; i < post->count; i++) {
		if (left && !post->from.session)
			exchange_cancel(post->exchanges[i]); /* nobody can come back for it */
		exchange_unref(post->exchanges[i]);
	}
	stream_unref(post->sending.stream);
	session_unref(post->from.session);
	json_decref(post->value);
	return result;
}

/* ---- GET and DELETE ---- */

static int refuse_method(struct call *call, const char *why, struct err *err)
{
	return answer_error(call, 405, NULL, RPC_FAILED, why, NULL, err);
}

static int send_stream(struct sending *s, struct err *err)
{
	s->turn = stream_take(s->stream);
	return send_events(s, err);
}

/* The transport of 2024-11-05: all that the server says comes on one stream, which begins with the
 * address to send to. */
static int serve_old(struct call *call, const struct mcp_request *in, struct err *err)
{
	struct mcp_session *session = session_open(MCP_2024_11_05, NULL, in->search, err);
	if (!session)
		return -1;
	char address[160];
	int len = snprintf(address, sizeof address, "%s?sessionId=%s", call->route->path,
			   session_id(session));
	struct sending s = { .call = call,
			     .stream = session_stream(session),
			     .revision = MCP_2024_11_05 };
	int result = call_event(call, "endpoint", NULL, address, (size_t)len, err);
	if (result == 0)
		result = send_stream(&s, err);
	(void)session_close(session_id(session), NULL);
	session_unref(session);
	return result;
}

static int get_stream(struct call *call, const void *in, struct err *err)
{
	const struct mcp_request *request = in;
	unsigned long long id = 0, number = 0;
	if (request->origin &&
	    !guard_origin(request->origin, request->host, call->server->config->net.cors_origins))
		return answer_error(call, 403, NULL, RPC_FAILED,
				    "pages of this origin may not call this server", NULL, err);
	if (call->head_only || !call->wants_events)
		return refuse_method(call,
				     "this is an MCP server: POST messages of JSON-RPC to it, or "
				     "GET with Accept: text/event-stream and a session",
				     err);
	if (!request->session)
		return request->protocol ? refuse_method(call, "only sessions have a stream", err)
					 : serve_old(call, request, err);
	struct mcp_session *session = session_find(request->session, err);
	if (!session)
		return answer_error(call, 404, NULL, RPC_FAILED, "Session not found", NULL, err);
	if (request->last_event && sscanf(request->last_event, "%llu_%llu", &id, &number) != 2) {
		session_unref(session);
		return answer_error(call, 400, NULL, RPC_INVALID, "unknown Last-Event-ID", NULL,
				    err);
	}
	struct sending s = { .call = call,
			     .session = session,
			     .stream = session_find_stream(session, id),
			     .revision = session_revision(session),
			     .sent = number };
	int result = s.stream ? send_stream(&s, err)
			      : answer_error(call, 404, NULL, RPC_FAILED,
					     "that stream is not remembered any more", NULL, err);
	stream_unref(s.stream);
	session_unref(session);
	return result;
}

static int delete_session(struct call *call, const void *in, struct err *err)
{
	const struct mcp_request *request = in;
	if (!request->session)
		return request->protocol && !strcmp(request->protocol,
						    mcp_revision_names[MCP_2026_07_28])
			       ? refuse_method(call, "this revision has no sessions", err)
			       : answer_error(call, 400, NULL, RPC_INVALID,
					      "Mcp-Session-Id is missing", NULL, err);
	if (session_close(request->session, NULL) < 0)
		return answer_error(call, 404, NULL, RPC_FAILED, "Session not found", NULL, err);
	struct answer done = { 204, NULL, 0, .header_count = 0 };
	return call->sink->begin(call->sink, &done, err);
}

#define MCP_ROUTES(path)                                                                     \
	{ "POST", path, post_message, &request_schema, .flags = INTERNAL | BARE | RAW },     \
		{ "GET", path, get_stream, &get_schema, .flags = INTERNAL | BARE | EVENTS }, \
	{                                                                                    \
		"DELETE", path, delete_session, &get_schema, .flags = INTERNAL | BARE        \
	}

/* The same fields, but for the body. */
static const struct schema get_schema = { .name = "McpStreamRequest",
					  .size = sizeof(struct mcp_request),
					  .fields = fields + 1,
					  .count = COUNT(fields) - 1 };

static const struct route routes[] = {
	MCP_ROUTES("/mcp"),
	MCP_ROUTES("/v1/mcp"),
	{ "GET", "/sse", get_stream, &get_schema, .flags = INTERNAL | BARE | EVENTS },
	{ "POST", "/sse", post_message, &request_schema, .flags = INTERNAL | BARE | RAW },
};
const struct route_group mcp_group = { "mcp-transport", "The Model Context Protocol.", routes,
				       COUNT(routes) };
