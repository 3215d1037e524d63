/* Forms of the page: text, lists, checkboxes, files, and several of these at once. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/browser_page_act.h"
#include "api/file.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/tab.h"
#include "config/config.h"
#include "fs/file_user.h"
#include "fs/regular.h"
#include "net/call.h"
#include "net/server.h"

enum { ITEMS_MAX = 500, VALUES_MAX = 1000 };

static const struct field filled_data = {
	.type = T_JSON,
	.help = "`element`: what was meant, as <input id=\"name\" type=\"text\">.",
};

/* ---- text ---- */

struct page_fill {
	const char *selector;
	int64_t index;
	const char *text;
	double timeout;
};
static const struct field fill_fields[] = {
	SELECTOR_FIELD(page_fill, OPTIONAL),
	INDEX_FIELD(page_fill),
	STR(page_fill, text, REQUIRED,
	    "What it is to have, in place of what it has; \"\" empties it.", .alias = "value",
	    .max_len = PAGE_TEXT_MAX),
	TIMEOUT_FIELD(page_fill),
};
static const struct schema fill_schema = SCHEMA(page_fill, "FillRequest", fill_fields);

static int page_fill(struct call *call, const void *in, struct err *err)
{
	const struct page_fill *r = in;
	struct act_target target;
	struct page_call page;
	struct err cause = { 0 };
	if (page_target(r->selector, r->index, &target, err) < 0 ||
	    page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = act_fill(page.tab, &target, r->text, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

/* ---- lists ---- */

struct page_select {
	const char *selector, *value, *label;
	int64_t index;
	struct list values;
	double timeout;
};
static const struct field select_fields[] = {
	SELECTOR_FIELD(page_select, REQUIRED),
	STR(page_select, value, OPTIONAL, "The option's value, or else its label.",
	    .max_len = PAGE_TEXT_MAX),
	STR(page_select, label, OPTIONAL, "The option's label.", .max_len = PAGE_TEXT_MAX),
	INT(page_select, index, MIN, "The option's place in the list, from 0.", .min = 0),
	LIST(page_select, values, OPTIONAL,
	     "Several options, by value or label, of a list that takes several.", .item = T_STR,
	     .max_len = VALUES_MAX),
	TIMEOUT_FIELD(page_select),
};
static const struct schema select_schema =
	SCHEMA(page_select, "SelectOptionRequest", select_fields);

static const struct field selected_data = {
	.type = T_JSON,
	.help = "`values`: those of the options that are selected now; `element`: the list.",
};

static json_t *wanted_options(const struct page_select *r)
{
	const char *const *values = r->values.items;
	json_t *list = json_array();
	for (size_t i = 0; i < r->values.count; i++)
		json_array_append_new(list, json_pack("{s:s}", "value", values[i]));
	json_t *one = json_object();
	if (r->value)
		json_object_set_new(one, "value", json_string(r->value));
	if (r->label)
		json_object_set_new(one, "label", json_string(r->label));
	if (r->index != INT_ABSENT)
		json_object_set_new(one, "index", json_integer(r->index));
	if (json_object_size(one))
		json_array_append(list, one);
	json_decref(one);
	return list;
}

static int page_select(struct call *call, const void *in, struct err *err)
{
	const struct page_select *r = in;
	const struct act_target target = { .selector = r->selector };
	struct page_call page;
	struct err cause = { 0 };
	if (!r->value && !r->label && r->index == INT_ABSENT && !r->values.count)
		return err_set(err, ERR_INVALID,
			       "which option is missing: give value, label, index or values");
	if (page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = act_select(page.tab, &target, wanted_options(r), &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

/* ---- what is checked ---- */

struct page_check {
	const char *selector;
	double timeout;
};
static const struct field check_fields[] = {
	SELECTOR_FIELD(page_check, REQUIRED),
	TIMEOUT_FIELD(page_check),
};
static const struct schema check_schema = SCHEMA(page_check, "CheckRequest", check_fields);

static const struct field checked_data = {
	.type = T_JSON,
	.help = "`checked`: whether it is now; `element`: what was meant, or the label that was clicked for it.",
};

static int set_checked(struct call *call, const struct page_check *r, bool checked, struct err *err)
{
	const struct act_target target = { .selector = r->selector };
	struct page_call page;
	struct err cause = { 0 };
	if (page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = act_check(page.tab, &target, checked, NULL, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

static int page_check(struct call *call, const void *in, struct err *err)
{
	return set_checked(call, in, true, err);
}

static int page_uncheck(struct call *call, const void *in, struct err *err)
{
	return set_checked(call, in, false, err);
}

/* ---- files ---- */

struct page_upload {
	const char *selector;
	struct list files;
	double timeout;
};
static const struct field upload_fields[] = {
	SELECTOR_FIELD(page_upload, REQUIRED),
	LIST(page_upload, files, REQUIRED,
	     "Paths of files in the sandbox, which its user can read; a relative one is in the "
	     "workspace, ~ is the user's home. An empty list takes away those that were chosen.",
	     .item = T_STR, .max_len = ACT_FILES_MAX),
	TIMEOUT_FIELD(page_upload),
};
static const struct schema upload_schema = SCHEMA(page_upload, "UploadFileRequest", upload_fields);

static const struct field uploaded_data = {
	.type = T_JSON,
	.help = "`files`: their absolute paths.",
};

struct files {
	const char **paths;
	size_t count;
	bool directory; /* the only one is one */
};

static const char *whole_path(struct call *call, const char *path, struct err *err)
{
	if (*path != '~' || (path[1] && path[1] != '/'))
		return file_path(call, path, NULL, err);
	const struct user *user = user_sandbox(call->server->config->user, err);
	return user ? arena_printf(call->arena, "%s%s", user->home, path + 1) : NULL;
}

/* The browser opens it as the sandbox's user; what that would fail with is said here. */
static int check_file(struct call *call, struct files *files, const char *path, size_t total,
		      struct err *err)
{
	struct user_view view;
	struct stat st;
	if (file_user_enter(call, false, &view, err) < 0)
		return -1;
	int result = stat(path, &st) < 0 ? err_set(err, errno, "'%.300s'", path) : 0;
	files->directory = result == 0 && total == 1 && S_ISDIR(st.st_mode);
	if (result == 0 && !files->directory) {
		int fd = regular_open(path, NULL, err);
		result = fd < 0 ? -1 : 0;
		if (fd >= 0)
			(void)close(fd);
	}
	user_leave(&view);
	return result;
}

static int find_files(struct call *call, const char *const *names, size_t count, struct files *ret,
		      struct err *err)
{
	*ret = (struct files){ arena_alloc(call->arena, (count + 1) * sizeof *ret->paths), count,
			       false };
	for (size_t i = 0; i < count; i++) {
		ret->paths[i] = whole_path(call, names[i], err);
		if (!ret->paths[i] || check_file(call, ret, ret->paths[i], count, err) < 0)
			return -1;
	}
	return 0;
}

static json_t *upload(struct call *call, struct tab *tab, const struct act_target *target,
		      const char *const *names, size_t count, const struct wait *wait,
		      struct err *err)
{
	struct files files;
	if (find_files(call, names, count, &files, err) < 0 ||
	    act_upload(tab, target, files.paths, count, files.directory, wait, err) < 0)
		return NULL;
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(files.paths[i]));
	return json_pack("{s:o}", "files", list);
}

static int page_upload(struct call *call, const void *in, struct err *err)
{
	const struct page_upload *r = in;
	const struct act_target target = { .selector = r->selector };
	struct page_call page;
	struct err cause = { 0 };
	if (page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done =
		upload(call, page.tab, &target, r->files.items, r->files.count, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

/* ---- several fields ---- */

struct form_item {
	const char *selector;
	int64_t index;
	json_t *value;
};
static const struct field item_fields[] = {
	SELECTOR_FIELD(form_item, OPTIONAL),
	INDEX_FIELD(form_item),
	JSON(form_item, value, REQUIRED,
	     "Of a text field its text; of a list a value, a label or several of them; of a checkbox "
	     "true or false; of radio buttons true, or the value or label of one; of a field for files "
	     "a path or several. \"text\" is understood, too.",
	     .alias = "text,values,checked,files"),
};
static const struct schema item_schema = SCHEMA(form_item, "FormFillItem", item_fields);

struct page_form {
	struct list items;
	double timeout;
};
static const struct field form_fields[] = {
	LIST(page_form, items, REQUIRED,
	     "The fields, filled in this order: each a selector or an index, and a value.",
	     .item = T_OBJ, .of = &item_schema, .max_len = ITEMS_MAX),
	TIMEOUT_FIELD(page_form),
};
static const struct schema form_schema = SCHEMA(page_form, "FormFillRequest", form_fields);

static const struct field form_filled_data = {
	.type = T_JSON,
	.help = "`filled`: how many fields were filled.",
};

/* A text, or the JSON of a number or boolean; NULL: it is neither. */
static const char *text_of(struct call *call, const json_t *value)
{
	if (json_is_string(value))
		return arena_strdup(call->arena, json_string_value(value));
	if (json_is_null(value))
		return "";
	if (!json_is_number(value) && !json_is_boolean(value))
		return NULL;
	auto_free char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	return arena_strdup(call->arena, text ? text : "");
}

/* A value, or several of them, as texts. -1 with err: it is something else. */
static int texts_of(struct call *call, const json_t *value, struct list *ret, struct err *err)
{
	size_t count = json_is_array(value) ? json_array_size(value) : 1;
	if (count > VALUES_MAX)
		return err_set(err, ERR_INVALID, "more than %d values", VALUES_MAX);
	const char **texts = arena_alloc(call->arena, (count + 1) * sizeof *texts);
	for (size_t i = 0; i < count; i++) {
		texts[i] = text_of(call, json_is_array(value) ? json_array_get(value, i) : value);
		if (!texts[i])
			return err_set(err, ERR_INVALID,
				       "its value is not a text, a number, true or "
				       "false, or a list of these");
	}
	*ret = (struct list){ count, texts };
	return 0;
}

/* YES, NO, or UNSET: it is neither. */
static enum tri truth_of(const json_t *value)
{
	static const char *const yes[] = { "true", "on", "yes", "1", "checked" }, *const no[] = {
		"false", "off", "no", "0", "", "unchecked"
	};
	const char *text = json_string_value(value);
	if (json_is_boolean(value))
		return json_is_true(value) ? YES : NO;
	if (json_is_integer(value))
		return json_integer_value(value) ? YES : NO;
	for (size_t i = 0; text && i < COUNT(yes); i++)
		if (!strcmp(text, yes[i]))
			return YES;
	for (size_t i = 0; text && i < COUNT(no); i++)
		if (!strcmp(text, no[i]))
			return NO;
	return UNSET;
}

/* What fills a field of one kind; NULL with err. */
struct form_fill {
	struct call *call;
	struct tab *tab;
	const struct act_target *target;
	const json_t *value;
	const struct wait *wait;
};

static json_t *fill_text(const struct form_fill *fill, struct err *err)
{
	const char *text = text_of(fill->call, fill->value);
	if (text)
		return act_fill(fill->tab, fill->target, text, fill->wait, err);
	err_set(err, ERR_CONFLICT, "it takes a text");
	return NULL;
}

static json_t *fill_list(const struct form_fill *fill, struct err *err)
{
	struct list texts = { 0 };
	if (texts_of(fill->call, fill->value, &texts, err) < 0)
		return NULL;
	const struct page_select r = { .values = texts, .index = INT_ABSENT };
	return act_select(fill->tab, fill->target, wanted_options(&r), fill->wait, err);
}

static json_t *fill_check(const struct form_fill *fill, struct err *err)
{
	enum tri truth = truth_of(fill->value);
	if (truth != UNSET)
		return act_check(fill->tab, fill->target, truth == YES, NULL, fill->wait, err);
	err_set(err, ERR_CONFLICT, "it is a checkbox, which takes true or false");
	return NULL;
}

static json_t *fill_radio(const struct form_fill *fill, struct err *err)
{
	const char *text = json_string_value(fill->value);
	if (json_is_true(fill->value) || (text && !strcmp(text, "true")))
		return act_check(fill->tab, fill->target, true, NULL, fill->wait, err);
	if (text)
		return act_check(fill->tab, fill->target, true, text, fill->wait, err);
	err_set(err, ERR_CONFLICT,
		"it is a radio button, which takes true, or the value or label of "
		"one of its group");
	return NULL;
}

static json_t *fill_file(const struct form_fill *fill, struct err *err)
{
	struct list texts = { 0 };
	if (texts_of(fill->call, fill->value, &texts, err) < 0)
		return NULL;
	return upload(fill->call, fill->tab, fill->target, texts.items, texts.count, fill->wait,
		      err);
}

static const struct {
	const char *kind;
	json_t *(*fill)(const struct form_fill *fill, struct err *err);
} kinds[] = {
	{ "text", fill_text },   { "list", fill_list }, { "check", fill_check },
	{ "radio", fill_radio }, { "file", fill_file },
};

static int fill_item(struct call *call, struct tab *tab, const struct form_item *item,
		     const struct wait *wait, struct err *err)
{
	struct act_target target;
	json_t *done = NULL;
	if (page_target(item->selector, item->index, &target, err) < 0)
		return -1;
	json_t *kind = act_on(tab, &target, "kind", NULL, wait, err);
	const struct form_fill fill = { call, tab, &target, item->value, wait };
	const char *name = json_string_value(kind);
	size_t i = 0;
	while (name && i < COUNT(kinds) && strcmp(kinds[i].kind, name) != 0)
		i++;
	if (kind && (!name || i == COUNT(kinds)))
		err_set(err, ERR_INTERNAL, "the page does not say what kind of field it is");
	else if (kind)
		done = kinds[i].fill(&fill, err);
	json_decref(kind);
	json_decref(done);
	return done ? 0 : -1;
}

static const char *item_name(struct call *call, const struct form_item *item)
{
	return item->selector ? arena_printf(call->arena, "'%.100s'", item->selector)
			      : arena_printf(call->arena, "element %lld", (long long)item->index);
}

static int page_form(struct call *call, const void *in, struct err *err)
{
	const struct page_form *r = in;
	const struct form_item *items = r->items.items;
	struct page_call page;
	struct err cause = { 0 }, why;
	struct act_target ignored;
	for (size_t i = 0; i < r->items.count; i++)
		if (page_target(items[i].selector, items[i].index, &ignored, err) < 0)
			return -1;
	if (page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	for (size_t i = 0; i < r->items.count; i++) {
		if (fill_item(call, page.tab, &items[i], &page.wait, &cause) == 0)
			continue;
		err_set(&why, cause.code, "item %zu (%s): %.300s; %zu of %zu were filled", i,
			item_name(call, &items[i]), cause.msg, i, r->items.count);
		return page_failed(call, &page, &why, err);
	}
	json_t *done = json_pack("{s:I}", "filled", (json_int_t)r->items.count);
	return page_act_reply(call, &page, done, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/fill", page_fill, &fill_schema, &filled_data, "Fill a field",
	  "Of an input, a textarea or what is editable, also a date, a time or a colour. Waits until it "
	  "is visible, enabled and not read-only." },
	{ "POST", "/v1/browser/page/select_option", page_select, &select_schema, &selected_data,
	  "Select an option of a list",
	  "Of a <select>. Waits until it is visible and enabled, and has the option." },
	{ "POST", "/v1/browser/page/check", page_check, &check_schema, &checked_data,
	  "Check a checkbox, radio button or switch",
	  "By a click on it, or on its label where it is hidden, unless it is checked." },
	{ "POST", "/v1/browser/page/uncheck", page_uncheck, &check_schema, &checked_data,
	  "Uncheck a checkbox or switch", "By a click on it, or on its label where it is hidden." },
	{ "POST", "/v1/browser/page/upload_file", page_upload, &upload_schema, &uploaded_data,
	  "Choose files for a field",
	  "Files of the sandbox, in an <input type=\"file\">, which may be hidden." },
	{ "POST", "/v1/browser/page/fill_form", page_form, &form_schema, &form_filled_data,
	  "Fill several fields",
	  "One after the other, each as its kind wants. Ends at the first one that cannot be filled, and "
	  "says which." },
};
const struct route_group browser_page_form_group = { "browser", "The page that the browser shows.",
						     routes, COUNT(routes) };
