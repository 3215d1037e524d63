#include "net/request.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/body.h"
#include "net/conn.h"
#include "net/guard.h"
#include "net/head.h"
#include "net/offline.h"
#include "net/route.h"
#include "net/server.h"
#include "net/target.h"
#include "net/upstream.h"
#include "net/visit.h"
#include "net/wire.h"
#include "net/ws.h"

enum { QUERY_VALUE_MAX = 1 << 20 };

struct net_request {
	struct conn *conn;
	struct server *server;
	const struct http_head *head;
	const char *host, *origin;
	const char *path, *query;
	struct route_entry *entry;
	char allow[128]; /* methods that the path has, where there is no entry */
	json_t *params;
	bool view; /* its credential is for looking only */
};

static const char *new_id(struct arena *arena)
{
	static _Atomic uint64_t next;
	uint64_t n = atomic_fetch_add(&next, 1);
	/* The start time tells the ids of two runs apart. */
	static _Atomic uint64_t run;
	if (!atomic_load(&run))
		atomic_store(&run, (uint64_t)time(NULL));
	return arena_printf(arena, "%llx-%llx", (unsigned long long)atomic_load(&run),
			    (unsigned long long)n);
}

static int invalid(struct net_request *r, struct problems *problems)
{
	buf_str(&problems->json, "]");
	int result = conn_fail(r->conn, 422, problems->json.data, true);
	buf_done(&problems->json);
	return result < 0 ? result : -1;
}

/* What somebody else than the fields' tables finds wrong, in the shape of those. */
static int refuse_value(struct net_request *r, const struct err *err)
{
	struct problems problems = { 0 };
	bool body = r->entry && body_wanted(r->entry->route);
	desc_problem(&problems, err_type(err->code),
		     &(struct loc){ .key = body ? "body" : "query" }, err->msg, NULL);
	return invalid(r, &problems);
}

static int fail(struct net_request *r, const struct err *err)
{
	if (err->code == ERR_GONE) {
		r->conn->broken = true;
		return -1;
	}
	if (err_status(err->code) == 422)
		return refuse_value(r, err);
	conn_fail(r->conn, err_status(err->code), err->msg, false);
	return -1;
}

static void defer_decref(void *value)
{
	json_decref(value);
}

/* ---- before the route ---- */

static int split_target(struct net_request *r, struct err *err)
{
	struct target target;
	if (target_split(r->head, &target, err) < 0)
		return -1;
	r->path = arena_strndup(&r->conn->arena, target.path, target.path_len);
	r->query = target.query;
	return 0;
}

static void find_route(struct net_request *r)
{
	struct router *router = &r->server->router;
	const char *method = r->head->method;
	int port = target_preview(r->head, r->conn->guard->domain);
	if (port && !route_flagged(r->server->groups, ANY_NAME, r->path))
		r->entry = router_find(router, method,
				       arena_printf(&r->conn->arena, ROUTE_PREVIEW "%d", port),
				       &r->params, r->allow, sizeof r->allow);
	if (!r->entry)
		r->entry =
			router_find(router, method, r->path, &r->params, r->allow, sizeof r->allow);
	if (r->params)
		arena_defer(&r->conn->arena, defer_decref, r->params);
}

static bool is_relayed(const struct net_request *r)
{
	return r->entry && r->entry->route->upstream;
}

/* To a program of the sandbox, whose pages are its own. A part of the product that is a server of its own
 * is called as the rest of the product is. */
static bool is_guests(const struct net_request *r)
{
	return is_relayed(r) && r->entry->route->flags & GUEST;
}

static int check_caller(struct net_request *r, struct err *err)
{
	const struct guard *guard = r->conn->guard;
	const struct guard_caller caller = {
		.head = r->head,
		.open = r->conn->inside || !auth_enabled(r->server->auth),
		.known = guard_knows(guard, r->head),
		/* No page can send this header uninvited. */
		.vouched = http_header(r->head, WIRE_PORT),
		.frames = is_guests(r),
	};
	r->host = http_header(r->head, "host");
	r->origin = http_header(r->head, "origin");
	r->conn->vary_origin = r->origin != NULL;
	if (r->origin && caller.known)
		r->conn->cors_origin = r->origin;
	return guard_check(guard, &caller, err);
}

static int answer_preflight(struct net_request *r)
{
	struct answer answer = { 204, NULL, 0, .header_count = GUARD_ALLOWS };
	struct err err;
	if (!r->conn->cors_origin) {
		guard_foreign(r->origin, &err);
		return fail(r, &err);
	}
	guard_allow(r->head, answer.headers);
	return r->conn->sink.begin(&r->conn->sink, &answer, &err);
}

static struct visit visit_of(const struct net_request *r)
{
	return (struct visit){
		.conn = r->conn,
		.auth = r->server->auth,
		.host = r->host,
		.path = r->path,
		.query = r->query,
		.guest = r->entry && r->entry->route->flags & GUEST,
	};
}

/* What the request's credentials are good for, or -1. One in the request itself goes before a cookie, which
 * the browser sends whatever link is followed. */
static int find_scope(const struct net_request *r, unsigned flags, struct err *err)
{
	struct auth_request credentials = {
		.authorization = http_header(r->head, "authorization"),
		.api_key_header = http_header(r->head, WIRE_KEY),
		.query = r->query,
		.no_ticket = flags & NO_TICKET,
		.guest = flags & GUEST,
		.view = flags & VIEW,
	};
	int scope = auth_check(r->server->auth, &credentials, err);
	if (scope >= 0 || err->code == ERR_FORBIDDEN)
		return scope;
	if (r->conn->inside)
		return AUTH_ALL;
	struct visit visit = visit_of(r);
	int cookie = visit_cookie(&visit);
	if (cookie == AUTH_VIEW && !(flags & VIEW))
		return auth_only_views(err);
	return cookie == AUTH_ALL && flags & NO_TICKET ? -1 : cookie;
}

/* The host says so of callers that it has checked itself. */
static bool is_viewers(const struct net_request *r)
{
	return r->server->local && http_header(r->head, WIRE_VIEW);
}

/* The host has taken the key of the caller out of the query. */
static const char *find_ticket(const struct net_request *r)
{
	return r->server->local && !r->conn->inside ? http_header(r->head, WIRE_TICKET) : NULL;
}

static int check_credentials(struct net_request *r, struct err *err)
{
	unsigned flags = r->entry ? r->entry->route->flags : 0;
	if (flags & PUBLIC)
		return 0;
	if (r->conn->inside && flags & NO_TICKET)
		return err_set(err, ERR_FORBIDDEN,
			       "the sandbox's own programs need no ticket, and get none");
	int scope = find_scope(r, flags, err);
	if (scope >= 0) {
		r->view = scope == AUTH_VIEW || is_viewers(r);
		return r->view && !(flags & VIEW) ? auth_only_views(err) : 0;
	}
	struct err why = *err;
	const char *hint = why.code == ERR_UNAUTHORIZED ? r->server->options->key_hint : NULL;
	return hint ? err_set(err, why.code, "%.200s. %s", why.msg, hint) : -1;
}

/* Without credentials: people are asked for a key. */
static void refuse(struct net_request *r, const struct err *err)
{
	struct visit visit = visit_of(r);
	if (err->code != ERR_UNAUTHORIZED || !visit_ask_key(&visit))
		fail(r, err);
}

static int no_route(struct net_request *r)
{
	const char *allow = r->allow;
	struct err err;
	if (*allow && !strcmp(r->head->method, "OPTIONS")) {
		struct answer answer = { 204, NULL, 0, .header_count = 0 };
		r->conn->allow = arena_printf(&r->conn->arena, "%s, OPTIONS", allow);
		return r->conn->sink.begin(&r->conn->sink, &answer, &err);
	}
	if (*allow) {
		r->conn->allow = arena_printf(&r->conn->arena, "%s, OPTIONS", allow);
		return conn_fail(r->conn, 405, "Method Not Allowed", false);
	}
	return conn_fail(r->conn, 404, "Not Found", false);
}

/* ---- the request's fields ---- */

/* A string of any bytes: U+FFFD for what is not UTF-8. */
static json_t *any_string(const char *text, size_t len)
{
	json_t *value = json_stringn(text, len);
	if (value)
		return value;
	struct jw jw;
	jw_init(&jw, len * 6 + 2);
	jw_text(&jw, text, len);
	value = json_parse(jw.out.data, jw.out.len, NULL);
	jw_done(&jw);
	return value;
}

/* The query as an object of strings: a name that comes twice is a list. */
static json_t *query_object(struct net_request *r)
{
	json_t *object = json_object();
	auto_buf struct buf name = BUF(4096), value = BUF(QUERY_VALUE_MAX);
	struct url_query it = { r->query };
	while (url_query_next(&it, &name, &value)) {
		if (!name.data)
			continue;
		json_t *text = any_string(value.data ? value.data : "", value.len);
		json_t *before = json_object_getn(object, name.data, name.len);
		if (!before) {
			json_object_setn_new(object, name.data, name.len, text);
		} else if (json_is_array(before)) {
			json_array_append_new(before, text);
		} else {
			json_t *both = json_pack("[O,o]", before, text);
			json_object_setn_new(object, name.data, name.len, both);
		}
	}
	return object;
}

/* A list in the query may be given once; anything else that comes twice counts as the last one. */
static void settle_lists(const struct schema *schema, json_t *query)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		json_t *value = f->flags & QUERY ? json_object_get(query, f->name) : NULL;
		if (!value)
			continue;
		if (f->type == T_LIST && !json_is_array(value))
			json_object_set_new(query, f->name, json_pack("[O]", value));
		else if (f->type != T_LIST && json_is_array(value))
			json_object_set(query, f->name,
					json_array_get(value, json_array_size(value) - 1));
	}
}

static json_t *header_object(const struct net_request *r, const struct schema *schema)
{
	json_t *object = json_object();
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		const char *value = f->flags & HEADER ? http_header(r->head, f->name) : NULL;
		if (value)
			json_object_set_new(object, f->name, any_string(value, strlen(value)));
	}
	return object;
}

static void decode_place(struct net_request *r, unsigned place, const char *name, json_t *from,
			 void *to, struct problems *problems)
{
	const struct schema *schema = r->entry->route->in;
	desc_decode(schema, place, from, &(struct loc){ .key = name }, &r->conn->arena, to,
		    problems);
}

/* Fills the request struct of the route; -1 once the answer is an error. */
static int decode(struct net_request *r, void **ret)
{
	const struct schema *schema = r->entry->route->in;
	struct arena *arena = &r->conn->arena;
	if (!schema)
		return 0;
	struct problems problems = { 0 };
	struct err err;
	*ret = arena_alloc(arena, schema->size);
	if (r->params)
		decode_place(r, PATH, "path", r->params, *ret, &problems);
	if (is_relayed(r)) /* the rest is for the other server */
		return problems.count ? invalid(r, &problems) : 0;
	json_t *query = query_object(r), *headers = header_object(r, schema);
	arena_defer(arena, defer_decref, query);
	arena_defer(arena, defer_decref, headers);
	settle_lists(schema, query);
	decode_place(r, QUERY, "query", query, *ret, &problems);
	decode_place(r, HEADER, "header", headers, *ret, &problems);
	if (body_wanted(r->entry->route) &&
	    body_read(r->conn, r->entry->route, arena, *ret, &problems, &err) < 0) {
		buf_done(&problems.json);
		return fail(r, &err);
	}
	return problems.count ? invalid(r, &problems) : 0;
}

/* ---- the handler ---- */

static int upgrade(struct net_request *r, struct call *call, struct err *err)
{
	const char *key = http_header(r->head, "sec-websocket-key");
	const char *version = http_header(r->head, "sec-websocket-version");
	const char *to = http_header(r->head, "upgrade");
	char accept[29], answer[320];
	const char *type = r->entry->route->type;
	bool agreed = type && http_has_token(http_header(r->head, "sec-websocket-protocol"), type);
	if (!r->head->upgrade || !http_has_token(to, "websocket") || !version ||
	    strcmp(version, "13") != 0)
		return err_set(err, ERR_UPGRADE_REQUIRED, "this is a WebSocket, version 13");
	if (r->head->length) /* it would be taken for frames */
		return err_set(err, ERR_BAD_REQUEST, "a request for a WebSocket has no body");
	if (!ws_valid_key(key))
		return err_set(err, ERR_BAD_REQUEST,
			       "Sec-WebSocket-Key must be 16 bytes in base64");
	ws_accept_key(key, accept);
	int len = snprintf(
		answer, sizeof answer,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\nX-Request-Id: %s\r\n%s%s%s\r\n",
		accept, call->id, agreed ? "Sec-WebSocket-Protocol: " : "", agreed ? type : "",
		agreed ? "\r\n" : "");
	if (conn_send_raw(r->conn, answer, (size_t)len, err) < 0)
		return -1;
	struct http *http = &r->conn->http;
	call->subprotocol = agreed;
	r->conn->sink.begun = true;
	r->conn->status = 101;
	r->conn->close_after = true;
	conn_upgraded(r->conn);
	call->ws = ws_new(r->conn->fd, WS_SERVER, http->data + http->used, http->len - http->used,
			  (size_t)r->server->options->max_body);
	return 0;
}

/* An error of a handler, in the envelope. */
static void answer_error(struct net_request *r, struct call *call, const struct err *err)
{
	struct err ignored;
	struct jw jw;
	if (r->conn->sink.begun || err->code == ERR_GONE) {
		r->conn->broken = true;
		return;
	}
	if (err_status(err->code) == 422) {
		(void)refuse_value(r, err);
		return;
	}
	jw_init(&jw, 1 << 20);
	jw_open(&jw, '{');
	jw_key_bool(&jw, "success", false);
	jw_key_str(&jw, "message", err->msg);
	jw_key(&jw, "data");
	jw_null(&jw);
	jw_key_str(&jw, "hint", call_hint(call));
	jw_close(&jw, '}');
	struct answer answer = { err_status(err->code), "application/json", (int64_t)jw.out.len,
				 .header_count = 0 };
	if (r->conn->sink.begin(&r->conn->sink, &answer, &ignored) == 0)
		(void)r->conn->sink.write(&r->conn->sink, jw.out.data, jw.out.len, &ignored);
	jw_done(&jw);
}

static struct call make_call(struct net_request *r)
{
	const char *proto = http_header(r->head, "x-forwarded-proto");
	const char *prefix = http_header(r->head, "x-forwarded-prefix");
	const char *accept = http_header(r->head, "accept");
	return (struct call){
		.route = r->entry->route,
		.server = r->server,
		.arena = &r->conn->arena,
		.sink = &r->conn->sink,
		.id = r->conn->request_id,
		.base_url = arena_printf(&r->conn->arena, "%s://%s%s",
					 proto && !strcmp(proto, "https") ? "https" : "http",
					 r->host ? r->host : "localhost",
					 prefix && *prefix == '/' ? prefix : ""),
		.query = r->query,
		.ticket = find_ticket(r),
		.if_none_match = http_header(r->head, "if-none-match"),
		.if_range = http_header(r->head, "if-range"),
		.range = http_header(r->head, "range"),
		.head_only = r->conn->head_only,
		.view = r->view,
		.wants_events = accept && strstr(accept, "text/event-stream"),
		.inside = r->conn->inside,
		.began = offline_moment(),
	};
}

static void run_handler(struct net_request *r, const void *in)
{
	struct err err = { 0 };
	struct call call = make_call(r);
	if (r->entry->route->flags & UPGRADE && upgrade(r, &call, &err) < 0) {
		fail(r, &err);
		return;
	}
	if (r->entry->route->handle(&call, in, &err) < 0)
		answer_error(r, &call, &err);
	else if (!r->conn->sink.begun)
		(void)call_reply(&call, NULL, &err);
	if (call.ws) {
		ws_close(call.ws,
			 r->server->stopping ? WS_GOING_AWAY
			 : r->conn->broken   ? WS_INTERNAL_ERROR
					     : WS_NORMAL,
			 NULL);
		ws_free(call.ws);
	}
}

/* Browsers ask without credentials whether a page may send a request. A server behind this one answers
 * that itself. */
static bool is_preflight(const struct net_request *r)
{
	return r->origin && !strcmp(r->head->method, "OPTIONS") && !r->head->upgrade &&
	       http_header(r->head, "access-control-request-method") &&
	       !(is_guests(r) && r->head->length);
}

/* The part of a path that is the route's own: "/proxy/80" of "/proxy/80/x". */
static const char *own_part(const struct net_request *r)
{
	const char *end = r->path;
	for (const char *at = r->entry->route->path; *at; at++)
		if (*at == '/' && at[1] && at[1] != '*')
			end += strcspn(end + 1, "/") + 1; /* a segment further */
	return arena_strndup(&r->conn->arena, r->path, (size_t)(end - r->path));
}

static void run_relay(struct net_request *r, const void *in)
{
	const struct auth *auth = auth_enabled(r->server->auth) ? r->server->auth : NULL;
	char outer[TARGET_OUTER_MAX + 1];
	target_outer(r->head, outer);
	struct upstream upstream = { .outer = outer, .own = own_part(r) };
	upstream.prefix = upstream.own;
	struct visit visit = visit_of(r);
	struct err err = { 0 };
	if (is_guests(r) && visit_trade(&visit))
		return;
	struct call call = make_call(r);
	upstream.call = &call;
	upstream.host = r->host;
	upstream.visit = head_is_visit(r->head);
	upstream.stranger = is_preflight(r);
	if (r->entry->route->upstream(&call, in, &upstream, &err) < 0)
		fail(r, &err);
	else
		upstream_serve(r->conn, &upstream, auth);
}

static void answer_request(struct net_request *r)
{
	struct err err;
	void *in = NULL;
	if (split_target(r, &err) < 0) {
		fail(r, &err);
		return;
	}
	find_route(r);
	if (check_caller(r, &err) < 0) {
		fail(r, &err);
		return;
	}
	bool preflight = is_preflight(r);
	if (preflight && !is_guests(r)) {
		answer_preflight(r);
		return;
	}
	struct visit visit = visit_of(r);
	if (!preflight && check_credentials(r, &err) < 0)
		refuse(r, &err);
	else if (!is_guests(r) && !r->server->local && visit_clean(&visit))
		return;
	else if (!r->entry)
		no_route(r);
	else if (decode(r, &in) == 0)
		(is_relayed(r) ? run_relay : run_handler)(r, in);
}

static void log_request(const struct net_request *r, int64_t us)
{
	char *target = arena_strdup(&r->conn->arena, r->head->target);
	auth_redact(target);
	struct log_fact facts[] = {
		{ "id", r->conn->request_id, 0 },    { "peer", r->conn->peer, 0 },
		{ "method", r->head->method, 0 },    { "target", target, 0 },
		{ "status", NULL, r->conn->status }, { "bytes", NULL, (double)r->conn->sent },
		{ "ms", NULL, (double)us / 1000 },
	};
	log_event(LOG_INFO, "request", facts, COUNT(facts));
}

void request_serve(struct conn *conn)
{
	struct net_request r = { .conn = conn, .server = conn->server, .head = &conn->http.head };
	int64_t start = clock_us();
	conn->request_id = new_id(&conn->arena);
	conn->head_only = !strcmp(r.head->method, "HEAD");
	if (conn->inside)
		http_drop(&conn->http.head, WIRE_OURS); /* a gateway's, and this is none */
	answer_request(&r);
	int64_t us = clock_us() - start;
	route_count(r.entry ? &r.entry->stats : &r.server->router.unmatched, conn->status, us);
	log_request(&r, us);
}

int request_refuse(struct conn *conn, const struct err *err)
{
	conn->request_id = new_id(&conn->arena);
	conn->http.head.minor = 1;
	conn->close_after = true;
	int result = conn_fail(conn, err_status(err->code), err->msg, false);
	struct log_fact facts[] = {
		{ "id", conn->request_id, 0 },
		{ "peer", conn->peer, 0 },
		{ "status", NULL, conn->status },
		{ "error", err->msg, 0 },
	};
	route_count(&conn->server->router.unmatched, conn->status, 0);
	log_event(LOG_INFO, "request", facts, COUNT(facts));
	return result;
}
