/* Tools that list what has happened in a page: requests, and what it wrote to its console. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "mcp/browser_tools.h"

enum { LOG_MAX = 1 << 20, URL_SHOWN = 300, TEXT_SHOWN = 2000 };

struct requests_args {
	const char *filter;
	int64_t limit;
};
static const struct field requests_fields[] = {
	STR(requests_args, filter, OPTIONAL,
	    "Only URLs that contain this, or match it if it has wildcards: **/api/*.",
	    .max_len = 2000, .alias = "url_pattern,pattern"),
	INT(requests_args, limit, MIN | MAX, "The latest so many.", .def = "50", .min = 1,
	    .max = 1000),
};
const struct schema requests_in = SCHEMA(requests_args, "NetworkRequests", requests_fields);

/* "GET 200 https://… (document, 1234 bytes, 56 ms)" */
static void put_request(struct buf *text, const json_t *request)
{
	long long status = json_integer_value(json_object_get(request, "status"));
	const char *failure = browser_text(request, "failure");
	buf_printf(text, "%s ", browser_text(request, "method"));
	if (*failure)
		buf_printf(text, "%s", failure);
	else if (status)
		buf_printf(text, "%lld", status);
	else
		buf_str(text, "pending");
	buf_printf(text, " %.*s (%s, %lld bytes", URL_SHOWN, browser_text(request, "url"),
		   browser_text(request, "resource_type"),
		   (long long)json_integer_value(json_object_get(request, "body_size")));
	if (json_is_number(json_object_get(request, "duration_ms")))
		buf_printf(text, ", %.0f ms",
			   json_number_value(json_object_get(request, "duration_ms")));
	buf_str(text, ")\n");
}

int requests_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct requests_args *args = in;
	auto_buf struct buf text = BUF(LOG_MAX);
	size_t i;
	json_t *request, *all = tool_ask(use, "GET /v1/browser/network/requests",
					 json_pack("{s:s*,s:I}", "filter", args->filter, "limit",
						   (json_int_t)args->limit),
					 err);
	if (!all)
		return 0;
	json_array_foreach(all, i, request)
		put_request(&text, request);
	if (!i)
		buf_str(&text, "(no requests)");
	tool_text(use, text.data, text.len);
	json_decref(all);
	return 0;
}

/* ---- the console ---- */

struct console_args {
	bool clear;
	int64_t limit;
};
static const struct field console_fields[] = {
	BOOL(console_args, clear, OPTIONAL, "Forget all of it afterwards.", .def = "false"),
	INT(console_args, limit, MIN | MAX, "The latest so many.", .def = "50", .min = 1,
	    .max = 1000),
};
const struct schema console_in = SCHEMA(console_args, "ConsoleMessages", console_fields);

/* "[error] text (url:line)" */
static void put_message(struct buf *text, const json_t *entry)
{
	const json_t *place = json_object_get(entry, "location"),
		     *line = json_object_get(place, "lineNumber");
	buf_printf(text, "[%s] %.*s", browser_text(entry, "level"), TEXT_SHOWN,
		   browser_text(entry, "text"));
	if (*browser_text(place, "url"))
		buf_printf(text, " (%.*s:%lld)", URL_SHOWN, browser_text(place, "url"),
			   (long long)json_integer_value(line) + 1);
	if (*browser_text(entry, "stack"))
		buf_printf(text, "\n%.*s", TEXT_SHOWN, browser_text(entry, "stack"));
	buf_str(text, "\n");
}

int console_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct console_args *args = in;
	auto_buf struct buf text = BUF(LOG_MAX);
	size_t i;
	json_t *entry, *all = tool_ask(use, "GET /v1/browser/page/console",
				       json_pack("{s:b}", "clear", args->clear), err);
	size_t count = json_array_size(all), most = (size_t)args->limit;
	if (!all)
		return 0;
	if (count > most)
		buf_printf(&text, "[%zu earlier messages are left out]\n", count - most);
	json_array_foreach(all, i, entry)
		if (i + most >= count)
			put_message(&text, entry);
	if (!count)
		buf_str(&text, "(the console is empty)");
	tool_text(use, text.data, text.len);
	json_decref(all);
	return 0;
}
