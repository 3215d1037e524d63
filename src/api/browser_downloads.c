/* What the browser has downloaded, and is downloading. */
#include "api/browser_lease.h"
#include "api/routes.h"
#include "base/arena.h"
#include "browser/browser.h"
#include "net/call.h"

struct download_query {
	int64_t limit;
};
static const struct field query_fields[] = {
	INT(download_query, limit, QUERY | MIN | MAX, "The latest so many; 100 are kept.",
	    .def = "100", .min = 1, .max = 100),
};
static const struct schema query_schema = SCHEMA(download_query, "DownloadsQuery", query_fields);

struct download_info {
	const char *guid, *url, *path, *state;
	int64_t received, total;
};
static const struct field info_fields[] = {
	STR(download_info, guid, 0, "Of the DevTools protocol. It never changes."),
	STR(download_info, url, 0, "Where it comes from."),
	STR(download_info, path, 0, "The file; it has this name once the download is completed."),
	STR(download_info, state, 0, "`inProgress`, `completed` or `canceled`."),
	INT(download_info, received, 0, "Bytes so far."),
	INT(download_info, total, NULLABLE, "Bytes in all; null where that is not known."),
};
static const struct schema info_schema = SCHEMA(download_info, "BrowserDownload", info_fields);
static const struct field list_data = {
	.type = T_LIST,
	.item = T_OBJ,
	.of = &info_schema,
	.help = "Downloads since the browser was started, the newest "
		"first."
};

static int list_downloads(struct call *call, const void *in, struct err *err)
{
	static const char *const states[] = { "inProgress", "completed", "canceled" };
	struct wait wait;
	struct download *all;
	struct browser *browser = browser_lease(call, &wait, err);
	if (!browser)
		return -1;
	size_t count = browser_list_downloads(browser,
					      (size_t)((const struct download_query *)in)->limit,
					      call->arena, &all);
	struct download_info *items = arena_alloc(call->arena, (count + 1) * sizeof *items);
	for (size_t i = 0; i < count; i++)
		items[i] = (struct download_info){
			all[i].guid,     all[i].url,
			all[i].path,     states[all[i].state],
			all[i].received, all[i].total ? all[i].total : INT_ABSENT
		};
	return call_reply(call, &(struct list){ count, items }, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/downloads", list_downloads, &query_schema, &list_data,
	  "List the browser's downloads", "Files go to ~/Downloads of the sandbox user." },
};
const struct route_group browser_downloads_group = { "browser", "What the browser has downloaded.",
						     routes, COUNT(routes) };
