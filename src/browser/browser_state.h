/* browser_state.h - what the files of the browser share: a browser, its sessions and its tabs.
 *
 * Events arrive in the reader's thread: browser_events.c takes those of the browser itself, tab_events.c
 * those of tabs. Locks: a tab's, then the browser's, then that of cdp.c; no two tabs' at once. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "browser/browser.h"
#include "browser/tab.h"

struct config;
struct user;

enum {
	TABS_MAX = 256,      /* more are not ours to drive */
	SESSIONS_MAX = 2048, /* of tabs, and of frames with a process of their own */
	FRAMES_MAX = 1000,   /* of a tab */
	NEWS_MAX = 32,
	DOWNLOADS_MAX = 100,
	CLOSED_MAX = 16,
	URL_MAX = 32768, /* what is kept of a URL: data: URLs are large */
	TITLE_MAX = 4096,
};

struct browser_session {
	struct browser_session *next;
	struct tab *tab; /* borrowed: the list of tabs has it */
	char id[CDP_ID_MAX];
};

struct browser {
	_Atomic int refs; /* the owner's, and one of each tab */
	const struct config *config;
	struct cdp *cdp;
	bool file_dialogs;
	char *agent, *version, *id, *downloads_dir;
	_Atomic int64_t due_ms; /* when the reader is to look after dialogs; INT64_MAX: never */
	_Atomic bool painted;
	_Atomic int64_t fitted; /* the size of the screen that its window was waited to have */
	_Atomic int renewals;   /* how often it has been attached to again */
	_Atomic int outsiders;  /* clients of others that drive it, by our tunnels */

	pthread_mutex_t lock; /* of what follows */
	struct waiter *waiters;
	struct tab *tabs[TABS_MAX]; /* each is a reference */
	size_t tab_count;
	struct tab *current; /* borrowed; NULL: none */
	struct {
		uint64_t count;
		char target[CLOSED_MAX][CDP_ID_MAX];
	} closed; /* the latest tabs that were */
	struct browser_session *sessions;
	size_t session_count;
	bool opened, lost;
	struct { /* storage.c: its page */
		char session[CDP_ID_MAX], loader[CDP_ID_MAX];
	} storage;
	struct held_post *held_posts; /* the reader's: intercept.c */
	bool broken;                  /* it can open no page any more */
	struct {
		uint64_t count; /* of all there ever were */
		char *text[NEWS_MAX];
	} news;
	struct {
		uint64_t count, taken; /* taken: up to this number */
		struct download list[DOWNLOADS_MAX];
	} downloads;
};

/* ---- browser.c ---- */

void browser_unref(struct browser *browser);

/* What it says of itself. */
void browser_set_version(struct browser *browser, const char *agent, const char *version);
void browser_set_id(struct browser *browser, const char *id);

/* The tab of a session, to be given back; NULL: none. */
struct tab *browser_find(struct browser *browser, const char *session);

/* Adds a session of a tab; -1: there are too many. With tab_release() of the tab's last reference it is
 * gone anyway. */
int browser_add_session(struct browser *browser, struct tab *tab, const char *session);
void browser_drop_session(struct browser *browser, const char *session);

/* Every session of a tab (NULL: of all), by fn, under the browser's lock. */
void browser_each_session(struct browser *browser, const struct tab *tab,
			  void (*fn)(struct cdp *cdp, const char *session, const void *arg),
			  const void *arg);

/* Adds it, and takes the reference; or false, where there are too many. */
bool browser_add_tab(struct browser *browser, struct tab *tab);
void browser_remove_tab(struct browser *browser, struct tab *tab);
void browser_set_current(struct browser *browser, struct tab *tab);

/* Waits until found() is true, asked under the browser's lock, and at every change. */
typedef bool browser_found_fn(struct browser *browser, void *arg);
int browser_wait(struct browser *browser, browser_found_fn *found, void *arg,
		 const struct wait *wait, struct err *err);

/* What has happened, in words, for browser_news(). */
void browser_tell(struct browser *browser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- browser_events.c ---- */

/* As struct cdp_user has them; arg is the browser. */
void browser_event(void *arg, const char *session, const char *method, const json_t *params);
void browser_lost(void *arg);

/* ---- downloads.c ---- */

void downloads_begin(struct browser *browser, const json_t *params);
void downloads_progress(struct browser *browser, const json_t *params);
void downloads_free(struct browser *browser);

/* ---- tab.c ---- */

struct tab *tab_new(struct browser *browser, const char *target, const char *session,
		    const char *url, const char *title);

/* The calls that are under way fail: it is closed. */
void tab_cut(struct tab *tab, const char *why);

/* It is gone: who waits for it is told. */
void tab_gone(struct tab *tab);

/* ---- tab_events.c ---- */

/* Has a new session of a tab report what the tables want to know, and lets it run. */
void tab_enable(struct browser *browser, const char *session);

/* Applies an event of one of its sessions. */
void tab_apply(struct tab *tab, const char *session, const char *method, const json_t *params);

/* What the tables keep in a tab that is freed. */
void tab_free_kept(struct tab *tab);

#define FRAME_WORLD "aio" /* the name of our isolated world */

/* ---- frame_events.c; with the tab's lock ---- */

void frames_init(struct tab *tab);
void frames_free(struct tab *tab);

/* A frame moved into a process of its own, or back. */
void frames_moved_out(struct tab *tab, const char *id, const char *parent, const char *session);
void frames_moved_back(struct tab *tab, const char *session);

/* ---- intercept.c ---- */

/* In the reader's thread: sends what had to wait, and says when to call it again. */
int64_t intercept_due(struct browser *browser);
void intercept_free(struct browser *browser);

/* ---- storage.c ---- */

/* In the reader's thread. True: it is of the page that reads and writes local storage. */
bool storage_event(struct browser *browser, const char *session, const char *method,
		   const json_t *params);

/* ---- dialog.c ---- */

/* Of struct cdp_user.due: closes what nobody has answered. */
int64_t dialogs_due(void *arg);
