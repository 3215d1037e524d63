#include "browser/dialog.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/utf8.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"

enum { MESSAGE_MAX = 65536, SHOWN = 120 };

static void free_dialog(struct dialog *dialog)
{
	if (!dialog)
		return;
	free(dialog->message);
	free(dialog->def);
	free(dialog->url);
	free(dialog);
}

static void free_kept(struct tab *tab)
{
	free_dialog(TAKE(tab->dialog));
}

/* What goes on while a page waits for its dialog: what the browser does without the page. */
static bool needs_page(const char *method)
{
	static const char *const rest[] = { "Page.handleJavaScriptDialog", "Page.bringToFront",
					    "Page.close", "Page.stopScreencast",
					    "Page.screencastFrameAck" };
	static const char *const domains[] = { "Network.", "Storage.", "Target.", "Browser.",
					       "Fetch." };
	for (size_t i = 0; i < COUNT(rest); i++)
		if (!strcmp(method, rest[i]))
			return false;
	for (size_t i = 0; i < COUNT(domains); i++)
		if (!strncmp(method, domains[i], strlen(domains[i])))
			return false;
	return true;
}

/* Who leaves the page goes on when "leave this page?" is answered. */
static bool needs_page_to_stay(const char *method)
{
	return needs_page(method) && strcmp(method, "Page.navigate") != 0 &&
	       strcmp(method, "Page.reload") != 0 &&
	       strcmp(method, "Page.navigateToHistoryEntry") != 0;
}

static void hold(struct cdp *cdp, const char *session, const void *why)
{
	cdp_hold(cdp, session, needs_page, why);
}

static void hold_but_leaving(struct cdp *cdp, const char *session, const void *why)
{
	cdp_hold(cdp, session, needs_page_to_stay, why);
}

static void release(struct cdp *cdp, const char *session, const void *unused)
{
	(void)unused;
	cdp_release(cdp, session);
}

/* ---- opening and closing; in the reader's thread, with the tab's lock ---- */

static void answer(const struct tab *tab, bool accept)
{
	(void)cdp_post(tab->browser->cdp, tab->session, "Page.handleJavaScriptDialog",
		       json_pack("{s:b}", "accept", accept));
}

static bool is_unload(const struct dialog *dialog)
{
	return !strcmp(dialog->kind, "beforeunload");
}

static void hold_calls(struct tab *tab)
{
	struct err why;
	const struct dialog *dialog = tab->dialog;
	err_set(&why, ERR_CONFLICT,
		"the page waits for its dialog (%s: \"%.*s%s\"): accept or dismiss it first (POST /v1/browser/page/dialog)",
		dialog->kind, SHOWN, dialog->message, strlen(dialog->message) > SHOWN ? "…" : "");
	browser_each_session(tab->browser, tab, is_unload(dialog) ? hold_but_leaving : hold, &why);
}

static char *cut(const char *text)
{
	return xstrndup(text, utf8_fit(text, MESSAGE_MAX));
}

static void opening(struct tab *tab, const char *session, const json_t *params)
{
	struct browser *browser = tab->browser;
	bool outside = atomic_load(&browser->outsiders) > 0;
	struct dialog *dialog = xcalloc(1, sizeof *dialog);
	(void)session;
	dialog->number = ++tab->dialogs;
	snprintf(dialog->kind, sizeof dialog->kind, "%s", cdp_text(params, "type"));
	dialog->message = cut(cdp_text(params, "message"));
	dialog->def = cut(cdp_text(params, "defaultPrompt"));
	dialog->url = xstrndup(cdp_text(params, "url"), URL_MAX);
	dialog->due_ms = clock_ms() + (is_unload(dialog) ? DIALOG_OUTSIDE_MS : DIALOG_MS);
	free_dialog(tab->dialog);
	tab->dialog = dialog;
	if (is_unload(dialog) && !outside) {
		answer(tab, true);
		return;
	}
	if (dialog->due_ms < atomic_load(&browser->due_ms))
		atomic_store(&browser->due_ms, dialog->due_ms);
	hold_calls(tab);
	browser_tell(browser, "Dialog opened (%s): %.*s", dialog->kind, SHOWN, dialog->message);
}

static void closed(struct tab *tab, const char *session, const json_t *params)
{
	(void)session;
	(void)params;
	free_dialog(TAKE(tab->dialog));
	if (!tab->crashed) /* what holds its calls then is something else */
		browser_each_session(tab->browser, tab, release, NULL);
}

static void crashed(struct tab *tab, const char *session, const json_t *params)
{
	(void)params;
	if (!strcmp(session, tab->session))
		free_dialog(TAKE(tab->dialog));
}

static const struct tab_event rows[] = {
	{ "Page.javascriptDialogOpening", opening },
	{ "Page.javascriptDialogClosed", closed },
	{ "Inspector.targetCrashed", crashed },
};
const struct tab_events dialog_events = { .rows = rows, .count = COUNT(rows), .free = free_kept };

/* ---- in time ---- */

/* When it is due; INT64_MAX: none is open. Closes one that is. */
static int64_t look_after(struct tab *tab, int64_t now)
{
	int64_t due = INT64_MAX;
	pthread_mutex_lock(&tab->lock);
	if (tab->dialog && tab->dialog->due_ms <= now) {
		log_info("a dialog (%s) that nobody answered is closed", tab->dialog->kind);
		answer(tab, is_unload(tab->dialog));
		tab->dialog->due_ms = now + DIALOG_MS;
	}
	if (tab->dialog)
		due = tab->dialog->due_ms;
	pthread_mutex_unlock(&tab->lock);
	return due;
}

int64_t dialogs_due(void *arg)
{
	struct browser *browser = arg;
	int64_t now = clock_ms(), due = atomic_load(&browser->due_ms);
	if (now < due)
		return due;
	atomic_store(&browser->due_ms, INT64_MAX);
	due = INT64_MAX;
	struct arena arena = { 0 };
	struct tab **tabs;
	size_t count = browser_tabs(browser, &arena, &tabs);
	for (size_t i = 0; i < count; i++) {
		int64_t its = look_after(tabs[i], now);
		due = its < due ? its : due;
		tab_release(tabs[i]);
	}
	arena_done(&arena);
	atomic_store(&browser->due_ms, due);
	return due;
}

/* ---- answering ---- */

static bool is_answered(struct tab *tab, void *arg, int64_t *again)
{
	const uint64_t *number = arg;
	(void)again;
	return !tab->dialog || tab->dialog->number != *number;
}

int dialog_answer(struct tab *tab, bool accept, const char *text, const struct wait *wait,
		  struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	const struct dialog *dialog = tab->dialog;
	uint64_t number = dialog ? dialog->number : 0;
	json_t *params = dialog ? json_pack("{s:b, s:s}", "accept", accept, "promptText",
					    text ? text : dialog->def)
				: NULL;
	pthread_mutex_unlock(&tab->lock);
	if (!number)
		return err_set(err, ERR_NOT_FOUND, "there is no dialog open in this tab");
	if (tab_ask(tab, "Page.handleJavaScriptDialog", params, wait, err) < 0)
		return -1;
	return tab_wait(tab, is_answered, &number, wait, err);
}
