/* file_error.h - how a call of /v1/file says what the file system refused: HTTP 200, success false,
 * and in data what, where and why, in the terms of a Python program. */
#pragma once
#include "base/desc.h"

struct call;
struct err;

/* What data is then: of a T_OBJ field that describes a result, .other = &file_error_schema. */
extern const struct schema file_error_schema;

#define FILE_RESULT(schema)                                                \
	{                                                                  \
		.type = T_OBJ, .of = (schema), .other = &file_error_schema \
	}

/* Answers that `operation` ("read", "write", …) on path failed for this reason, an errno or an
 * ERR_*: EILSEQ is a decode_error, ERR_BAD_REQUEST an invalid_target, ERR_FORBIDDEN a
 * permission_denied, ERR_INVALID an invalid_path. What is no failure of the file system's (ERR_GONE,
 * ERR_INTERNAL, ERR_UNAVAILABLE) is returned as it is. So is the whole of it for a route without an
 * envelope, which fails with an HTTP status. Beside the error's own fields stand those of the result
 * that a client may insist on, empty. */
int file_error(struct call *call, const char *operation, const char *path, const struct err *cause,
	       struct err *err);

/* The same with a message of the caller's own, instead of
 * "Failed to read file: [Errno 2] No such file or directory: '/x'". */
int file_error_say(struct call *call, const char *operation, const char *path, int code,
		   const char *message, struct err *err);
