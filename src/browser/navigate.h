/* navigate.h - has a tab show another document, and waits until that has come far enough. */
#pragma once
#include <stdbool.h>

#include "base/wait.h"
#include "browser/tab.h"

struct err;

/* Each waits until the document has reached `reached` (one of enum tab_reached), or, where the page only
 * moves within its document, until it has moved. -1 with ERR_CONFLICT: it cannot be loaded (why, and of
 * a sandbox without a network how to get one), it crashed, or it waits for a dialog; ERR_SLOW: it has not
 * come so far in time. */

/* *ret_download: the address is a download, and the tab shows what it did before. */
int navigate_to(struct tab *tab, const char *url, unsigned reached, bool *ret_download,
		const struct wait *wait, struct err *err);
int navigate_reload(struct tab *tab, unsigned reached, const struct wait *wait, struct err *err);

/* by: -1 goes back, 1 forward. ERR_NOT_FOUND: there is nothing. */
int navigate_history(struct tab *tab, int by, unsigned reached, const struct wait *wait,
		     struct err *err);

/* Waits until the document that the tab shows has reached that. TAB_IDLE, here and above: it is loaded, and no
 * request has been under way for half a second. */
int navigate_await(struct tab *tab, unsigned reached, const struct wait *wait, struct err *err);

/* Waits until the URL matches (url_pattern.h), and its document has reached that. */
int navigate_await_url(struct tab *tab, const char *pattern, unsigned reached,
		       const struct wait *wait, struct err *err);

/* For those who go on in another document: how many there have been, and waiting for one more, but for a
 * moment at most: it may be there already. */
uint64_t navigate_documents(struct tab *tab);
int navigate_await_next(struct tab *tab, uint64_t documents, const struct wait *wait,
			struct err *err);
