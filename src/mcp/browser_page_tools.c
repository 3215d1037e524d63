/* Tools that go to a page, read it and run code in it. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "mcp/bridge.h"
#include "mcp/browser_tools.h"

enum {
	URL_SHOWN = 2000,
	TITLE_SHOWN = 300,
	MATCHES_SHOWN = 50,
	CONTEXT_SHOWN = 300,
	TEXT_CHARS = 30000,
	TEXT_CHARS_MAX = 1000000
};

/* ---- going ---- */

static const char *const moments[] = { "load", "domcontentloaded", "networkidle", "commit", NULL };

struct navigate_args {
	const char *url, *wait_until;
	double timeout;
};
static const struct field navigate_fields[] = {
	STR(navigate_args, url, REQUIRED,
	    "Where to: https://…, http://localhost:3000/, file:///home/…; https:// is put before an address "
	    "without a scheme, http:// before one of this machine.",
	    .min_len = 1, .max_len = 2000000, .alias = "uri,href"),
	ENUM(navigate_args, wait_until, OPTIONAL,
	     "What to wait for: load, all of the page; domcontentloaded, its document; networkidle, half a "
	     "second without requests; commit, the first bytes.",
	     .def = "load", .choices = moments, .alias = "waitUntil"),
	NUM(navigate_args, timeout, MIN | MAX, "Seconds it may take.", .def = "30", .min = 0,
	    .max = 600),
};
const struct schema navigate_in = SCHEMA(navigate_args, "Navigate", navigate_fields);

/* "localhost:3000" and "example.com:8080" have a port there, not a scheme. */
static bool has_scheme(const char *url)
{
	size_t n = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
	return n && isalpha((unsigned char)*url) && url[n] == ':' &&
	       !isdigit((unsigned char)url[n + 1]);
}

static bool is_of_this_machine(const char *url)
{
	return !strncmp(url, "localhost", 9) || !strncmp(url, "127.", 4) || *url == '[';
}

static const char *complete(struct tool_use *use, const char *url)
{
	url += strspn(url, " \t\n");
	if (has_scheme(url))
		return url;
	return *url == '/' ? arena_printf(use->arena, "file://%s", url)
			   : arena_printf(use->arena, "%s://%s",
					  is_of_this_machine(url) ? "http" : "https", url);
}

/* "Navigated to URL", the title, and a status that is not as it should be. */
static void put_document(struct tool_use *use, const char *did, const json_t *data)
{
	int status = (int)json_integer_value(json_object_get(data, "status"));
	const char *title = browser_text(data, "title");
	char *refused = status >= 400 ? arena_printf(use->arena, "\nHTTP status: %d", status)
				      : NULL;
	browser_said(use, "%s %.*s%s%.*s%s%s", did, URL_SHOWN, browser_text(data, "url"),
		     *title ? "\nTitle: " : "", TITLE_SHOWN, title, refused ? refused : "",
		     json_is_true(json_object_get(data, "download"))
			     ? "\nIt is a download; the tab shows what it did before."
			     : "");
}

int navigate_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct navigate_args *request = in;
	json_t *data =
		tool_ask(use, "POST /v1/browser/page/navigate",
			 json_pack("{s:s,s:s,s:f}", "url", complete(use, request->url),
				   "wait_until", request->wait_until, "timeout", request->timeout),
			 err);
	if (!data)
		return 0;
	put_document(use, "Navigated to", data);
	json_decref(data);
	browser_put_elements(use, err);
	return 0;
}

static int move(struct tool_use *use, const char *route, const char *did, struct err *err)
{
	json_t *data = tool_ask(use, route, json_object(), err);
	if (data)
		put_document(use, did, data);
	json_decref(data);
	return 0;
}

int go_back_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	return move(use, "POST /v1/browser/page/back", "Navigated back to", err);
}

int go_forward_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	return move(use, "POST /v1/browser/page/forward", "Navigated forward to", err);
}

int reload_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	return move(use, "POST /v1/browser/page/reload", "Reloaded", err);
}

/* ---- reading ---- */

struct read_args {
	int64_t offset, max_length;
};
static const struct field part_fields[] = {
	INT(read_args, offset, MIN, "Character to begin at, for the rest of a long page.",
	    .def = "0", .min = 0),
	INT(read_args, max_length, MIN | MAX, "Characters at most.", .def = "30000", .min = 1,
	    .max = TEXT_CHARS_MAX, .alias = "maxLength,limit"),
};
const struct schema page_part_in = SCHEMA(read_args, "PagePart", part_fields);

/* Where the character of that number begins, or the end. */
static size_t at_character(const char *text, size_t len, int64_t number)
{
	size_t at = 0;
	for (; at < len && number > 0; number--)
		do
			at++;
		while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80);
	return at;
}

static size_t characters(const char *text, size_t len)
{
	size_t count = 0;
	for (size_t i = 0; i < len; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* Some of a text, and how to get the rest. */
void browser_put_part(struct tool_use *use, const char *text, size_t len, int64_t offset,
		      int64_t most)
{
	size_t from = at_character(text, len, offset);
	size_t n = at_character(text + from, len - from, most), rest = len - from - n;
	if (!len)
		tool_text(use, "(the page has no text)", 22);
	else
		tool_text(use, text + from, n);
	if (rest)
		browser_said(use,
			     "[%zu more characters: call again with offset %lld, or with a larger "
			     "max_length]",
			     characters(text + from + n, rest),
			     (long long)offset + (long long)most);
	else if (use->hint)
		tool_text(use, use->hint, strlen(use->hint));
}

static int read_page(struct tool_use *use, const char *route, const char *member,
		     const struct read_args *part, struct err *err)
{
	json_t *data = tool_ask(use, route, json_object(), err);
	const json_t *text = member ? json_object_get(data, member) : data;
	if (data)
		browser_put_part(use, json_string_value(text) ? json_string_value(text) : "",
				 json_string_length(text), part->offset, part->max_length);
	json_decref(data);
	return 0;
}

int get_text_tool(struct tool_use *use, const void *in, struct err *err)
{
	return read_page(use, "GET /v1/browser/page/text", NULL, in, err);
}

int get_html_tool(struct tool_use *use, const void *in, struct err *err)
{
	return read_page(use, "GET /v1/browser/page/html", NULL, in, err);
}

int get_markdown_tool(struct tool_use *use, const void *in, struct err *err)
{
	return read_page(use, "GET /v1/browser/page/markdown", "markdown", in, err);
}

static const char *const formats[] = { "markdown", "text", "html", NULL };
#define PART(s)                                                                                 \
	{ .name = "offset",                                                                     \
	  .type = T_INT,                                                                        \
	  .at = offsetof(struct s, part.offset),                                                \
	  .flags = MIN,                                                                         \
	  .help = "Character to begin at.",                                                     \
	  .def = "0",                                                                           \
	  .min = 0 },                                                                           \
	{                                                                                       \
		.name = "max_length", .type = T_INT, .at = offsetof(struct s, part.max_length), \
		.flags = MIN | MAX, .help = "Characters at most.", .def = "30000", .min = 1,    \
		.max = TEXT_CHARS_MAX                                                           \
	}
struct extract_args {
	struct read_args part; /* first */
	const char *selector, *format;
};
static const struct field extract_fields[] = {
	STR(extract_args, selector, OPTIONAL,
	    "CSS selector of the elements to read; the whole page when absent.", .max_len = 10000),
	ENUM(extract_args, format, OPTIONAL, "How to read it; of elements, markdown is their text.",
	     .def = "markdown", .choices = formats, .alias = "type"),
	PART(extract_args),
};
const struct schema extract_in = SCHEMA(extract_args, "Extract", extract_fields);

/* A string as a literal of JavaScript, in the arena. */
static const char *literal(struct tool_use *use, const char *text)
{
	struct jw jw;
	jw_init(&jw, 1 << 20);
	jw_str(&jw, text);
	const char *copy = arena_strdup(use->arena, jw_failed(&jw) ? "\"\"" : jw.out.data);
	jw_done(&jw);
	return copy;
}

static json_t *evaluate(struct tool_use *use, const char *script, struct err *err)
{
	return tool_ask(use, "POST /v1/browser/page/evaluate",
			json_pack("{s:s}", "expression", script), err);
}

static int extract_elements(struct tool_use *use, const struct extract_args *request,
			    struct err *err)
{
	bool html = !strcmp(request->format, "html");
	const char *script =
		arena_printf(use->arena,
			     "(() => { const found = [...document.querySelectorAll(%s)];"
			     " return found.length ? found.map((e) => %s).join('\\n') : null })()",
			     literal(use, request->selector),
			     html ? "e.outerHTML" : "e.innerText ?? e.textContent");
	json_t *data = evaluate(use, script, err);
	if (json_is_null(data))
		tool_failed(use, "no element matches '%.500s'", request->selector);
	else if (data)
		browser_put_part(use, json_string_value(data) ? json_string_value(data) : "",
				 json_string_length(data), request->part.offset,
				 request->part.max_length);
	json_decref(data);
	return 0;
}

int extract_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct extract_args *request = in;
	if (request->selector && *request->selector)
		return extract_elements(use, request, err);
	if (*request->format == 'm')
		return get_markdown_tool(use, &request->part, err);
	return *request->format == 't' ? get_text_tool(use, &request->part, err)
				       : get_html_tool(use, &request->part, err);
}

/* The tree of a page, or of an element. */
struct snapshot_args {
	struct read_args part; /* first */
	const char *selector;
};
static const struct field snapshot_fields[] = {
	STR(snapshot_args, selector, OPTIONAL, "Only this element; the page when absent.",
	    .max_len = 10000),
	PART(snapshot_args),
};
const struct schema snapshot_in = SCHEMA(snapshot_args, "Snapshot", snapshot_fields);

int snapshot_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct snapshot_args *request = in;
	json_t *data = tool_ask(use, "GET /v1/browser/page/snapshot",
				json_pack("{s:s*}", "selector", request->selector), err);
	if (!data)
		return 0;
	const char *text = arena_printf(use->arena, "%s\n%s\n\n%s", browser_text(data, "title"),
					browser_text(data, "url"), browser_text(data, "snapshot"));
	browser_put_part(use, text, strlen(text), request->part.offset, request->part.max_length);
	json_decref(data);
	return 0;
}

struct find_text_args {
	const char *keyword;
};
static const struct field find_text_fields[] = {
	STR(find_text_args, keyword, REQUIRED, "What to look for, in capitals or not.",
	    .max_len = 10000, .alias = "text,query"),
};
const struct schema find_text_in = SCHEMA(find_text_args, "FindText", find_text_fields);

static void put_matches(struct tool_use *use, const char *keyword, const json_t *matches)
{
	auto_buf struct buf text = BUF(1 << 20);
	size_t i, count = json_array_size(matches);
	json_t *match;
	buf_printf(&text, "'%.200s' is on the page %zu time%s", keyword, count,
		   count == 1 ? "" : "s");
	json_array_foreach(matches, i, match) {
		if (i == MATCHES_SHOWN)
			break;
		buf_printf(&text, "\n<%s> at (%lld, %lld)%s: %.*s", browser_text(match, "element"),
			   (long long)json_integer_value(json_object_get(match, "x")),
			   (long long)json_integer_value(json_object_get(match, "y")),
			   json_is_true(json_object_get(match, "in_viewport")) ? ""
									       : ", out of view",
			   CONTEXT_SHOWN, browser_text(match, "context"));
	}
	if (count > MATCHES_SHOWN)
		buf_printf(&text, "\n… and %zu more", count - MATCHES_SHOWN);
	tool_text(use, text.data, text.len);
}

int find_text_tool(struct tool_use *use, const void *in, struct err *err)
{
	const char *keyword = ((const struct find_text_args *)in)->keyword;
	json_t *data = tool_ask(use, "POST /v1/browser/page/find_text",
				json_pack("{s:s}", "keyword", keyword), err);
	if (data)
		put_matches(use, keyword, data);
	json_decref(data);
	return 0;
}

/* ---- paper ---- */

struct pdf_args {
	const char *path;
};
static const struct field pdf_fields[] = {
	STR(pdf_args, path, OPTIONAL, "The file to write; relative ones are in the workspace.",
	    .def = "page.pdf", .alias = "file,filename,save_path", .max_len = 4096),
};
const struct schema pdf_in = SCHEMA(pdf_args, "PdfSave", pdf_fields);

static int save(struct tool_use *use, json_t *path, const struct buf *file, struct err *err)
{
	auto_buf struct buf coded = BUF(file->len / 3 * 4 + 8);
	base64_encode(&coded, file->data, file->len);
	json_t *data = tool_ask(use, "POST /v1/file/write",
				json_pack("{s:O,s:s,s:s}", "file", path, "content",
					  coded.data ? coded.data : "", "encoding", "base64"),
				err);
	json_decref(data);
	return data ? 0 : -1;
}

int pdf_tool(struct tool_use *use, const void *in, struct err *err)
{
	json_t *none = json_object();
	json_t *path = tool_path(use, ((const struct pdf_args *)in)->path);
	struct bridge_answer answer;
	if (tool_file(use, "GET /v1/browser/page/pdf", none, "application/pdf", &answer, err) ==
	    0) {
		if (save(use, path, &answer.body, err) == 0)
			browser_said(use, "Saved the page to %.3000s (%zu bytes)",
				     json_string_value(path), answer.body.len);
		buf_done(&answer.body);
	}
	json_decref(path);
	json_decref(none);
	return 0;
}

/* ---- links ---- */

struct link_list {
	struct list links;
};
struct link_item {
	const char *text, *href;
};
static const struct field link_fields[] = {
	STR(link_item, text, 0, "What is written there."),
	STR(link_item, href, 0, "Where it leads."),
};
static const struct schema link_schema = SCHEMA(link_item, "Link", link_fields);
static const struct field link_list_fields[] = {
	LIST(link_list, links, 0, "The first 500 links, in the order of the page.", .item = T_OBJ,
	     .of = &link_schema),
};
const struct schema link_list_out = SCHEMA(link_list, "LinkList", link_list_fields);

int read_links_tool(struct tool_use *use, const void *in, struct err *err)
{
	static const char script[] =
		"[...document.querySelectorAll('a[href], area[href]')].slice(0, 500).map((a) => ({"
		"text: String(a.innerText ?? a.alt ?? a.textContent).replace(/\\s+/g, ' ').trim().slice(0, 200),"
		"href: String(a.href.baseVal ?? a.href).slice(0, 2000)}))";
	(void)in;
	json_t *data = evaluate(use, script, err);
	if (data)
		tool_structured(use,
				json_pack("{s:o}", "links",
					  json_is_array(data) ? json_incref(data) : json_array()));
	json_decref(data);
	return 0;
}

/* ---- code ---- */

struct evaluate_args {
	const char *script;
};
static const struct field evaluate_fields[] = {
	STR(evaluate_args, script, REQUIRED,
	    "An expression such as document.title, statements, or a function such as () => { … return x }.",
	    .alias = "expression,code,function", .max_len = 4 << 20),
};
const struct schema evaluate_in = SCHEMA(evaluate_args, "Evaluate", evaluate_fields);

static void put_result(struct tool_use *use, const char *json, size_t len)
{
	auto_buf struct buf text = BUF(TEXT_CHARS * 4 + 100);
	size_t n = at_character(json, len, TEXT_CHARS);
	buf_printf(&text, "Execution result:\n%.*s\n", (int)n, json);
	if (n < len)
		buf_printf(&text, "[%zu more characters: return less, or slices of it]\n",
			   characters(json + n, len - n));
	tool_text(use, text.data, text.len);
	if (use->hint)
		tool_text(use, use->hint, strlen(use->hint));
}

int evaluate_tool(struct tool_use *use, const void *in, struct err *err)
{
	json_t *data = evaluate(use, ((const struct evaluate_args *)in)->script, err);
	struct jw jw;
	if (!data)
		return 0;
	jw_init(&jw, 40 << 20);
	jw_json(&jw, data);
	json_decref(data);
	if (jw_failed(&jw))
		tool_failed(use, "the result is too large: return less");
	else
		put_result(use, jw.out.data, jw.out.len);
	jw_done(&jw);
	return 0;
}

/* ---- waiting ---- */

struct wait_args {
	const char *type, *selector, *state, *text, *url, *url_pattern, *expression;
	double time, timeout;
};
static const char *const wait_types[] = { "selector", "load",     "url",      "network_idle",
					  "download", "function", "response", "request",
					  "timeout",  NULL };
static const struct field wait_fields[] = {
	ENUM(wait_args, type, OPTIONAL,
	     "What to wait for; when absent, what the other arguments say. timeout: that many seconds.",
	     .choices = wait_types),
	STR(wait_args, selector, OPTIONAL, "An element to appear.", .max_len = 10000),
	STR(wait_args, state, OPTIONAL,
	    "Of the selector: visible, hidden, attached or detached; visible when absent.",
	    .max_len = 100),
	STR(wait_args, text, OPTIONAL, "A text to appear.", .max_len = 5000),
	STR(wait_args, url, OPTIONAL, "An address to be shown, or a pattern of it: **/done*.",
	    .max_len = 10000),
	STR(wait_args, url_pattern, OPTIONAL, "Address of a response or request, likewise.",
	    .max_len = 10000),
	STR(wait_args, expression, OPTIONAL, "JavaScript to become true.", .max_len = 1 << 20,
	    .alias = "function"),
	NUM(wait_args, time, MIN | MAX, "Seconds to let pass.", .min = 0, .max = 600,
	    .alias = "seconds"),
	NUM(wait_args, timeout, MIN | MAX, "Seconds it may take.", .def = "30", .min = 0,
	    .max = 600),
};
const struct schema wait_in = SCHEMA(wait_args, "Wait", wait_fields);

static const char *type_of(const struct wait_args *args)
{
	const struct {
		bool given;
		const char *type;
	} clues[] = { { args->selector || args->text, "selector" },
		      { args->expression, "function" },
		      { args->url_pattern, "response" },
		      { args->url, "url" },
		      { !isnan(args->time), "timeout" } };
	for (size_t i = 0; !args->type && i < COUNT(clues); i++)
		if (clues[i].given)
			return clues[i].type;
	return args->type ? args->type : "load";
}

int wait_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct wait_args *args = in;
	const char *type = type_of(args);
	bool timed = !strcmp(type, "timeout") && !isnan(args->time);
	const char *selector = args->selector ? args->selector
			       : args->text   ? arena_printf(use->arena, "text=%s", args->text)
					      : NULL;
	json_t *data =
		tool_ask(use, "POST /v1/browser/page/wait",
			 json_pack("{s:s,s:s*,s:s*,s:s*,s:s*,s:s*,s:f}", "type", type, "selector",
				   selector, "state", args->state, "url", args->url, "url_pattern",
				   args->url_pattern, "expression", args->expression, "timeout",
				   timed ? args->time : args->timeout),
			 err);
	if (json_is_object(data))
		tool_structured(use, json_incref(data));
	else if (data)
		browser_said(use, "Waited for: %s", type);
	json_decref(data);
	return 0;
}
