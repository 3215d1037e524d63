/* The browser's tabs, by their index. */
#include <string.h>

#include "api/browser_lease.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/browser.h"
#include "browser/schemes.h"
#include "browser/tab.h"
#include "net/call.h"

struct tab_info {
	int64_t index;
	const char *url, *title, *id;
	bool active;
};
static const struct field info_fields[] = {
	INT(tab_info, index, 0,
	    "Its place among the tabs, from 0. It changes when tabs before it close."),
	STR(tab_info, url, 0, "What it shows."),
	STR(tab_info, title, 0, "The title of that."),
	BOOL(tab_info, active, 0, "Whether calls without a tab are for this one."),
	STR(tab_info, id, 0, "Its target of the DevTools protocol. It never changes."),
};
static const struct schema info_schema = SCHEMA(tab_info, "BrowserTab", info_fields);
static const struct field info_data = { .type = T_OBJ, .of = &info_schema };
static const struct field list_data = { .type = T_LIST,
					.item = T_OBJ,
					.of = &info_schema,
					.help = "All tabs, in the order of their index." };

struct tab_create {
	const char *url;
};
static const struct field create_fields[] = {
	STR(tab_create, url, OPTIONAL, "What it is to show; a blank page when absent.",
	    .max_len = 100000),
};
static const struct schema create_schema = SCHEMA(tab_create, "CreatePageRequest", create_fields);

struct tab_index {
	int64_t index;
};
static const struct field index_fields[] = {
	INT(tab_index, index, PATH | REQUIRED, "The tab's index.", .example = "0"),
};
static const struct schema index_schema = SCHEMA(tab_index, "TabIndexRequest", index_fields);

/* ---- what there is ---- */

static void give_back(void *tab)
{
	tab_release(tab);
}

static struct tab_info describe(struct call *call, struct tab *tab, size_t index,
				const struct tab *current)
{
	pthread_mutex_lock(&tab->lock);
	struct tab_info info = { .index = (int64_t)index,
				 .url = arena_strdup(call->arena, tab->url),
				 .title = arena_strdup(call->arena, tab->title),
				 .id = arena_strdup(call->arena, tab->target),
				 .active = tab == current };
	pthread_mutex_unlock(&tab->lock);
	return info;
}

/* All tabs, for the time of the call. */
static size_t find_tabs(struct call *call, struct browser *browser, struct tab ***ret)
{
	size_t count = browser_tabs(browser, call->arena, ret);
	for (size_t i = 0; i < count; i++)
		arena_defer(call->arena, give_back, (*ret)[i]);
	return count;
}

static int reply_with(struct call *call, struct browser *browser, const struct tab *wanted,
		      struct err *err)
{
	struct tab **tabs;
	size_t count = find_tabs(call, browser, &tabs), i = 0;
	while (i < count && tabs[i] != wanted)
		i++;
	if (i == count)
		return call_reply(call, NULL, err);
	struct tab_info info = describe(call, tabs[i], i, browser_current(browser));
	return call_reply(call, &info, err);
}

/* NULL with err: there is none of that index. */
static struct tab *find_tab(struct call *call, struct browser *browser, int64_t index,
			    struct err *err)
{
	struct tab **tabs;
	size_t count = find_tabs(call, browser, &tabs);
	if (index >= 0 && (size_t)index < count)
		return tabs[index];
	err_set(err, ERR_NOT_FOUND, "there is no tab %lld: there %s %zu, from 0 to %zu",
		(long long)index, count == 1 ? "is" : "are", count, count ? count - 1 : 0);
	return NULL;
}

/* ---- the routes ---- */

static int list_tabs(struct call *call, const void *in, struct err *err)
{
	struct wait wait;
	struct tab **tabs;
	struct browser *browser = browser_lease(call, &wait, err);
	(void)in;
	if (!browser)
		return -1;
	if (browser_update_titles(browser, &wait, err) < 0)
		return -1;
	size_t count = find_tabs(call, browser, &tabs);
	struct tab_info *items = arena_alloc(call->arena, (count + 1) * sizeof *items);
	for (size_t i = 0; i < count; i++)
		items[i] = describe(call, tabs[i], i, browser_current(browser));
	return call_reply(call, &(struct list){ count, items }, err);
}

/* A download needs no tab. */
static int reply_closed(struct call *call, struct browser *browser, uint64_t *changes,
			struct err *err)
{
	call->message = "The tab has closed again: the address is a download";
	call->hint = browser_news(browser, changes, call->arena);
	return call_reply(call, NULL, err);
}

static int create_tab(struct call *call, const void *in, struct err *err)
{
	const struct tab_create *request = in;
	const char *url = request->url && *request->url ? request->url : "about:blank";
	struct wait wait;
	struct err cause = { 0 };
	struct browser *browser = browser_lease(call, &wait, err);
	if (!browser)
		return -1;
	if (schemes_check(url, &cause) < 0)
		return browser_lease_failed(call, &cause, err);
	uint64_t changes = browser_changes(browser);
	struct tab *tab = browser_new_tab(browser, url, &wait, &cause);
	if (!tab && cause.code == ERR_NOT_FOUND)
		return reply_closed(call, browser, &changes, err);
	if (!tab)
		return browser_lease_failed(call, &cause, err);
	arena_defer(call->arena, give_back, tab);
	return reply_with(call, browser, tab, err);
}

/* Does that to the tab of an index, and answers with it, if there is one then. */
static int change_tab(struct call *call, const struct tab_index *request,
		      int (*change)(struct tab *tab, const struct wait *wait, struct err *err),
		      struct err *err)
{
	struct wait wait;
	struct err cause = { 0 };
	struct browser *browser = browser_lease(call, &wait, err);
	if (!browser)
		return -1;
	struct tab *tab = find_tab(call, browser, request->index, &cause);
	if (!tab || change(tab, &wait, &cause) < 0)
		return browser_lease_failed(call, &cause, err);
	return reply_with(call, browser, tab, err);
}

static int close_tab(struct call *call, const void *in, struct err *err)
{
	return change_tab(call, in, tab_close, err);
}

static int activate_tab(struct call *call, const void *in, struct err *err)
{
	return change_tab(call, in, tab_activate, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/tabs", list_tabs, NULL, &list_data, "List the browser's tabs" },
	{ "POST", "/v1/browser/tabs", create_tab, &create_schema, &info_data, "Open a tab",
	  "Opens a tab, which becomes the active one, and does not wait for its page." },
	{ "DELETE", "/v1/browser/tabs/{index}", close_tab, &index_schema, NULL, "Close a tab",
	  "Closes a tab by its index. After the last one, a blank tab is left." },
	{ "PUT", "/v1/browser/tabs/{index}/activate", activate_tab, &index_schema, &info_data,
	  "Activate a tab", "Brings a tab to the front: further calls are for it." },
};
const struct route_group browser_tabs_group = { "browser", "The browser's tabs.", routes,
						COUNT(routes) };
