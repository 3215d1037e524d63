#include "browser/navigate.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp_params.h"
#include "browser/dialog.h"
#include "browser/schemes.h"
#include "browser/url_pattern.h"
#include "config/config.h"
#include "config/reach.h"

enum { SHOWN = 160, FAILED_MS = 2000, CRASH_MS = 200, IDLE_MS = 500, NEXT_MS = 50 };

/* ---- what is waited for ---- */

struct arrival {
	char loader[CDP_ID_MAX];   /* of the document; "": whatever comes */
	uint64_t documents, moves; /* of the main frame, before */
	uint64_t crashes;          /* of the tab, before */
	unsigned reached;
	bool anew; /* only another document counts, not a move within one */
	bool committed, in_dialog;
	int64_t idle_ms; /* since when no request is under way; 0: some are */
};

static struct arrival depart(struct tab *tab, unsigned reached)
{
	struct arrival arrival = { .reached = reached };
	pthread_mutex_lock(&tab->lock);
	arrival.crashes = tab->crashes;
	const struct frame *frame = tab_main_frame(tab);
	if (frame) {
		arrival.documents = frame->documents;
		arrival.moves = frame->moves;
	}
	pthread_mutex_unlock(&tab->lock);
	return arrival;
}

/* The page may be elsewhere again before anybody looks: then its document was the one before, or earlier. */
static bool is_committed(const struct frame *frame, const struct arrival *arrival)
{
	if (!*arrival->loader)
		return arrival->anew ? frame->documents > arrival->documents
				     : frame->moves > arrival->moves;
	return !strcmp(frame->loader, arrival->loader) ||
	       !strcmp(frame->loader_before, arrival->loader) ||
	       frame->documents > arrival->documents + 2;
}

static bool is_idle(const struct tab *tab, struct arrival *arrival, int64_t *again)
{
	int64_t now = clock_ms();
	if (tab->in_flight > 0)
		arrival->idle_ms = 0;
	else if (!arrival->idle_ms)
		arrival->idle_ms = now;
	if (arrival->idle_ms)
		*again = arrival->idle_ms + IDLE_MS;
	return arrival->idle_ms && now >= arrival->idle_ms + IDLE_MS;
}

static bool has_reached(const struct tab *tab, const struct frame *frame, struct arrival *arrival,
			int64_t *again)
{
	if (!(arrival->reached & TAB_IDLE))
		return frame->reached & arrival->reached;
	return frame->reached & TAB_LOAD && is_idle(tab, arrival, again);
}

static bool has_arrived(struct tab *tab, void *arg, int64_t *again)
{
	struct arrival *arrival = arg;
	const struct frame *frame = tab_main_frame(tab);
	if (!frame)
		return false;
	arrival->committed = arrival->committed || is_committed(frame, arrival);
	if (!arrival->committed)
		return false;
	arrival->in_dialog = tab->dialog != NULL;
	return arrival->in_dialog || has_reached(tab, frame, arrival, again) ||
	       frame->documents == arrival->documents;
}

static const char *name_of(unsigned reached)
{
	return reached & TAB_IDLE   ? "networkidle"
	       : reached & TAB_LOAD ? "load"
	       : reached & TAB_DOM  ? "domcontentloaded"
				    : "commit";
}

static int dialog_err(struct tab *tab, struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	const struct dialog *dialog = tab->dialog;
	err_set(err, ERR_CONFLICT,
		"the page opened a dialog (%s: \"%.*s\") before it was loaded: answer it with POST "
		"/v1/browser/page/dialog, then go on",
		dialog ? dialog->kind : "closed by now", SHOWN, dialog ? dialog->message : "");
	pthread_mutex_unlock(&tab->lock);
	return -1;
}

static int arrive(struct tab *tab, struct arrival *arrival, const struct wait *wait,
		  struct err *err)
{
	struct err own = { 0 };
	err = err ? err : &own;
	if (tab_wait_revived(tab, has_arrived, arrival, arrival->crashes, wait, err) < 0) {
		if (err->code != ERR_SLOW)
			return -1;
		return arrival->committed
			       ? err_set(err, ERR_SLOW,
					 "the page is there, but has not reached '%s' in time",
					 name_of(arrival->reached))
			       : err_set(err, ERR_SLOW, "the page did not change in time");
	}
	return arrival->in_dialog ? dialog_err(tab, err) : 0;
}

/* ---- why not ---- */

struct navigate_failure {
	const char *name, *words;
	bool outside; /* as it fails where there is no network */
};
static const struct navigate_failure failures[] = {
	{ "ERR_NAME_NOT_RESOLVED", "there is no such host", true },
	{ "ERR_INTERNET_DISCONNECTED", "there is no network", true },
	{ "ERR_ADDRESS_UNREACHABLE", "no way leads there", true },
	{ "ERR_NETWORK_ACCESS_DENIED", "the network may not be used", true },
	{ "ERR_PROXY_CONNECTION_FAILED", "the proxy cannot be reached", true },
	{ "ERR_TUNNEL_CONNECTION_FAILED", "the proxy refused to connect", true },
	{ "ERR_CONNECTION_REFUSED", "nothing listens at that address and port", false },
	{ "ERR_CONNECTION_TIMED_OUT", "the host does not answer", true },
	{ "ERR_TIMED_OUT", "the host does not answer", false },
	{ "ERR_CONNECTION_RESET", "the server cut the connection", false },
	{ "ERR_CONNECTION_CLOSED", "the server closed the connection", false },
	{ "ERR_EMPTY_RESPONSE", "the server closed the connection without a response", false },
	{ "ERR_INVALID_HTTP_RESPONSE", "the server does not speak HTTP", false },
	{ "ERR_INVALID_RESPONSE", "the server does not speak HTTP", false },
	{ "ERR_SSL_PROTOCOL_ERROR", "the server does not speak TLS: use http:// instead?", false },
	{ "ERR_CERT_", "the server's certificate is not valid", false },
	{ "ERR_TOO_MANY_REDIRECTS", "the server redirects without end", false },
	{ "ERR_FILE_NOT_FOUND", "there is no such file", false },
	{ "ERR_ACCESS_DENIED", "the sandbox user may not read it", false },
	{ "ERR_UNKNOWN_URL_SCHEME", "the browser does not know this kind of address", false },
	{ "ERR_UNSAFE_PORT", "browsers refuse this port", false },
	{ "ERR_BLOCKED_BY_", "it is blocked", false },
	{ "ERR_ABORTED",
	  "the server sent no document (204), or another navigation took its place; the tab shows what it "
	  "did before",
	  false },
};

static const struct navigate_failure *failure_of(const char *text)
{
	static const struct navigate_failure unknown = { "", "it cannot be loaded", false };
	const char *name = strncmp(text, "net::", 5) ? text : text + 5;
	for (size_t i = 0; i < COUNT(failures); i++)
		if (!strncmp(name, failures[i].name, strlen(failures[i].name)))
			return &failures[i];
	return &unknown;
}

static int failed(const struct tab *tab, const char *url, const char *text, struct err *err)
{
	const struct navigate_failure *failure = failure_of(text);
	const char *why = failure->outside ? reach_why_not(tab->browser->config->network) : NULL;
	return err_set(err, ERR_CONFLICT, "cannot open '%.*s%s': %s (%s)%s%s", SHOWN, url,
		       strlen(url) > SHOWN ? "…" : "", failure->words, text, why ? ": " : "",
		       why ? why : "");
}

/* ---- to an address ---- */

static int refused(const char *url, struct err *err)
{
	if (err->code == ERR_SLOW)
		return err_set(err, ERR_SLOW, "'%.*s' did not respond in time", SHOWN, url);
	if (err->code == ERR_CONFLICT && strstr(err->msg, "invalid URL"))
		return err_set(err, ERR_CONFLICT,
			       "invalid URL '%.*s': expected one with a scheme, such as "
			       "https://example.com/",
			       SHOWN, url);
	return -1;
}

/* A page of an error takes the place of what was shown. */
static void await_error_page(struct tab *tab, struct arrival *arrival, const struct wait *wait)
{
	struct wait soon = *wait;
	if (clock_ms() + FAILED_MS < soon.until_ms)
		soon.until_ms = clock_ms() + FAILED_MS;
	(void)arrive(tab, arrival, &soon, NULL);
}

/* A response that says it is an error, and has no body, is shown as a page of the browser's. */
static bool is_empty_response(const char *text)
{
	return strstr(text, "ERR_HTTP_RESPONSE_CODE_FAILURE") != NULL;
}

static bool has_crashed(struct tab *tab, void *arg, int64_t *again)
{
	const struct arrival *arrival = arg;
	(void)again;
	return tab->crashed && tab->crashes > arrival->crashes;
}

/* If a crash is why it was aborted, Chromium reports the crash a little later. */
static void await_crash(struct tab *tab, struct arrival *arrival, const struct wait *wait)
{
	struct wait soon = *wait;
	struct err ignored;
	if (clock_ms() + CRASH_MS < soon.until_ms)
		soon.until_ms = clock_ms() + CRASH_MS;
	(void)tab_wait_revived(tab, has_crashed, arrival, arrival->crashes, &soon, &ignored);
}

static int navigate_once(struct tab *tab, const char *url, struct arrival *arrival,
			 bool *ret_download, const struct wait *wait, struct err *err)
{
	json_t *answer = tab_call(tab, "Page.navigate", json_pack("{s:s}", "url", url), wait, err);
	if (!answer)
		return refused(url, err);
	const char *text = cdp_text(answer, "errorText");
	int result = 0;
	*ret_download = cdp_true(answer, "isDownload");
	(void)cdp_id(arrival->loader, sizeof arrival->loader, cdp_text(answer, "loaderId"));
	if (*ret_download) {
		result = 0;
	} else if (*text && !is_empty_response(text)) {
		if (strstr(text, "ERR_ABORTED"))
			await_crash(tab, arrival, wait);
		else
			await_error_page(tab, arrival, wait);
		result = failed(tab, url, text, err);
	} else {
		result = arrive(tab, arrival, wait, err);
	}
	json_decref(answer);
	return result;
}

static bool has_crashed_before_it_came(struct tab *tab, struct arrival *arrival)
{
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = tab_main_frame(tab);
	bool result = has_crashed(tab, arrival, NULL) && frame &&
		      frame->documents == arrival->documents;
	pthread_mutex_unlock(&tab->lock);
	return result;
}

/* A renderer that crashes before it has the document has not been crashed by it, and has run none of it. */
int navigate_to(struct tab *tab, const char *url, unsigned reached, bool *ret_download,
		const struct wait *wait, struct err *err)
{
	if (schemes_check(url, err) < 0)
		return -1;
	struct arrival arrival = depart(tab, reached);
	int result = navigate_once(tab, url, &arrival, ret_download, wait, err);
	if (result == 0 || !has_crashed_before_it_came(tab, &arrival))
		return result;
	log_warn("the tab crashed before it had the page: it is opened once more");
	arrival = depart(tab, reached);
	return navigate_once(tab, url, &arrival, ret_download, wait, err);
}

/* ---- the same again, and through the history ---- */

static bool shows_error(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = tab_main_frame(tab);
	bool error = frame && frame->failed;
	pthread_mutex_unlock(&tab->lock);
	return error;
}

static json_t *history(struct tab *tab, const struct wait *wait, struct err *err)
{
	return tab_call(tab, "Page.getNavigationHistory", NULL, wait, err);
}

/* The browser gives no reason here. */
static int check_shown(struct tab *tab, const struct wait *wait, struct err *err)
{
	if (!shows_error(tab))
		return 0;
	json_t *all = history(tab, wait, NULL);
	const json_t *entry = json_array_get(json_object_get(all, "entries"),
					     (size_t)cdp_int(all, "currentIndex"));
	failed(tab, cdp_text(entry, "url"), "the browser shows an error page", err);
	json_decref(all);
	return -1;
}

int navigate_reload(struct tab *tab, unsigned reached, const struct wait *wait, struct err *err)
{
	struct arrival arrival = depart(tab, reached);
	arrival.anew = true;
	return tab_ask(tab, "Page.reload", NULL, wait, err) < 0 ? -1
	       : arrive(tab, &arrival, wait, err) < 0           ? -1
								: check_shown(tab, wait, err);
}

static int no_entry(int by, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, "there is no page to go %s to in this tab's history",
		       by < 0 ? "back" : "forward");
}

int navigate_history(struct tab *tab, int by, unsigned reached, const struct wait *wait,
		     struct err *err)
{
	json_t *all = history(tab, wait, err);
	if (!all)
		return -1;
	int64_t at = cdp_int(all, "currentIndex") + by;
	const json_t *entry = at < 0 ? NULL
				     : json_array_get(json_object_get(all, "entries"), (size_t)at);
	json_t *params = entry ? json_pack("{s:I}", "entryId", cdp_int(entry, "id")) : NULL;
	struct arrival arrival = depart(tab, reached);
	json_decref(all);
	if (!params)
		return no_entry(by, err);
	if (tab_ask(tab, "Page.navigateToHistoryEntry", params, wait, err) < 0 ||
	    arrive(tab, &arrival, wait, err) < 0)
		return -1;
	return check_shown(tab, wait, err);
}

/* ---- only waiting ---- */

/* Another document may be on its way: asked for, and nothing of it there yet. Until it is there, or turns out to
 * be none, the browser answers no question about the page. */
static void await_next(struct tab *tab, const struct wait *wait)
{
	struct err ignored;
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = tab_main_frame(tab);
	bool next = tab->opening || (frame && frame->leaving);
	pthread_mutex_unlock(&tab->lock);
	if (next)
		json_decref(frame_js(tab, NULL, "ping", NULL, wait, &ignored));
}

int navigate_await(struct tab *tab, unsigned reached, const struct wait *wait, struct err *err)
{
	await_next(tab, wait);
	struct arrival arrival = { .reached = reached, .documents = UINT64_MAX, .committed = true };
	return arrive(tab, &arrival, wait, err);
}

struct url_arrival {
	const struct url_pattern *pattern;
	struct arrival arrival;
};

static bool is_at_url(struct tab *tab, void *arg, int64_t *again)
{
	struct url_arrival *a = arg;
	const struct frame *frame = tab_main_frame(tab);
	return frame && url_pattern_match(a->pattern, frame->url) &&
	       has_arrived(tab, &a->arrival, again);
}

int navigate_await_url(struct tab *tab, const char *pattern, unsigned reached,
		       const struct wait *wait, struct err *err)
{
	struct arena arena = { 0 };
	struct url_arrival a = {
		url_pattern_compile(pattern, &arena, err),
		{ .reached = reached, .documents = UINT64_MAX, .committed = true },
	};
	int result = a.pattern ? tab_wait(tab, is_at_url, &a, wait, err) : -1;
	arena_done(&arena);
	if (result < 0 && a.pattern && err->code == ERR_SLOW) {
		pthread_mutex_lock(&tab->lock);
		err_set(err, ERR_SLOW, "the page is at '%.*s' and did not come to '%.*s' in time",
			SHOWN, tab->url, SHOWN, pattern);
		pthread_mutex_unlock(&tab->lock);
	}
	return result < 0 ? -1 : a.arrival.in_dialog ? dialog_err(tab, err) : 0;
}

/* ---- the next document ---- */

struct next_document {
	uint64_t documents;
	int64_t due_ms;
};

static uint64_t count_documents(struct tab *tab)
{
	const struct frame *frame = tab_main_frame(tab);
	return frame ? frame->documents : 0;
}

uint64_t navigate_documents(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	uint64_t documents = count_documents(tab);
	pthread_mutex_unlock(&tab->lock);
	return documents;
}

static bool is_next(struct tab *tab, void *arg, int64_t *again)
{
	const struct next_document *next = arg;
	*again = next->due_ms;
	return count_documents(tab) != next->documents || clock_ms() >= next->due_ms;
}

int navigate_await_next(struct tab *tab, uint64_t documents, const struct wait *wait,
			struct err *err)
{
	struct next_document next = { documents, clock_ms() + NEXT_MS };
	return tab_wait(tab, is_next, &next, wait, err);
}
