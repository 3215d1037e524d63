/* tools.h - the programs that the sandbox user finds: interpreters, and tools by category.
 *
 * They are looked for on the PATH that the sandbox's commands get: the product's own directories,
 * then the PATH that the server was started with. Nothing found there is trusted: it runs as the
 * sandbox user, without the server's secrets, and not for long. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"

struct program_status;
struct err;
struct user;

/* Where and as whom to look. */
struct tools_where {
	const char *home; /* the product's: .venv/ and node_modules/ below it */
	const struct user *user;
	int stop_fd; /* readable: what runs is given up; -1: none */
};

struct tool_spec {
	const char *ver; /* NULL: it does not say */
	const char *bin;
	struct list alias; /* of strings: the commands that start it */
};
struct installed_tool {
	const char *name, *description;
};
struct tool_category {
	const char *category;
	struct list tools; /* of struct installed_tool */
};

enum tools_runtime { TOOLS_PYTHON, TOOLS_NODEJS, TOOLS_GIT, TOOLS_GH, TOOLS_UV, TOOLS_RUNTIMES };

struct tools {
	struct {
		const char *label;
		struct list specs; /* of struct tool_spec, the one that is found first first */
	} runtimes[TOOLS_RUNTIMES];
	struct list categories; /* of struct tool_category */
	struct tools_found *found;
};

/* Looks at what is there now. Versions are asked for in parallel, at most a few seconds, unless old
 * (may be NULL) knows them and the program is still the same. NULL on error. */
struct tools *tools_look(const struct tools_where *where, const struct tools *old, struct err *err);
void tools_free(struct tools *tools);

/* The path of a program, the first or a further one of that name (nth, from 0); NULL where there is
 * none. To be freed. */
char *tools_find(const struct tools_where *where, const char *name, size_t nth);

/* Runs a program that was found: see child_run(). */
int tools_run(const struct tools_where *where, char *const argv[], int64_t until_ms,
	      struct buf *out, struct program_status *ret, struct err *err);
