#include "browser/browser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "config/config.h"
#include "proc/user.h"

enum { NEWS_TEXT = 400, FIT_MS = 500 };

/* ---- life ---- */

void browser_unref(struct browser *browser)
{
	if (atomic_fetch_sub(&browser->refs, 1) > 1)
		return;
	cdp_free(browser->cdp);
	while (browser->sessions)
		browser_drop_session(browser, browser->sessions->id);
	for (size_t i = 0; i < NEWS_MAX; i++)
		free(browser->news.text[i]);
	downloads_free(browser);
	intercept_free(browser);
	free(browser->agent);
	free(browser->version);
	free(browser->id);
	free(browser->downloads_dir);
	pthread_mutex_destroy(&browser->lock);
	free(browser);
}

static bool has_tab(struct browser *browser, void *arg)
{
	(void)arg;
	return browser->tab_count > 0;
}

static void post_downloads(struct browser *browser)
{
	(void)cdp_post(browser->cdp, NULL, "Browser.setDownloadBehavior",
		       json_pack("{s:s, s:s, s:b}", "behavior", "allow", "downloadPath",
				 browser->downloads_dir, "eventsEnabled", 1));
}

/* What it is to tell of itself, and that every page is ours to drive from its first moment. Those that
 * there are have been attached when this returns. */
static int subscribe(struct browser *browser, const struct wait *wait, struct err *err)
{
	struct cdp *cdp = browser->cdp;
	post_downloads(browser);
	(void)cdp_post(cdp, NULL, "Target.setDiscoverTargets",
		       json_pack("{s:b, s:[{s:s}, {s:b}]}", "discover", 1, "filter", "type", "page",
				 "exclude", 1));
	json_t *params = json_pack("{s:b, s:b, s:b, s:[{s:s}, {s:b}]}", "autoAttach", 1,
				   "waitForDebuggerOnStart", 1, "flatten", 1, "filter", "type",
				   "page", "exclude", 1);
	return cdp_ask(cdp, NULL, "Target.setAutoAttach", params, wait, err);
}

/* Once each: others read them without the lock. */
void browser_set_version(struct browser *browser, const char *agent, const char *version)
{
	pthread_mutex_lock(&browser->lock);
	if (!browser->agent) {
		browser->agent = xstrdup(agent);
		browser->version = xstrdup(version);
	}
	pthread_mutex_unlock(&browser->lock);
}

void browser_set_id(struct browser *browser, const char *id)
{
	pthread_mutex_lock(&browser->lock);
	if (!browser->id)
		browser->id = xstrdup(id);
	pthread_mutex_unlock(&browser->lock);
}

static bool is_known(struct browser *browser, void *arg)
{
	return browser->agent && browser->id && has_tab(browser, arg);
}

/* All is asked at once: a browser that starts takes its time for each turn. */
static int begin(struct browser *browser, const struct wait *wait, struct err *err)
{
	(void)cdp_post_heard(browser->cdp, NULL, "Browser.getVersion", NULL);
	(void)cdp_post_heard(browser->cdp, NULL, "Target.getTargetInfo", NULL);
	if (subscribe(browser, wait, err) < 0 ||
	    browser_wait(browser, is_known, NULL, wait, err) < 0)
		return -1;
	pthread_mutex_lock(&browser->lock);
	browser->opened = true;
	pthread_mutex_unlock(&browser->lock);
	return 0;
}

static int64_t look_after(void *arg)
{
	int64_t dialogs = dialogs_due(arg), posts = intercept_due(arg);
	return dialogs < posts ? dialogs : posts;
}

struct browser *browser_open(int in, int out, const struct config *config, bool file_dialogs,
			     const struct wait *wait, struct err *err)
{
	const struct user *user = user_sandbox(config->user, err);
	if (!user)
		return NULL;
	struct browser *browser = xcalloc(1, sizeof *browser);
	const struct cdp_user cdp_user = { browser_event, browser_lost, look_after, browser };
	browser->refs = 1;
	browser->config = config;
	browser->file_dialogs = file_dialogs;
	browser->due_ms = INT64_MAX;
	browser->downloads_dir = xasprintf("%s/Downloads", user->home);
	pthread_mutex_init(&browser->lock, NULL);
	pthread_mutex_lock(&browser->lock); /* no event is taken before it is whole */
	browser->cdp = cdp_new(in, out, &cdp_user, err);
	pthread_mutex_unlock(&browser->lock);
	if (browser->cdp && begin(browser, wait, err) == 0)
		return browser;
	browser_free(browser);
	return NULL;
}

int browser_quit(struct browser *browser)
{
	return browser_is_lost(browser) ? -1 : cdp_post(browser->cdp, NULL, "Browser.close", NULL);
}

void browser_free(struct browser *browser)
{
	if (!browser)
		return;
	if (browser->cdp)
		cdp_end(browser->cdp);
	for (;;) {
		pthread_mutex_lock(&browser->lock);
		struct tab *tab = browser->tab_count ? tab_ref(browser->tabs[0]) : NULL;
		pthread_mutex_unlock(&browser->lock);
		if (!tab)
			break;
		browser_remove_tab(browser, tab);
		tab_gone(tab);
		tab_release(tab);
	}
	browser_unref(browser);
}

struct cdp *browser_cdp(struct browser *browser)
{
	return browser->cdp;
}

bool browser_is_lost(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	bool lost = browser->lost || browser->broken || cdp_is_lost(browser->cdp);
	pthread_mutex_unlock(&browser->lock);
	return lost;
}

const char *browser_agent(const struct browser *browser)
{
	return browser->agent;
}

const char *browser_version(const struct browser *browser)
{
	return browser->version;
}

const char *browser_id(const struct browser *browser)
{
	return browser->id;
}

bool browser_is_painted(struct browser *browser)
{
	return atomic_load(&browser->painted);
}

void browser_set_painted(struct browser *browser)
{
	atomic_store(&browser->painted, true);
}

void browser_await_fit(struct browser *browser, struct tab *tab, int width, int height,
		       const struct wait *wait)
{
	const int64_t size = (int64_t)width << 32 | height;
	struct err ignored;
	if (atomic_exchange(&browser->fitted, size) != size)
		json_decref(frame_js(tab, NULL, "document_window",
				     json_pack("{s:i, s:i, s:i}", "width", width, "height", height,
					       "ms", FIT_MS),
				     wait, &ignored));
}

/* What the last of them has set for its own use ends with it. */
void browser_outsider(struct browser *browser, bool comes)
{
	if (comes)
		atomic_fetch_add(&browser->outsiders, 1);
	else if (atomic_fetch_sub(&browser->outsiders, 1) == 1)
		post_downloads(browser);
}

int browser_wait(struct browser *browser, browser_found_fn *found, void *arg,
		 const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&browser->lock);
	bool is = found(browser, arg);
	while (!is && !browser->lost && wake == WAKE_READY) {
		wake = wait_change(wait, &browser->lock, &browser->waiters, NULL);
		is = found(browser, arg);
	}
	pthread_mutex_unlock(&browser->lock);
	if (is)
		return 0;
	return wake != WAKE_READY ? wake_err(wake, err)
				  : err_set(err, ERR_UNAVAILABLE, "the browser has ended");
}

bool browser_is_busy(struct browser *browser)
{
	return atomic_load(&browser->outsiders) > 0 || browser_downloading(browser);
}

static bool has_no_tab(struct browser *browser, void *arg)
{
	(void)arg;
	return browser->tab_count == 0;
}

/* The one that was current is again. */
static void restore_current(struct browser *browser, const char *target)
{
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; i < browser->tab_count; i++)
		if (!strcmp(browser->tabs[i]->target, target))
			browser->current = browser->tabs[i];
	pthread_mutex_unlock(&browser->lock);
}

int browser_attach_again(struct browser *browser, const struct wait *wait, struct err *err)
{
	char current[CDP_ID_MAX] = "";
	atomic_fetch_add(&browser->renewals, 1);
	pthread_mutex_lock(&browser->lock);
	if (browser->current)
		memcpy(current, browser->current->target, sizeof current);
	pthread_mutex_unlock(&browser->lock);
	json_t *params = json_pack("{s:b, s:b, s:b}", "autoAttach", 0, "waitForDebuggerOnStart", 0,
				   "flatten", 1);
	if (cdp_ask(browser->cdp, NULL, "Target.setAutoAttach", params, wait, err) < 0 ||
	    browser_wait(browser, has_no_tab, NULL, wait, err) < 0 ||
	    subscribe(browser, wait, err) < 0 ||
	    browser_wait(browser, has_tab, NULL, wait, err) < 0)
		return -1;
	restore_current(browser, current);
	return 0;
}

/* ---- sessions ---- */

struct tab *browser_find(struct browser *browser, const char *session)
{
	pthread_mutex_lock(&browser->lock);
	const struct browser_session *s = browser->sessions;
	while (s && strcmp(s->id, session) != 0)
		s = s->next;
	struct tab *tab = s ? tab_ref(s->tab) : NULL;
	pthread_mutex_unlock(&browser->lock);
	return tab;
}

int browser_add_session(struct browser *browser, struct tab *tab, const char *session)
{
	struct browser_session *s = xcalloc(1, sizeof *s);
	bool fits = cdp_id(s->id, sizeof s->id, session);
	s->tab = tab;
	pthread_mutex_lock(&browser->lock);
	fits = fits && browser->session_count < SESSIONS_MAX;
	if (fits) {
		browser->session_count++;
		s->next = browser->sessions;
		browser->sessions = s;
	}
	pthread_mutex_unlock(&browser->lock);
	if (!fits)
		free(s);
	return fits ? 0 : -1;
}

void browser_drop_session(struct browser *browser, const char *session)
{
	pthread_mutex_lock(&browser->lock);
	struct browser_session **at = &browser->sessions;
	while (*at && strcmp((*at)->id, session) != 0)
		at = &(*at)->next;
	struct browser_session *gone = *at;
	if (gone) {
		*at = gone->next;
		browser->session_count--;
	}
	pthread_mutex_unlock(&browser->lock);
	free(gone);
}

void browser_each_session(struct browser *browser, const struct tab *tab,
			  void (*fn)(struct cdp *cdp, const char *session, const void *arg),
			  const void *arg)
{
	pthread_mutex_lock(&browser->lock);
	for (const struct browser_session *s = browser->sessions; s; s = s->next)
		if (!tab || s->tab == tab)
			fn(browser->cdp, s->id, arg);
	pthread_mutex_unlock(&browser->lock);
}

/* ---- tabs ---- */

bool browser_add_tab(struct browser *browser, struct tab *tab)
{
	pthread_mutex_lock(&browser->lock);
	bool fits = browser->tab_count < TABS_MAX;
	if (fits) {
		browser->tabs[browser->tab_count++] = tab;
		browser->current = tab;
	}
	waiter_wake(browser->waiters);
	pthread_mutex_unlock(&browser->lock);
	return fits;
}

/* With the lock: all sessions of a tab. */
static void drop_sessions(struct browser *browser, const struct tab *tab)
{
	struct browser_session **at = &browser->sessions;
	while (*at) {
		struct browser_session *s = *at;
		if (s->tab != tab) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		browser->session_count--;
		free(s);
	}
}

void browser_remove_tab(struct browser *browser, struct tab *tab)
{
	size_t i = 0;
	pthread_mutex_lock(&browser->lock);
	while (i < browser->tab_count && browser->tabs[i] != tab)
		i++;
	bool found = i < browser->tab_count;
	if (found) {
		memcpy(browser->closed.target[browser->closed.count++ % CLOSED_MAX], tab->target,
		       CDP_ID_MAX);
		browser->tab_count--;
		memmove(browser->tabs + i, browser->tabs + i + 1,
			(browser->tab_count - i) * sizeof(struct tab *));
		if (browser->current == tab)
			browser->current =
				browser->tab_count ? browser->tabs[browser->tab_count - 1] : NULL;
	}
	drop_sessions(browser, tab);
	waiter_wake(browser->waiters);
	pthread_mutex_unlock(&browser->lock);
	if (found)
		tab_release(tab);
}

void browser_set_current(struct browser *browser, struct tab *tab)
{
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; i < browser->tab_count; i++)
		if (browser->tabs[i] == tab)
			browser->current = tab;
	pthread_mutex_unlock(&browser->lock);
}

struct tab *browser_tab(struct browser *browser, const struct wait *wait, struct err *err)
{
	pthread_mutex_lock(&browser->lock);
	struct tab *tab = browser->current ? tab_ref(browser->current) : NULL;
	pthread_mutex_unlock(&browser->lock);
	return tab ? tab : browser_new_tab(browser, "about:blank", wait, err);
}

const struct tab *browser_current(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	const struct tab *tab = browser->current;
	pthread_mutex_unlock(&browser->lock);
	return tab;
}

size_t browser_tabs(struct browser *browser, struct arena *arena, struct tab ***ret)
{
	pthread_mutex_lock(&browser->lock);
	size_t count = browser->tab_count;
	struct tab **tabs = *ret = arena_alloc(arena, (count + 1) * sizeof(struct tab *));
	for (size_t i = 0; i < count; i++)
		tabs[i] = tab_ref(browser->tabs[i]);
	pthread_mutex_unlock(&browser->lock);
	return count;
}

struct wanted_tab {
	const char *target;
	struct tab *tab;
	bool closed;
};

/* It may have come and gone before anybody looked. */
static bool has_target(struct browser *browser, void *arg)
{
	struct wanted_tab *wanted = arg;
	for (size_t i = 0; i < CLOSED_MAX; i++)
		wanted->closed |= !strcmp(browser->closed.target[i], wanted->target);
	for (size_t i = 0; !wanted->tab && i < browser->tab_count; i++)
		if (!strcmp(browser->tabs[i]->target, wanted->target))
			wanted->tab = tab_ref(browser->tabs[i]);
	return wanted->tab || wanted->closed;
}

/* Until it shows the blank page that it was made with: a navigation before that would be lost. */
static bool is_blank(struct tab *tab, void *arg, int64_t *again)
{
	const struct frame *frame = tab_main_frame(tab);
	(void)arg;
	(void)again;
	return frame && *frame->loader;
}

static void show(struct tab *tab, const char *url, const struct wait *wait)
{
	if (!strcmp(url, "about:blank") || tab_wait(tab, is_blank, NULL, wait, NULL) < 0)
		return;
	pthread_mutex_lock(&tab->lock);
	tab->opening = true;
	pthread_mutex_unlock(&tab->lock);
	(void)cdp_post(tab->browser->cdp, tab->session, "Page.navigate",
		       json_pack("{s:s}", "url", url));
}

static int check_room(struct browser *browser, struct err *err)
{
	pthread_mutex_lock(&browser->lock);
	bool full = browser->tab_count >= TABS_MAX;
	pthread_mutex_unlock(&browser->lock);
	return full ? err_set(err, ERR_LIMIT,
			      "%d tabs are open, which is the most: close some first", TABS_MAX)
		    : 0;
}

/* A blank one that is then navigated: the first request of one that is made with its URL is sent before
 * its session could be told to report requests, or to change them. */
struct tab *browser_new_tab(struct browser *browser, const char *url, const struct wait *wait,
			    struct err *err)
{
	json_t *made = check_room(browser, err) < 0
			       ? NULL
			       : cdp_call(browser->cdp, NULL, "Target.createTarget",
					  json_pack("{s:s}", "url", "about:blank"), wait, err);
	struct wanted_tab wanted = { .target = cdp_text(made, "targetId") };
	if (made && browser_wait(browser, has_target, &wanted, wait, err) == 0 && wanted.tab)
		browser_set_current(browser, wanted.tab);
	if (wanted.closed && !wanted.tab)
		err_set(err, ERR_NOT_FOUND, "the tab has closed again");
	json_decref(made);
	if (wanted.tab)
		show(wanted.tab, url, wait);
	return wanted.tab;
}

/* ---- news ---- */

void browser_tell(struct browser *browser, const char *format, ...)
{
	char text[NEWS_TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	pthread_mutex_lock(&browser->lock);
	if (browser->opened) {
		char **at = &browser->news.text[browser->news.count++ % NEWS_MAX];
		free(*at);
		*at = xstrdup(text);
		waiter_wake(browser->waiters);
	}
	pthread_mutex_unlock(&browser->lock);
}

uint64_t browser_changes(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	uint64_t count = browser->news.count;
	pthread_mutex_unlock(&browser->lock);
	return count;
}

const char *browser_news(struct browser *browser, uint64_t *since, struct arena *arena)
{
	const char *all = NULL;
	pthread_mutex_lock(&browser->lock);
	uint64_t at = browser->news.count - *since > NEWS_MAX ? browser->news.count - NEWS_MAX
							      : *since;
	for (; at < browser->news.count; at++)
		all = arena_printf(arena, "%s%s%s", all ? all : "", all ? ". " : "",
				   browser->news.text[at % NEWS_MAX]);
	*since = browser->news.count;
	pthread_mutex_unlock(&browser->lock);
	return all;
}
