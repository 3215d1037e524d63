/* Waiting for the page: each type is a row. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <string.h>

#include "api/file.h"
#include "api/page_call.h"
#include "api/page_document.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser.h"
#include "browser/evaluate.h"
#include "browser/frames.h"
#include "browser/navigate.h"
#include "browser/requests.h"
#include "browser/tab.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

enum { SELECTOR_MAX = 10000, URL_CHARS_MAX = 2048, MARGIN_MS = 250, POLLING_MAX_MS = 60000 };

/* For one look at a frame, for a frame to answer at all, and for the page to say why at the end. */
enum { LOOK_MS = 200, FRAME_MS = 2000, GRACE_MS = 2000 };

struct page_wait {
	const char *type, *selector, *state, *url, *save_path, *expression, *url_pattern;
	double timeout, polling;
};

struct page_waiting {
	struct call *call;
	struct page_call page;
	const struct page_wait *request;
	const char *thrown; /* by a script of the caller's */
};

/* Each returns what `data` is to be, or NULL with err. */
typedef json_t *wait_fn(struct page_waiting *w, struct err *err);

static int64_t left_ms(const struct page_waiting *w)
{
	int64_t left = w->page.wait.until_ms - clock_ms();
	return left > 0 ? left : 0;
}

/* ---- the page ---- */

static json_t *look(struct page_waiting *w, const char *frame, const struct wait *wait,
		    int64_t timeout_ms, int64_t waited_ms, struct err *err)
{
	const char *state = w->request->state ? w->request->state : "visible";
	return frame_js(w->page.tab, frame, "await_selector",
			json_pack("{s:s, s:s, s:I, s:b, s:I}", "selector", w->request->selector,
				  "state", state, "timeout_ms", (json_int_t)timeout_ms, "soft",
				  !waited_ms, "waited_ms", (json_int_t)waited_ms),
			wait, err);
}

static bool wants_none(const struct page_wait *request)
{
	return request->state &&
	       (!strcmp(request->state, "hidden") || !strcmp(request->state, "detached"));
}

/* What the main frame has found (taken), or another one has in its place: one that has it is enough, and
 * that there is none has to be so in all. JSON false: not yet. A frame that hangs is passed over. */
static json_t *look_below(struct page_waiting *w, json_t *found, int64_t ms)
{
	const bool none = wants_none(w->request);
	struct frame_list frames;
	struct err ignored;
	frames_list(w->page.tab, &frames);
	for (size_t i = 1; i < frames.count && json_is_false(found) != none; i++) {
		struct wait wait = w->page.wait;
		int64_t until = clock_ms() + FRAME_MS;
		wait.until_ms = until < wait.until_ms ? until : wait.until_ms;
		json_t *here = look(w, frames.ids[i], &wait, none ? ms : 0, 0, &ignored);
		if (here && json_is_false(here) == none) {
			json_decref(found);
			found = here;
		} else {
			json_decref(here);
		}
	}
	frames_done(&frames);
	return found;
}

/* Once more, for the page to say why. In the main frame there may be nothing in the way. */
static json_t *look_last(struct page_waiting *w, bool main_has, int64_t waited_ms, struct err *err)
{
	if (!main_has)
		return look(w, NULL, &w->page.wait, 0, waited_ms, err);
	err_set(err, ERR_SLOW, "an element of '%.200s' in another frame is not %s after %lld ms",
		w->request->selector, w->request->state, (long long)waited_ms);
	return NULL;
}

/* A moment after the other, in the main frame first. The page gives up before we do, to say how far it came:
 * on a busy machine its answer takes a while. Over to the next document, where it leaves. */
static json_t *wait_selector(struct page_waiting *w, struct err *err)
{
	struct tab *tab = w->page.tab;
	const char *state = w->request->state ? w->request->state : "visible";
	const int64_t all = left_ms(w);
	w->page.wait.until_ms += GRACE_MS;
	for (;;) {
		uint64_t documents = navigate_documents(tab);
		int64_t left = left_ms(w) - GRACE_MS, ms = left < 0         ? 0
							   : left < LOOK_MS ? left
									    : LOOK_MS;
		json_t *found = look(w, NULL, &w->page.wait, ms, 0, err);
		const bool main_has = found && !json_is_false(found);
		if (found)
			found = look_below(w, found, ms);
		if (json_is_false(found) && !ms) {
			json_decref(found);
			found = look_last(w, main_has, all, err);
		}
		if (found && !json_is_false(found))
			return json_pack("{s:s, s:s, s:o}", "selector", w->request->selector,
					 "state", state, "element", found);
		if (!found && (!frame_js_gone(err) ||
			       navigate_await_next(tab, documents, &w->page.wait, err) < 0))
			return NULL;
		json_decref(found);
	}
}

static json_t *where(struct page_waiting *w)
{
	pthread_mutex_lock(&w->page.tab->lock);
	json_t *data = json_pack("{s:s}", "url", w->page.tab->url);
	pthread_mutex_unlock(&w->page.tab->lock);
	return data;
}

/* 0 with err: `state` is not one. */
static unsigned reached_of(const struct page_waiting *w, struct err *err)
{
	const char *state = w->request->state ? w->request->state : "load";
	unsigned reached = page_reached(state);
	if (!reached)
		err_set(err, ERR_INVALID,
			"invalid state '%.40s': expected load, domcontentloaded, networkidle or commit",
			state);
	return reached;
}

static json_t *wait_load(struct page_waiting *w, struct err *err)
{
	unsigned reached = reached_of(w, err);
	return reached && navigate_await(w->page.tab, reached, &w->page.wait, err) == 0 ? where(w)
											: NULL;
}

static json_t *wait_idle(struct page_waiting *w, struct err *err)
{
	return navigate_await(w->page.tab, TAB_IDLE, &w->page.wait, err) == 0 ? where(w) : NULL;
}

static const char *pattern_of(const struct page_wait *request)
{
	return request->url ? request->url : request->url_pattern;
}

static json_t *wait_url(struct page_waiting *w, struct err *err)
{
	unsigned reached = reached_of(w, err);
	return reached && navigate_await_url(w->page.tab, pattern_of(w->request), reached,
					     &w->page.wait, err) == 0
		       ? where(w)
		       : NULL;
}

static json_t *wait_function(struct page_waiting *w, struct err *err)
{
	double polling = isnan(w->request->polling) ? 0 : w->request->polling;
	json_t *value = evaluate_until(w->page.tab, w->request->expression, polling, w->call->arena,
				       &w->thrown, &w->page.wait, err);
	if (!value && err->code == ERR_SLOW)
		err_set(err, ERR_SLOW, "it did not become true in time: %.200s",
			w->request->expression);
	return value ? json_pack("{s:o}", "value", value) : NULL;
}

/* ---- the network ---- */

static json_t *wait_exchange(struct page_waiting *w, bool response, struct err *err)
{
	struct request_info info;
	const char *pattern = w->request->url_pattern ? w->request->url_pattern : w->request->url;
	if (requests_wait(w->page.tab, w->page.requests, pattern, response, w->call->arena, &info,
			  &w->page.wait, err) < 0) {
		if (err->code == ERR_SLOW)
			err_set(err, ERR_SLOW, "no %s of '%.200s' came in time",
				response ? "response" : "request", pattern);
		return NULL;
	}
	json_t *data = json_pack("{s:s, s:s, s:s}", "url", info.url, "method", info.method,
				 "resource_type", info.type);
	if (response)
		json_object_update_new(data, json_pack("{s:I, s:s, s:s}", "status", info.status,
						       "status_text", info.status_text, "mime_type",
						       info.mime));
	return data;
}

static json_t *wait_response(struct page_waiting *w, struct err *err)
{
	return wait_exchange(w, true, err);
}

static json_t *wait_request(struct page_waiting *w, struct err *err)
{
	return wait_exchange(w, false, err);
}

/* ---- downloads ---- */

static int copy_file(struct call *call, const char *from, const char *to, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	if (file_user_enter(call, false, &view, err) < 0)
		return -1;
	auto_close int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno, "open '%s'", from);
	if (place_hold(to, &place, err) < 0 ||
	    save_put(&(struct save){ .fd = fd }, &place, err) < 0)
		return -1;
	journal_add(JOURNAL_FILE_WRITTEN, &(struct journal_file){ to, "download", INT_ABSENT });
	return 0;
}

static json_t *wait_download(struct page_waiting *w, struct err *err)
{
	struct download download;
	const char *path = NULL;
	if (w->request->save_path && *w->request->save_path) {
		path = file_path(w->call, w->request->save_path, NULL, err);
		if (!path)
			return NULL;
	}
	if (browser_take_download(w->page.browser, w->call->arena, &download, &w->page.wait, err) <
	    0) {
		if (err->code == ERR_SLOW)
			err_set(err, ERR_SLOW, "no download %s in time",
				browser_downloading(w->page.browser) ? "ended" : "began");
		return NULL;
	}
	if (path && copy_file(w->call, download.path, path, err) < 0)
		return NULL;
	const char *name = strrchr(download.path, '/');
	return json_pack("{s:s, s:s, s:s, s:I}", "path", path ? path : download.path, "url",
			 download.url, "suggested_filename", name ? name + 1 : download.path,
			 "size", download.received);
}

/* ---- time ---- */

static json_t *wait_time(struct page_waiting *w, struct err *err)
{
	struct pollfd none = { .fd = -1 };
	enum wake wake = wait_poll(&w->page.wait, &none, 0);
	if (wake == WAKE_TIMEOUT)
		return json_pack("{s:f}", "waited", w->request->timeout);
	(void)wake_err(wake, err);
	return NULL;
}

/* ---- the route ---- */

static const struct wait_type {
	const char *name;
	wait_fn *fn;
	size_t needs, or_needs; /* where in the request; 0: nothing */
	const char *needed;
} types[] = {
	{ "selector", wait_selector, offsetof(struct page_wait, selector), 0, "selector" },
	{ "load", wait_load, 0, 0, NULL },
	{ "url", wait_url, offsetof(struct page_wait, url), offsetof(struct page_wait, url_pattern),
	  "url" },
	{ "network_idle", wait_idle, 0, 0, NULL },
	{ "download", wait_download, 0, 0, NULL },
	{ "function", wait_function, offsetof(struct page_wait, expression), 0, "expression" },
	{ "response", wait_response, offsetof(struct page_wait, url_pattern),
	  offsetof(struct page_wait, url), "url_pattern" },
	{ "request", wait_request, offsetof(struct page_wait, url_pattern),
	  offsetof(struct page_wait, url), "url_pattern" },
	{ "timeout", wait_time, 0, 0, NULL },
};
static const char *const type_names[] = { "selector", "load",     "url",      "network_idle",
					  "download", "function", "response", "request",
					  "timeout",  NULL };
static const struct field wait_fields[] = {
	ENUM(page_wait, type, REQUIRED,
	     "What to wait for. `selector`: an element, in any frame. `load`: the document. `url`: the page's address. "
	     "`network_idle`: no request for half a second. `download`: one that no such call has returned yet, "
	     "to its end. `function`: JavaScript that becomes true. `response`, `request`: of an address, since "
	     "the call before this one. `timeout`: that time.",
	     .choices = type_names),
	STR(page_wait, selector, OPTIONAL, "Of `selector`: CSS, text=…, xpath=…, role=….",
	    .max_len = SELECTOR_MAX),
	STR(page_wait, state, OPTIONAL,
	    "Of `selector`: visible (the default), hidden, attached or detached. Of `load` and `url`: load "
	    "(the default), domcontentloaded, networkidle or commit.",
	    .max_len = 100),
	STR(page_wait, url, OPTIONAL,
	    "Of `url`: the address, or a pattern of it, such as **/done*; without a scheme or ** it may begin "
	    "anywhere.",
	    .max_len = URL_CHARS_MAX),
	STR(page_wait, save_path, OPTIONAL,
	    "Of `download`: where to copy the file; it stays in ~/Downloads, too.",
	    .max_len = 4096),
	PAGE_TIMEOUT_FIELD(page_wait),
	STR(page_wait, expression, OPTIONAL, "Of `function`: an expression, or a function.",
	    .max_len = EVALUATE_MAX),
	NUM(page_wait, polling, MIN | MAX,
	    "Of `function`: milliseconds between attempts; when absent or 0, at every frame that is painted.",
	    .min = 0, .max = POLLING_MAX_MS),
	STR(page_wait, url_pattern, OPTIONAL,
	    "Of `response` and `request`: which address, as for `url`.", .max_len = URL_CHARS_MAX),
};
static const struct schema wait_schema = SCHEMA(page_wait, "BrowserWaitRequest", wait_fields);
static const struct field wait_data = {
	.type = T_JSON,
	.help = "Of `selector`: selector, state, element. Of `load`, `url`, `network_idle`: url. Of `download`: "
		"path, url, suggested_filename, size. Of `function`: value. Of `response`: url, method, "
		"resource_type, status, status_text, mime_type; of `request` the first three. Of `timeout`: "
		"waited."
};

static const struct wait_type *type_of(const char *name)
{
	for (size_t i = 0; i < COUNT(types); i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

static bool has(const struct page_wait *request, size_t at)
{
	const char *text = at ? *(const char *const *)((const char *)request + at) : NULL;
	return text && *text;
}

static int check(const struct page_wait *request, const struct wait_type *type, struct err *err)
{
	if (!type->needs || has(request, type->needs) || has(request, type->or_needs))
		return 0;
	return err_set(err, ERR_INVALID, "type '%s' needs '%s'", type->name, type->needed);
}

static int wait_for(struct call *call, const void *in, struct err *err)
{
	struct page_waiting w = { .call = call, .request = in };
	const struct wait_type *type = type_of(w.request->type);
	struct err cause = { 0 };
	if (check(w.request, type, err) < 0 ||
	    page_begin(call, page_timeout_ms(w.request->timeout), &w.page, err) < 0)
		return -1;
	json_t *data = type->fn(&w, &cause);
	return data ? page_reply_json(call, &w.page, data, &cause, err)
		    : page_threw(call, &w.page, w.thrown, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/wait", wait_for, &wait_schema, &wait_data, "Wait for the page",
	  "Waits for one thing, at most `timeout` seconds; success is false when it did not come." },
};
const struct route_group browser_page_wait_group = { "browser_page", "Waiting for the page.",
						     routes, COUNT(routes) };
