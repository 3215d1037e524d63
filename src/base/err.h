/* err.h - what went wrong, said once where the cause is known. */
#pragma once

/* A code is an errno or one of these. One table gives each its HTTP status and error_type. */
enum err_code {
	ERR_BAD_REQUEST = 1000,
	ERR_UNAUTHORIZED,
	ERR_FORBIDDEN,
	ERR_NOT_FOUND,
	ERR_METHOD,
	ERR_SLOW,
	ERR_CONFLICT,
	ERR_TOO_LARGE,
	ERR_MEDIA_TYPE,
	ERR_RANGE,
	ERR_INVALID,
	ERR_UPGRADE_REQUIRED,
	ERR_LIMIT,
	ERR_HEAD_TOO_LARGE,
	ERR_INTERNAL,
	ERR_NOT_IMPLEMENTED,
	ERR_UNAVAILABLE,
	ERR_HTTP_VERSION,
	ERR_GONE,    /* the client left: nobody to answer */
	ERR_PATTERN, /* a glob or a regular expression that is none, or takes too long */
};

struct err {
	int code;
	char msg[512];
};

/* Fills err (which may be NULL) and returns -1. For an errno, its text is appended. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The HTTP status of a code: 500 for one that has no row. */
int err_status(int code);

/* The contract's error_type of a code, such as "not_found"; "io_error" for one that has no row. */
const char *err_type(int code);
