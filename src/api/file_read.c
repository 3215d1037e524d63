/* Reading files: whole or some lines, however large they are. */
#include <errno.h>
#include <string.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/utf8.h"
#include "fs/file_user.h"
#include "fs/lines.h"
#include "fs/regular.h"
#include "fs/text.h"
#include "net/call.h"

enum {
	SMALL = 64 * 1024,      /* read at once */
	UNSIZED_MAX = 16 << 20, /* of a file of /proc, which may have no end */
};

struct file_read {
	const char *file, *path_b64;
	int64_t start_line, end_line;
	bool sudo;
};
static const struct field read_fields[] = {
	STR(file_read, file, REQUIRED, "Absolute file path.", .alias = "path"),
	INT(file_read, start_line, MIN | MAX, "First line, counted from 0.", .max = 1e15),
	INT(file_read, end_line, MIN | MAX, "Line to stop before.", .max = 1e15),
	BOOL(file_read, sudo, OPTIONAL, "Read as root.", .def = "false"),
	FILE_B64(file_read),
};
static const struct schema read_schema = SCHEMA(file_read, "FileReadRequest", read_fields);

struct file_content {
	struct stream content;
	const char *file;
	int64_t line_count;
};
static const struct field content_fields[] = {
	STREAM(file_content, content, REQUIRED, "Lines of the file, with their ends."),
	STR(file_content, file, REQUIRED, "Path of the file."),
	INT(file_content, line_count, REQUIRED, "How many lines are in content."),
};
static const struct schema content_schema = SCHEMA(file_content, "FileReadResult", content_fields);
static const struct field content_data = FILE_RESULT(&content_schema);

static bool is_there(void *arg)
{
	return call_wait(arg, -1, 0) == WAKE_TIMEOUT;
}

static size_t from_memory(void *arg, int64_t at, char *to, size_t room)
{
	memcpy(to, (const char *)arg + at, room);
	return room;
}

static size_t from_file(void *arg, int64_t at, char *to, size_t room)
{
	ssize_t n = regular_read_at(*(int *)arg, at, to, room, NULL);
	return n < 0 ? 0 : (size_t)n;
}

static int slice(const struct buf *text, int64_t first, int64_t last, struct file_content *ret,
		 struct err *err)
{
	size_t from = text_line_at(text->data, text->len, first + 1);
	size_t to = last <= first       ? from
		    : last == INT64_MAX ? text->len
					: from + text_line_at(text->data + from, text->len - from,
							      last - first + 1);
	size_t valid = utf8_span(text->data + from, to - from);
	if (valid != to - from)
		return err_set(
			err, EILSEQ,
			"'utf-8' codec can't decode byte 0x%02x in position %zu: the file is not UTF-8",
			(unsigned char)text->data[from + valid], from + valid);
	ret->content = (struct stream){
		.read = from_memory, .arg = text->data, .start = (int64_t)from, .end = (int64_t)to
	};
	ret->line_count = text_lines(text->data + from, to - from);
	return 0;
}

static int find(struct call *call, int *fd, int64_t first, int64_t last, struct file_content *ret,
		struct err *err)
{
	struct lines lines;
	if (lines_find(*fd, first, last, is_there, call, &lines, err) < 0)
		return -1;
	ret->content = (struct stream){
		.read = from_file, .arg = fd, .start = lines.start, .end = lines.end
	};
	ret->line_count = lines.count;
	return 0;
}

static int open_as(struct call *call, const struct file_read *r, const char *path, struct stat *ret,
		   struct err *err)
{
	auto_leave struct user_view view = { 0 };
	if (file_user_enter(call, r->sudo, &view, err) < 0)
		return -1;
	return regular_open(path, ret, err);
}

static int read_file(struct call *call, const void *in, struct err *err)
{
	const struct file_read *r = in;
	struct err cause = { 0 };
	struct stat st;
	const char *path = file_path(call, r->file, r->path_b64, &cause);
	auto_close int fd = path ? open_as(call, r, path, &st, &cause) : -1;
	if (fd < 0)
		return file_error(call, "read", path ? path : r->file, &cause, err);
	int64_t first = r->start_line == INT_ABSENT ? 0 : r->start_line;
	int64_t last = r->end_line == INT_ABSENT ? INT64_MAX : r->end_line;
	struct file_content content = { .file = path };
	auto_buf struct buf text = BUF(UNSIZED_MAX);
	int result;
	if (st.st_size <= SMALL)
		result = regular_read(fd, &text, &cause) < 0
				 ? -1
				 : slice(&text, first, last, &content, &cause);
	else
		result = find(call, &fd, first, last, &content, &cause);
	if (result < 0)
		return file_error(call, "read", path, &cause, err);
	return call_reply(call, &content, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/read", read_file, &read_schema, &content_data, "Read a file",
	  "Text only: a file that is not UTF-8 is refused, and can be downloaded. Lines beyond the "
	  "end are empty.",
	  .message = "File read successfully" },
};

const struct route_group file_read_group = {
	"file",
	"Files: read, write, edit, search, watch, upload, download. What the file system refuses is "
	"answered with success false and, in data, an error_type. Rights are those of the sandbox "
	"user, with sudo those of root.",
	routes,
	COUNT(routes),
};
