/* utility.h - a program of the machine (ip, nft, mke2fs) run to its end. */
#pragma once
#include <stdint.h>

struct buf;
struct err;

enum { UTILITY_MS = 60000 }; /* far more than any of them takes, also on a busy machine */

/* Runs the first of NAME in /usr/sbin, /sbin, /usr/bin and /bin, or the path, with its standard input.
 * -1 with what it wrote to its standard error; `package` is what to install where it is missing. One
 * that takes longer than timeout_ms is killed: ERR_UNAVAILABLE. */
int utility_run(const char *name, const char *package, char *const *argv, const char *input,
		int64_t timeout_ms, struct err *err);

/* The same, for what it prints: to standard output and error, also when it fails. */
int utility_read(const char *name, char *const *argv, struct buf *ret, int64_t timeout_ms,
		 struct err *err);
