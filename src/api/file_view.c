#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "api/file.h"
#include "api/file_editor.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"
#include "document/documents.h"
#include "fs/lines.h"
#include "fs/regular.h"
#include "net/call.h"

enum { NAMES_MAX = 10000, DEPTH = 2, OUTPUT_EXTRA = 4096 };

static void own(void *arg)
{
	free(arg);
}

/* Keeps what was put together until the answer is given. */
static struct text keep(struct call *call, struct buf *text)
{
	struct text result = { text->data ? text->data : "", text->len };
	if (text->data)
		arena_defer(call->arena, own, text->data);
	*text = BUF(text->cap);
	return result;
}

/* ---- text ---- */

/* Room for a number and a tab before each line. */
static size_t numbered_max(const char *text, size_t len)
{
	return len + (size_t)text_lines(text, len) * 24 + OUTPUT_EXTRA * 2;
}

void file_view_snippet(struct edit *edit, const char *said, const char *of, struct text text,
		       int64_t first, int64_t last, const char *then)
{
	size_t from = text_line_at(text.data, text.len, first);
	const char *part = text.data + from;
	size_t len = text.len - from;
	if (last != INT64_MAX)
		len = text_line_at(part, len, last - first + 2);
	auto_buf struct buf output = BUF(numbered_max(part, len) + strlen(said) + strlen(of));
	buf_printf(&output, "%sHere's the result of running `cat -n` on %s:\n", said, of);
	text_number(&output, part, len, first);
	buf_str(&output, then);
	edit->result.output = keep(edit->call, &output);
}

static int bad_range(struct edit *edit, struct err *err, const char *why)
{
	const int64_t *range = edit->r->view_range.items;
	return file_editor_fail(edit, err, ERR_RANGE,
				"Invalid `view_range` parameter: [%lld, %lld]. %s",
				(long long)range[0], (long long)range[1], why);
}

/* Whole: 1 to INT64_MAX. */
static int wanted_lines(struct edit *edit, int64_t *first, int64_t *last, struct err *err)
{
	const int64_t *range = edit->r->view_range.items;
	*first = 1;
	*last = INT64_MAX;
	if (!edit->r->view_range.count)
		return 0;
	if (edit->r->view_range.count != 2)
		return file_editor_fail(
			edit, err, ERR_RANGE,
			"Invalid `view_range` parameter. It should be a list of two integers.");
	*first = range[0];
	*last = range[1] == -1 ? INT64_MAX : range[1];
	if (*first < 1)
		return bad_range(edit, err, "Its first element should be at least 1.");
	if (*last < *first)
		return bad_range(
			edit, err,
			"Its second element should be greater than or equal to the first element.");
	return 0;
}

static int check_end(struct edit *edit, int64_t first, int64_t count, struct err *err)
{
	if (first <= (count ? count : 1))
		return 0;
	return bad_range(
		edit, err,
		arena_printf(
			edit->call->arena,
			"Its first element should be within the range of lines of the file: [1, %lld].",
			(long long)count));
}

static const char *note(struct edit *edit, int64_t last, int64_t count)
{
	if (last == INT64_MAX || last <= count)
		return "";
	return arena_printf(
		edit->call->arena,
		"NOTE: We only show up to %lld since there're only %lld lines in this file.\n",
		(long long)count, (long long)count);
}

static bool is_there(void *arg)
{
	return call_wait(arg, -1, 0) == WAKE_TIMEOUT;
}

/* A file too large to be held: only some of its lines are. */
static int view_part(struct edit *edit, int fd, int64_t first, int64_t last, struct err *err)
{
	struct lines lines;
	size_t max = file_edit_max(edit->call);
	if (lines_find(fd, first - 1, last, is_there, edit->call, &lines, err) < 0 ||
	    (!lines.count && check_end(edit, first, lines.seen, err) < 0))
		return -1;
	if (lines.end - lines.start > (int64_t)max)
		return file_editor_fail(edit, err, ERR_TOO_LARGE,
					"These lines of %s have more than %zu bytes. View fewer of "
					"them, with `view_range`.",
					edit->path, max);
	auto_buf struct buf text = BUF(max + 1);
	size_t len = (size_t)(lines.end - lines.start);
	ssize_t got = regular_read_at(fd, lines.start, buf_grow(&text, len + 1), len, err);
	if (got < 0)
		return -1;
	const char *said = lines.seen < last ? note(edit, last, lines.seen) : "";
	auto_buf struct buf output =
		BUF(numbered_max(text.data, (size_t)got) + strlen(said) + strlen(edit->path));
	buf_printf(&output, "%sHere's the result of running `cat -n` on %s:\n", said, edit->path);
	text_number(&output, text.data, (size_t)got, first);
	edit->result.output = keep(edit->call, &output);
	return 0;
}

static int view_text(struct edit *edit, int fd, int64_t size, struct err *err)
{
	int64_t first, last;
	if (wanted_lines(edit, &first, &last, err) < 0)
		return -1;
	if (size > (int64_t)file_edit_max(edit->call))
		return view_part(edit, fd, first, last, err);
	auto_buf struct buf text = BUF(file_edit_max(edit->call));
	enum text_encoding encoding;
	if (regular_read(fd, &text, err) < 0 || text_decode(&text, &encoding, err) < 0)
		return -1;
	if (encoding == TEXT_BYTES && memchr(text.data, 0, text.len))
		return file_editor_fail(edit, err, EILSEQ,
					"%s is not a text file. Read it with /v1/file/download.",
					edit->path);
	if (encoding == TEXT_BYTES)
		edit->call->hint = "The file is not UTF-8: what is unknown is shown as U+FFFD, and "
				   "only ASCII text can be replaced or inserted.";
	int64_t count = text_lines(text.data, text.len);
	if (check_end(edit, first, count, err) < 0)
		return -1;
	file_view_snippet(edit, note(edit, last, count), edit->path,
			  (struct text){ text.data, text.len }, first, last, "");
	return 0;
}

/* ---- documents ---- */

static int range_of(struct edit *edit, const char *name, const struct list *list,
		    struct document_range *ret, struct err *err)
{
	const int64_t *items = list->items;
	if (!list->count)
		return 0;
	if (list->count != 2)
		return file_editor_fail(
			edit, err, ERR_RANGE,
			"Invalid `%s` parameter. It should be a list of two integers.", name);
	*ret = (struct document_range){ items[0], items[1] };
	return 0;
}

static void forget_json(void *arg)
{
	json_decref(arg);
}

static int documents_view(struct edit *edit, int fd, const char *name, struct err *err)
{
	const struct editor *r = edit->r;
	struct document_request request = {
		.call = edit->call, .fd = fd, .name = name, .sheet = r->sheet_name
	};
	if (range_of(edit, "page_range", &r->page_range, &request.pages, err) < 0 ||
	    range_of(edit, "row_range", &r->row_range, &request.rows, err) < 0 ||
	    range_of(edit, "slide_range", &r->slide_range, &request.slides, err) < 0)
		return -1;
	auto_buf struct buf text = BUF(DOCUMENT_TEXT_MAX);
	/* The file is open; the worker's start is the server's business. */
	user_leave(&edit->rights);
	edit->rights.changed = false;
	json_t *metadata = NULL;
	if (document_view(&request, &text, r->enable_metadata ? &metadata : NULL, err) < 0) {
		struct err why = *err;
		return why.code == ERR_INVALID ? file_editor_fail(edit, err, ERR_RANGE, "%s: %s",
								  edit->path, why.msg)
					       : -1;
	}
	if (metadata)
		arena_defer(edit->call->arena, forget_json, metadata);
	edit->result.metadata = metadata;
	edit->result.output = keep(edit->call, &text);
	return 0;
}

/* ---- directories ---- */

struct tree {
	const char **paths;
	size_t count, hidden;
};

/* Names below a directory, two levels deep and without hidden ones. What cannot be looked into is
 * listed only. */
static int look_into(struct edit *edit, struct tree *tree, const char *path, int depth,
		     struct err *err)
{
	DIR *dir = opendir(path);
	if (!dir)
		return err_set(err, errno, "'%s'", path);
	const struct dirent *entry;
	while ((entry = readdir(dir)) && tree->count < NAMES_MAX) {
		const char *name = entry->d_name;
		if (*name == '.') {
			tree->hidden += depth == 1 && strcmp(name, ".") != 0 &&
					strcmp(name, "..") != 0;
			continue;
		}
		struct stat st;
		struct err ignored;
		bool is_dir = fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			      S_ISDIR(st.st_mode);
		const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
		char *full = arena_printf(edit->call->arena, "%s%s%s%s", path, slash, name,
					  is_dir ? "/" : "");
		tree->paths[tree->count++] = full;
		if (is_dir && depth < DEPTH)
			(void)look_into(edit, tree, full, depth + 1, &ignored);
	}
	closedir(dir);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int view_directory(struct edit *edit, struct err *err)
{
	auto_free const char **paths = xcalloc(NAMES_MAX, sizeof *paths);
	struct tree tree = { .paths = paths };
	if (edit->r->view_range.count)
		return file_editor_fail(
			edit, err, ERR_RANGE,
			"The `view_range` parameter is not allowed when `path` points to a directory.");
	if (look_into(edit, &tree, edit->path, 1, err) < 0)
		return -1;
	qsort(paths, tree.count, sizeof *paths, compare);
	auto_buf struct buf output = BUF((size_t)256 << 20);
	buf_printf(
		&output,
		"Here's the files and directories up to 2 levels deep in %s, excluding hidden items:\n%s%s\n",
		edit->path, edit->path, edit->path[strlen(edit->path) - 1] == '/' ? "" : "/");
	for (size_t i = 0; i < tree.count; i++)
		buf_printf(&output, "%s\n", paths[i]);
	if (tree.count == NAMES_MAX)
		buf_printf(&output, "\nThere are more than %d of them.\n", NAMES_MAX);
	if (tree.hidden)
		buf_printf(
			&output,
			"\n%zu hidden files/directories in this directory are excluded. You can use 'ls -la %s' to see them.\n",
			tree.hidden, edit->path);
	edit->result.output = keep(edit->call, &output);
	return 0;
}

int file_view(struct edit *edit, struct err *err)
{
	struct stat st;
	if (stat(edit->path, &st) < 0)
		return err_set(err, errno, "'%s'", edit->path);
	if (S_ISDIR(st.st_mode))
		return view_directory(edit, err);
	auto_close int fd = regular_open(edit->path, &st, err);
	if (fd < 0)
		return -1;
	const char *name = strrchr(edit->path, '/') + 1;
	return document_viewable(name) ? documents_view(edit, fd, name, err)
				       : view_text(edit, fd, st.st_size, err);
}
