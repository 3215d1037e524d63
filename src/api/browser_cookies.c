/* The browser's cookies, and its state in a file. */
#include <string.h>

#include "api/browser_lease.h"
#include "api/file.h"
#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "browser/cookies.h"
#include "browser/storage.h"
#include "browser/tab.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/regular.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

struct cookie_query {
	const char *urls;
};
static const struct field query_fields[] = {
	STR(cookie_query, urls, QUERY,
	    "Only cookies that requests to one of these URLs would have; separated by commas.",
	    .alias = "url", .max_len = 16384),
};
static const struct schema query_schema = SCHEMA(cookie_query, "CookieQuery", query_fields);

struct cookie_set {
	struct list cookies;
};
static const struct field set_fields[] = {
	LIST(cookie_set, cookies, REQUIRED,
	     "Objects with name, value, and url or domain and path; also expires (seconds since "
	     "1970), httpOnly, secure and sameSite (Strict, Lax or None). One without url and "
	     "domain is for the current page.",
	     .item = T_JSON, .max_len = COOKIES_MAX),
};
static const struct schema set_schema = SCHEMA(cookie_set, "CookieSetRequest", set_fields);
static const struct field list_data = {
	.type = T_LIST,
	.item = T_JSON,
	.help = "The cookies: name, value, domain, path, expires "
		"(-1: with the session), httpOnly, secure, sameSite."
};

/* A URL may have commas, too: what has no scheme belongs to the one before. */
static struct list split_urls(struct call *call, const char *text)
{
	const char **items = arena_alloc(call->arena, COOKIE_URLS_MAX * sizeof *items);
	struct list list = { 0, items };
	char *rest = arena_strdup(call->arena, text ? text : ""), *next;
	for (char *url = rest; url && *url && list.count < COOKIE_URLS_MAX; url = next) {
		for (next = strchr(url, ','); next; next = strchr(next + 1, ',')) {
			const char *scheme = next + 1 + strspn(next + 1, " ");
			if (!*scheme || !strncasecmp(scheme, "http", 4))
				break;
		}
		if (next)
			*next++ = 0;
		items[list.count++] = url + strspn(url, " ");
	}
	return list;
}

static void give_back(void *json)
{
	json_decref(json);
}

static int get_cookies(struct call *call, const void *in, struct err *err)
{
	struct list urls = split_urls(call, ((const struct cookie_query *)in)->urls);
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	json_t *cookies = cookies_get(page.browser, &urls, &page.wait, &cause), *one;
	if (!cookies)
		return page_failed(call, &page, &cause, err);
	arena_defer(call->arena, give_back, cookies);
	json_t **items =
		arena_alloc(call->arena, (json_array_size(cookies) + 1) * sizeof(json_t *));
	size_t i;
	json_array_foreach(cookies, i, one)
		items[i] = one;
	return page_reply(call, &page, &(struct list){ i, items }, err);
}

static int set_cookies(struct call *call, const void *in, struct err *err)
{
	const struct cookie_set *request = in;
	json_t *const *items = request->cookies.items;
	json_t *list = json_array();
	struct page_call page;
	struct err cause = { 0 };
	arena_defer(call->arena, give_back, list);
	for (size_t i = 0; i < request->cookies.count; i++)
		json_array_append(list, items[i]);
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	pthread_mutex_lock(&page.tab->lock);
	const char *url = arena_strdup(call->arena, page.tab->url);
	pthread_mutex_unlock(&page.tab->lock);
	if (cookies_set(page.browser, list, url, &page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

static int clear_cookies(struct call *call, const void *in, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	(void)in;
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	if (cookies_clear(page.browser, &page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

/* ---- the state ---- */

struct state_file {
	const char *path;
};
static const struct field save_fields[] = {
	STR(state_file, path, REQUIRED, "The file to write; a relative one is in the workspace.",
	    .min_len = 1, .alias = "file"),
};
static const struct schema save_schema = SCHEMA(state_file, "StateSaveRequest", save_fields);
static const struct field load_fields[] = {
	STR(state_file, path, REQUIRED, "The file to read; a relative one is in the workspace.",
	    .min_len = 1, .alias = "file"),
};
static const struct schema load_schema = SCHEMA(state_file, "StateLoadRequest", load_fields);

struct state_result {
	const char *path;
	int64_t cookies, origins;
};
static const struct field result_fields[] = {
	STR(state_result, path, 0, "Path of the file."),
	INT(state_result, cookies, 0, "How many cookies it holds."),
	INT(state_result, origins, 0, "How many origins it holds local storage of."),
};
static const struct schema result_schema = SCHEMA(state_result, "BrowserState", result_fields);
static const struct field result_data = { .type = T_OBJ, .of = &result_schema };

static struct state_result summary(const char *path, const json_t *state)
{
	return (struct state_result){ path,
				      (int64_t)json_array_size(json_object_get(state, "cookies")),
				      (int64_t)json_array_size(json_object_get(state, "origins")) };
}

/* Its user's alone: whoever has the cookies is logged in. */
static int write_state(struct call *call, const char *path, const char *text, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	const struct save save = { .data = text, .len = strlen(text), .fd = -1, .mode = 0600 };
	if (file_user_enter(call, false, &view, err) < 0 || place_hold(path, &place, err) < 0)
		return -1;
	return save_put(&save, &place, err);
}

static json_t *read_state(struct call *call, const char *path, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_buf struct buf text = BUF(STATE_MAX);
	if (file_user_enter(call, false, &view, err) < 0)
		return NULL;
	auto_close int fd = regular_open(path, NULL, err);
	if (fd < 0 || regular_read(fd, &text, err) < 0)
		return NULL;
	return text.len ? json_parse(text.data, text.len, err)
			: (err_set(err, ERR_BAD_REQUEST, "the file '%s' is empty", path), NULL);
}

/* What is wrong with the file is not wrong with the request. */
static int failed(struct call *call, struct page_call *page, const char *what, struct err *cause,
		  struct err *err)
{
	char reason[sizeof cause->msg];
	memcpy(reason, cause->msg, sizeof reason);
	if (cause->code == ERR_INVALID)
		cause->code = ERR_CONFLICT;
	err_set(cause, cause->code >= ERR_BAD_REQUEST ? cause->code : ERR_CONFLICT, "%s: %s", what,
		reason);
	return page_failed(call, page, cause, err);
}

static int save_state(struct call *call, const void *in, struct err *err)
{
	const char *path = file_path(call, ((const struct state_file *)in)->path, NULL, err);
	struct page_call page;
	struct err cause = { 0 };
	if (!path || page_begin(call, 0, &page, err) < 0)
		return -1;
	json_t *state = storage_save(page.browser, &page.wait, &cause);
	if (!state)
		return page_failed(call, &page, &cause, err);
	arena_defer(call->arena, give_back, state);
	auto_free char *text = json_dumps(state, JSON_INDENT(2));
	if (!text || write_state(call, path, text, &cause) < 0)
		return failed(call, &page, "the state was not saved", &cause, err);
	journal_add(JOURNAL_FILE_WRITTEN,
		    &(struct journal_file){ path, "write", (int64_t)strlen(text) });
	struct state_result result = summary(path, state);
	return page_reply(call, &page, &result, err);
}

static int load_state(struct call *call, const void *in, struct err *err)
{
	const char *path = file_path(call, ((const struct state_file *)in)->path, NULL, err);
	struct page_call page;
	struct err cause = { 0 };
	if (!path || page_begin(call, 0, &page, err) < 0)
		return -1;
	json_t *state = read_state(call, path, &cause);
	if (state)
		arena_defer(call->arena, give_back, state);
	if (!state || storage_load(page.browser, state, &page.wait, &cause) < 0)
		return failed(call, &page, "the state was not loaded", &cause, err);
	struct state_result result = summary(path, state);
	return page_reply(call, &page, &result, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/cookies", get_cookies, &query_schema, &list_data, "Get cookies" },
	{ "POST", "/v1/browser/cookies", set_cookies, &set_schema, NULL, "Set cookies",
	  "Sets all of them or none." },
	{ "DELETE", "/v1/browser/cookies", clear_cookies, NULL, NULL, "Clear cookies",
	  "Removes all cookies of the browser." },
	{ "POST", "/v1/browser/state/save", save_state, &save_schema, &result_data,
	  "Save the browser's state",
	  "Writes cookies and the local storage of the origins that were visited since the server "
	  "began to a file that only the user may read, as Playwright's storage state." },
	{ "POST", "/v1/browser/state/load", load_state, &load_schema, &result_data,
	  "Load the browser's state",
	  "Sets the cookies of a saved state, and makes local storage of its origins what it was." },
};
const struct route_group browser_cookies_group = { "browser", "The browser's cookies and state.",
						   routes, COUNT(routes) };
