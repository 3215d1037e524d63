/* program.h - a program of the machine (ip, nft) run to its end. */
#pragma once

struct buf;
struct err;

/* Runs the first of NAME in /usr/sbin, /sbin, /usr/bin and /bin, or the path, with its standard input. -1
 * with what it wrote to its standard error; `package` is what to install where it is missing. */
int program_run(const char *name, const char *package, char *const *argv, const char *input,
		struct err *err);

/* The same, for what it prints: to standard output and error, also when it fails. */
int program_read(const char *name, char *const *argv, struct buf *ret, struct err *err);
