/* browser.h - a running Chromium as we drive it: its tabs, in order, and which of them is current.
 *
 * Every page target is a tab, whoever opened it. Each is attached to at once (flat sessions, and so are
 * the frames of it that have a process of their own), so nothing that happens in it is missed. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct arena;
struct browser;
struct cdp;
struct config;
struct err;
struct tab;

/* Takes a browser that has just been started; in and out are those of cdp_new(). file_dialogs: pages may
 * open file pickers on the desktop. */
struct browser *browser_open(int in, int out, const struct config *config, bool file_dialogs,
			     const struct wait *wait, struct err *err);

/* Asks it to close in order. -1: it does not listen any more. */
int browser_quit(struct browser *browser);

/* NULL is fine. Nobody uses it, but tabs may still be held: they are closed. */
void browser_free(struct browser *browser);

struct cdp *browser_cdp(struct browser *browser);
const char *browser_id(const struct browser *browser); /* in the URL that clients are given */

/* Whether it downloads, or is driven by a client of others. */
bool browser_is_busy(struct browser *browser);

/* Whether its window has been seen on the screen with something in it. */
bool browser_is_painted(struct browser *browser);
void browser_set_painted(struct browser *browser);

/* Waits until its window is as large as the screen, but only a moment, and once for each size: a person may
 * have made it smaller. */
void browser_await_fit(struct browser *browser, struct tab *tab, int width, int height,
		       const struct wait *wait);

/* Attaches to everything again: the tabs are other objects then, and what they kept is forgotten. */
int browser_attach_again(struct browser *browser, const struct wait *wait, struct err *err);

bool browser_is_lost(
	struct browser *browser); /* of no use any more: ended, or unable to open pages */
const char *browser_agent(const struct browser *browser);   /* its User-Agent */
const char *browser_version(const struct browser *browser); /* "Chrome/140.0.…" */

/* The current tab, to be given back by tab_release(): the one that was activated, opened or popped up
 * last; where there is none, a blank one is opened. */
struct tab *browser_tab(struct browser *browser, const struct wait *wait, struct err *err);

/* Which one that is now, to be compared only; NULL: none. */
const struct tab *browser_current(struct browser *browser);

/* All of them, in the order of their index, in the arena; each to be given back by tab_release(). */
size_t browser_tabs(struct browser *browser, struct arena *arena, struct tab ***ret);

/* Asks for the titles of all tabs: the browser does not report each change. */
int browser_update_titles(struct browser *browser, const struct wait *wait, struct err *err);

/* Opens a tab, which becomes the current one. It does not wait for the page. NULL with ERR_NOT_FOUND: it has
 * closed again already, as the browser does where the address is a download; ERR_LIMIT: too many are open. */
struct tab *browser_new_tab(struct browser *browser, const char *url, const struct wait *wait,
			    struct err *err);

/* What has changed since the caller asked last (a count of changes that it keeps): "Tab opened: …",
 * for the hint of an answer; NULL: nothing. In the arena. */
const char *browser_news(struct browser *browser, uint64_t *since, struct arena *arena);

/* That count now: what has changed so far is not news. */
uint64_t browser_changes(struct browser *browser);

/* ---- downloads, which go to ~/Downloads: downloads.c ---- */

enum download_state { DOWNLOAD_RUNNING, DOWNLOAD_DONE, DOWNLOAD_CANCELED };

struct download {
	uint64_t number; /* 1, 2, … */
	char guid[64];
	char *url, *path; /* the path is final once it is DONE */
	enum download_state state;
	int64_t received, total; /* bytes; total 0: not known */
};

/* The number of the latest one; 0: there was none. */
uint64_t browser_downloads(struct browser *browser);

/* Waits for the first one beyond `since` to end. What it points to is in the arena. ERR_CONFLICT: it was
 * canceled. */
int browser_wait_download(struct browser *browser, uint64_t since, struct arena *arena,
			  struct download *ret, const struct wait *wait, struct err *err);

/* The same for the latest one that no call of this has returned yet, whether it has ended or not; or else the
 * next. */
int browser_take_download(struct browser *browser, struct arena *arena, struct download *ret,
			  const struct wait *wait, struct err *err);

/* The latest at most `max`, the newest first, in the arena. */
size_t browser_list_downloads(struct browser *browser, size_t max, struct arena *arena,
			      struct download **ret);

/* Whether one is under way. */
bool browser_downloading(struct browser *browser);

/* A client of others drives the browser from now on, by a tunnel of ours; and has left. */
void browser_outsider(struct browser *browser, bool comes);
