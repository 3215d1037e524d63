/* tab_events.h - what the browser reports of a tab, as tables: one per file that keeps some of it.
 *
 * A file that wants events has a table of rows, and a row in tab_events.c. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct browser;
struct tab;

/* In the reader's thread, with the tab's lock; session is that of the tab, or of one of its frames.
 * It may cdp_post(), and must not wait. Everybody who waits for the tab is woken afterwards. */
struct tab_event {
	const char *method;
	void (*apply)(struct tab *tab, const char *session, const json_t *params);
};

struct tab_events {
	const struct tab_event *rows;
	size_t count;
	/* Methods that are called of every session of a tab when it is attached ("Network.enable"), with
	 * params as JSON text or NULL; ends with a NULL method. */
	const struct tab_enable {
		const char *method, *params;
	} * enable;
	/* Posts what else a new session is to know, before it runs; in the reader's thread, without the
	 * tab's lock. NULL: nothing. */
	void (*begin)(struct browser *browser, const char *session);
	void (*free)(struct tab *tab); /* what it keeps in the tab; NULL: nothing */
};

extern const struct tab_events frame_events, console_events, request_events, dialog_events,
	intercept_events, storage_events, scheme_events, screencast_events;
