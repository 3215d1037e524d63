/* Writing files, and replacing text in them. */
#include <errno.h>
#include <string.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/utf8.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

/* ---- write ---- */

struct file_write {
	const char *file, *path_b64;
	struct text content;
	const char *encoding;
	bool append, leading_newline, trailing_newline, sudo;
};
static const char *const encodings[] = { "utf-8", "base64", "raw", NULL };
static const struct field write_fields[] = {
	STR(file_write, file, REQUIRED, "Absolute file path.", .alias = "path"),
	TEXT(file_write, content, REQUIRED, "What to write: text, or bytes in an encoding."),
	ENUM(file_write, encoding, OPTIONAL,
	     "utf-8: text. base64: bytes. raw: bytes too, each a character up to U+00FF.",
	     .def = "utf-8", .choices = encodings),
	BOOL(file_write, append, OPTIONAL, "Add to the file's end.", .def = "false"),
	BOOL(file_write, leading_newline, OPTIONAL, "Write a newline before text.", .def = "false"),
	BOOL(file_write, trailing_newline, OPTIONAL, "Write a newline after text.", .def = "false"),
	BOOL(file_write, sudo, OPTIONAL, "Write as root.", .def = "false"),
	FILE_B64(file_write),
};
static const struct schema write_schema = SCHEMA(file_write, "FileWriteRequest", write_fields);

struct file_written {
	const char *file;
	int64_t bytes_written;
};
static const struct field written_fields[] = {
	STR(file_written, file, REQUIRED, "Path of the file."),
	INT(file_written, bytes_written, REQUIRED, "How many bytes were written."),
};
static const struct schema written_schema = SCHEMA(file_written, "FileWriteResult", written_fields);
static const struct field written_data = FILE_RESULT(&written_schema);

static int decode_base64(struct text text, struct buf *to, struct err *err)
{
	if (base64_decode(to, text.data, text.len) < 0)
		return err_set(err, EILSEQ, "content is not base64");
	return 0;
}

/* Each character is a byte: only those up to U+00FF are, which have two bytes at most in UTF-8. */
static int decode_raw(struct text text, struct buf *to, struct err *err)
{
	const unsigned char *at = (const unsigned char *)text.data, *end = at + text.len;
	char *bytes = buf_grow(to, text.len);
	for (; at < end; at += *at < 0x80 ? 1 : 2) {
		if (*at > 0xc3)
			return err_set(
				err, EILSEQ,
				"content has a character above U+00FF, which is not one byte");
		bytes[to->len++] = (char)(*at < 0x80 ? *at : (*at & 3) << 6 | (at[1] & 0x3f));
	}
	return 0;
}

static int bytes_of(const struct file_write *r, struct buf *bytes, struct text *ret,
		    struct err *err)
{
	*ret = r->content;
	if (!strcmp(r->encoding, "utf-8")) {
		if (!r->leading_newline && !r->trailing_newline)
			return 0;
		buf_str(bytes, r->leading_newline ? "\n" : "");
		buf_add(bytes, r->content.data, r->content.len);
		buf_str(bytes, r->trailing_newline ? "\n" : "");
	} else {
		bool base64 = !strcmp(r->encoding, "base64");
		if ((base64 ? decode_base64 : decode_raw)(r->content, bytes, err) < 0)
			return -1;
	}
	*ret = (struct text){ bytes->data ? bytes->data : "", bytes->len };
	return 0;
}

static int put(struct call *call, const struct file_write *r, const char *path, struct text bytes,
	       struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	if (file_user_enter(call, r->sudo, &view, err) < 0 || place_hold(path, &place, err) < 0)
		return -1;
	if (r->append)
		return save_append(&place, bytes.data, bytes.len, err);
	return save_put(&(struct save){ .data = bytes.data, .len = bytes.len, .fd = -1 }, &place,
			err);
}

static int write_file(struct call *call, const void *in, struct err *err)
{
	const struct file_write *r = in;
	struct err cause = { 0 };
	struct text bytes;
	auto_buf struct buf room = BUF(r->content.len + 2);
	const char *path = file_path(call, r->file, r->path_b64, &cause);
	if (!path || bytes_of(r, &room, &bytes, &cause) < 0 ||
	    put(call, r, path, bytes, &cause) < 0)
		return file_error(call, "write", path ? path : r->file, &cause, err);
	struct file_written written = { path, (int64_t)bytes.len };
	journal_add(JOURNAL_FILE_WRITTEN,
		    &(struct journal_file){ path, r->append ? "append" : "write",
					    written.bytes_written });
	return call_reply(call, &written, err);
}

/* ---- replace ---- */

struct file_replace {
	const char *file, *path_b64;
	struct text old_str, new_str;
	bool sudo;
};
static const struct field replace_fields[] = {
	STR(file_replace, file, REQUIRED, "Absolute file path.", .alias = "path"),
	TEXT(file_replace, old_str, REQUIRED, "Text to replace, wherever it is.", .min_len = 1),
	TEXT(file_replace, new_str, REQUIRED, "What to put in its place."),
	BOOL(file_replace, sudo, OPTIONAL, "Act as root.", .def = "false"),
	FILE_B64(file_replace),
};
static const struct schema replace_schema =
	SCHEMA(file_replace, "FileReplaceRequest", replace_fields);

struct file_replaced {
	const char *file;
	int64_t replaced_count;
};
static const struct field replaced_fields[] = {
	STR(file_replaced, file, REQUIRED, "Path of the file."),
	INT(file_replaced, replaced_count, REQUIRED, "How many were replaced."),
};
static const struct schema replaced_schema =
	SCHEMA(file_replaced, "FileReplaceResult", replaced_fields);
static const struct field replaced_data = FILE_RESULT(&replaced_schema);

static int change(struct call *call, const struct file_replace *r, const char *path,
		  int64_t *ret_count, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	auto_buf struct buf text = BUF(file_edit_max(call));
	auto_change struct text_change change = { 0 };
	enum text_encoding encoding;
	if (file_user_enter(call, r->sudo, &view, err) < 0 || place_hold(path, &place, err) < 0 ||
	    file_load(place.path, &text, &encoding, err) < 0 ||
	    text_replace(&text, encoding, r->old_str, r->new_str, TEXT_ALL, text.cap, &change,
			 err) < 0)
		return -1;
	*ret_count = (int64_t)change.replaced;
	if (!change.replaced)
		return 0;
	if (text_encode(&change.text, encoding, err) < 0)
		return -1;
	struct save save = { .data = change.text.data, .len = change.text.len, .fd = -1 };
	return save_put(&save, &place, err);
}

static int replace_in_file(struct call *call, const void *in, struct err *err)
{
	const struct file_replace *r = in;
	struct err cause = { 0 };
	struct file_replaced replaced = { 0 };
	replaced.file = file_path(call, r->file, r->path_b64, &cause);
	if (!replaced.file || change(call, r, replaced.file, &replaced.replaced_count, &cause) < 0)
		return file_error(call, "replace", replaced.file ? replaced.file : r->file, &cause,
				  err);
	if (replaced.replaced_count)
		journal_add(JOURNAL_FILE_WRITTEN,
			    &(struct journal_file){ replaced.file, "replace", INT_ABSENT });
	call->message = arena_printf(call->arena,
				     "Replacement completed, replaced %lld occurrences",
				     (long long)replaced.replaced_count);
	return call_reply(call, &replaced, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/write", write_file, &write_schema, &written_data, "Write a file",
	  "Missing directories are made. A file is replaced as a whole or not at all.",
	  .message = "File written successfully" },
	{ "POST", "/v1/file/replace", replace_in_file, &replace_schema, &replaced_data,
	  "Replace text in a file",
	  "Every occurrence of a literal text. Line endings and encoding of the file stay." },
};

const struct route_group file_write_group = { "file", "Writing.", routes, COUNT(routes) };
