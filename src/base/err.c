#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

static const struct err_row {
	int code;
	int status;
	const char *type;
} rows[] = {
	/* clang-format off */
	{ ERR_BAD_REQUEST,      400, "invalid_request" },
	{ ERR_UNAUTHORIZED,     401, "unauthorized" },
	{ ERR_FORBIDDEN,        403, "forbidden" },
	{ ERR_NOT_FOUND,        404, "not_found" },
	{ ERR_METHOD,           405, "method_not_allowed" },
	{ ERR_SLOW,             408, "timeout" },
	{ ERR_CONFLICT,         409, "conflict" },
	{ ERR_TOO_LARGE,        413, "too_large" },
	{ ERR_MEDIA_TYPE,       415, "unsupported_media_type" },
	{ ERR_RANGE,            416, "invalid_range" },
	{ ERR_INVALID,          422, "invalid_value" },
	{ ERR_PATTERN,          422, "invalid_pattern" },
	{ ERR_UPGRADE_REQUIRED, 426, "upgrade_required" },
	{ ERR_LIMIT,            429, "limit_reached" },
	{ ERR_HEAD_TOO_LARGE,   431, "too_large" },
	{ ERR_INTERNAL,         500, "internal" },
	{ ERR_NOT_IMPLEMENTED,  501, "not_implemented" },
	{ ERR_UNAVAILABLE,      503, "unavailable" },
	{ ERR_HTTP_VERSION,     505, "http_version" },
	{ ERR_GONE,             499, "client_gone" },
	{ ENOENT,               404, "not_found" },
	{ EACCES,               403, "permission_denied" },
	{ EPERM,                403, "permission_denied" },
	{ EEXIST,               409, "already_exists" },
	{ ENOTDIR,              400, "invalid_target" },
	{ EISDIR,               400, "invalid_target" },
	{ ELOOP,                400, "invalid_path" },
	{ ENAMETOOLONG,         400, "invalid_path" },
	{ EINVAL,               400, "invalid_path" },
	{ EROFS,                403, "read_only_filesystem" },
	{ ENOSPC,               507, "no_space_left" },
	{ EDQUOT,               507, "no_space_left" },
	{ EILSEQ,               400, "decode_error" },
	{ EMFILE,               429, "io_error" },
	{ ENFILE,               429, "io_error" },
	/* clang-format on */
};

static const struct err_row *find(int code)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].code == code)
			return &rows[i];
	return NULL;
}

int err_status(int code)
{
	const struct err_row *row = find(code);
	return row ? row->status : 500;
}

const char *err_type(int code)
{
	const struct err_row *row = find(code);
	return row ? row->type : "io_error";
}

int err_set(struct err *err, int code, const char *format, ...)
{
	if (!err)
		return -1;
	err->code = code;
	va_list args;
	va_start(args, format);
	int len = vsnprintf(err->msg, sizeof err->msg, format, args);
	va_end(args);
	if (code < ERR_BAD_REQUEST && len >= 0 && (size_t)len < sizeof err->msg) {
		char text[128];
		snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s",
			 strerror_r(code, text, sizeof text));
	}
	return -1;
}
