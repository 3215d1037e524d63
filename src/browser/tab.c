#include "browser/tab.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"

enum {
	BETWEEN_MS = 2000, /* for a tab to go from one process to another */
	MOMENT_MS = 20,
	CLOSE_AGAIN_MS = 500,
};

/* ---- life ---- */

struct tab *tab_new(struct browser *browser, const char *target, const char *session,
		    const char *url, const char *title)
{
	struct tab *tab = xcalloc(1, sizeof *tab);
	tab->refs = 1;
	tab->browser = browser;
	atomic_fetch_add(&browser->refs, 1);
	snprintf(tab->target, sizeof tab->target, "%s", target);
	snprintf(tab->session, sizeof tab->session, "%s", session);
	tab->url = xstrndup(url, URL_MAX);
	tab->title = xstrndup(title, TITLE_MAX);
	tab->quiet_ms = clock_ms();
	tab->input = (struct turn)TURN;
	pthread_mutex_init(&tab->lock, NULL);
	frames_init(tab);
	return tab;
}

struct tab *tab_ref(struct tab *tab)
{
	atomic_fetch_add(&tab->refs, 1);
	return tab;
}

void tab_release(struct tab *tab)
{
	if (!tab || atomic_fetch_sub(&tab->refs, 1) > 1)
		return;
	struct browser *browser = tab->browser;
	tab_free_kept(tab);
	frames_free(tab);
	free(tab->url);
	free(tab->title);
	pthread_mutex_destroy(&tab->lock);
	free(tab);
	browser_unref(browser);
}

static void cut_session(struct cdp *cdp, const char *session, const void *why)
{
	cdp_cut(cdp, session, why);
}

void tab_cut(struct tab *tab, const char *why)
{
	struct err err;
	err_set(&err, ERR_CONFLICT, "%s", why);
	browser_each_session(tab->browser, tab, cut_session, &err);
}

void tab_gone(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	tab->closed = true;
	waiter_wake(tab->waiters);
	pthread_mutex_unlock(&tab->lock);
}

/* ---- calls ---- */

static bool is_closed(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	bool closed = tab->closed;
	pthread_mutex_unlock(&tab->lock);
	return closed;
}

/* While a tab goes from one process to another, some questions have no answer. That takes a moment. */
static json_t *call_between_pages(struct tab *tab, const char *session, const char *method,
				  json_t *params, const struct wait *wait, struct err *err)
{
	int64_t until = clock_ms() + BETWEEN_MS;
	json_t *result;
	for (;;) {
		result = cdp_call(tab->browser->cdp, session, method, json_incref(params), wait,
				  err);
		if (result || err->code != ERR_CONFLICT || clock_ms() >= until ||
		    !strstr(err->msg, "Not attached to an active page"))
			break;
		const struct wait moment = { clock_ms() + MOMENT_MS, wait->client_fd,
					     wait->stop_fd };
		(void)wait_fd(&moment, -1, 0);
	}
	json_decref(params);
	return result;
}

/* The browser's words for a session that is gone say nothing to those who know tabs only. */
json_t *frame_call(struct tab *tab, const char *session, const char *method, json_t *params,
		   const struct wait *wait, struct err *err)
{
	struct err own;
	err = err ? err : &own;
	json_t *result = call_between_pages(tab, session, method, params, wait, err);
	if (!result && err->code == ERR_CONFLICT && is_closed(tab))
		err_set(err, ERR_CONFLICT, "the tab was closed");
	return result;
}

json_t *tab_call(struct tab *tab, const char *method, json_t *params, const struct wait *wait,
		 struct err *err)
{
	return frame_call(tab, tab->session, method, params, wait, err);
}

int tab_ask(struct tab *tab, const char *method, json_t *params, const struct wait *wait,
	    struct err *err)
{
	json_t *result = tab_call(tab, method, params, wait, err);
	json_decref(result);
	return result ? 0 : -1;
}

/* ---- waiting ---- */

static int gone_err(const struct tab *tab, struct err *err)
{
	if (tab->closed && browser_is_lost(tab->browser))
		return err_set(err, ERR_UNAVAILABLE, "the browser has ended");
	return err_set(err, ERR_CONFLICT, "%s",
		       tab->closed ? "the tab was closed"
				   : "the page crashed: navigate or reload to use the tab again");
}

/* With the lock, which it gives up while it waits. crashes: how many of them are of no interest. */
static int wait_changes(struct tab *tab, tab_done_fn *done, void *arg, uint64_t crashes,
			const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	for (;;) {
		struct wait until = *wait;
		int64_t again = INT64_MAX;
		if (done(tab, arg, &again))
			return 0;
		if (tab->closed || (tab->crashed && tab->crashes > crashes))
			return gone_err(tab, err);
		if (wake != WAKE_READY)
			return wake_err(wake, err);
		if (again < until.until_ms)
			until.until_ms = again;
		wake = wait_change(&until, &tab->lock, &tab->waiters, NULL);
		if (wake == WAKE_TIMEOUT && clock_ms() < wait->until_ms)
			wake = WAKE_READY;
	}
}

int tab_wait(struct tab *tab, tab_done_fn *done, void *arg, const struct wait *wait,
	     struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	int result = wait_changes(tab, done, arg, 0, wait, err);
	pthread_mutex_unlock(&tab->lock);
	return result;
}

int tab_wait_revived(struct tab *tab, tab_done_fn *done, void *arg, uint64_t crashes,
		     const struct wait *wait, struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	int result = wait_changes(tab, done, arg, crashes, wait, err);
	pthread_mutex_unlock(&tab->lock);
	return result;
}

/* ---- frames; with the lock ---- */

bool tab_has_begun(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	bool begun = tab->begun;
	pthread_mutex_unlock(&tab->lock);
	return begun;
}

struct frame *tab_main_frame(struct tab *tab)
{
	return tab->frames;
}

struct frame *tab_frame(struct tab *tab, const char *id)
{
	struct frame *frame = tab->frames;
	while (frame && strcmp(frame->id, id) != 0)
		frame = frame->next;
	return frame;
}

/* ---- as a whole ---- */

int tab_activate(struct tab *tab, const struct wait *wait, struct err *err)
{
	json_t *params = json_pack("{s:s}", "targetId", tab->target);
	if (cdp_ask(tab->browser->cdp, NULL, "Target.activateTarget", params, wait, err) < 0)
		return -1;
	browser_set_current(tab->browser, tab);
	return 0;
}

static bool is_gone(struct browser *browser, void *arg)
{
	for (size_t i = 0; i < browser->tab_count; i++)
		if (browser->tabs[i] == arg)
			return false;
	return true;
}

static bool is_last(struct browser *browser, const struct tab *tab)
{
	pthread_mutex_lock(&browser->lock);
	bool last = browser->tab_count == 1 && browser->tabs[0] == tab;
	pthread_mutex_unlock(&browser->lock);
	return last;
}

static int ask_to_close(struct tab *tab, const struct wait *wait, struct err *err)
{
	return cdp_ask(tab->browser->cdp, NULL, "Target.closeTarget",
		       json_pack("{s:s}", "targetId", tab->target), wait, err);
}

/* Chromium says that it closes a tab whose page is on its way, and then shows that page: it is asked until
 * it has. */
static int close_target(struct tab *tab, const struct wait *wait, struct err *err)
{
	if (ask_to_close(tab, wait, err) < 0)
		return -1;
	for (;;) {
		const int64_t again_ms = clock_ms() + CLOSE_AGAIN_MS;
		const struct wait moment = { again_ms < wait->until_ms ? again_ms : wait->until_ms,
					     wait->client_fd, wait->stop_fd };
		if (browser_wait(tab->browser, is_gone, tab, &moment, err) == 0)
			return 0;
		if (err->code != ERR_SLOW || clock_ms() >= wait->until_ms)
			return -1;
		(void)ask_to_close(tab, wait, NULL); /* fails where it has just gone */
	}
}

/* With the turn. */
static int close_in_turn(struct tab *tab, const struct wait *wait, struct err *err)
{
	struct browser *browser = tab->browser;
	if (is_last(browser, tab)) { /* without a window the browser would end */
		struct tab *blank = browser_new_tab(browser, "about:blank", wait, err);
		if (!blank)
			return -1;
		tab_release(blank);
	}
	return close_target(tab, wait, err);
}

/* One at a time: of two callers that close the last two tabs, one has to see that its tab is the last. */
int tab_close(struct tab *tab, const struct wait *wait, struct err *err)
{
	static struct turn closing = TURN;
	if (turn_take(&closing, wait, err) < 0)
		return -1;
	int result = close_in_turn(tab, wait, err);
	turn_give(&closing);
	return result;
}
