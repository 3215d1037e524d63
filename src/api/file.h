/* file.h - what the calls of /v1/file share. */
#pragma once
#include <stddef.h>

#include "base/desc.h"
#include "fs/text.h"

struct call;

/* A name need not be UTF-8, and JSON can hold nothing else. */
#define FILE_B64(s)                                                                                \
	STR(s, path_b64, OPTIONAL,                                                                 \
	    "The path as base64 of its bytes, for one that is not UTF-8, as the answers have it. " \
	    "Counts instead of the other.")

/* The path that a request means, absolute: a relative one is in the workspace. NULL with
 * ERR_INVALID for one that cannot be a path. */
const char *file_path(struct call *call, const char *path, const char *path_b64, struct err *err);

/* The base64 of a path that is not UTF-8; NULL for one that is. */
const char *file_path_b64(struct call *call, const char *path);

/* The most that is read of a file in order to show or change it. */
size_t file_edit_max(const struct call *call);

/* Reads the file that the path leads to, whole, as text. */
int file_load(const char *path, struct buf *to, enum text_encoding *ret, struct err *err);
