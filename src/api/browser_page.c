/* The page in the current tab as a whole: where it goes, and what it holds. */
#include <math.h>
#include <string.h>

#include "api/page_call.h"
#include "api/page_document.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/browser.h"
#include "browser/cdp_params.h"
#include "browser/navigate.h"
#include "browser/tab.h"
#include "net/call.h"

enum { URL_CHARS_MAX = 2000000, DOCUMENT_CHARS_MAX = 16 << 20 };

/* ---- what an answer says of the page ---- */

struct page_document {
	const char *url, *title;
	int64_t status;
	bool download;
};
static const struct field document_fields[] = {
	STR(page_document, url, 0, "What the tab shows now, after redirects."),
	STR(page_document, title, 0, "The title of that."),
	INT(page_document, status, NULLABLE,
	    "The HTTP status of its response, also one of an error such as 404; null where there was no HTTP."),
	BOOL(page_document, download, 0,
	     "Whether the address is a download: then the tab shows what it did before. Wait for it with "
	     "`type: download`."),
};
static const struct schema document_schema =
	SCHEMA(page_document, "BrowserPageResult", document_fields);
static const struct field document_data = { .type = T_OBJ, .of = &document_schema };

/* What the tab itself knows, for a page that does not answer. */
static struct page_document known(struct call *call, struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	struct page_document document = { .url = arena_strdup(call->arena, tab->url),
					  .title = arena_strdup(call->arena, tab->title),
					  .status = INT_ABSENT };
	pthread_mutex_unlock(&tab->lock);
	return document;
}

static int reply_document(struct call *call, struct page_call *page, bool download, struct err *err)
{
	struct page_document document = known(call, page->tab);
	json_t *facts = frame_js(page->tab, NULL, "document_facts", NULL, &page->wait, NULL);
	if (facts) {
		const char *url = cdp_text(facts, "url");
		if (strncmp(url, "chrome-error:", 13) != 0) /* else it is known what failed */
			document.url = arena_strdup(call->arena, url);
		document.title = arena_strdup(call->arena, cdp_text(facts, "title"));
		document.status = cdp_int(facts, "status") > 0 ? cdp_int(facts, "status")
							       : INT_ABSENT;
	}
	json_decref(facts);
	document.download = download;
	return page_reply(call, page, &document, err);
}

/* ---- going ---- */

static const char *const reached_names[] = { "load", "domcontentloaded", "networkidle", "commit",
					     NULL };

unsigned page_reached(const char *name)
{
	static const unsigned reached[] = { TAB_LOAD, TAB_DOM, TAB_IDLE, TAB_COMMIT };
	for (size_t i = 0; name && reached_names[i]; i++)
		if (!strcmp(name, reached_names[i]))
			return reached[i];
	return 0;
}

struct page_navigate {
	const char *url, *wait_until;
	double timeout;
};
static const struct field navigate_fields[] = {
	STR(page_navigate, url, REQUIRED,
	    "Where to, with its scheme: https://…, http://…, file://…, data:…, about:blank.",
	    .min_len = 1, .max_len = URL_CHARS_MAX, .example = "\"http://localhost:3000/\""),
	ENUM(page_navigate, wait_until, OPTIONAL,
	     "What to wait for: `load`, all of the page; `domcontentloaded`, its document; `networkidle`, no "
	     "request for half a second; `commit`, the response has begun.",
	     .def = "load", .choices = reached_names),
	PAGE_TIMEOUT_FIELD(page_navigate),
};
static const struct schema navigate_schema =
	SCHEMA(page_navigate, "NavigateRequest", navigate_fields);

static int navigate(struct call *call, const void *in, struct err *err)
{
	const struct page_navigate *request = in;
	struct page_call page;
	struct err cause = { 0 };
	bool download = false;
	if (page_begin(call, page_timeout_ms(request->timeout), &page, err) < 0)
		return -1;
	if (navigate_to(page.tab, request->url, page_reached(request->wait_until), &download,
			&page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	if (download)
		call->message = "The address is a download; the tab shows what it did before";
	return reply_document(call, &page, download, err);
}

struct page_again {
	const char *wait_until;
	double timeout;
};
static const struct field again_fields[] = {
	ENUM(page_again, wait_until, OPTIONAL, "What to wait for, as for navigate.", .def = "load",
	     .choices = reached_names),
	PAGE_TIMEOUT_FIELD(page_again),
};
static const struct schema again_schema = SCHEMA(page_again, "PageMoveRequest", again_fields);

/* by: of the history; 0 reloads. */
static int move(struct call *call, const struct page_again *request, int by, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	unsigned reached = page_reached(request->wait_until);
	if (page_begin(call, page_timeout_ms(request->timeout), &page, err) < 0)
		return -1;
	if ((by ? navigate_history(page.tab, by, reached, &page.wait, &cause)
		: navigate_reload(page.tab, reached, &page.wait, &cause)) < 0)
		return page_failed(call, &page, &cause, err);
	return reply_document(call, &page, false, err);
}

static int go_back(struct call *call, const void *in, struct err *err)
{
	return move(call, in, -1, err);
}

static int go_forward(struct call *call, const void *in, struct err *err)
{
	return move(call, in, 1, err);
}

static int reload(struct call *call, const void *in, struct err *err)
{
	return move(call, in, 0, err);
}

/* ---- what it holds ---- */

struct page_html {
	bool outer;
};
static const struct field html_fields[] = {
	BOOL(page_html, outer, QUERY,
	     "The whole document, with its doctype and <html> itself; otherwise what is in <html>.",
	     .def = "false"),
};
static const struct schema html_schema = SCHEMA(page_html, "PageHtmlRequest", html_fields);
static const struct field html_data = { .type = T_STR, .help = "The page's HTML, as it is now." };
static const struct field text_data = { .type = T_STR,
					.help = "What a reader of the page sees, as text." };

static int reply_text(struct call *call, const char *function, json_t *args, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, INT_ABSENT, &page, err) < 0) {
		json_decref(args);
		return -1;
	}
	json_t *value = frame_js(page.tab, NULL, function, args, &page.wait, &cause);
	const char *text = json_string_value(value);
	int result = value ? page_reply(call, &page, &text, err)
			   : page_failed(call, &page, &cause, err);
	json_decref(value);
	return result;
}

static int get_html(struct call *call, const void *in, struct err *err)
{
	const struct page_html *request = in;
	return reply_text(call, "document_html",
			  json_pack("{s:b, s:i}", "outer", request->outer, "most",
				    DOCUMENT_CHARS_MAX),
			  err);
}

static int get_text(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return reply_text(call, "document_text", json_pack("{s:i}", "most", DOCUMENT_CHARS_MAX),
			  err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/navigate", navigate, &navigate_schema, &document_data,
	  "Show another page",
	  "Has the current tab show an address, and waits for that. Pages that answer with an HTTP error "
	  "are shown, too: see `status`. What cannot be shown at all has success false, and why." },
	{ "POST", "/v1/browser/page/back", go_back, &again_schema, &document_data,
	  "Go back in the tab's history" },
	{ "POST", "/v1/browser/page/forward", go_forward, &again_schema, &document_data,
	  "Go forward in the tab's history" },
	{ "POST", "/v1/browser/page/reload", reload, &again_schema, &document_data,
	  "Load the page again" },
	{ "GET", "/v1/browser/page/html", get_html, &html_schema, &html_data, "The page's HTML" },
	{ "GET", "/v1/browser/page/text", get_text, NULL, &text_data, "The page's visible text" },
};
const struct route_group browser_page_group = { "browser_page", "The page in the current tab.",
						routes, COUNT(routes) };
