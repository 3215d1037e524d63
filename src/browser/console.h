/* console.h - what a page has written to its console, what it threw and nobody caught, and what the browser
 * says of it: the latest of a tab, bounded. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct tab;

enum { CONSOLE_COUNT_MAX = 1000, CONSOLE_BYTES_MAX = 1 << 20, CONSOLE_TEXT_MAX = 10000 };

struct console_place {
	const char *url;
	int64_t line, column; /* from 0; INT_ABSENT: not known */
};

struct console_entry {
	const char *type;  /* as the page called it: "log", "warning", "table" …; "exception" */
	const char *level; /* "debug", "info", "log", "warning", "error" */
	const char *
		source; /* "console", "exception", or who in the browser: "network", "security" … */
	const char *text;
	const char *stack; /* NULL: none */
	const struct console_place *location;
	const char *timestamp; /* ISO 8601 */
};

/* All that is kept, oldest first, in the arena. *ret_end is for console_forget(). */
size_t console_list(struct tab *tab, struct arena *arena, struct console_entry **ret,
		    uint64_t *ret_end);

/* Forgets what was listed, and not what came since. */
void console_forget(struct tab *tab, uint64_t end);
