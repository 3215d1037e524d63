/* What pages of the current tab have written to their console. */
#include <string.h>

#include "api/file.h"
#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "browser/console.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

enum { EXPORT_MAX = 16 << 20 };

static const struct field location_fields[] = {
	STR(console_place, url, 0, "The script or document; empty where it is not known."),
	NAMED("lineNumber", INT, console_place, line, NULLABLE, "From 0."),
	NAMED("columnNumber", INT, console_place, column, NULLABLE, "From 0."),
};
static const struct schema location_schema =
	SCHEMA(console_place, "BrowserConsoleLocation", location_fields);

static const struct field entry_fields[] = {
	STR(console_entry, type, 0,
	    "What the page called: `log`, `info`, `warning`, `error`, `debug`, `table`, `trace`, `assert` …; "
	    "`exception`, which nobody caught; or the level, of what the browser says."),
	STR(console_entry, level, 0, "`debug`, `log`, `info`, `warning` or `error`."),
	STR(console_entry, source, 0,
	    "`console`, `exception`, or the part of the browser that says it: `network`, `security` …"),
	STR(console_entry, text, 0, "Its arguments as text; the first 10,000 bytes."),
	STR(console_entry, stack, NULLABLE, "Of an exception: where it was thrown."),
	OBJ(console_entry, location, 0, "Where in the page's code.", .of = &location_schema),
	STR(console_entry, timestamp, 0, "When, ISO 8601 in UTC."),
};
static const struct schema entry_schema =
	SCHEMA(console_entry, "BrowserConsoleEntry", entry_fields);
static const struct field list_data = { .type = T_LIST,
					.item = T_OBJ,
					.of = &entry_schema,
					.help = "All that is kept, oldest first." };

struct page_console {
	bool clear;
};
static const struct field console_fields[] = {
	BOOL(page_console, clear, QUERY, "Forget it afterwards.", .def = "false"),
};
static const struct schema console_schema =
	SCHEMA(page_console, "PageConsoleRequest", console_fields);

static int get_console(struct call *call, const void *in, struct err *err)
{
	const struct page_console *request = in;
	struct page_call page;
	struct console_entry *entries;
	uint64_t end;
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	size_t count = console_list(page.tab, call->arena, &entries, &end);
	if (request->clear)
		console_forget(page.tab, end);
	return page_reply(call, &page, &(struct list){ count, entries }, err);
}

/* ---- as a file ---- */

struct console_export {
	const char *save_path;
	bool clear;
};
static const struct field export_fields[] = {
	STR(console_export, save_path, REQUIRED,
	    "The file, which is made or replaced; missing directories are made.", .min_len = 1),
	BOOL(console_export, clear, OPTIONAL, "Forget the console afterwards.", .def = "false"),
};
static const struct schema export_schema =
	SCHEMA(console_export, "ExportConsoleLogsRequest", export_fields);

struct console_exported {
	const char *path;
	int64_t count;
};
static const struct field exported_fields[] = {
	STR(console_exported, path, 0, "The file: a JSON list of what GET returns."),
	INT(console_exported, count, 0, "How many entries it has."),
};
static const struct schema exported_schema =
	SCHEMA(console_exported, "BrowserConsoleExportResult", exported_fields);
static const struct field exported_data = { .type = T_OBJ, .of = &exported_schema };

static int save(struct call *call, const char *path, const struct buf *text, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	const struct save what = { .data = text->data, .len = text->len, .fd = -1 };
	if (file_user_enter(call, false, &view, err) < 0 || place_hold(path, &place, err) < 0 ||
	    save_put(&what, &place, err) < 0)
		return -1;
	journal_add(JOURNAL_FILE_WRITTEN,
		    &(struct journal_file){ path, "write", (int64_t)text->len });
	return 0;
}

static int export_console(struct call *call, const void *in, struct err *err)
{
	const struct console_export *request = in;
	struct page_call page;
	struct err cause = { 0 };
	struct console_entry *entries;
	uint64_t end;
	struct jw jw;
	const char *path = file_path(call, request->save_path, NULL, &cause);
	if (!path)
		return err_set(err, ERR_INVALID, "%s", cause.msg);
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	size_t count = console_list(page.tab, call->arena, &entries, &end);
	jw_init(&jw, EXPORT_MAX);
	desc_encode_value(&list_data, &(struct list){ count, entries }, &jw);
	int result = save(call, path, &jw.out, &cause);
	jw_done(&jw);
	if (result < 0)
		return page_failed(call, &page, &cause, err);
	if (request->clear)
		console_forget(page.tab, end);
	return page_reply(call, &page, &(struct console_exported){ path, (int64_t)count }, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/console", get_console, &console_schema, &list_data,
	  "What the page wrote to its console",
	  "The latest 1,000 messages of the current tab, or 1 MiB of them, over all pages it has shown: what "
	  "they logged, what they threw and nobody caught, and what the browser says of them." },
	{ "POST", "/v1/browser/page/console/export", export_console, &export_schema, &exported_data,
	  "Save the page's console to a file" },
};
const struct route_group browser_page_console_group = { "browser_page", "The page's console.",
							routes, COUNT(routes) };
