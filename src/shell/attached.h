/* attached.h - a command of bash, or a shell, whose standard descriptors or terminal the caller reads and
 * writes. Nothing is kept: the command blocks until its output is read. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct program;
struct user;

enum { ATTACHED_IN, ATTACHED_OUT, ATTACHED_ERR };

struct attached_spec {
	const char *command;    /* NULL: a shell */
	const char *cwd, *home; /* where it runs; the product's home */
	const struct user *as;
	bool terminal;
	int64_t cols, rows; /* of the terminal: see attached_resize() */
	const char *term;   /* its TERM; NULL: the usual */
};

struct attached {
	struct program *program;
	int fds[3]; /* our ends; of a terminal in and out are the same one. -1: closed */
	bool terminal;
	char marker[112];
};
#define ATTACHED_NONE                 \
	{                             \
		.fds = { -1, -1, -1 } \
	}

/* Starts it, in one that was ATTACHED_NONE; the arena is needed for the call only. */
int attached_start(struct attached *attached, const struct attached_spec *spec, struct arena *arena,
		   struct err *err);
void attached_done(struct attached *attached); /* closes what is open; the process runs on */

/* A size that no terminal has is ignored. */
void attached_resize(const struct attached *attached, int64_t cols, int64_t rows);

void attached_close(struct attached *attached, int which);

/* Reads once. 0: there is nothing now, or it has ended, and is closed. */
size_t attached_read(struct attached *attached, int which, char *to, size_t room);

/* How much there is to be read at most. Others may hold a pipe too, and fill it for ever. */
size_t attached_held(const struct attached *attached, int which);

/* Writes as much as there is room for: how much. Input of a command that has closed its end
 * counts as written. */
size_t attached_write(struct attached *attached, const char *data, size_t len);
