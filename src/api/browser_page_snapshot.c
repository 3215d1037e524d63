/* The page as assistive technology has it. */
#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/snapshot.h"
#include "browser/tab.h"
#include "net/call.h"

enum { SELECTOR_MAX = 10000 };

struct page_snapshot_query {
	const char *selector;
};
static const struct field query_fields[] = {
	STR(page_snapshot_query, selector, QUERY, "Only this element; the first that matches.",
	    .max_len = SELECTOR_MAX),
};
static const struct schema query_schema =
	SCHEMA(page_snapshot_query, "PageSnapshotQuery", query_fields);

struct page_snapshot {
	const char *url, *title, *snapshot;
	bool truncated;
};
static const struct field snapshot_fields[] = {
	STR(page_snapshot, url, 0, "The page's URL."),
	STR(page_snapshot, title, 0, "The page's title."),
	STR(page_snapshot, snapshot, 0,
	    "A tree as lines of YAML, such as `- button \"Save\" [ref=e7]`. A ref is good as a selector, "
	    "`aria-ref=e7`, for as long as the page has the element; in a frame it begins as f1e7 does."),
	BOOL(page_snapshot, truncated, 0, "Whether the page has more than this."),
};
static const struct schema snapshot_schema = SCHEMA(page_snapshot, "PageSnapshot", snapshot_fields);
static const struct field snapshot_data = { .type = T_OBJ, .of = &snapshot_schema };

static void add_url(struct call *call, struct tab *tab, struct page_snapshot *ret)
{
	pthread_mutex_lock(&tab->lock);
	ret->url = arena_strdup(call->arena, tab->url);
	pthread_mutex_unlock(&tab->lock);
}

static int take_snapshot(struct call *call, const void *in, struct err *err)
{
	const struct page_snapshot_query *request = in;
	const char *selector = request->selector && *request->selector ? request->selector : NULL;
	struct ax_tree shot = { .text = BUF(SNAPSHOT_MAX) };
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	int done = snapshot_page(page.tab, selector, &shot, &page.wait, &cause);
	struct page_snapshot data = {
		.snapshot = arena_strndup(call->arena, shot.text.data ? shot.text.data : "",
					  shot.text.len),
		.title = arena_strdup(call->arena, shot.title ? shot.title : ""),
		.truncated = shot.cut,
	};
	buf_done(&shot.text);
	free(shot.title);
	if (done < 0)
		return page_failed(call, &page, &cause, err);
	add_url(call, page.tab, &data);
	return page_reply(call, &page, &data, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/snapshot", take_snapshot, &query_schema, &snapshot_data,
	  "Take an accessibility snapshot of the page",
	  "Roles, names, states and texts of what the active tab shows, its frames included: less than "
	  "the HTML, and better than a picture to act upon." },
};
const struct route_group browser_page_snapshot_group = { "browser", "The page as a tree.", routes,
							 COUNT(routes) };
