/* The editor that language models know: view, create, str_replace, insert, undo_edit. */
#include "api/file_editor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/utf8.h"
#include "fs/file_history.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/regular.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

enum { AROUND = 4, QUOTE_MAX = 200, MESSAGE_MAX = 8192 };

static const char *const commands[] = {
	"view", "create", "str_replace", "insert", "undo_edit", NULL
};
static const char *const modes[] = { "ALL", "FIRST", "LAST", NULL };
static const struct field editor_fields[] = {
	ENUM(editor, command, REQUIRED, "What to do.", .choices = commands),
	STR(editor, path, REQUIRED, "Absolute path of a file or directory.", .alias = "file"),
	TEXT(editor, file_text, OPTIONAL, "For create: the content."),
	TEXT(editor, old_str, OPTIONAL, "For str_replace: the text to replace, exactly as it is."),
	TEXT(editor, new_str, OPTIONAL,
	     "For str_replace: the new text, nothing when absent. For insert: the lines to insert.",
	     .alias = "insert_text"),
	INT(editor, insert_line, OPTIONAL, "For insert: the line after which to; 0 for the start."),
	LIST(editor, view_range, OPTIONAL,
	     "For view: first and last line, counted from 1; -1 for the end.", .item = T_INT,
	     .max_len = 100),
	ENUM(editor, replace_mode, OPTIONAL,
	     "For str_replace, where old_str is there more than once; one only when absent.",
	     .choices = modes),
	LIST(editor, page_range, OPTIONAL, "For view of a PDF: first and last page.", .item = T_INT,
	     .max_len = 100),
	STR(editor, sheet_name, OPTIONAL, "For view of a spreadsheet: the sheet; all when absent."),
	LIST(editor, row_range, OPTIONAL, "For view of a spreadsheet: first and last row.",
	     .item = T_INT, .max_len = 100),
	LIST(editor, slide_range, OPTIONAL, "For view of slides: first and last one.",
	     .item = T_INT, .max_len = 100),
	BOOL(editor, enable_metadata, OPTIONAL, "For view of a document: tell what is in it.",
	     .def = "false"),
	FILE_B64(editor),
};
static const struct schema editor_schema = SCHEMA(editor, "StrReplaceEditorRequest", editor_fields);

static const struct field edited_fields[] = {
	TEXT(edited, output, REQUIRED, "What a person would see."),
	STR(edited, error, NULLABLE, "What went wrong."),
	STR(edited, path, REQUIRED, "Path of the file."),
	BOOL(edited, prev_exist, REQUIRED, "Whether it was there before."),
	TEXT(edited, old_content, NULLABLE, "Its text before."),
	TEXT(edited, new_content, NULLABLE, "Its text now."),
	JSON(edited, metadata, NULLABLE, "Of a document: pages, sheets, slides."),
};
static const struct schema edited_schema = SCHEMA(edited, "StrReplaceEditorResult", edited_fields);
static const struct field edited_data = FILE_RESULT(&edited_schema);

int file_editor_fail(struct edit *edit, struct err *err, int code, const char *format, ...)
{
	char *text = arena_alloc(edit->call->arena, MESSAGE_MAX);
	va_list args;
	va_start(args, format);
	vsnprintf(text, MESSAGE_MAX, format, args);
	va_end(args);
	edit->message = text;
	return err_set(err, code, "%s", "editor");
}

static int missing(struct edit *edit, const char *name, struct err *err)
{
	return file_editor_fail(edit, err, ERR_RANGE, "Parameter `%s` is required for command: %s.",
				name, edit->r->command);
}

/* A copy that lives until the answer is given. */
static struct text keep(struct edit *edit, const struct buf *text)
{
	return (struct text){
		arena_strndup(edit->call->arena, text->data ? text->data : "", text->len), text->len
	};
}

/* ---- changing ---- */

/* A file on its way from what it is to what it becomes. */
struct file_editor_change {
	struct place place;
	struct buf text; /* as it is */
	enum text_encoding encoding;
	struct text_change to;
};

static void change_done(struct file_editor_change *c)
{
	place_release(&c->place);
	buf_done(&c->text);
	text_change_done(&c->to);
}
#define auto_done __attribute__((cleanup(change_done)))

static int load(struct edit *edit, struct file_editor_change *c, struct err *err)
{
	c->text = BUF(file_edit_max(edit->call));
	if (place_hold(edit->path, &c->place, err) < 0 ||
	    file_load(c->place.path, &c->text, &c->encoding, err) < 0)
		return -1;
	edit->result.prev_exist = true;
	return 0;
}

/* Saves what it becomes, and remembers what it was. */
static int commit(struct edit *edit, struct file_editor_change *c, struct err *err)
{
	edit->result.old_content = keep(edit, &c->text);
	edit->result.new_content = keep(edit, &c->to.text);
	if (text_encode(&c->to.text, c->encoding, err) < 0 ||
	    text_encode(&c->text, c->encoding, err) < 0)
		return -1;
	struct save save = { .data = c->to.text.data, .len = c->to.text.len, .fd = -1 };
	if (save_put(&save, &c->place, err) < 0)
		return -1;
	uint64_t became = file_history_print(c->to.text.data, c->to.text.len);
	file_history_add(c->place.path, TAKE(c->text.data), c->text.len, became);
	c->text = BUF(0);
	return 0;
}

static int64_t newlines(struct text text)
{
	int64_t count = 0;
	for (size_t i = 0; i < text.len; i++)
		count += text.data[i] == '\n';
	return count;
}

/* Shows what is around the change. */
static void show(struct edit *edit, const struct file_editor_change *c, const char *said,
		 const char *of, int64_t added)
{
	struct text text = edit->result.new_content;
	int64_t line = 1 + newlines((struct text){ text.data, c->to.at });
	file_view_snippet(edit, said, of, text, line > AROUND ? line - AROUND : 1,
			  line + AROUND + added,
			  "Review the changes and make sure they are as expected. Edit the file "
			  "again if necessary.");
}

static int create(struct edit *edit, struct err *err)
{
	const struct text *text = &edit->r->file_text;
	auto_release struct place place = { 0 };
	if (!text->data)
		return missing(edit, "file_text", err);
	if (place_hold(edit->path, &place, err) < 0)
		return -1;
	if (place.exists)
		return file_editor_fail(
			edit, err, EEXIST,
			"Invalid `path` parameter: %s. File already exists at: %s. Cannot overwrite files using command `create`.",
			edit->path, edit->path);
	struct save save = { .data = text->data, .len = text->len, .fd = -1, .fresh = true };
	if (save_put(&save, &place, err) < 0)
		return -1;
	file_history_add(place.path, NULL, 0, file_history_print(text->data, text->len));
	edit->result.new_content = *text;
	edit->result.output.data =
		arena_printf(edit->call->arena, "File created successfully at: %s", edit->path);
	edit->result.output.len = strlen(edit->result.output.data);
	return 0;
}

static enum text_mode mode_of(const struct editor *r)
{
	static const enum text_mode of[] = { TEXT_ALL, TEXT_FIRST, TEXT_LAST };
	for (size_t i = 0; r->replace_mode && modes[i]; i++)
		if (!strcmp(r->replace_mode, modes[i]))
			return of[i];
	return TEXT_UNIQUE;
}

/* The beginning of a text, not cut within a character. */
static const char *quote(struct edit *edit, struct text text)
{
	if (text.len <= QUOTE_MAX)
		return text.data;
	size_t len = QUOTE_MAX - utf8_partial(text.data, QUOTE_MAX);
	return arena_printf(edit->call->arena, "%.*s…", (int)len, text.data);
}

static int not_unique(struct edit *edit, const struct text_change *to, struct err *err)
{
	auto_buf struct buf lines = BUF(1024);
	int64_t last = 0;
	for (size_t i = 0; i < to->found && i < TEXT_LINES_MAX; last = to->lines[i++])
		if (to->lines[i] != last)
			buf_printf(&lines, "%s%lld", lines.len ? ", " : "",
				   (long long)to->lines[i]);
	return file_editor_fail(
		edit, err, ERR_CONFLICT,
		"No replacement was performed. Multiple occurrences of old_str `%s` in lines [%s%s]: it is not unique. Please ensure it is unique, or use `replace_mode`.",
		quote(edit, edit->r->old_str), lines.data, to->found > TEXT_LINES_MAX ? ", …" : "");
}

static int str_replace(struct edit *edit, struct err *err)
{
	const struct editor *r = edit->r;
	auto_done struct file_editor_change c = { 0 };
	struct text to = r->new_str.data ? r->new_str : (struct text){ "", 0 };
	if (!r->old_str.data)
		return missing(edit, "old_str", err);
	if (!r->old_str.len)
		return file_editor_fail(
			edit, err, ERR_RANGE,
			"No replacement was performed. `old_str` must not be empty.");
	if (r->old_str.len == to.len && !memcmp(r->old_str.data, to.data, to.len))
		return file_editor_fail(
			edit, err, ERR_RANGE,
			"No replacement was performed. `new_str` and `old_str` must be different.");
	if (load(edit, &c, err) < 0 || text_replace(&c.text, c.encoding, r->old_str, to, mode_of(r),
						    c.text.cap, &c.to, err) < 0)
		return -1;
	if (!c.to.found)
		return file_editor_fail(
			edit, err, ERR_CONFLICT,
			"No replacement was performed, old_str `%s` did not appear verbatim in %s.",
			quote(edit, r->old_str), edit->path);
	if (!c.to.replaced)
		return not_unique(edit, &c.to, err);
	if (commit(edit, &c, err) < 0)
		return -1;
	const char *said =
		arena_printf(edit->call->arena, "The file %s has been edited. ", edit->path);
	if (r->replace_mode)
		said = arena_printf(edit->call->arena, "%sReplaced %zu of %zu occurrences. ", said,
				    c.to.replaced, c.to.found);
	show(edit, &c, said, arena_printf(edit->call->arena, "a snippet of %s", edit->path),
	     newlines(to));
	return 0;
}

static int insert(struct edit *edit, struct err *err)
{
	const struct editor *r = edit->r;
	auto_done struct file_editor_change c = { 0 };
	if (r->insert_line == INT_ABSENT)
		return missing(edit, "insert_line", err);
	if (!r->new_str.data)
		return missing(edit, "new_str", err);
	if (load(edit, &c, err) < 0)
		return -1;
	if (text_insert(&c.text, c.encoding, r->new_str, r->insert_line, c.text.cap, &c.to, err) <
	    0)
		return err->code != ERR_RANGE
			       ? -1
			       : file_editor_fail(edit, err, ERR_RANGE,
						  "Invalid `insert_line` parameter: %lld. %s",
						  (long long)r->insert_line, err->msg);
	if (commit(edit, &c, err) < 0)
		return -1;
	show(edit, &c, arena_printf(edit->call->arena, "The file %s has been edited. ", edit->path),
	     "a snippet of the edited file", newlines(r->new_str));
	return 0;
}

/* ---- undoing ---- */

/* What the change made, unless something else has changed it since. */
static void warn(struct edit *edit, const struct buf *now, const struct file_past *past)
{
	if (file_history_print(now->data, now->len) != past->became)
		edit->call->hint =
			"Something else had changed the file since that edit: this is gone, too.";
}

static int undo_create(struct edit *edit, const struct place *place, struct err *err)
{
	if (unlink(place->path) < 0)
		return err_set(err, errno, "'%s'", place->path);
	edit->result.output.data = arena_printf(
		edit->call->arena,
		"Last edit to %s undone successfully. It had created the file, which is removed.",
		edit->path);
	edit->result.output.len = strlen(edit->result.output.data);
	return 0;
}

static int undo_change(struct edit *edit, const struct place *place, const struct file_past *past,
		       struct err *err)
{
	struct save save = { .data = past->bytes, .len = past->len, .fd = -1 };
	if (save_put(&save, place, err) < 0)
		return -1;
	auto_buf struct buf text = BUF(past->len * 2 + 4);
	enum text_encoding encoding;
	buf_add(&text, past->bytes, past->len);
	if (text_decode(&text, &encoding, err) < 0)
		return -1;
	edit->result.new_content = keep(edit, &text);
	file_view_snippet(edit,
			  arena_printf(edit->call->arena, "Last edit to %s undone successfully. ",
				       edit->path),
			  edit->path, edit->result.new_content, 1, INT64_MAX, "");
	return 0;
}

static int undo(struct edit *edit, const struct place *place, const struct file_past *past,
		struct err *err)
{
	auto_buf struct buf now = BUF(file_edit_max(edit->call));
	enum text_encoding encoding;
	auto_close int fd = regular_open(place->path, NULL, err);
	if (fd < 0 || regular_read(fd, &now, err) < 0)
		return -1;
	warn(edit, &now, past);
	if (text_decode(&now, &encoding, err) < 0)
		return -1;
	edit->result.prev_exist = true;
	edit->result.old_content = keep(edit, &now);
	return past->bytes ? undo_change(edit, place, past, err) : undo_create(edit, place, err);
}

static int undo_edit(struct edit *edit, struct err *err)
{
	auto_release struct place place = { 0 };
	if (place_hold(edit->path, &place, err) < 0)
		return -1;
	struct file_past *past = file_history_take(place.path);
	if (!past)
		return file_editor_fail(edit, err, ERR_CONFLICT, "No edit history found for %s.",
					edit->path);
	if (undo(edit, &place, past, err) < 0) {
		file_history_put_back(past);
		return -1;
	}
	file_history_free(past);
	return 0;
}

/* ---- the call ---- */

static int invalid_path(struct edit *edit, int code, const char *why, struct err *err)
{
	return file_editor_fail(edit, err, code, "Invalid `path` parameter: %s. %s", edit->path,
				why);
}

/* What is there has to suit the command. */
static int check_path(struct edit *edit, struct err *err)
{
	struct stat st;
	bool view = !strcmp(edit->r->command, "view"), new = !strcmp(edit->r->command, "create");
	int code = stat(edit->path, &st) < 0 ? errno : 0;
	if (code && code != ENOENT)
		return err_set(err, code, "'%s'", edit->path);
	if (code && !new)
		return invalid_path(
			edit, code,
			arena_printf(edit->call->arena,
				     "The path %s does not exist. Please provide a valid path.",
				     edit->path),
			err);
	if (!code && S_ISDIR(st.st_mode) && !view && !new)
		return invalid_path(
			edit, EISDIR,
			"It is a directory and only the `view` command can be used on directories.",
			err);
	return 0;
}

static int run(struct edit *edit, struct err *err)
{
	static int (*const runs[])(struct edit * edit, struct err * err) = { file_view, create,
									     str_replace, insert,
									     undo_edit };
	if (*edit->r->path != '/' && !edit->r->path_b64)
		return invalid_path(edit, ERR_INVALID,
				    "The path should be an absolute path, starting with `/`.", err);
	if (file_user_enter(edit->call, false, &edit->rights, err) < 0 || check_path(edit, err) < 0)
		return -1;
	edit->result.prev_exist = strcmp(edit->r->command, "create") != 0;
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i], edit->r->command))
			return runs[i](edit, err);
	return err_set(err, ERR_INTERNAL, "no such command");
}

static int edit_file(struct call *call, const void *in, struct err *err)
{
	const struct editor *r = in;
	struct err cause = { 0 };
	const char *path = r->path_b64 ? file_path(call, r->path, r->path_b64, &cause) : r->path;
	struct edit edit = { .call = call, .r = r, .path = path ? path : r->path };
	edit.result.path = edit.path;
	int result = path ? run(&edit, &cause) : -1;
	user_leave(&edit.rights);
	if (result < 0)
		return edit.message
			       ? file_error_say(call, "str_replace_editor", edit.path, cause.code,
						edit.message, err)
			       : file_error(call, "str_replace_editor", edit.path, &cause, err);
	if (strcmp(r->command, "view") != 0)
		journal_add(JOURNAL_FILE_WRITTEN,
			    &(struct journal_file){ edit.path, r->command, INT_ABSENT });
	return call_reply(call, &edit.result, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/str_replace_editor", edit_file, &editor_schema, &edited_data,
	  "View, create and edit a file",
	  "Line endings, encoding (UTF-8, UTF-16 with a mark; of others only ASCII is changed), owner "
	  "and mode stay. undo_edit takes back the last edit of a file that this call made, up to 10, "
	  "as long as the server runs.",
	  .message = "Editor command completed" },
};

const struct route_group file_editor_group = { "file", "Editing.", routes, COUNT(routes) };
