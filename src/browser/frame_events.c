/* The frames of a tab: which there are, what they show, and how far that has come. */
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"
#include "journal/journal.h"

/* ---- the table ---- */

static void clear_worlds(struct frame *frame)
{
	frame->world = frame->main_world = 0;
	*frame->world_id = 0;
	free(TAKE(frame->library));
}

static void free_frame(struct frame *frame)
{
	clear_worlds(frame);
	free(frame->url);
	free(frame->name);
	free(frame);
}

static struct frame *add_frame(struct tab *tab, const char *id, const char *parent,
			       const char *session)
{
	struct frame **at = &tab->frames;
	size_t count = 0;
	for (; *at; at = &(*at)->next)
		count++;
	if (count >= FRAMES_MAX)
		return NULL;
	struct frame *frame = xcalloc(1, sizeof *frame);
	if (!cdp_id(frame->id, sizeof frame->id, id)) {
		free(frame);
		return NULL;
	}
	(void)cdp_id(frame->parent, sizeof frame->parent, parent);
	(void)cdp_id(frame->session, sizeof frame->session, session);
	frame->url = xstrdup("");
	frame->name = xstrdup("");
	*at = frame;
	return frame;
}

static struct frame *find_or_add(struct tab *tab, const char *id, const char *parent,
				 const char *session)
{
	struct frame *frame = tab_frame(tab, id);
	return frame ? frame : add_frame(tab, id, parent, session);
}

void frames_init(struct tab *tab)
{
	struct frame *frame = add_frame(tab, tab->target, "", tab->session);
	if (!frame)
		return;
	free(frame->url);
	frame->url = xstrdup(tab->url);
}

void frames_free(struct tab *tab)
{
	while (tab->frames) {
		struct frame *next = tab->frames->next;
		free_frame(tab->frames);
		tab->frames = next;
	}
}

/* Those behind the main one, which stays. */
static struct frame **others(struct tab *tab)
{
	return tab->frames ? &tab->frames->next : &tab->frames;
}

static void drop_frame(struct tab *tab, struct frame **at);

static void remove_below(struct tab *tab, const char *id)
{
	for (struct frame **at = others(tab); *at;) {
		if (strcmp((*at)->parent, id) != 0) {
			at = &(*at)->next;
			continue;
		}
		drop_frame(tab, at);
		at = others(tab); /* the list is another now */
	}
}

/* With all below it. Whatever the browser says is below what, each step leaves one less. */
static void drop_frame(struct tab *tab, struct frame **at)
{
	char gone[CDP_ID_MAX];
	struct frame *frame = *at;
	*at = frame->next;
	memcpy(gone, frame->id, sizeof gone);
	free_frame(frame);
	remove_below(tab, gone);
}

static void remove_frame(struct tab *tab, const char *id)
{
	struct frame **at = others(tab);
	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	if (*at)
		drop_frame(tab, at);
}

static void set_session(struct frame *frame, const char *session)
{
	if (!strcmp(frame->session, session))
		return;
	(void)cdp_id(frame->session, sizeof frame->session, session);
	clear_worlds(frame);
}

void frames_moved_out(struct tab *tab, const char *id, const char *parent, const char *session)
{
	struct frame *frame = find_or_add(tab, id, *parent ? parent : tab->target, session);
	if (frame)
		set_session(frame, session);
}

/* Where it goes on, its events will say: with its parent, until then. */
void frames_moved_back(struct tab *tab, const char *session)
{
	for (struct frame *frame = tab->frames; frame; frame = frame->next) {
		const struct frame *parent = tab_frame(tab, frame->parent);
		if (!strcmp(frame->session, session))
			set_session(frame, parent ? parent->session : tab->session);
	}
}

/* ---- documents ---- */

static void set_text(char **at, const char *text, size_t max)
{
	free(*at);
	*at = xstrndup(text, max);
}

static void set_url(struct tab *tab, struct frame *frame, const char *url, const char *fragment)
{
	free(frame->url);
	auto_free char *whole = xasprintf("%s%s", url, fragment);
	frame->url = xstrndup(whole, URL_MAX);
	if (frame == tab->frames)
		set_text(&tab->url, frame->url, URL_MAX);
}

/* A page that loads itself again and again leaves room for other events. */
static bool is_same_page(const char *before, const char *now)
{
	size_t len = strcspn(now, "#");
	return strcspn(before, "#") == len && !strncmp(before, now, len);
}

static void note_visit(const struct tab *tab, const struct frame *frame, const char *before)
{
	if (frame != tab->frames || !strncmp(frame->url, "about:", 6) ||
	    is_same_page(before, frame->url))
		return;
	journal_add(JOURNAL_PAGE_SHOWN,
		    &(struct journal_page){ frame->url, tab->target, frame->failed });
}

static void take_document(struct tab *tab, struct frame *frame, const char *session,
			  const json_t *params)
{
	char loader[CDP_ID_MAX];
	auto_free char *before = xstrdup(frame->url);
	set_session(frame, session);
	frame->failed = *cdp_text(params, "unreachableUrl");
	if (frame->failed)
		set_url(tab, frame, cdp_text(params, "unreachableUrl"), "");
	else
		set_url(tab, frame, cdp_text(params, "url"), cdp_text(params, "urlFragment"));
	set_text(&frame->name, cdp_text(params, "name"), TITLE_MAX);
	(void)cdp_id(loader, sizeof loader, cdp_text(params, "loaderId"));
	if (!strcmp(loader, frame->loader))
		return;
	memcpy(frame->loader_before, frame->loader, sizeof frame->loader);
	memcpy(frame->loader, loader, sizeof loader);
	frame->reached = TAB_COMMIT | (strcmp(loader, frame->early_loader) ? 0 : frame->early);
	frame->leaving = false;
	frame->documents++;
	frame->moves++;
	note_visit(tab, frame, before);
}

static void apply_tree(struct tab *tab, const char *session, const json_t *tree)
{
	const json_t *params = json_object_get(tree, "frame"), *child;
	struct frame *frame =
		find_or_add(tab, cdp_text(params, "id"), cdp_text(params, "parentId"), session);
	size_t i;
	if (!frame)
		return;
	take_document(tab, frame, session, params);
	json_array_foreach(json_object_get(tree, "childFrames"), i, child)
		apply_tree(tab, session, child);
}

static void take_tree(struct tab *tab, const char *session, const json_t *params)
{
	apply_tree(tab, session, json_object_get(params, "frameTree"));
}

static void revive(struct tab *tab, const char *session)
{
	if (!tab->crashed || strcmp(session, tab->session) != 0)
		return;
	tab->crashed = false;
	cdp_release(tab->browser->cdp, session);
	/* Who crashes before it has taken all that it was told forgets it. */
	tab->has_focus = false;
	tab_enable(tab->browser, session);
}

/* The browser never answers for a picture of a page that another document takes the place of meanwhile. */
static bool is_picture(const char *method)
{
	return !strcmp(method, "Page.captureScreenshot");
}

static void lose_pictures(struct tab *tab)
{
	struct err why;
	err_set(&why, ERR_CONFLICT,
		"the page went to another document while its picture was taken");
	cdp_fail(tab->browser->cdp, tab->session, is_picture, &why);
}

/* Forgets the frames of the document before, of which nothing more may be reported. NULL: the frame went with
 * them, because it is below itself. */
static struct frame *clear_below(struct tab *tab, struct frame *frame, const char *loader)
{
	char id[CDP_ID_MAX];
	bool main = frame == tab->frames;
	if (!strcmp(loader, frame->loader))
		return frame;
	memcpy(id, frame->id, sizeof id);
	remove_below(tab, id);
	return main ? frame : tab_frame(tab, id);
}

static void navigated(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *document = json_object_get(params, "frame");
	const char *id = cdp_text(document, "id"), *parent = cdp_text(document, "parentId");
	struct frame *frame = *parent ? find_or_add(tab, id, parent, session) : tab->frames;
	if (!frame)
		return;
	if (!*parent) /* the main frame, whatever it is called now */
		(void)cdp_id(frame->id, sizeof frame->id, id);
	revive(tab, session);
	frame = clear_below(tab, frame, cdp_text(document, "loaderId"));
	if (!frame)
		return;
	if (!*parent) {
		tab->opening = false;
		lose_pictures(tab);
	}
	take_document(tab, frame, session, document);
}

static void navigated_within(struct tab *tab, const char *session, const json_t *params)
{
	struct frame *frame = tab_frame(tab, cdp_text(params, "frameId"));
	(void)session;
	if (!frame)
		return;
	set_url(tab, frame, cdp_text(params, "url"), "");
	frame->moves++;
}

static void leaves(struct tab *tab, const char *session, const json_t *params)
{
	struct frame *frame = tab_frame(tab, cdp_text(params, "frameId"));
	(void)session;
	if (frame && !strcmp(cdp_text(params, "disposition"), "currentTab"))
		frame->leaving = true;
}

/* Whether it came to another document or not: a download leaves it where it is. */
static void stopped(struct tab *tab, const char *session, const json_t *params)
{
	struct frame *frame = tab_frame(tab, cdp_text(params, "frameId"));
	(void)session;
	if (frame)
		frame->leaving = false;
}

static void opens(struct tab *tab, const char *session, const json_t *params)
{
	(void)session;
	(void)params;
	tab->windows++;
}

static void attached(struct tab *tab, const char *session, const json_t *params)
{
	(void)find_or_add(tab, cdp_text(params, "frameId"), cdp_text(params, "parentFrameId"),
			  session);
}

/* One that only moves to another process is there again at once. */
static void detached(struct tab *tab, const char *session, const json_t *params)
{
	(void)session;
	if (strcmp(cdp_text(params, "reason"), "swap") != 0)
		remove_frame(tab, cdp_text(params, "frameId"));
}

/* What is reported of a document before the document itself is: as a tab is attached to. */
static void keep_early(struct frame *frame, const char *loader, unsigned reached)
{
	if (strcmp(loader, frame->early_loader) != 0)
		frame->early = 0;
	(void)cdp_id(frame->early_loader, sizeof frame->early_loader, loader);
	frame->early |= reached;
}

/* Has the page believe that it has the focus, also in the background: each client may have a tab of its own.
 * If the tab has no document yet, Chromium crashes. */
static void keep_focus(struct tab *tab)
{
	if (tab->has_focus)
		return;
	tab->has_focus = true;
	(void)cdp_post(tab->browser->cdp, tab->session, "Emulation.setFocusEmulationEnabled",
		       json_pack("{s:b}", "enabled", 1));
}

static void reached(struct tab *tab, const char *session, const json_t *params)
{
	static const struct {
		const char *name;
		unsigned reached;
	} rows[] = { { "commit", TAB_COMMIT },
		     { "DOMContentLoaded", TAB_DOM },
		     { "load", TAB_LOAD },
		     { "networkIdle", TAB_IDLE } };
	struct frame *frame = tab_frame(tab, cdp_text(params, "frameId"));
	const char *name = cdp_text(params, "name"), *loader = cdp_text(params, "loaderId");
	unsigned now = 0;
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcmp(name, rows[i].name))
			now = rows[i].reached;
	/* A tab that was brought back counts as crashed until it is loaded, and does not report that. */
	if (frame && frame == tab->frames && strcmp(loader, frame->loader) != 0)
		revive(tab, session);
	if (frame && !strcmp(loader, frame->loader))
		frame->reached |= now;
	else if (frame)
		keep_early(frame, loader, now);
	if (frame && frame == tab->frames && now == TAB_LOAD)
		keep_focus(tab);
}

/* ---- worlds ---- */

static void world_made(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *context = json_object_get(params, "context");
	const json_t *more = json_object_get(context, "auxData");
	struct frame *frame = tab_frame(tab, cdp_text(more, "frameId"));
	if (!frame)
		return;
	if (cdp_true(more, "isDefault")) {
		set_session(frame, session);
		frame->main_world = cdp_int(context, "id");
		tab->begun |= frame == tab->frames;
	} else if (!strcmp(cdp_text(context, "name"), FRAME_WORLD) &&
		   !strcmp(session, frame->session)) {
		free(TAKE(frame->library));
		frame->world = cdp_int(context, "id");
		(void)cdp_id(frame->world_id, sizeof frame->world_id,
			     cdp_text(context, "uniqueId"));
	}
}

static void world_gone(struct tab *tab, const char *session, const json_t *params)
{
	const int64_t id = cdp_int(params, "executionContextId");
	for (struct frame *frame = tab->frames; frame; frame = frame->next) {
		if (strcmp(frame->session, session) != 0)
			continue;
		if (frame->main_world == id)
			frame->main_world = 0;
		if (frame->world != id)
			continue;
		frame->world = 0;
		*frame->world_id = 0;
		free(TAKE(frame->library));
	}
}

static void worlds_gone(struct tab *tab, const char *session, const json_t *params)
{
	(void)params;
	for (struct frame *frame = tab->frames; frame; frame = frame->next)
		if (!strcmp(frame->session, session))
			clear_worlds(frame);
}

/* ---- crashes ---- */

/* A tab that crashed is brought back by what shows another document. */
static bool needs_page(const char *method)
{
	static const char *const rest[] = { "Page.navigate", "Page.reload", "Page.close",
					    "Page.getNavigationHistory",
					    "Page.navigateToHistoryEntry" };
	for (size_t i = 0; i < COUNT(rest); i++)
		if (!strcmp(method, rest[i]))
			return false;
	return true;
}

static void crashed(struct tab *tab, const char *session, const json_t *params)
{
	struct err why;
	(void)params;
	worlds_gone(tab, session, NULL);
	if (strcmp(session, tab->session) != 0) {
		err_set(&why, ERR_CONFLICT, "the frame crashed: reload the page");
		cdp_cut(tab->browser->cdp, session, &why);
		return;
	}
	tab->crashed = true;
	tab->crashes++;
	tab->in_flight = 0;
	err_set(&why, ERR_CONFLICT, "the page crashed: navigate or reload to use the tab again");
	cdp_cut(tab->browser->cdp, session, &why); /* a navigation, if that is what crashed it */
	cdp_hold(tab->browser->cdp, session, needs_page, &why);
}

static void reloaded(struct tab *tab, const char *session, const json_t *params)
{
	(void)params;
	revive(tab, session);
}

static const struct tab_event rows[] = {
	{ "Page.getFrameTree", take_tree },
	{ "Page.frameAttached", attached },
	{ "Page.frameDetached", detached },
	{ "Page.frameNavigated", navigated },
	{ "Page.navigatedWithinDocument", navigated_within },
	{ "Page.frameRequestedNavigation", leaves },
	{ "Page.windowOpen", opens },
	{ "Page.frameStoppedLoading", stopped },
	{ "Page.lifecycleEvent", reached },
	{ "Runtime.executionContextCreated", world_made },
	{ "Runtime.executionContextDestroyed", world_gone },
	{ "Runtime.executionContextsCleared", worlds_gone },
	{ "Inspector.targetCrashed", crashed },
	{ "Inspector.targetReloadedAfterCrash", reloaded },
};
static const struct tab_enable enable[] = {
	{ "Page.enable", NULL },
	{ "Page.setLifecycleEventsEnabled", "{\"enabled\":true}" },
	{ "Runtime.enable", NULL },
	{ "Inspector.enable", NULL },
	{ NULL, NULL },
};
const struct tab_events frame_events = { .rows = rows, .count = COUNT(rows), .enable = enable };
