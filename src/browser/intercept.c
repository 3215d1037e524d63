#include "browser/intercept.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"
#include "browser/url_pattern.h"

enum {
	HEADER_MAX = 65536,
	SCOPES_MAX = 100,
	PRESSURE = 16 << 20, /* bytes on their way to the browser beyond which bodies wait */
	RETRY_MS = 5,
	HELD_MAX = 20000,
};

/* ---- the rules ---- */

/* One that is made is not changed any more. JSON values in it are shared with messages: a message is only
 * made and freed under the lock, or by the reader's thread. */
struct intercept_rule {
	struct intercept_rule *next;
	struct arena arena;
	const char *text; /* as the caller named it */
	const struct url_pattern *pattern;
	enum route_action action;
	int64_t status;
	json_t *headers; /* [{name, value}] */
	json_t *body;    /* base64; NULL: none */
	const char *method;
};

/* `changing` is the turn of who changes them, until the browser has taken that. The lock is of what follows,
 * inside a tab's and outside the browser's. */
static struct {
	struct turn changing;
	pthread_mutex_t lock;
	struct intercept_rule *routes, *scopes; /* the newest first */
	json_t *headers;                        /* an object; NULL: none */
} rules = { .changing = TURN, .lock = PTHREAD_MUTEX_INITIALIZER };

static void free_rule(struct intercept_rule *rule)
{
	if (!rule)
		return;
	json_decref(rule->headers);
	json_decref(rule->body);
	arena_done(&rule->arena);
	free(rule);
}

static struct intercept_rule *new_rule(const char *text, const char *pattern, struct err *err)
{
	struct intercept_rule *rule = xcalloc(1, sizeof *rule);
	rule->text = arena_strdup(&rule->arena, text);
	rule->pattern = url_pattern_compile(pattern, &rule->arena, err);
	if (rule->pattern)
		return rule;
	free_rule(rule);
	return NULL;
}

static struct intercept_rule *take_rule(struct intercept_rule **list, const char *text)
{
	while (*list && strcmp((*list)->text, text) != 0)
		list = &(*list)->next;
	struct intercept_rule *rule = *list;
	if (rule)
		*list = rule->next;
	return rule;
}

static size_t count_rules(const struct intercept_rule *list, size_t *ret_bytes)
{
	size_t count = 0;
	*ret_bytes = 0;
	for (; list; list = list->next, count++)
		*ret_bytes += json_string_length(list->body);
	return count;
}

static json_t *header(const char *name, const char *value)
{
	return json_pack("{s:s, s:s}", "name", name, "value", value);
}

static json_t *header_list(const struct list *pairs)
{
	const struct pair *pair = pairs->items;
	json_t *list = json_array();
	for (size_t i = 0; i < pairs->count; i++)
		json_array_append_new(list, header(pair[i].name, pair[i].value));
	return list;
}

/* ---- what a session is told ---- */

static json_t *widened(const struct intercept_rule *rule)
{
	auto_buf struct buf text = BUF(2 * URL_PATTERN_MAX + 16);
	url_pattern_widen(rule->pattern, &text);
	return json_pack("{s:s}", "urlPattern", text.data);
}

/* With scoped headers every request is looked at: a redirect must not take them elsewhere. */
static json_t *patterns(void)
{
	json_t *list = json_array();
	if (rules.scopes)
		json_array_append_new(list, json_pack("{s:s}", "urlPattern", "*"));
	else
		for (const struct intercept_rule *rule = rules.routes; rule; rule = rule->next)
			json_array_append_new(list, widened(rule));
	return json_pack("{s:o}", "patterns", list);
}

static bool is_on(void)
{
	return rules.routes || rules.scopes;
}

static json_t *extra_headers(void)
{
	return json_pack("{s:o}", "headers",
			 rules.headers ? json_deep_copy(rules.headers) : json_object());
}

/* With the lock. What is in the page's own cache would not be asked for. */
static void tell_fetch(struct cdp *cdp, const char *session, const void *unused)
{
	(void)unused;
	(void)cdp_post(cdp, session, "Network.setCacheDisabled",
		       json_pack("{s:b}", "cacheDisabled", rules.routes != NULL));
	(void)cdp_post(cdp, session, is_on() ? "Fetch.enable" : "Fetch.disable",
		       is_on() ? patterns() : NULL);
}

static void tell_headers(struct cdp *cdp, const char *session, const void *unused)
{
	(void)unused;
	(void)cdp_post(cdp, session, "Network.setExtraHTTPHeaders", extra_headers());
}

static void begin(struct browser *browser, const char *session)
{
	pthread_mutex_lock(&rules.lock);
	if (is_on())
		tell_fetch(browser->cdp, session, NULL);
	if (rules.headers)
		tell_headers(browser->cdp, session, NULL);
	pthread_mutex_unlock(&rules.lock);
}

/* ---- a request that is held up; in the reader's thread, with the tab's lock ---- */

/* Large messages that wait until the browser has read those before. */
struct held_post {
	struct held_post *next;
	char session[CDP_ID_MAX];
	json_t *params;
};

static void hold(struct browser *browser, const char *session, json_t *params)
{
	struct held_post **at = &browser->held_posts, *held = xcalloc(1, sizeof *held);
	size_t count = 0;
	for (; *at; at = &(*at)->next)
		count++;
	(void)cdp_id(held->session, sizeof held->session, session);
	held->params = params;
	*at = held;
	if (count < HELD_MAX)
		return;
	struct held_post *oldest = TAKE(browser->held_posts);
	browser->held_posts = oldest->next;
	json_decref(oldest->params);
	free(oldest);
}

int64_t intercept_due(struct browser *browser)
{
	while (browser->held_posts && cdp_queued(browser->cdp) < PRESSURE) {
		struct held_post *held = browser->held_posts;
		browser->held_posts = held->next;
		(void)cdp_post(browser->cdp, held->session, "Fetch.fulfillRequest", held->params);
		free(held);
	}
	return browser->held_posts ? clock_ms() + RETRY_MS : INT64_MAX;
}

void intercept_free(struct browser *browser)
{
	while (browser->held_posts) {
		struct held_post *held = browser->held_posts;
		browser->held_posts = held->next;
		json_decref(held->params);
		free(held);
	}
}

static bool has_header(const json_t *list, const char *wanted)
{
	const json_t *one;
	size_t i;
	json_array_foreach(list, i, one)
		if (!strcasecmp(cdp_text(one, "name"), wanted))
			return true;
	return false;
}

/* A page of another origin may read what it was given here, as it could not if it were blocked. */
static void allow_origin(json_t *list, const json_t *request)
{
	const char *origin = cdp_header(json_object_get(request, "headers"), "origin");
	size_t len = origin ? strlen(origin) : 0;
	const char *url = cdp_text(request, "url");
	bool same = origin && !strncmp(url, origin, len) && (url[len] == '/' || !url[len]);
	if (!origin || same || has_header(list, "access-control-allow-origin"))
		return;
	json_array_append_new(list, header("access-control-allow-origin", origin));
	json_array_append_new(list, header("access-control-allow-credentials", "true"));
	json_array_append_new(list, header("vary", "Origin"));
}

static void fulfill(struct tab *tab, const char *session, const json_t *params,
		    const struct intercept_rule *rule)
{
	json_t *headers = json_copy(rule->headers);
	allow_origin(headers, json_object_get(params, "request"));
	json_t *message = json_pack("{s:s, s:I, s:o, s:O*}", "requestId",
				    cdp_text(params, "requestId"), "responseCode",
				    (json_int_t)rule->status, "responseHeaders", headers, "body",
				    rule->body);
	struct browser *browser = tab->browser;
	if (browser->held_posts || cdp_queued(browser->cdp) > PRESSURE)
		hold(browser, session, message);
	else
		(void)cdp_post(browser->cdp, session, "Fetch.fulfillRequest", message);
}

/* What a page asks before it sends a request to another origin, which a route would answer. */
static bool is_preflight(const json_t *request)
{
	return !strcmp(cdp_text(request, "method"), "OPTIONS") &&
	       cdp_header(json_object_get(request, "headers"), "access-control-request-method");
}

static void answer_preflight(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *asked = json_object_get(json_object_get(params, "request"), "headers");
	const char *origin = cdp_header(asked, "origin"),
		   *names = cdp_header(asked, "access-control-request-headers");
	json_t *headers = json_array();
	json_array_append_new(headers,
			      header("access-control-allow-origin", origin ? origin : "*"));
	json_array_append_new(headers, header("access-control-allow-methods",
					      cdp_header(asked, "access-control-request-method")));
	json_array_append_new(headers, header("access-control-allow-credentials", "true"));
	if (names)
		json_array_append_new(headers, header("access-control-allow-headers", names));
	(void)cdp_post(tab->browser->cdp, session, "Fetch.fulfillRequest",
		       json_pack("{s:s, s:i, s:o}", "requestId", cdp_text(params, "requestId"),
				 "responseCode", 204, "responseHeaders", headers));
}

/* ---- changed requests ---- */

static bool remove_header(json_t *list, const char *name, const char *value)
{
	bool any = false;
	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *one = json_array_get(list, i);
		if (strcasecmp(cdp_text(one, "name"), name) != 0 ||
		    (value && strcmp(cdp_text(one, "value"), value) != 0))
			continue;
		json_array_remove(list, i);
		any = true;
	}
	return any;
}

static bool set_all(json_t *list, json_t *headers)
{
	json_t *one;
	size_t i;
	json_array_foreach(headers, i, one) {
		(void)remove_header(list, cdp_text(one, "name"), NULL);
		json_array_append(list, one);
	}
	return json_array_size(headers) > 0;
}

static bool remove_all(json_t *list, const json_t *headers)
{
	const json_t *one;
	size_t i;
	bool any = false;
	json_array_foreach(headers, i, one)
		any |= remove_header(list, cdp_text(one, "name"), cdp_text(one, "value"));
	return any;
}

static json_t *headers_of(const json_t *request)
{
	const char *name;
	json_t *value, *list = json_array();
	json_object_foreach(json_object_get(request, "headers"), name, value)
		json_array_append_new(list, header(name, json_string_value(value)));
	return list;
}

/* Headers of a scope that a redirect has brought elsewhere are taken away. True: any has changed. */
static bool scope_headers(json_t *list, const char *url, bool redirected)
{
	bool changed = false;
	for (const struct intercept_rule *rule = rules.scopes; rule && redirected;
	     rule = rule->next)
		if (!url_pattern_match(rule->pattern, url))
			changed |= remove_all(list, rule->headers);
	for (const struct intercept_rule *rule = rules.scopes; rule; rule = rule->next)
		if (url_pattern_match(rule->pattern, url))
			changed |= set_all(list, rule->headers);
	return changed;
}

static void go_on(struct tab *tab, const char *session, const json_t *params,
		  const struct intercept_rule *route)
{
	const json_t *request = json_object_get(params, "request");
	json_t *headers = headers_of(request),
	       *message = json_pack("{s:s}", "requestId", cdp_text(params, "requestId"));
	bool changed = scope_headers(headers, cdp_text(request, "url"),
				     *cdp_text(params, "redirectedRequestId"));
	if (route)
		changed |= set_all(headers, route->headers);
	if (changed)
		json_object_set(message, "headers", headers);
	if (route && route->method)
		json_object_set_new(message, "method", json_string(route->method));
	if (route && route->body)
		json_object_set(message, "postData", route->body);
	json_decref(headers);
	(void)cdp_post(tab->browser->cdp, session, "Fetch.continueRequest", message);
}

static const struct intercept_rule *find_route(const char *url)
{
	const struct intercept_rule *rule = rules.routes;
	while (rule && !url_pattern_match(rule->pattern, url))
		rule = rule->next;
	return rule;
}

static void paused(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *request = json_object_get(params, "request");
	pthread_mutex_lock(&rules.lock);
	const struct intercept_rule *route = find_route(cdp_text(request, "url"));
	if (!route || route->action == ROUTE_CONTINUE)
		go_on(tab, session, params, route);
	else if (route->action == ROUTE_ABORT)
		(void)cdp_post(tab->browser->cdp, session, "Fetch.failRequest",
			       json_pack("{s:s, s:s}", "requestId", cdp_text(params, "requestId"),
					 "errorReason", "Failed"));
	else if (is_preflight(request))
		answer_preflight(tab, session, params);
	else
		fulfill(tab, session, params, route);
	pthread_mutex_unlock(&rules.lock);
}

static const struct tab_event rows[] = {
	{ "Fetch.requestPaused", paused },
};
const struct tab_events intercept_events = { .rows = rows, .count = COUNT(rows), .begin = begin };

/* ---- changes ---- */

/* All sessions first, then once more the one whose answer is waited for; in turn. */
static int apply_fetch(struct tab *tab, const struct wait *wait, struct err *err)
{
	pthread_mutex_lock(&rules.lock);
	browser_each_session(tab->browser, NULL, tell_fetch, NULL);
	bool on = is_on();
	json_t *params = on ? patterns() : NULL;
	pthread_mutex_unlock(&rules.lock);
	return tab_ask(tab, on ? "Fetch.enable" : "Fetch.disable", params, wait, err);
}

static void replace(struct intercept_rule **list, struct intercept_rule *rule)
{
	pthread_mutex_lock(&rules.lock);
	free_rule(take_rule(list, rule->text));
	rule->next = *list;
	*list = rule;
	pthread_mutex_unlock(&rules.lock);
}

static bool drop(struct intercept_rule **list, const char *text)
{
	pthread_mutex_lock(&rules.lock);
	struct intercept_rule *rule = take_rule(list, text);
	free_rule(rule);
	pthread_mutex_unlock(&rules.lock);
	return rule;
}

static json_t *encode(struct text text)
{
	auto_buf struct buf coded = BUF(2 * ROUTE_BODY_MAX);
	if (!text.len || base64_encode(&coded, text.data, text.len) < 0)
		return NULL;
	return json_stringn(coded.data, coded.len);
}

static void set_response(struct intercept_rule *rule, const struct intercept_route *route)
{
	if (route->content_type && !has_header(rule->headers, "content-type"))
		json_array_append_new(rule->headers, header("content-type", route->content_type));
	rule->status = route->status;
	rule->body = encode(route->body);
}

static int check_route(const struct intercept_route *route, struct err *err)
{
	size_t len = route->action == ROUTE_FULFILL ? route->body.len
		     : route->post_data             ? route->post_data->len
						    : 0;
	const struct list type = { 1, &(struct pair){ "content-type", route->content_type } };
	if (len > ROUTE_BODY_MAX)
		return err_set(err, ERR_INVALID,
			       "the body of a route has at most %d bytes, not %zu", ROUTE_BODY_MAX,
			       len);
	if (route->content_type && intercept_check_headers(&type, false, err) < 0)
		return -1;
	return intercept_check_headers(&route->headers, route->action == ROUTE_CONTINUE, err);
}

static struct intercept_rule *make_route(const struct intercept_route *route, struct err *err)
{
	if (check_route(route, err) < 0)
		return NULL;
	struct intercept_rule *rule = new_rule(route->pattern, route->pattern, err);
	if (!rule)
		return NULL;
	rule->action = route->action;
	rule->headers = header_list(&route->headers);
	if (route->method)
		rule->method = arena_strdup(&rule->arena, route->method);
	if (route->action == ROUTE_FULFILL)
		set_response(rule, route);
	else if (route->post_data)
		rule->body = encode(*route->post_data);
	return rule;
}

static int check_room(const struct intercept_rule *rule, struct err *err)
{
	size_t bytes;
	pthread_mutex_lock(&rules.lock);
	size_t count = count_rules(rules.routes, &bytes);
	pthread_mutex_unlock(&rules.lock);
	if (count >= ROUTES_MAX || bytes + json_string_length(rule->body) > ROUTE_BODIES_MAX)
		return err_set(err, ERR_LIMIT,
			       "there are too many routes, or their bodies are too large "
			       "(%d routes, %d MiB): remove some",
			       ROUTES_MAX, ROUTE_BODIES_MAX >> 20);
	return 0;
}

int intercept_add(struct tab *tab, const struct intercept_route *route, const struct wait *wait,
		  struct err *err)
{
	struct intercept_rule *rule = make_route(route, err);
	if (!rule)
		return -1;
	if (turn_take(&rules.changing, wait, err) < 0) {
		free_rule(rule);
		return -1;
	}
	int result = check_room(rule, err);
	if (result == 0) {
		replace(&rules.routes, rule);
		result = apply_fetch(tab, wait, err);
	} else {
		free_rule(rule);
	}
	turn_give(&rules.changing);
	return result;
}

int intercept_remove(struct tab *tab, const char *pattern, const struct wait *wait, struct err *err)
{
	if (turn_take(&rules.changing, wait, err) < 0)
		return -1;
	int result = drop(&rules.routes, pattern)
			     ? apply_fetch(tab, wait, err)
			     : err_set(err, ERR_NOT_FOUND, "there is no route for '%s'", pattern);
	turn_give(&rules.changing);
	return result;
}

static json_t *header_object(const struct list *pairs)
{
	const struct pair *pair = pairs->items;
	json_t *object = json_object();
	for (size_t i = 0; i < pairs->count; i++)
		json_object_set_new(object, pair[i].name, json_string(pair[i].value));
	return object;
}

int intercept_set_headers(struct tab *tab, const struct list *headers, const struct wait *wait,
			  struct err *err)
{
	if (intercept_check_headers(headers, true, err) < 0 ||
	    turn_take(&rules.changing, wait, err) < 0)
		return -1;
	pthread_mutex_lock(&rules.lock);
	json_decref(rules.headers);
	rules.headers = headers->count ? header_object(headers) : NULL;
	browser_each_session(tab->browser, NULL, tell_headers, NULL);
	pthread_mutex_unlock(&rules.lock);
	/* A page that is busy answers late; the browser itself takes what it is told in order. */
	int result = cdp_ask(tab->browser->cdp, NULL, "Browser.getVersion", NULL, wait, err);
	turn_give(&rules.changing);
	return result;
}

/* An origin is all that is below it. */
static char *scope_pattern(const char *origin)
{
	size_t len = strlen(origin);
	if (strchr(origin, '*'))
		return xstrdup(origin);
	while (len && origin[len - 1] == '/')
		len--;
	char *text = xasprintf("%s%.*s/**", strstr(origin, "://") ? "" : "*://", (int)len, origin);
	char *host = strstr(text, "://") + 3, *end = host + strcspn(host, "/");
	for (char *c = text; c < end; c++)
		*c = (char)tolower((unsigned char)*c);
	const char *usual = !strncmp(text, "https:", 6) ? ":443" : ":80";
	if (end - host > (ptrdiff_t)strlen(usual) &&
	    !strncmp(end - strlen(usual), usual, strlen(usual)))
		memmove(end - strlen(usual), end, strlen(end) + 1);
	return text;
}

static size_t count_scopes(void)
{
	size_t bytes;
	pthread_mutex_lock(&rules.lock);
	size_t count = count_rules(rules.scopes, &bytes);
	pthread_mutex_unlock(&rules.lock);
	return count;
}

static int set_scope(struct tab *tab, struct intercept_rule *rule, const struct wait *wait,
		     struct err *err)
{
	if (!json_array_size(rule->headers)) {
		(void)drop(&rules.scopes, rule->text);
		free_rule(rule);
	} else if (count_scopes() >= SCOPES_MAX) {
		free_rule(rule);
		return err_set(err, ERR_LIMIT, "headers are scoped to %d origins already",
			       SCOPES_MAX);
	} else {
		replace(&rules.scopes, rule);
	}
	return apply_fetch(tab, wait, err);
}

int intercept_set_scoped_headers(struct tab *tab, const char *origin, const struct list *headers,
				 const struct wait *wait, struct err *err)
{
	if (intercept_check_headers(headers, true, err) < 0)
		return -1;
	auto_free char *pattern = scope_pattern(origin);
	struct intercept_rule *rule = new_rule(pattern, pattern, err);
	if (!rule)
		return -1;
	rule->headers = header_list(headers);
	if (turn_take(&rules.changing, wait, err) < 0) {
		free_rule(rule);
		return -1;
	}
	int result = set_scope(tab, rule, wait, err);
	turn_give(&rules.changing);
	return result;
}

static void free_list(struct intercept_rule *list)
{
	while (list) {
		struct intercept_rule *next = list->next;
		free_rule(list);
		list = next;
	}
}

/* Not in turn: a change may wait for the very browser that is to end because it hangs. */
void intercept_forget(void)
{
	pthread_mutex_lock(&rules.lock);
	free_list(TAKE(rules.routes));
	free_list(TAKE(rules.scopes));
	json_decref(TAKE(rules.headers));
	pthread_mutex_unlock(&rules.lock);
}

/* ---- headers ---- */

/* With one of these the browser would send no request at all, or another one than it means to. */
static bool is_the_browsers(const char *name)
{
	static const char *const names[] = {
		"connection", "content-length",    "host",    "keep-alive", "te",
		"trailer",    "transfer-encoding", "upgrade", "cookie2"
	};
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return !strncasecmp(name, "proxy-", 6);
}

static bool is_name(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c))
			return false;
	return *name;
}

static bool is_value(const char *value)
{
	for (const char *c = value; *c; c++)
		if (((unsigned char)*c < 32 && *c != '\t') || *c == 127)
			return false;
	return strlen(value) <= HEADER_MAX;
}

int intercept_check_headers(const struct list *headers, bool request, struct err *err)
{
	const struct pair *pair = headers->items;
	for (size_t i = 0; i < headers->count; i++) {
		if (!is_name(pair[i].name))
			return err_set(err, ERR_INVALID, "invalid name of a header '%.100s'",
				       pair[i].name);
		if (!is_value(pair[i].value))
			return err_set(err, ERR_INVALID,
				       "the value of header '%.100s' has a control character or "
				       "more than %d bytes",
				       pair[i].name, HEADER_MAX);
		if (request && is_the_browsers(pair[i].name))
			return err_set(err, ERR_INVALID, "header '%s' is set by the browser alone",
				       pair[i].name);
	}
	return 0;
}
