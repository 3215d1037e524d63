#include "api/file_error.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "net/call.h"
#include "net/route.h"

struct file_error {
	const char *path, *operation, *message, *error_type;
	bool retryable;
	int64_t errno_;
	const char *errno_name, *exception_type;
};

static const struct field fields[] = {
	STR(file_error, path, REQUIRED, "Path used for the file operation."),
	STR(file_error, operation, REQUIRED, "Name of the operation."),
	STR(file_error, message, REQUIRED, "The reason, for people."),
	STR(file_error, error_type, REQUIRED,
	    "Kind of failure: not_found, permission_denied, invalid_target, already_exists, "
	    "invalid_path, read_only_filesystem, no_space_left, decode_error, io_error, …"),
	BOOL(file_error, retryable, REQUIRED, "Whether the same call may succeed later."),
	NAMED("errno", INT, file_error, errno_, NULLABLE,
	      "Number of the system's error, where it was one."),
	STR(file_error, errno_name, NULLABLE, "Its name, such as ENOENT."),
	STR(file_error, exception_type, NULLABLE, "The Python exception it would be."),
};
const struct schema file_error_schema = SCHEMA(file_error, "FileOperationError", fields);

/* What is not here is an io_error and an OSError that no retry helps. */
static const struct file_error_row {
	int code;
	const char *type; /* NULL: what err_type() says */
	const char *exception;
	bool retryable;
} rows[] = {
	/* clang-format off */
	{ ENOENT,          NULL,                "FileNotFoundError", false },
	{ EACCES,          NULL,                "PermissionError", false },
	{ EPERM,           NULL,                "PermissionError", false },
	{ EEXIST,          NULL,                "FileExistsError", false },
	{ EISDIR,          NULL,                "IsADirectoryError", false },
	{ ENOTDIR,         NULL,                "NotADirectoryError", false },
	{ ENXIO,           "invalid_target",    "OSError", false },
	{ ENODEV,          "invalid_target",    "OSError", false },
	{ EFBIG,           "too_large",         "OSError", false },
	{ EAGAIN,          NULL,                "BlockingIOError", true },
	{ EINTR,           NULL,                "InterruptedError", true },
	{ ETIMEDOUT,       "timeout",           "TimeoutError", true },
	{ EBUSY,           NULL,                "OSError", true },
	{ ETXTBSY,         NULL,                "OSError", true },
	{ EMFILE,          NULL,                "OSError", true },
	{ ENFILE,          NULL,                "OSError", true },
	{ ENOMEM,          NULL,                "OSError", true },
	{ ESTALE,          NULL,                "OSError", true },
	{ EILSEQ,          NULL,                "UnicodeDecodeError", false },
	{ ERR_BAD_REQUEST, "invalid_target",    "OSError", false },
	{ ERR_INVALID,     "invalid_path",      "ValueError", false },
	{ ERR_PATTERN,     NULL,                "ValueError", false },
	{ ERR_FORBIDDEN,   "permission_denied", "PermissionError", false },
	{ ERR_TOO_LARGE,   NULL,                "ValueError", false },
	{ ERR_CONFLICT,    "edit_failed",       "ToolError", false },
	{ ERR_RANGE,       "invalid_argument",  "ToolError", false },
	{ ERR_NOT_IMPLEMENTED, NULL,            "NotImplementedError", false },
	{ ERR_NOT_FOUND,   NULL,                "ValueError", false },
	{ ERR_LIMIT,       NULL,                "OSError", true },
	{ ERR_SLOW,        NULL,                "TimeoutError", true },
	/* clang-format on */
};

static const struct file_error_row *find(int code)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].code == code)
			return &rows[i];
	return NULL;
}

/* Clients that know the result only refuse an answer without what it must have. */
static void put_result_fields(const struct schema *result, const struct file_error *e,
			      struct jw *jw)
{
	for (size_t i = 0; i < result->count; i++) {
		const struct field *f = &result->fields[i];
		bool own = f->flags & NULLABLE && strcmp(f->name, "error") != 0;
		for (size_t k = 0; k < COUNT(fields); k++)
			own = own || !strcmp(f->name, fields[k].name);
		if (own)
			continue;
		jw_key(jw, f->name);
		if (!strcmp(f->name, "file") || !strcmp(f->name, "file_path"))
			jw_str(jw, e->path);
		else if (!strcmp(f->name, "error"))
			jw_str(jw, e->message);
		else if (f->type == T_LIST || f->type == T_MAP)
			jw_raw(jw, f->type == T_LIST ? "[]" : "{}", 2);
		else if (f->type == T_INT || f->type == T_NUM)
			jw_int(jw, 0);
		else if (f->type == T_BOOL || f->type == T_TRI)
			jw_bool(jw, false);
		else
			jw_str(jw, "");
	}
}

static int answer(struct call *call, const struct file_error *e, struct err *err)
{
	call->failed = true;
	call->message = e->message;
	struct jw *jw = call_reply_begin(call, err);
	jw_open(jw, '{');
	for (size_t i = 0; i < COUNT(fields); i++) {
		jw_key(jw, fields[i].name);
		desc_encode_value(&fields[i], (const char *)e + fields[i].at, jw);
	}
	if (call->route->data && call->route->data->of)
		put_result_fields(call->route->data->of, e, jw);
	jw_close(jw, '}');
	return call_reply_end(call, err);
}

int file_error_say(struct call *call, const char *operation, const char *path, int code,
		   const char *message, struct err *err)
{
	bool system = code > 0 && code < ERR_BAD_REQUEST && code != EILSEQ;
	const struct file_error_row *row = find(code);
	struct file_error e = {
		.path = path,
		.operation = operation,
		.message = message,
		.error_type = row && row->type ? row->type : err_type(code),
		.retryable = row && row->retryable,
		.errno_ = system ? code : INT_ABSENT,
		.errno_name = system ? strerrorname_np(code) : NULL,
		.exception_type = row ? row->exception : "OSError",
	};
	return answer(call, &e, err);
}

static const char *headline(struct call *call, const char *operation)
{
	static const struct {
		const char *operation, *text;
	} texts[] = {
		{ "list", "Failed to list path" },
		{ "replace", "Failed to replace in file" },
		{ "search", "Failed to search in file" },
		{ "find", "Failed to find files" },
		{ "grep", "Failed to grep" },
		{ "glob", "Failed to glob" },
		{ "str_replace_editor", "Failed to edit file" },
	};
	for (size_t i = 0; i < COUNT(texts); i++)
		if (!strcmp(texts[i].operation, operation))
			return texts[i].text;
	return arena_printf(call->arena, "Failed to %s file", operation);
}

int file_error(struct call *call, const char *operation, const char *path, const struct err *cause,
	       struct err *err)
{
	int code = cause->code;
	if (call->route->flags & BARE || call->sink->begun || code == ERR_GONE ||
	    code == ERR_INTERNAL || code == ERR_UNAVAILABLE) {
		*err = *cause;
		return -1;
	}
	const char *what = headline(call, operation), *message;
	char text[128];
	if (code > 0 && code < ERR_BAD_REQUEST && code != EILSEQ)
		message = arena_printf(call->arena, "%s: [Errno %d] %s: '%s'", what, code,
				       strerror_r(code, text, sizeof text), path);
	else
		message = arena_printf(call->arena, "%s: %s", what, cause->msg);
	return file_error_say(call, operation, path, code, message, err);
}
