/* What the browser reports of itself: tabs that come and go, and downloads. */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"

enum { SHOWN = 200 };

/* One that is not ours to drive goes on alone. */
static void let_go(struct browser *browser, const char *session)
{
	(void)cdp_post(browser->cdp, session, "Runtime.runIfWaitingForDebugger", NULL);
	(void)cdp_post(browser->cdp, NULL, "Target.detachFromTarget",
		       json_pack("{s:s}", "sessionId", session));
}

/* The tools of a person who looks into a page, and what is loaded before anybody asked for it. */
static bool is_tab(const json_t *info)
{
	char target[CDP_ID_MAX];
	return !strcmp(cdp_text(info, "type"), "page") &&
	       strncmp(cdp_text(info, "url"), "devtools://", 11) != 0 &&
	       strcmp(cdp_text(info, "subtype"), "prerender") != 0 &&
	       cdp_id(target, sizeof target, cdp_text(info, "targetId"));
}

static void attach_tab(struct browser *browser, const char *session, const json_t *info)
{
	/* Those that we asked for: storage.c, proxy_extension.c. */
	if (!strcmp(cdp_text(info, "type"), "other") ||
	    !strcmp(cdp_text(info, "type"), "service_worker"))
		return;
	if (!is_tab(info)) {
		let_go(browser, session);
		return;
	}
	const char *url = cdp_text(info, "url");
	struct tab *tab =
		tab_new(browser, cdp_text(info, "targetId"), session, url, cdp_text(info, "title"));
	if (browser_add_session(browser, tab, session) < 0 || !browser_add_tab(browser, tab)) {
		browser_drop_session(browser, session);
		let_go(browser, session);
		tab_release(tab);
		return;
	}
	tab_enable(browser, session);
	browser_tell(browser, *url ? "Tab opened: %.*s" : "Tab opened", SHOWN, url);
}

static void attach_frame(struct browser *browser, struct tab *tab, const char *session,
			 const json_t *info)
{
	if (strcmp(cdp_text(info, "type"), "iframe") != 0 ||
	    browser_add_session(browser, tab, session) < 0) {
		let_go(browser, session);
		return;
	}
	pthread_mutex_lock(&tab->lock);
	frames_moved_out(tab, cdp_text(info, "targetId"), cdp_text(info, "parentFrameId"), session);
	waiter_wake(tab->waiters);
	pthread_mutex_unlock(&tab->lock);
	tab_enable(browser, session);
}

static void attached(struct browser *browser, const char *parent, const json_t *params)
{
	const json_t *info = json_object_get(params, "targetInfo");
	const char *session = cdp_text(params, "sessionId");
	struct tab *tab = *parent ? browser_find(browser, parent) : NULL;
	if (!*parent)
		attach_tab(browser, session, info);
	else if (tab)
		attach_frame(browser, tab, session, info);
	tab_release(tab);
}

static void detach_tab(struct browser *browser, struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	auto_free char *url = xstrdup(tab->url);
	pthread_mutex_unlock(&tab->lock);
	tab_cut(tab, "the tab was closed");
	browser_tell(browser, "Tab closed: %.*s", SHOWN, url);
	browser_remove_tab(browser, tab);
	tab_gone(tab);
}

static void detach_frame(struct browser *browser, struct tab *tab, const char *session)
{
	struct err why;
	browser_drop_session(browser, session);
	pthread_mutex_lock(&tab->lock);
	frames_moved_back(tab, session);
	waiter_wake(tab->waiters);
	pthread_mutex_unlock(&tab->lock);
	err_set(&why, ERR_CONFLICT, "the frame is gone, or shows another document now");
	cdp_cut(browser->cdp, session, &why);
}

static void detached(struct browser *browser, const char *parent, const json_t *params)
{
	const char *session = cdp_text(params, "sessionId");
	struct tab *tab = browser_find(browser, session);
	(void)parent;
	if (tab && !strcmp(tab->session, session))
		detach_tab(browser, tab);
	else if (tab)
		detach_frame(browser, tab, session);
	tab_release(tab);
}

static struct tab *find_target(struct browser *browser, const char *target)
{
	struct tab *tab = NULL;
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; !tab && i < browser->tab_count; i++)
		if (!strcmp(browser->tabs[i]->target, target))
			tab = tab_ref(browser->tabs[i]);
	pthread_mutex_unlock(&browser->lock);
	return tab;
}

/* Its URL may be of a document that has not come yet: that is for the frames to say. */
static void take_title(struct browser *browser, const json_t *info)
{
	struct tab *tab = find_target(browser, cdp_text(info, "targetId"));
	if (!tab)
		return;
	pthread_mutex_lock(&tab->lock);
	free(tab->title);
	tab->title = xstrndup(cdp_text(info, "title"), TITLE_MAX);
	waiter_wake(tab->waiters);
	pthread_mutex_unlock(&tab->lock);
	tab_release(tab);
}

static void changed(struct browser *browser, const char *session, const json_t *params)
{
	(void)session;
	take_title(browser, json_object_get(params, "targetInfo"));
}

int browser_update_titles(struct browser *browser, const struct wait *wait, struct err *err)
{
	json_t *all = cdp_call(browser->cdp, NULL, "Target.getTargets", NULL, wait, err), *one;
	size_t i;
	json_array_foreach(json_object_get(all, "targetInfos"), i, one)
		take_title(browser, one);
	int result = all ? 0 : -1;
	json_decref(all);
	return result;
}

/* The process that would make those of pages is gone, or cannot: only a new browser helps. */
static void set_broken(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	browser->broken = true;
	pthread_mutex_unlock(&browser->lock);
}

static void crashed(struct browser *browser, const char *session, const json_t *params)
{
	struct tab *tab = find_target(browser, cdp_text(params, "targetId"));
	(void)session;
	if (!tab)
		return;
	pthread_mutex_lock(&tab->lock);
	auto_free char *url = xstrdup(tab->url);
	pthread_mutex_unlock(&tab->lock);
	if (!strcmp(cdp_text(params, "status"), "failed to launch"))
		set_broken(browser);
	browser_tell(browser, "Page crashed (%s): %.*s", cdp_text(params, "status"), SHOWN, url);
	log_warn("a page of the browser crashed: %s", cdp_text(params, "status"));
	tab_release(tab);
}

/* So it is when a tab closes. One that is still there afterwards lost its process without a crash: that which
 * makes those of pages was killed, and all of them ended with it. */
static void process_gone(struct browser *browser, const char *session, const json_t *params)
{
	if (!strcmp(cdp_text(params, "reason"), "Render process gone."))
		(void)cdp_post_heard(browser->cdp, session, "Page.getNavigationHistory", NULL);
}

static void still_there(struct browser *browser, const char *session, const json_t *params)
{
	struct tab *tab = browser_find(browser, session);
	if (tab && !strcmp(tab->session, session)) {
		log_warn("the browser lost the process that makes those of pages");
		set_broken(browser);
		tab_apply(tab, session, "Inspector.targetCrashed", params);
	}
	tab_release(tab);
}

/* A tab made for what turns out to be a download shows nothing: it closes again, unless it is the last. */
static void close_unused(struct browser *browser, struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	bool unused = tab->opening;
	tab->opening = false;
	pthread_mutex_unlock(&tab->lock);
	pthread_mutex_lock(&browser->lock);
	bool last = browser->tab_count == 1;
	pthread_mutex_unlock(&browser->lock);
	if (unused && !last)
		(void)cdp_post(browser->cdp, NULL, "Target.closeTarget",
			       json_pack("{s:s}", "targetId", tab->target));
}

static void begin_download(struct browser *browser, const char *session, const json_t *params)
{
	struct tab *tab = find_target(browser, cdp_text(params, "frameId"));
	(void)session;
	downloads_begin(browser, params);
	if (tab)
		close_unused(browser, tab);
	tab_release(tab);
}

static void note_download(struct browser *browser, const char *session, const json_t *params)
{
	(void)session;
	downloads_progress(browser, params);
}

static void note_version(struct browser *browser, const char *session, const json_t *params)
{
	(void)session;
	browser_set_version(browser, cdp_text(params, "userAgent"), cdp_text(params, "product"));
}

static void note_id(struct browser *browser, const char *session, const json_t *params)
{
	(void)session;
	browser_set_id(browser, cdp_text(json_object_get(params, "targetInfo"), "targetId"));
}

static const struct {
	const char *method;
	void (*apply)(struct browser *browser, const char *session, const json_t *params);
} rows[] = {
	{ "Browser.getVersion", note_version },
	{ "Target.getTargetInfo", note_id },
	{ "Target.attachedToTarget", attached },
	{ "Target.detachedFromTarget", detached },
	{ "Target.targetInfoChanged", changed },
	{ "Target.targetCrashed", crashed },
	{ "Inspector.detached", process_gone },
	{ "Page.getNavigationHistory", still_there },
	{ "Browser.downloadWillBegin", begin_download },
	{ "Browser.downloadProgress", note_download },
};

void browser_event(void *arg, const char *session, const char *method, const json_t *params)
{
	struct browser *browser = arg;
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcmp(rows[i].method, method)) {
			rows[i].apply(browser, session, params);
			return;
		}
	if (storage_event(browser, session, method, params))
		return;
	struct tab *tab = *session ? browser_find(browser, session) : NULL;
	if (tab)
		tab_apply(tab, session, method, params);
	tab_release(tab);
}

void browser_lost(void *arg)
{
	struct browser *browser = arg;
	pthread_mutex_lock(&browser->lock);
	browser->lost = true;
	waiter_wake(browser->waiters);
	size_t count = browser->tab_count;
	struct tab *tabs[TABS_MAX];
	for (size_t i = 0; i < count; i++)
		tabs[i] = tab_ref(browser->tabs[i]);
	pthread_mutex_unlock(&browser->lock);
	for (size_t i = 0; i < count; i++) {
		tab_gone(tabs[i]);
		tab_release(tabs[i]);
	}
}
