/* lines.h - lines of a file of any size, found without reading it into memory. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

struct lines {
	int64_t start, end; /* the bytes of the lines that were sought */
	int64_t count;      /* of those lines; one that does not end counts */
	int64_t seen;       /* lines up to there, from the file's first */
};

/* Finds the lines from `first`, counted from 0, up to but without `last` (INT64_MAX: all). None beyond
 * the file's end is no error. -1 with EILSEQ when they are not UTF-8, ERR_GONE when go_on(arg), which
 * is asked every few MiB, says false. */
int lines_find(int fd, int64_t first, int64_t last, bool (*go_on)(void *arg), void *arg,
	       struct lines *ret, struct err *err);
