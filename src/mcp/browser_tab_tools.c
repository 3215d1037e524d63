/* Tools for the browser's tabs and downloads. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "mcp/browser_tools.h"
#include "mcp/resource.h"

int browser_said(struct tool_use *use, const char *format, ...)
{
	char text[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	tool_text(use, text, strlen(text));
	if (use->hint)
		tool_text(use, use->hint, strlen(use->hint));
	return 0;
}

const char *browser_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* ---- tabs ---- */

struct new_tab_args {
	const char *url;
};
static const struct field new_tab_fields[] = {
	STR(new_tab_args, url, OPTIONAL, "What it is to show; a blank page when absent.",
	    .max_len = 100000),
};
const struct schema new_tab_in = SCHEMA(new_tab_args, "NewTab", new_tab_fields);

int new_tab_tool(struct tool_use *use, const void *in, struct err *err)
{
	const char *url = ((const struct new_tab_args *)in)->url;
	json_t *data = tool_ask(use, "POST /v1/browser/tabs", json_pack("{s:s?}", "url", url), err);
	if (!data)
		return 0;
	if (json_is_null(data))
		browser_said(use, "The address is a download: it needs no tab");
	else
		browser_said(use, "Opened new tab with URL: %.2000s (tab %lld)",
			     url && *url ? url : "about:blank",
			     (long long)json_integer_value(json_object_get(data, "index")));
	json_decref(data);
	return 0;
}

struct switch_tab_args {
	int64_t index;
};
static const struct field switch_tab_fields[] = {
	INT(switch_tab_args, index, REQUIRED, "The tab's index in the list of tabs.",
	    .alias = "tab"),
};
const struct schema switch_tab_in = SCHEMA(switch_tab_args, "SwitchTab", switch_tab_fields);

int switch_tab_tool(struct tool_use *use, const void *in, struct err *err)
{
	int64_t index = ((const struct switch_tab_args *)in)->index;
	json_t *data = tool_ask(use, "PUT /v1/browser/tabs/{index}/activate",
				json_pack("{s:I}", "index", (json_int_t)index), err);
	if (!data)
		return 0;
	browser_said(use, "Switched to tab %lld, %.500s %.2000s", (long long)index,
		     browser_text(data, "title"), browser_text(data, "url"));
	json_decref(data);
	return 0;
}

struct close_tab_args {
	int64_t index;
};
static const struct field close_tab_fields[] = {
	INT(close_tab_args, index, OPTIONAL, "Which one; the current tab when absent.",
	    .alias = "tab"),
};
const struct schema close_tab_in = SCHEMA(close_tab_args, "CloseTab", close_tab_fields);

/* The current tab's index; -1 after tool_failed(). */
static int64_t current_index(struct tool_use *use, struct err *err)
{
	size_t i;
	int64_t index = 0;
	json_t *tab, *tabs = tool_ask(use, "GET /v1/browser/tabs", json_object(), err);
	if (!tabs)
		return -1;
	json_array_foreach(tabs, i, tab)
		if (json_is_true(json_object_get(tab, "active")))
			index = (int64_t)i;
	json_decref(tabs);
	return index;
}

/* 0 with `use` filled in where it failed. */
static int close_one(struct tool_use *use, int64_t index, struct err *err)
{
	json_t *data = tool_ask(use, "DELETE /v1/browser/tabs/{index}",
				json_pack("{s:I}", "index", (json_int_t)index), err);
	json_decref(data);
	return use->failed ? -1 : 0;
}

int close_tab_tool(struct tool_use *use, const void *in, struct err *err)
{
	int64_t index = ((const struct close_tab_args *)in)->index;
	bool current = index == INT_ABSENT;
	if (current)
		index = current_index(use, err);
	if (use->failed || close_one(use, index, err) < 0)
		return 0;
	return browser_said(use, current ? "Closed current tab [%lld]" : "Closed tab [%lld]",
			    (long long)index);
}

/* The browser itself stays: it is closed when idle. */
int close_tabs_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	json_t *tabs = tool_ask(use, "GET /v1/browser/tabs", json_object(), err);
	size_t count = json_array_size(tabs);
	json_decref(tabs);
	for (size_t i = count; i > 0 && !use->failed; i--)
		close_one(use, (int64_t)i - 1, err);
	return use->failed
		       ? 0
		       : browser_said(use, "Closed all pages; a blank tab is left, and the next "
					   "navigation uses it");
}

struct tab_list {
	struct list tabs;
};
struct tab_list_item {
	int64_t index;
	bool active;
	const char *title, *url;
};
static const struct field tab_fields[] = {
	INT(tab_list_item, index, 0, "For switching to it and closing it."),
	BOOL(tab_list_item, active, 0, "Whether the other tools work on this one."),
	STR(tab_list_item, title, 0, "Of its page."),
	STR(tab_list_item, url, 0, "Of its page."),
};
static const struct schema tab_schema = SCHEMA(tab_list_item, "Tab", tab_fields);
static const struct field tab_list_fields[] = {
	NAMED("tabList", LIST, tab_list, tabs, 0, "All tabs, in order.", .item = T_OBJ,
	      .of = &tab_schema),
};
const struct schema tab_list_out = SCHEMA(tab_list, "TabList", tab_list_fields);

int tab_list_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	size_t i;
	json_t *tab, *tabs = tool_ask(use, "GET /v1/browser/tabs", json_object(), err);
	json_t *list = json_array();
	json_array_foreach(tabs, i, tab)
		json_array_append_new(list, json_pack("{s:O,s:O,s:O,s:O}", "index",
						      json_object_get(tab, "index"), "active",
						      json_object_get(tab, "active"), "title",
						      json_object_get(tab, "title"), "url",
						      json_object_get(tab, "url")));
	if (tabs)
		tool_structured(use, json_pack("{s:O}", "tabList", list));
	json_decref(list);
	json_decref(tabs);
	return 0;
}

/* ---- downloads ---- */

struct download_list {
	struct list list;
};
struct download_item {
	const char *guid, *url, *name, *path, *uri, *state;
	double progress;
};
static const struct field download_fields[] = {
	STR(download_item, guid, 0, "Its identifier."),
	STR(download_item, url, 0, "Where it comes from."),
	NAMED("suggestedFilename", STR, download_item, name, 0, "The name of the file."),
	STR(download_item, path, 0, "The file, once it is completed."),
	NAMED("resourceUri", STR, download_item, uri, 0, "The same as a resource."),
	NUM(download_item, progress, NULLABLE, "From 0 to 1; null where the size is not known."),
	STR(download_item, state, 0, "inProgress, completed or canceled."),
};
static const struct schema download_schema = SCHEMA(download_item, "Download", download_fields);
static const struct field download_list_fields[] = {
	LIST(download_list, list, 0, "The newest first.", .item = T_OBJ, .of = &download_schema),
};
const struct schema download_list_out = SCHEMA(download_list, "DownloadList", download_list_fields);

static json_t *progress_of(const json_t *download)
{
	double total = json_number_value(json_object_get(download, "total"));
	double received = json_number_value(json_object_get(download, "received"));
	if (!strcmp(browser_text(download, "state"), "completed"))
		return json_real(1);
	return total > 0 ? json_real(received < total ? received / total : 1) : json_null();
}

static json_t *download_item(struct tool_use *use, const json_t *download)
{
	const char *path = browser_text(download, "path"), *slash = strrchr(path, '/');
	return json_pack("{s:O,s:O,s:s,s:s,s:s,s:o,s:O}", "guid", json_object_get(download, "guid"),
			 "url", json_object_get(download, "url"), "suggestedFilename",
			 slash ? slash + 1 : path, "path", path, "resourceUri",
			 resource_uri(use->arena, path), "progress", progress_of(download), "state",
			 json_object_get(download, "state"));
}

int download_list_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	size_t i;
	json_t *download, *all = tool_ask(use, "GET /v1/browser/downloads", json_object(), err);
	json_t *list = json_array();
	json_array_foreach(all, i, download)
		json_array_append_new(list, download_item(use, download));
	if (all)
		tool_structured(use, json_pack("{s:O}", "list", list));
	json_decref(list);
	json_decref(all);
	return 0;
}
