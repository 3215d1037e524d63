/* tab.h - a tab: its frames, what has happened in it, and how callers wait for that.
 *
 * What the browser reports is applied to the tab by the reader's thread, under the tab's lock, through
 * tables of rows (tab_events.h); callers wait for the tab to change (tab_wait()), and never poll. */
#pragma once
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/turn.h"
#include "base/wait.h"

struct browser;
struct tab_console;
struct dialog;
struct err;
struct requests;
struct screencast;

enum { CDP_ID_MAX = 64 };

/* How far the document of a frame has come. */
enum tab_reached {
	TAB_COMMIT = 1 << 0,
	TAB_DOM = 1 << 1,
	TAB_LOAD = 1 << 2,
	TAB_IDLE = 1 << 3, /* no request for 500 ms, as the browser counts */
};

/* With the tab's lock. A frame of another process has a session of its own. */
struct frame {
	struct frame *
		next; /* of the tab, in the order in which they were attached; the main frame is first */
	char id[CDP_ID_MAX], parent[CDP_ID_MAX]; /* parent: "" of the main frame */
	char session[CDP_ID_MAX];
	char loader[CDP_ID_MAX];        /* of the document that it shows */
	char loader_before[CDP_ID_MAX]; /* of the one before */
	char *url, *name;               /* never NULL */
	unsigned reached;               /* of that document */
	char early_loader[CDP_ID_MAX]; /* of one that is not known yet, and how far that has come */
	unsigned early;
	int64_t world;      /* our isolated world there (executionContextId); 0: there is none */
	int64_t main_world; /* the page's own; 0: there is none yet */
	bool failed;        /* the browser's error page; url is that of what failed */
	uint64_t documents; /* how many it has shown */
	uint64_t moves;     /* the same, with moves within a document */
	bool leaving;       /* it has begun to load another one, by itself or for a click */

	char world_id[CDP_ID_MAX]; /* of our world among all processes; "": there is none */
	char *library;             /* the page library in it, an objectId; NULL: not loaded yet */
};

struct tab {
	struct browser *browser;
	_Atomic int refs;
	char target[CDP_ID_MAX], session[CDP_ID_MAX];

	pthread_mutex_t
		lock; /* of what follows; nothing is waited for under it but by tab_wait() */
	struct waiter *waiters;
	char *url, *title; /* never NULL */
	struct frame *frames;
	bool crashed, closed;
	bool opening;      /* made with a URL, of which it shows nothing yet */
	bool begun;        /* it has had a document */
	uint64_t crashes;  /* how often it has crashed */
	bool has_focus;    /* whatever has it: that is emulated */
	struct turn input; /* who points, clicks or types: held from the first event to the last */
	uint64_t windows;  /* how many it has asked to be opened */
	int64_t numbering; /* of the elements that were listed last: act.h; 0: none were */
	int64_t in_flight,
		quiet_ms; /* requests under way; of clock_ms(): since when there are at most 2 */
	struct dialog *dialog;         /* one that is open: dialog.h; NULL: none */
	uint64_t dialogs;              /* how many have opened */
	struct tab_console *console;   /* console.h */
	struct requests *requests;     /* requests.h */
	struct screencast *screencast; /* screencast.h; NULL: nobody records it */
	uint64_t mark; /* of requests_latest(): when the last call on this tab began */
};

struct tab *tab_ref(struct tab *tab);
void tab_release(struct tab *tab); /* NULL is fine */

/* A call of the tab's own session: see cdp_call(). Fails as well, with a clear message, when the tab
 * crashes or is closed, and (ERR_CONFLICT, naming the dialog and how to answer it) when a dialog opens
 * that the method would wait for. */
json_t *tab_call(struct tab *tab, const char *method, json_t *params, const struct wait *wait,
		 struct err *err);
int tab_ask(struct tab *tab, const char *method, json_t *params, const struct wait *wait,
	    struct err *err);

/* The same in the session of one of its frames. */
json_t *frame_call(struct tab *tab, const char *session, const char *method, json_t *params,
		   const struct wait *wait, struct err *err);

/* Waits until done() is true, which is asked under the lock, at first and at every change of the tab.
 * -1: it crashed or was closed (and done() is not true), or the wait was over. done() may set *again to a
 * moment of clock_ms() at which it is to be asked again even if nothing changes. */
typedef bool tab_done_fn(struct tab *tab, void *arg, int64_t *again);
int tab_wait(struct tab *tab, tab_done_fn *done, void *arg, const struct wait *wait,
	     struct err *err);

/* The same for a caller that has another document shown: the first `crashes` crashes of the page, before
 * that, do not end it. */
int tab_wait_revived(struct tab *tab, tab_done_fn *done, void *arg, uint64_t crashes,
		     const struct wait *wait, struct err *err);

/* With the lock: the main frame (NULL: there is none), and one by its id. */
struct frame *tab_main_frame(struct tab *tab);
struct frame *tab_frame(struct tab *tab, const char *id);

/* Whether it has had a document: before, its process may be starting. */
bool tab_has_begun(struct tab *tab);

int tab_activate(struct tab *tab, const struct wait *wait, struct err *err);
int tab_close(struct tab *tab, const struct wait *wait, struct err *err);

/* ---- JavaScript: frame_js.c ---- */

/* Calls a function of the page library (share/browser) in our isolated world of a frame (NULL:
 * the main one), which pages cannot see or change: `function` with args, one JSON value, which is
 * taken. Returns its value, or that of the promise it returns. NULL with err: what it threw (ERR_CONFLICT
 * with the message of the Error), or the document went away meanwhile (ERR_CONFLICT, says so). */
json_t *frame_js(struct tab *tab, const char *frame, const char *function, json_t *args,
		 const struct wait *wait, struct err *err);

/* The same for a function of (args, owner): the element in this frame that shows the frame `child`. */
json_t *frame_js_owner(struct tab *tab, const char *frame, const char *child, const char *function,
		       json_t *args, const struct wait *wait, struct err *err);

/* The same, returning the object by a handle for further calls (DOM.setFileInputFiles …): objectId, in
 * *ret_session the session it is of. To be freed with Runtime.releaseObject. */
char *frame_js_handle(struct tab *tab, const char *frame, const char *function, json_t *args,
		      char ret_session[CDP_ID_MAX], const struct wait *wait, struct err *err);

/* Whether an error of frame_js() says that the document went away. */
bool frame_js_gone(const struct err *err);

/* Whether an error of a call of Runtime's says that the document went away, in the browser's words; if so,
 * says it in ours. */
bool frame_js_explain(struct err *err);
