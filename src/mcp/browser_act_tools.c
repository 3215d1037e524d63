/* Tools that do something to what is on a page: click, fill, type, scroll. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "mcp/browser_tools.h"

enum {
	ELEMENTS_SHOWN = 300,
	TEXT_SHOWN = 120, /* bytes: what is cut in a character is mended when it is put into JSON */
	OPTIONS_SHOWN = 20,
	OPTION_SHOWN = 40,
	SELECTOR_MAX = 10000,
	TEXT_MAX = 1 << 20,
};

#define INDEX_HELP "Number of the element, of sandbox_browser_get_clickable_elements."
#define SELECTOR_HELP                                                                              \
	"CSS selector of the element, or text=…, xpath=…, role=button[name=\"…\"]; for use " \
	"where it has no index."

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

static json_t *integer_or_null(int64_t value)
{
	return value == INT_ABSENT ? json_null() : json_integer(value);
}

static json_t *number_or_null(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

/* ---- which element ---- */

struct tool_target {
	const char *selector;
	int64_t index;
	double x, y;
};

static bool is_absent(const struct tool_target *target)
{
	return !(target->selector && *target->selector) && target->index == INT_ABSENT;
}

static json_t *target_args(const struct tool_target *target)
{
	return json_pack("{s:o,s:o,s:o,s:o}", "selector", text_or_null(target->selector), "index",
			 integer_or_null(target->index), "x", number_or_null(target->x), "y",
			 number_or_null(target->y));
}

/* What it was, by what the route says of it or how it was named. */
static const char *named(struct tool_use *use, const struct tool_target *target, const json_t *data)
{
	const char *element = browser_text(data, "element");
	if (*element)
		return arena_printf(use->arena, "%.500s", element);
	if (target->index != INT_ABSENT)
		return arena_printf(use->arena, "element [%lld]", (long long)target->index);
	if (target->selector && *target->selector)
		return arena_printf(use->arena, "'%.300s'", target->selector);
	return arena_printf(use->arena, "(%g, %g)", target->x, target->y);
}

#define TARGET(s)                                                                             \
	{ .name = "index",                                                                    \
	  .type = T_INT,                                                                      \
	  .at = offsetof(struct s, target.index),                                             \
	  .flags = MIN,                                                                       \
	  .help = INDEX_HELP,                                                                 \
	  .min = 0,                                                                           \
	  .alias = "element_index" },                                                         \
	{                                                                                     \
		.name = "selector", .type = T_STR, .at = offsetof(struct s, target.selector), \
		.help = SELECTOR_HELP, .max_len = SELECTOR_MAX, .alias = "element_selector"   \
	}
#define TARGET_AT(s, m, text)                                                                 \
	{                                                                                     \
		.name = #m, .type = T_NUM, .at = offsetof(struct s, target.m), .help = (text) \
	}

/* ---- what there is ---- */

static void put_options(struct buf *text, const json_t *options)
{
	size_t i;
	json_t *option;
	json_array_foreach(options, i, option) {
		if (i == OPTIONS_SHOWN)
			break;
		const char *name = json_string_value(option);
		buf_printf(text, "%s%.*s", i ? ", " : " options: ", OPTION_SHOWN, name ? name : "");
	}
	if (json_array_size(options) > OPTIONS_SHOWN)
		buf_str(text, ", …");
}

/* What is to be known of an element before it is used. */
static void put_facts(struct buf *text, const json_t *element)
{
	static const char *const texts[] = { "type", "value", "placeholder" };
	static const char *const states[] = { "checked", "selected", "expanded", "disabled" };
	for (size_t i = 0; i < COUNT(texts); i++)
		if (*browser_text(element, texts[i]))
			buf_printf(text, " %s=\"%.*s\"", texts[i], TEXT_SHOWN,
				   browser_text(element, texts[i]));
	for (size_t i = 0; i < COUNT(states); i++)
		if (json_is_true(json_object_get(element, states[i])))
			buf_printf(text, " %s", states[i]);
	put_options(text, json_object_get(element, "options"));
}

/* Of what is written on it; a field has a name, if not that then what it shows while it is empty. */
static const char *caption(const json_t *element)
{
	const char *name = browser_text(element, "name");
	return *name ? name : browser_text(element, "text");
}

static void put_line(struct buf *text, const json_t *element)
{
	const char *tag = browser_text(element, "tag");
	buf_printf(text, "[%lld]<%s>%.*s</%s>",
		   (long long)json_integer_value(json_object_get(element, "index")), tag,
		   TEXT_SHOWN, caption(element), tag);
	put_facts(text, element);
	buf_str(text, "\n");
}

static void put_lines(struct tool_use *use, const json_t *elements)
{
	auto_buf struct buf text = BUF(1 << 20);
	size_t i, count = json_array_size(elements);
	json_t *element;
	json_array_foreach(elements, i, element) {
		if (i == ELEMENTS_SHOWN)
			break;
		put_line(&text, element);
	}
	if (!count)
		buf_str(&text, "(there is nothing to click or fill in)");
	if (count > ELEMENTS_SHOWN)
		buf_printf(&text, "… and %zu more: use a selector for those\n",
			   count - ELEMENTS_SHOWN);
	tool_text(use, text.data, text.len);
}

/* A page that cannot tell does not make the call before it a failure. */
void browser_put_elements(struct tool_use *use, struct err *err)
{
	struct tool_use look = {
		.ex = use->ex, .arena = use->arena, .args = use->args, .content = json_array()
	};
	json_t *elements = tool_ask(&look, "GET /v1/browser/page/elements", json_object(), err);
	if (elements)
		put_lines(use, elements);
	json_decref(elements);
	json_decref(look.content);
}

int get_elements_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	json_t *elements = tool_ask(use, "GET /v1/browser/page/elements", json_object(), err);
	if (elements)
		put_lines(use, elements);
	json_decref(elements);
	return 0;
}

/* ---- the mouse ---- */

static const char *const buttons[] = { "left", "right", "middle", NULL };
struct click_args {
	struct tool_target target;
	const char *button;
	int64_t click_count;
};
static const struct field click_fields[] = {
	TARGET(click_args),
	TARGET_AT(click_args, x,
		  "Pixels from the left of the page's view, where neither is known."),
	TARGET_AT(click_args, y, "Pixels from its top."),
	ENUM(click_args, button, OPTIONAL, "Of the mouse.", .def = "left", .choices = buttons),
	INT(click_args, click_count, MIN | MAX, "2 is a double click.", .def = "1", .min = 1,
	    .max = 3, .alias = "clickCount,num_clicks"),
};
const struct schema click_in = SCHEMA(click_args, "Click", click_fields);

int click_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct click_args *request = in;
	json_t *args = target_args(&request->target);
	json_object_set_new(args, "button", json_string(request->button));
	json_object_set_new(args, "click_count", json_integer(request->click_count));
	json_t *data = tool_ask(use, "POST /v1/browser/page/click", args, err);
	if (data)
		browser_said(use, "Clicked %s", named(use, &request->target, data));
	json_decref(data);
	return 0;
}

struct hover_args {
	struct tool_target target;
};
static const struct field hover_fields[] = {
	TARGET(hover_args),
	TARGET_AT(hover_args, x,
		  "Pixels from the left of the page's view, where neither is known."),
	TARGET_AT(hover_args, y, "Pixels from its top."),
};
const struct schema hover_in = SCHEMA(hover_args, "Hover", hover_fields);

int hover_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct hover_args *request = in;
	json_t *data =
		tool_ask(use, "POST /v1/browser/page/hover", target_args(&request->target), err);
	if (data)
		browser_said(use, "Hovered over %s", named(use, &request->target, data));
	json_decref(data);
	return 0;
}

/* ---- fields ---- */

struct fill_args {
	struct tool_target target;
	const char *value;
	enum tri clear;
};
static const struct field fill_fields[] = {
	TARGET(fill_args),
	STR(fill_args, value, REQUIRED, "What it is to hold.", .alias = "text",
	    .max_len = TEXT_MAX),
	TRI(fill_args, clear, OPTIONAL,
	    "Of no effect: what the field held before is always replaced."),
};
const struct schema fill_in = SCHEMA(fill_args, "FormInputFill", fill_fields);

static json_t *fill_request(const struct tool_target *target, const char *text)
{
	return json_pack("{s:o,s:o,s:s}", "selector", text_or_null(target->selector), "index",
			 integer_or_null(target->index), "text", text);
}

/* What was filled, in words; NULL with `use` filled in where it failed. */
static const char *fill(struct tool_use *use, const struct tool_target *target, const char *text,
			struct err *err)
{
	json_t *data = tool_ask(use, "POST /v1/browser/page/fill", fill_request(target, text), err);
	const char *name = data ? named(use, target, data) : NULL;
	json_decref(data);
	return name;
}

int fill_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct fill_args *request = in;
	const char *name = fill(use, &request->target, request->value, err);
	if (name)
		browser_said(use, "Successfully filled %s", name);
	return 0;
}

struct type_args {
	struct tool_target target;
	const char *text;
	bool submit;
	double delay;
};
static const struct field type_fields[] = {
	STR(type_args, text, REQUIRED, "What to type.", .alias = "value", .max_len = TEXT_MAX),
	TARGET(type_args),
	BOOL(type_args, submit, OPTIONAL, "Press Enter afterwards.", .def = "false",
	     .alias = "press_enter"),
	NUM(type_args, delay, MIN | MAX, "Milliseconds between keys, where no element is named.",
	    .def = "0", .min = 0, .max = 10000),
};
const struct schema type_in = SCHEMA(type_args, "Type", type_fields);

static int press(struct tool_use *use, const char *key, struct err *err)
{
	json_t *data = tool_ask(use, "POST /v1/browser/page/press_key",
				json_pack("{s:s}", "key", key), err);
	json_decref(data);
	return use->failed ? -1 : 0;
}

static const char *type_into_focus(struct tool_use *use, const struct type_args *request,
				   struct err *err)
{
	json_t *data =
		tool_ask(use, "POST /v1/browser/page/type",
			 json_pack("{s:s,s:f}", "text", request->text, "delay", request->delay),
			 err);
	json_decref(data);
	return data ? "the focused element" : NULL;
}

int type_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct type_args *request = in;
	const char *name = is_absent(&request->target)
				   ? type_into_focus(use, request, err)
				   : fill(use, &request->target, request->text, err);
	if (!name || (request->submit && press(use, "Enter", err) < 0))
		return 0;
	return browser_said(use, "Typed into %s%s", name,
			    request->submit ? ", and pressed Enter" : "");
}

struct press_key_args {
	const char *key;
};
static const struct field press_fields[] = {
	STR(press_key_args, key, REQUIRED,
	    "Enter, Tab, Escape, Backspace, Delete, ArrowDown, PageDown, Home, F5, a … or several: "
	    "Control+A.",
	    .min_len = 1, .max_len = 100),
};
const struct schema press_in = SCHEMA(press_key_args, "PressKey", press_fields);

/* "Control+A" as ["Control", "A"]; "+" is a key. */
static json_t *split_keys(const char *key)
{
	json_t *keys = json_array();
	for (const char *at = key; *at;) {
		size_t len = strcspn(at + 1, "+") + 1;
		json_array_append_new(keys, json_stringn(at, len));
		at += len;
		at += *at == '+';
	}
	return keys;
}

int press_key_tool(struct tool_use *use, const void *in, struct err *err)
{
	const char *key = ((const struct press_key_args *)in)->key;
	json_t *keys = split_keys(key);
	bool several = json_array_size(keys) > 1;
	json_t *data = several ? tool_ask(use, "POST /v1/browser/page/hot_key",
					  json_pack("{s:O}", "keys", keys), err)
			       : tool_ask(use, "POST /v1/browser/page/press_key",
					  json_pack("{s:s}", "key", key), err);
	if (data)
		browser_said(use, "Pressed %.100s", key);
	json_decref(data);
	json_decref(keys);
	return 0;
}

/* ---- lists and files ---- */

/* As an item of a form, which may be named by its index, and is filled as its kind wants. Takes value over. */
static int fill_in_form(struct tool_use *use, const struct tool_target *target, json_t *value,
			struct err *err)
{
	json_t *item = json_pack("{s:o,s:o,s:o}", "selector", text_or_null(target->selector),
				 "index", integer_or_null(target->index), "value", value);
	json_t *data = tool_ask(use, "POST /v1/browser/page/fill_form",
				json_pack("{s:[o]}", "items", item), err);
	json_decref(data);
	return use->failed ? -1 : 0;
}

struct select_args {
	struct tool_target target;
	const char *value;
};
static const struct field select_fields[] = {
	TARGET(select_args),
	STR(select_args, value, REQUIRED, "Value of the option, or what is written on it.",
	    .alias = "label,text,option", .max_len = TEXT_MAX),
};
const struct schema select_in = SCHEMA(select_args, "Select", select_fields);

int select_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct select_args *request = in;
	if (fill_in_form(use, &request->target, json_string(request->value), err) == 0)
		browser_said(use, "Selected '%.300s' in %s", request->value,
			     named(use, &request->target, NULL));
	return 0;
}

struct upload_args {
	struct tool_target target;
	struct list files;
};
static const struct field upload_fields[] = {
	TARGET(upload_args),
	LIST(upload_args, files, REQUIRED,
	     "Paths in the sandbox; relative ones are in the workspace.", .item = T_STR,
	     .min_len = 1, .max_len = 100, .alias = "paths"),
};
const struct schema upload_in = SCHEMA(upload_args, "UploadFile", upload_fields);

int upload_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct upload_args *request = in;
	const char *const *files = request->files.items;
	json_t *paths = json_array();
	for (size_t i = 0; i < request->files.count; i++)
		json_array_append_new(paths, tool_path(use, files[i]));
	if (fill_in_form(use, &request->target, paths, err) == 0)
		browser_said(use, "Chose %zu file%s for %s", request->files.count,
			     request->files.count == 1 ? "" : "s",
			     named(use, &request->target, NULL));
	return 0;
}

/* ---- scrolling ---- */

struct scroll_args {
	int64_t amount;
};
static const struct field scroll_fields[] = {
	INT(scroll_args, amount, MIN | MAX,
	    "Pixels down; up when negative; to the end of the page when absent.", .min = -1e9,
	    .max = 1e9, .alias = "y,deltaY,pixels"),
};
const struct schema scroll_in = SCHEMA(scroll_args, "Scroll", scroll_fields);

int scroll_tool(struct tool_use *use, const void *in, struct err *err)
{
	int64_t amount = ((const struct scroll_args *)in)->amount;
	bool to_end = amount == INT_ABSENT;
	json_t *data =
		to_end ? tool_ask(use, "POST /v1/browser/page/scroll_to",
				  json_pack("{s:i,s:i}", "x", 0, "y", 10000000), err)
		       : tool_ask(use, "POST /v1/browser/page/scroll",
				  json_pack("{s:s,s:I}", "direction", amount < 0 ? "up" : "down",
					    "amount", (json_int_t)(amount < 0 ? -amount : amount)),
				  err);
	if (data && to_end)
		browser_said(use, "Scrolled to the end of the page");
	else if (data)
		browser_said(use, "Scrolled %s %lld pixels", amount < 0 ? "up" : "down",
			     (long long)(amount < 0 ? -amount : amount));
	json_decref(data);
	return 0;
}

/* ---- dialogs ---- */

struct dialog_args {
	bool accept;
	const char *text;
};
static const struct field dialog_fields[] = {
	BOOL(dialog_args, accept, OPTIONAL, "OK, or Leave; false is Cancel, or Stay.",
	     .def = "true"),
	STR(dialog_args, text, OPTIONAL, "What a prompt is answered with.", .max_len = TEXT_MAX,
	    .alias = "promptText,prompt_text"),
};
const struct schema dialog_in = SCHEMA(dialog_args, "HandleDialog", dialog_fields);

int dialog_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct dialog_args *request = in;
	json_t *data =
		tool_ask(use, "POST /v1/browser/page/dialog",
			 json_pack("{s:s,s:s*}", "action", request->accept ? "accept" : "dismiss",
				   "text", request->text),
			 err);
	if (data)
		browser_said(use, "%s the %s '%.1000s'", request->accept ? "Accepted" : "Dismissed",
			     *browser_text(data, "type") ? browser_text(data, "type") : "dialog",
			     browser_text(data, "message"));
	json_decref(data);
	return 0;
}
