#include "browser/storage.h"

#include <string.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/cookies.h"
#include "browser/tab_events.h"

enum { ORIGINS_MAX = 500, ORIGIN_MAX = 300 };

/* The latest is last. Of the sandbox, not of one browser: the profile outlives that. */
static struct {
	pthread_mutex_t lock;
	size_t count;
	char list[ORIGINS_MAX][ORIGIN_MAX];
} origins = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void move_last(size_t at)
{
	char origin[ORIGIN_MAX];
	memcpy(origin, origins.list[at], sizeof origin);
	memmove(origins.list[at], origins.list[at + 1], (origins.count - at - 1) * ORIGIN_MAX);
	memcpy(origins.list[origins.count - 1], origin, sizeof origin);
}

static void note_origin(const char *origin)
{
	if (strncmp(origin, "http", 4) != 0 || strlen(origin) >= ORIGIN_MAX)
		return;
	pthread_mutex_lock(&origins.lock);
	size_t at = 0;
	while (at < origins.count && strcmp(origins.list[at], origin) != 0)
		at++;
	if (at == ORIGINS_MAX)
		at = 0;
	else if (at == origins.count)
		origins.count++;
	memcpy(origins.list[at], origin, strlen(origin) + 1);
	move_last(at);
	pthread_mutex_unlock(&origins.lock);
}

static void note_frame(const json_t *frame)
{
	note_origin(cdp_text(frame, "securityOrigin"));
}

static void navigated(struct tab *tab, const char *session, const json_t *params)
{
	(void)tab;
	(void)session;
	note_frame(json_object_get(params, "frame"));
}

static void note_tree(const json_t *tree)
{
	const json_t *child;
	size_t i;
	note_frame(json_object_get(tree, "frame"));
	json_array_foreach(json_object_get(tree, "childFrames"), i, child)
		note_tree(child);
}

static void take_tree(struct tab *tab, const char *session, const json_t *params)
{
	(void)tab;
	(void)session;
	note_tree(json_object_get(params, "frameTree"));
}

static const struct tab_event rows[] = {
	{ "Page.frameNavigated", navigated },
	{ "Page.getFrameTree", take_tree },
};
const struct tab_events storage_events = { .rows = rows, .count = COUNT(rows) };

/* ---- the page that no one sees; one at a time ---- */

static struct turn turn = TURN;

struct storage_page {
	struct browser *browser;
	const struct wait *wait;
	char target[CDP_ID_MAX], session[CDP_ID_MAX];
};

/* In the reader's thread: whether an event is of that page. Whatever it asks for is empty. */
bool storage_event(struct browser *browser, const char *session, const char *method,
		   const json_t *params)
{
	pthread_mutex_lock(&browser->lock);
	bool is = *session && !strcmp(session, browser->storage.session);
	if (is && !strcmp(method, "Page.frameNavigated")) {
		(void)cdp_id(browser->storage.loader, CDP_ID_MAX,
			     cdp_text(json_object_get(params, "frame"), "loaderId"));
		waiter_wake(browser->waiters);
	}
	pthread_mutex_unlock(&browser->lock);
	if (is && !strcmp(method, "Fetch.requestPaused"))
		(void)cdp_post(browser->cdp, session, "Fetch.fulfillRequest",
			       json_pack("{s:s, s:i, s:[{s:s, s:s}]}", "requestId",
					 cdp_text(params, "requestId"), "responseCode", 200,
					 "responseHeaders", "name", "content-type", "value",
					 "text/html"));
	return is;
}

static json_t *call_page(struct storage_page *page, const char *method, json_t *params,
			 struct err *err)
{
	return cdp_call(page->browser->cdp, page->session, method, params, page->wait, err);
}

static int ask_page(struct storage_page *page, const char *method, json_t *params, struct err *err)
{
	json_t *result = call_page(page, method, params, err);
	json_decref(result);
	return result ? 0 : -1;
}

static void set_session(struct browser *browser, const char *session)
{
	pthread_mutex_lock(&browser->lock);
	(void)cdp_id(browser->storage.session, CDP_ID_MAX, session);
	*browser->storage.loader = 0;
	pthread_mutex_unlock(&browser->lock);
}

static int attach(struct storage_page *page, struct err *err)
{
	json_t *params = json_pack("{s:s, s:b}", "targetId", page->target, "flatten", 1);
	json_t *result = cdp_call(page->browser->cdp, NULL, "Target.attachToTarget", params,
				  page->wait, err);
	if (!result)
		return -1;
	(void)cdp_id(page->session, sizeof page->session, cdp_text(result, "sessionId"));
	json_decref(result);
	set_session(page->browser, page->session);
	if (ask_page(page, "Page.enable", NULL, err) < 0 ||
	    ask_page(page, "Network.enable", NULL, err) < 0)
		return -1;
	/* Else it would be the site's worker that answers, with scripts. */
	if (ask_page(page, "Network.setBypassServiceWorker", json_pack("{s:b}", "bypass", 1), err) <
	    0)
		return -1;
	return ask_page(page, "Fetch.enable", NULL, err);
}

/* It goes with our connection, if not before. */
static int open_page(struct storage_page *page, struct err *err)
{
	json_t *result = cdp_call(page->browser->cdp, NULL, "Target.createTarget",
				  json_pack("{s:s, s:b}", "url", "about:blank", "hidden", 1),
				  page->wait, err);
	if (!result)
		return -1;
	(void)cdp_id(page->target, sizeof page->target, cdp_text(result, "targetId"));
	json_decref(result);
	return attach(page, err);
}

static void close_page(struct storage_page *page)
{
	set_session(page->browser, "");
	if (*page->target)
		(void)cdp_post(page->browser->cdp, NULL, "Target.closeTarget",
			       json_pack("{s:s}", "targetId", page->target));
}

static bool shows(struct browser *browser, void *arg)
{
	return !strcmp(browser->storage.loader, arg);
}

static int show(struct storage_page *page, const char *origin, struct err *err)
{
	char loader[CDP_ID_MAX];
	auto_free char *url = xasprintf("%s/", origin);
	json_t *result = call_page(page, "Page.navigate", json_pack("{s:s}", "url", url), err);
	if (!result)
		return -1;
	bool shown = cdp_id(loader, sizeof loader, cdp_text(result, "loaderId")) &&
		     !*cdp_text(result, "errorText");
	if (!shown)
		err_set(err, ERR_CONFLICT, "the browser does not show '%s': %s", origin,
			cdp_text(result, "errorText"));
	json_decref(result);
	return shown ? browser_wait(page->browser, shows, loader, page->wait, err) : -1;
}

/* The value of an expression; NULL with what it threw. */
static json_t *evaluate(struct storage_page *page, const char *expression, struct err *err)
{
	json_t *params = json_pack("{s:s, s:b}", "expression", expression, "returnByValue", 1);
	json_t *result = call_page(page, "Runtime.evaluate", params, err), *value = NULL;
	const json_t *thrown = json_object_get(result, "exceptionDetails");
	if (thrown)
		err_set(err, ERR_CONFLICT, "local storage: %.300s",
			cdp_text(json_object_get(thrown, "exception"), "description"));
	else if (result)
		value = json_incref(json_object_get(json_object_get(result, "result"), "value"));
	json_decref(result);
	return value;
}

/* ---- saving ---- */

static json_t *read_origin(struct storage_page *page, const char *origin, struct err *err)
{
	if (show(page, origin, err) < 0)
		return NULL;
	return evaluate(page,
			"Object.keys(localStorage).map((name) => "
			"({name, value: localStorage.getItem(name)}))",
			err);
}

static json_t *list_origins(void)
{
	json_t *list = json_array();
	pthread_mutex_lock(&origins.lock);
	for (size_t i = origins.count; i-- > 0;)
		json_array_append_new(list, json_string(origins.list[i]));
	pthread_mutex_unlock(&origins.lock);
	return list;
}

/* One that cannot be shown, such as by a policy, has nothing to be saved. */
static int read_all(struct storage_page *page, json_t *to, struct err *err)
{
	json_t *list = list_origins(), *origin;
	size_t i;
	int result = 0;
	json_array_foreach(list, i, origin) {
		json_t *items = read_origin(page, json_string_value(origin), err);
		if (!items && err->code != ERR_CONFLICT) {
			result = -1;
			break;
		}
		if (json_array_size(items))
			json_array_append_new(to, json_pack("{s:O, s:O}", "origin", origin,
							    "localStorage", items));
		json_decref(items);
	}
	json_decref(list);
	return result;
}

json_t *storage_save(struct browser *browser, const struct wait *wait, struct err *err)
{
	struct storage_page page = { .browser = browser, .wait = wait };
	json_t *cookies = cookies_get(browser, &(struct list){ 0, NULL }, wait, err);
	if (!cookies)
		return NULL;
	json_t *state = json_pack("{s:o, s:[]}", "cookies", cookies, "origins");
	int result = turn_take(&turn, wait, err);
	if (result == 0) {
		result = open_page(&page, err);
		if (result == 0)
			result = read_all(&page, json_object_get(state, "origins"), err);
		close_page(&page);
		turn_give(&turn);
	}
	if (result == 0)
		return state;
	json_decref(state);
	return NULL;
}

/* ---- loading ---- */

static int check_items(const char *origin, const json_t *items, struct err *err)
{
	const json_t *item;
	size_t i;
	struct url_parts parts;
	if (!origin || url_split(origin, &parts, NULL) < 0 || strlen(origin) >= ORIGIN_MAX ||
	    strcmp(parts.target, "/") != 0 || origin[strlen(origin) - 1] == '/')
		return err_set(err, ERR_INVALID, "invalid origin '%.200s' in the state",
			       origin ? origin : "");
	json_array_foreach(items, i, item)
		if (!json_is_string(json_object_get(item, "name")) ||
		    !json_is_string(json_object_get(item, "value")))
			return err_set(err, ERR_INVALID,
				       "item %zu of '%s' in the state needs a name and a value", i,
				       origin);
	return 0;
}

static int check_state(const json_t *state, struct err *err)
{
	const json_t *list = json_object_get(state, "origins"), *one,
		     *cookies = json_object_get(state, "cookies");
	size_t i;
	if (!json_is_object(state) || (cookies && !json_is_array(cookies)) ||
	    (list && !json_is_array(list)) || (!cookies && !list))
		return err_set(
			err, ERR_INVALID,
			"the file does not hold a state: an object with cookies and origins");
	if (json_array_size(cookies) > COOKIES_MAX || json_array_size(list) > ORIGINS_MAX)
		return err_set(err, ERR_INVALID, "a state has at most %d cookies and %d origins",
			       COOKIES_MAX, ORIGINS_MAX);
	json_array_foreach(list, i, one)
		if (check_items(json_string_value(json_object_get(one, "origin")),
				json_object_get(one, "localStorage"), err) < 0)
			return -1;
	return 0;
}

static int write_origin(struct storage_page *page, const json_t *one, struct err *err)
{
	const char *origin = cdp_text(one, "origin");
	json_t *items = json_object_get(one, "localStorage");
	auto_free char *text = json_is_array(items) ? json_dumps(items, JSON_COMPACT)
						    : xstrdup("[]");
	auto_free char *expression = xasprintf("localStorage.clear(); for (const {name, value} of "
					       "%s) localStorage.setItem(name, value); true",
					       text);
	if (show(page, origin, err) < 0)
		return -1;
	json_t *value = evaluate(page, expression, err);
	json_decref(value);
	if (!value)
		return -1;
	note_origin(origin);
	return 0;
}

static int write_all(struct browser *browser, const json_t *list, const struct wait *wait,
		     struct err *err)
{
	struct storage_page page = { .browser = browser, .wait = wait };
	const json_t *one;
	size_t i;
	if (turn_take(&turn, wait, err) < 0)
		return -1;
	int result = open_page(&page, err);
	json_array_foreach(list, i, one)
		if (result == 0)
			result = write_origin(&page, one, err);
	close_page(&page);
	turn_give(&turn);
	return result;
}

int storage_load(struct browser *browser, const json_t *state, const struct wait *wait,
		 struct err *err)
{
	const json_t *list = json_object_get(state, "origins"),
		     *cookies = json_object_get(state, "cookies");
	if (check_state(state, err) < 0)
		return -1;
	if (json_array_size(cookies) && cookies_set(browser, cookies, NULL, wait, err) < 0)
		return -1;
	return json_array_size(list) ? write_all(browser, list, wait, err) : 0;
}
