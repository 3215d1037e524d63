/* The browser's DevTools for clients of others, at our own address: what its port says of its targets, with
 * the URLs of this server, and WebSockets that are passed on message by message. */
#include <stdio.h>
#include <string.h>

#include "api/browser_lease.h"
#include "api/cdp_address.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "browser/browser.h"
#include "browser/cdp_params.h"
#include "browser/chromium.h"
#include "browser/tab.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/client.h"
#include "net/dial.h"
#include "net/head.h"
#include "net/server.h"
#include "net/ws.h"
#include "net/ws_client.h"

enum {
	ANSWER_MAX = 16 << 20,
	MESSAGE_MAX = 64 << 20,
	SEND_MS = 30000, /* a client that reads nothing for so long is cut */
	KEEPALIVE_MS = 30000,
	CONNECT_MS = 10000,
	ID_MAX = 200,
	QUERY_MAX = 1 << 20,
};

/* ---- what the port says ---- */

/* A request of Chromium's own server. The body, in the arena; *ret_status. NULL with err. */
static char *fetch(struct call *call, const char *method, const char *target,
		   const struct wait *wait, int *ret_status, size_t *ret_len, struct err *err)
{
	const struct dial_wait patience = { .all = *wait, .only_ipv4 = true };
	const struct client_request request = { .method = method, .target = target };
	const char *url = arena_printf(call->arena, "http://127.0.0.1:%d", chromium_port());
	struct client client;
	if (chromium_await_port(wait, err) < 0 || client_open(&client, url, &patience, err) < 0)
		return NULL;
	*ret_status = client_ask(&client, &request, err);
	char *body = *ret_status < 0 ? NULL : client_body(&client, ANSWER_MAX, ret_len, err);
	client_close(&client);
	if (body)
		arena_defer(call->arena, free, body);
	return body;
}

static void give_back(void *value)
{
	json_decref(value);
}

static json_t *fetch_json(struct call *call, const char *method, const char *target,
			  const struct wait *wait, struct err *err)
{
	int status;
	size_t len;
	char *body = fetch(call, method, target, wait, &status, &len, err);
	if (!body)
		return NULL;
	if (status != 200) {
		err_set(err, ERR_NOT_FOUND, "%.200s", *body ? body : "the browser refuses");
		return NULL;
	}
	json_t *value = json_parse(body, len, err);
	if (value)
		arena_defer(call->arena, give_back, value);
	return value;
}

/* ---- with our URLs ---- */

static void set_text(json_t *object, const char *key, const char *text)
{
	(void)json_object_set_new(object, key, json_string(text));
}

/* Its page of DevTools, on the web, is told where the socket is. */
static void rewrite_frontend(struct call *call, json_t *target, const char *path)
{
	const char *url = cdp_text(target, "devtoolsFrontendUrl"), *at = strstr(url, "?ws=");
	bool secure = !strncmp(call->base_url, "https", 5);
	if (at)
		set_text(target, "devtoolsFrontendUrl",
			 arena_printf(call->arena, "%.*s?%s=%s", (int)(at - url), url,
				      secure ? "wss" : "ws", cdp_address_bare(call, path)));
}

static void rewrite_target(struct call *call, json_t *target)
{
	char id[ID_MAX];
	if (!cdp_id(id, sizeof id, cdp_text(target, "id")))
		return;
	const char *path = arena_printf(call->arena, "/devtools/page/%s", id);
	set_text(target, "webSocketDebuggerUrl", cdp_address(call, path));
	rewrite_frontend(call, target, path);
}

static int reply_json(struct call *call, const json_t *value, struct err *err)
{
	struct jw jw;
	jw_init(&jw, ANSWER_MAX);
	jw_json(&jw, value);
	int result = jw_failed(&jw)
			     ? err_set(err, ERR_INTERNAL, "the browser's answer is too large")
			     : call_text(call, "application/json; charset=UTF-8", jw.out.data,
					 jw.out.len, err);
	jw_done(&jw);
	return result;
}

/* ---- the routes without a WebSocket ---- */

static int get_version(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	struct browser *browser = browser_lease(call, &wait, err);
	(void)in;
	json_t *value = browser ? fetch_json(call, "GET", "/json/version", &wait, err) : NULL;
	if (!value)
		return -1;
	const char *path = arena_printf(call->arena, "/devtools/browser/%s", browser_id(browser));
	set_text(value, "webSocketDebuggerUrl", cdp_address(call, path));
	return reply_json(call, value, err);
}

static int get_list(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	json_t *one;
	size_t i;
	(void)in;
	if (!browser_lease(call, &wait, err))
		return -1;
	json_t *value = fetch_json(call, "GET", "/json/list", &wait, err);
	if (!value)
		return -1;
	json_array_foreach(value, i, one)
		rewrite_target(call, one);
	return reply_json(call, value, err);
}

/* The query is the URL; a credential behind that is for us, and not for whom it leads to. */
static const char *wanted_page(struct call *call)
{
	const struct head_request how = { .strip_query = auth_enabled(call->server->auth) };
	auto_buf struct buf query = BUF(QUERY_MAX);
	(void)head_query(&query, call->query, &how);
	return query.len > 1 ? arena_strdup(call->arena, query.data) : "?about:blank";
}

static int open_page(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	(void)in;
	if (!browser_lease(call, &wait, err))
		return -1;
	const char *target = arena_printf(call->arena, "/json/new%s", wanted_page(call));
	json_t *value = fetch_json(call, "PUT", target, &wait, err);
	if (!value)
		return -1;
	rewrite_target(call, value);
	return reply_json(call, value, err);
}

static int get_protocol(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	int status;
	size_t len;
	(void)in;
	if (!browser_lease(call, &wait, err))
		return -1;
	const char *body = fetch(call, "GET", "/json/protocol", &wait, &status, &len, err);
	return body ? call_text(call, "application/json; charset=UTF-8", body, len, err) : -1;
}

struct cdp_target {
	const char *id;
};
static const struct field target_fields[] = {
	STR(cdp_target, id, PATH | REQUIRED, "The target.", .max_len = ID_MAX - 1),
};
static const struct schema target_schema = SCHEMA(cdp_target, "CdpTarget", target_fields);

static bool is_id(const char *id)
{
	return strspn(id, "0123456789abcdefABCDEF-") == strlen(id) && *id;
}

static int change_target(struct call *call, const char *what, const struct cdp_target *request,
			 struct err *err)
{
	struct wait wait;
	int status;
	size_t len;
	if (!is_id(request->id))
		return err_set(err, ERR_NOT_FOUND, "No such target id: %.100s", request->id);
	if (!browser_lease(call, &wait, err))
		return -1;
	const char *target = arena_printf(call->arena, "/json/%s/%s", what, request->id);
	const char *body = fetch(call, "GET", target, &wait, &status, &len, err);
	if (!body)
		return -1;
	if (status != 200)
		return err_set(err, ERR_NOT_FOUND, "%.200s", body);
	return call_text(call, "text/html; charset=UTF-8", body, len, err);
}

static int activate_target(struct call *call, const void *in, struct err *err)
{
	return change_target(call, "activate", in, err);
}

static bool is_only_tab(struct call *call, struct browser *browser, const char *id)
{
	struct tab **tabs;
	size_t count = browser_tabs(browser, call->arena, &tabs);
	bool only = count == 1 && !strcmp(tabs[0]->target, id);
	for (size_t i = 0; i < count; i++)
		tab_release(tabs[i]);
	return only;
}

/* The last one would take the browser with it. */
static int close_target(struct call *call, const void *in, struct err *err)
{
	const struct cdp_target *request = in;
	struct wait wait;
	struct browser *browser = browser_lease(call, &wait, err);
	if (!browser)
		return -1;
	if (is_only_tab(call, browser, request->id)) {
		struct tab *blank = browser_new_tab(browser, "about:blank", &wait, err);
		if (!blank)
			return -1;
		tab_release(blank);
	}
	return change_target(call, "close", in, err);
}

/* ---- WebSockets ---- */

struct cdp_tunnel {
	struct ws *client, *browser;
	struct server *server;
};

/* Chromium takes what is whole and fits 32 bits, and refuses the rest. */
static bool is_call_id(double id)
{
	return id >= INT32_MIN && id <= INT32_MAX && id == (int32_t)id;
}

/* One that would end the browser ends its client only. 1: it is one, and was answered. */
static int catch_close(struct cdp_tunnel *t, const struct ws_message *message, struct err *err)
{
	if (message->opcode != WS_TEXT || message->len > 4096 ||
	    !memmem(message->data, message->len, "Browser.c", 9))
		return 0;
	json_t *json = json_loadb(message->data, message->len, 0, NULL);
	const char *method = cdp_text(json, "method");
	const json_t *id = json_object_get(json, "id");
	bool ends = (!strcmp(method, "Browser.close") || !strcmp(method, "Browser.crash")) &&
		    json_is_number(id) && is_call_id(json_number_value(id));
	auto_free char *answer = xasprintf("{\"id\":%lld,\"result\":{}}",
					   ends ? (long long)json_number_value(id) : 0);
	json_decref(json);
	if (!ends)
		return 0;
	return ws_send(t->client, WS_TEXT, answer, strlen(answer), err) < 0 ? -1 : 1;
}

/* Passes on what is there. 1: go on, 0: its end, -1. */
static int pass(struct cdp_tunnel *t, struct ws *from, struct ws *to, struct err *err)
{
	struct ws_message message;
	for (;;) {
		int got = ws_recv(from, &message, 0, err);
		if (got < 0 && err->code == ERR_SLOW)
			return 1;
		if (got <= 0)
			return got;
		int caught = from == t->client ? catch_close(t, &message, err) : 0;
		if (caught)
			return caught < 0 ? -1 : 0;
		if (ws_send(to, message.opcode, message.data, message.len, err) < 0)
			return -1;
		if (!ws_pending(from))
			return 1;
	}
}

static int step(struct cdp_tunnel *t, struct err *err)
{
	struct pollfd fds[] = { { .fd = ws_fd(t->client), .events = POLLIN },
				{ .fd = ws_fd(t->browser), .events = POLLIN } };
	bool pending = ws_pending(t->client) || ws_pending(t->browser);
	int ms = pending ? 0 : ws_wait_ms(t->client);
	const struct wait wait = { ms < 0 ? INT64_MAX : clock_ms() + ms, -1,
				   server_stop_fd(t->server) };
	enum wake wake = wait_stream(&wait, fds, COUNT(fds));
	if (wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	int result = pass(t, t->client, t->browser, err);
	return result > 0 ? pass(t, t->browser, t->client, err) : result;
}

static struct ws *dial_browser(struct call *call, const char *path, struct err *err)
{
	const struct ws_options options = { .timeout_ms = CONNECT_MS, .max_message = MESSAGE_MAX };
	const char *url = arena_printf(call->arena, "ws://127.0.0.1:%d%s", chromium_port(), path);
	return ws_connect(url, NULL, &options, err);
}

/* A close frame has room for no more. */
static int refuse(struct call *call, const struct err *cause)
{
	char reason[120];
	snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, cause->msg);
	ws_close(call->ws, WS_TRY_LATER, reason);
	return 0;
}

static int run(struct call *call, struct browser *browser, const char *path, struct err *err)
{
	struct cdp_tunnel t = { .client = call->ws, .server = call->server };
	t.browser = dial_browser(call, path, err);
	if (!t.browser)
		return refuse(call, err);
	ws_set_send_timeout_ms(t.client, SEND_MS);
	ws_set_send_timeout_ms(t.browser, SEND_MS);
	ws_set_keepalive_ms(t.client, KEEPALIVE_MS);
	browser_outsider(browser, true);
	int result;
	while ((result = step(&t, err)) > 0)
		;
	browser_outsider(browser, false);
	ws_close(t.client, WS_NORMAL, NULL);
	ws_free(t.browser);
	return result;
}

/* Whatever its id: that of a browser which has ended stands for the one that runs now. */
static int attach_browser(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	struct browser *browser = browser_lease(call, &wait, err);
	(void)in;
	json_t *version = browser ? fetch_json(call, "GET", "/json/version", &wait, err) : NULL;
	const char *path = strstr(cdp_text(version, "webSocketDebuggerUrl"), "/devtools/");
	if (!path)
		return refuse(call, err);
	return run(call, browser, path, err);
}

static int attach_page(struct call *call, const void *in, struct err *err)
{
	const struct cdp_target *request = in;
	struct wait wait;
	struct browser *browser = browser_lease(call, &wait, err);
	if (browser && !is_id(request->id)) {
		err_set(err, ERR_NOT_FOUND, "there is no such target");
		browser = NULL;
	}
	if (!browser)
		return refuse(call, err);
	return run(call, browser, arena_printf(call->arena, "/devtools/page/%s", request->id), err);
}

#define JSON_TYPE "application/json"
/* clang-format off */
#define ROW(method_, path_, handler_, in_, what)                                             \
	{ (method_), (path_), (handler_), (in_), .summary = (what), .flags = BARE | INTERNAL | URLS, \
	  .type = JSON_TYPE }
/* At the addresses that Chromium has, and below /cdp; Playwright asks with a slash at the end. A GET opens
 * no tab: any page could have a browser send it. */
#define UNDER(base)                                                                    \
	ROW("GET", base, get_list, NULL, "List targets"),                              \
	ROW("GET", base "/", get_list, NULL, "List targets"),                          \
	ROW("GET", base "/list", get_list, NULL, "List targets"),                      \
	ROW("GET", base "/list/", get_list, NULL, "List targets"),                     \
	ROW("GET", base "/version", get_version, NULL, "Describe the browser"),        \
	ROW("GET", base "/version/", get_version, NULL, "Describe the browser"),       \
	ROW("GET", base "/protocol", get_protocol, NULL, "Read the protocol"),         \
	ROW("GET", base "/protocol/", get_protocol, NULL, "Read the protocol"),        \
	ROW("PUT", base "/new", open_page, NULL, "Open a tab"),                        \
	ROW("POST", base "/new", open_page, NULL, "Open a tab"),                       \
	ROW("GET", base "/activate/{id}", activate_target, &target_schema, "Activate a tab"), \
	ROW("GET", base "/close/{id}", close_target, &target_schema, "Close a tab")
/* clang-format on */

static const struct route routes[] = {
	UNDER("/json"),
	UNDER("/cdp/json"),
	{ "GET", "/devtools/browser/{id}", attach_browser, &target_schema,
	  .summary = "Drive the browser", .flags = UPGRADE | INTERNAL },
	{ "GET", "/devtools/browser", attach_browser, .summary = "Drive the browser",
	  .flags = UPGRADE | INTERNAL },
	{ "GET", "/devtools/page/{id}", attach_page, &target_schema, .summary = "Drive a tab",
	  .flags = UPGRADE | INTERNAL },
	{ "GET", "/cdp", attach_browser, .summary = "Drive the browser",
	  .flags = UPGRADE | INTERNAL },
};
const struct route_group cdp_group = { "browser", "The browser's DevTools protocol.", routes,
				       COUNT(routes) };
