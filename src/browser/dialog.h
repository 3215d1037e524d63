/* dialog.h - alert(), confirm(), prompt() and "leave this page?", which stop a page until answered.
 *
 * While one is open, calls that need the page fail at once with an error that names it. One that nobody
 * answers is closed after DIALOG_MS; "leave this page?" is accepted at once, unless a client of others
 * drives the browser, who then has DIALOG_OUTSIDE_MS. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "browser/tab.h"

struct err;

enum { DIALOG_MS = 30000, DIALOG_OUTSIDE_MS = 5000 };

/* With the tab's lock. */
struct dialog {
	uint64_t number;     /* 1, 2, …, of the tab */
	char kind[16];       /* "alert", "confirm", "prompt", "beforeunload" */
	char *message, *def; /* never NULL; def: what a prompt suggests */
	char *url;
	int64_t due_ms; /* of clock_ms(): when it is closed */
};

/* Answers the dialog of a tab, and waits until the page goes on; text is for a prompt, NULL: what it
 * suggests. -1 with ERR_NOT_FOUND: none is open. */
int dialog_answer(struct tab *tab, bool accept, const char *text, const struct wait *wait,
		  struct err *err);
