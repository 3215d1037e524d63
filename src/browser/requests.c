#include "browser/requests.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "browser/browser_state.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"
#include "browser/url_pattern.h"

enum {
	HEADERS_MAX = 262144, /* of one message, as JSON */
	WORD_MAX = 256,
	BYTES_MAX = 4 << 20, /* of a tab */
	QUIET = 2,
	EARLY_MAX = 32,
	EARLY_HEADERS_MAX = 65536,
};

/* Headers of a request that has not been reported itself yet. */
struct early_headers {
	bool response;
	int64_t status;
	char id[CDP_ID_MAX];
	char *text; /* NULL: none */
};

/* With the tab's lock. Entry n is at n % REQUESTS_MAX. */
struct requests {
	uint64_t first,
		last; /* numbers of the oldest and the newest; last < first: there is none */
	uint64_t reported;
	size_t bytes;
	struct request_info *entries[REQUESTS_MAX];
	uint64_t page; /* the latest */
	struct request_page pages[PAGES_MAX];
	size_t early_count; /* of all there ever were */
	struct early_headers early[EARLY_MAX];
};

/* ---- texts ---- */

/* A name, so that what is freed, copied and counted is the same. */
static const size_t texts[] = {
	offsetof(struct request_info, id),
	offsetof(struct request_info, session),
	offsetof(struct request_info, frame),
	offsetof(struct request_info, loader),
	offsetof(struct request_info, url),
	offsetof(struct request_info, method),
	offsetof(struct request_info, type),
	offsetof(struct request_info, request_headers),
	offsetof(struct request_info, response_headers),
	offsetof(struct request_info, post_data),
	offsetof(struct request_info, status_text),
	offsetof(struct request_info, mime),
	offsetof(struct request_info, protocol),
	offsetof(struct request_info, remote_ip),
	offsetof(struct request_info, connection),
	offsetof(struct request_info, failure),
};

static const char **text_at(struct request_info *entry, size_t at)
{
	return (const char **)((char *)entry + at);
}

static void free_text(const char *text)
{
	if (*text) /* "" is not ours */
		free((char *)(uintptr_t)text);
}

static void free_entry(struct request_info *entry)
{
	for (size_t i = 0; entry && i < COUNT(texts); i++)
		free_text(*text_at(entry, texts[i]));
	free(entry);
}

static void set_text(struct requests *log, const char **at, const char *text, size_t max)
{
	const char *old = *at;
	log->bytes -= strlen(old);
	*at = *text ? xstrndup(text, utf8_fit(text, max)) : "";
	log->bytes += strlen(*at);
	free_text(old);
}

static void set_headers(struct requests *log, const char **at, const json_t *headers)
{
	auto_free char *text = json_is_object(headers) ? json_dumps(headers, JSON_COMPACT) : NULL;
	set_text(log, at, text && strlen(text) < HEADERS_MAX ? text : "", HEADERS_MAX);
}

/* "XHR" is "xhr". */
static void set_type(struct requests *log, struct request_info *entry, const char *type)
{
	char lower[WORD_MAX];
	snprintf(lower, sizeof lower, "%s", type);
	for (char *c = lower; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	set_text(log, &entry->type, lower, WORD_MAX);
}

/* ---- the log ---- */

static struct requests *log_of(struct tab *tab)
{
	if (!tab->requests) {
		tab->requests = xcalloc(1, sizeof *tab->requests);
		tab->requests->first = 1;
	}
	return tab->requests;
}

static struct request_info *entry_at(const struct requests *log, uint64_t number)
{
	return log->entries[number % REQUESTS_MAX];
}

/* The newest of that id; NULL: it is not there any more, or never was. */
static struct request_info *find(struct tab *tab, const json_t *params)
{
	const struct requests *log = log_of(tab);
	const char *id = cdp_text(params, "requestId");
	for (uint64_t n = log->last; n >= log->first; n--)
		if (!strcmp(entry_at(log, n)->id, id))
			return entry_at(log, n);
	return NULL;
}

/* A connection that stays open is not under way. */
static bool counts(const struct request_info *entry)
{
	return !entry->done && strcmp(entry->type, "websocket") != 0;
}

static void end(struct tab *tab, struct request_info *entry)
{
	if (counts(entry) && tab->in_flight > 0 && --tab->in_flight == QUIET)
		tab->quiet_ms = clock_ms();
	entry->done = true;
}

static void drop_oldest(struct tab *tab)
{
	struct requests *log = tab->requests;
	struct request_info **at = &log->entries[log->first % REQUESTS_MAX];
	end(tab, *at);
	for (size_t i = 0; i < COUNT(texts); i++)
		log->bytes -= strlen(*text_at(*at, texts[i]));
	free_entry(TAKE(*at));
	log->first++;
}

/* What was learned of requests has grown: to be called when no entry is at hand any more. */
static void make_room(struct tab *tab)
{
	const struct requests *log = log_of(tab);
	while (log->last >= log->first && log->bytes > BYTES_MAX)
		drop_oldest(tab);
}

static struct request_info *add_entry(struct tab *tab, const char *session, const json_t *params)
{
	struct requests *log = log_of(tab);
	make_room(tab);
	if (log->last - log->first + 1 >= REQUESTS_MAX)
		drop_oldest(tab);
	struct request_info *entry = xcalloc(1, sizeof *entry);
	for (size_t i = 0; i < COUNT(texts); i++)
		*text_at(entry, texts[i]) = "";
	entry->number = ++log->last;
	entry->asked = ++log->reported;
	entry->page = log->page;
	log->entries[entry->number % REQUESTS_MAX] = entry;
	set_text(log, &entry->id, cdp_text(params, "requestId"), CDP_ID_MAX);
	set_text(log, &entry->session, session, CDP_ID_MAX);
	return entry;
}

static void free_kept(struct tab *tab)
{
	struct requests *log = tab->requests;
	if (!log)
		return;
	while (log->last >= log->first)
		drop_oldest(tab);
	for (size_t i = 0; i < EARLY_MAX; i++)
		free(log->early[i].text);
	for (size_t i = 0; i < PAGES_MAX; i++) {
		free((char *)(uintptr_t)log->pages[i].loader);
		free((char *)(uintptr_t)log->pages[i].url);
	}
	free(TAKE(tab->requests));
}

/* ---- pages ---- */

static double number_of(const json_t *params, const char *key)
{
	return json_number_value(json_object_get(params, key));
}

/* The request of a document of the main frame begins a page, its hops included. */
static void begin_page(struct tab *tab, struct request_info *entry)
{
	struct requests *log = tab->requests;
	if (strcmp(entry->frame, tab->frames->id) != 0 || strcmp(entry->id, entry->loader) != 0 ||
	    entry->redirected_from)
		return;
	struct request_page *page = &log->pages[++log->page % PAGES_MAX];
	free((char *)(uintptr_t)page->loader);
	free((char *)(uintptr_t)page->url);
	*page = (struct request_page){ log->page,
				       xstrdup(entry->loader),
				       xstrdup(entry->url),
				       entry->started,
				       entry->begun_s,
				       0,
				       0 };
	entry->page = page->number;
}

/* ---- headers as they really went over the network, which come in no order ---- */

static void keep_early(struct requests *log, const json_t *params, bool response)
{
	struct early_headers *early = &log->early[log->early_count++ % EARLY_MAX];
	free(TAKE(early->text));
	if (!cdp_id(early->id, sizeof early->id, cdp_text(params, "requestId")))
		return;
	early->response = response;
	early->status = cdp_int(params, "statusCode");
	early->text = json_dumps(json_object_get(params, "headers"), JSON_COMPACT);
	if (early->text && strlen(early->text) > EARLY_HEADERS_MAX)
		free(TAKE(early->text));
}

static void take_early(struct requests *log, struct request_info *entry)
{
	for (size_t i = 0; i < EARLY_MAX; i++) {
		struct early_headers *early = &log->early[i];
		if (!early->text || strcmp(early->id, entry->id) != 0)
			continue;
		set_text(log, early->response ? &entry->response_headers : &entry->request_headers,
			 early->text, HEADERS_MAX);
		if (early->response)
			entry->status = early->status;
		entry->came |= early->response;
		entry->sent |= !early->response;
		free(TAKE(early->text));
	}
}

/* ---- requests ---- */

static void take_post_data(struct requests *log, struct request_info *entry, const json_t *request)
{
	const char *data = cdp_text(request, "postData");
	entry->has_post_data = cdp_true(request, "hasPostData");
	entry->post_data_cut = entry->has_post_data && (!*data || strlen(data) > POST_DATA_MAX);
	set_text(log, &entry->post_data, data, POST_DATA_MAX);
}

static void take_request(struct tab *tab, struct request_info *entry, const json_t *params)
{
	struct requests *log = tab->requests;
	const json_t *request = json_object_get(params, "request");
	const char *type = cdp_text(params, "type");
	set_text(log, &entry->url, cdp_text(request, "url"), URL_MAX);
	set_text(log, &entry->method, cdp_text(request, "method"), WORD_MAX);
	set_text(log, &entry->frame, cdp_text(params, "frameId"), CDP_ID_MAX);
	set_text(log, &entry->loader, cdp_text(params, "loaderId"), CDP_ID_MAX);
	set_headers(log, &entry->request_headers, json_object_get(request, "headers"));
	take_post_data(log, entry, request);
	set_type(log, entry, *type ? type : "other");
	entry->started = number_of(params, "wallTime");
	entry->begun_s = number_of(params, "timestamp");
}

/* Its moments are milliseconds from the one at which the request was sent off. */
static void take_stages(struct request_info *entry, const json_t *timing)
{
	static const struct {
		const char *begin, *end;
		size_t at;
	} rows[] = { { "dnsStart", "dnsEnd", offsetof(struct request_stages, dns) },
		     { "connectStart", "connectEnd", offsetof(struct request_stages, connect) },
		     { "sslStart", "sslEnd", offsetof(struct request_stages, ssl) },
		     { "sendStart", "sendEnd", offsetof(struct request_stages, send) } };
	double base = number_of(timing, "requestTime");
	for (size_t i = 0; i < COUNT(rows); i++) {
		double *to = (double *)((char *)&entry->stages + rows[i].at);
		double begin = number_of(timing, rows[i].begin),
		       its_end = number_of(timing, rows[i].end);
		bool is = timing && base > 0 && begin >= 0 && its_end >= begin;
		to[0] = is ? base + begin / 1000 : -1;
		to[1] = is ? base + its_end / 1000 : -1;
	}
	double headers = number_of(timing, "receiveHeadersEnd");
	entry->stages.headers = timing && base > 0 && headers > 0 ? base + headers / 1000 : -1;
}

static void take_response(struct tab *tab, struct request_info *entry, const json_t *params,
			  const json_t *response)
{
	struct requests *log = tab->requests;
	char connection[32];
	snprintf(connection, sizeof connection, "%lld",
		 (long long)cdp_int(response, "connectionId"));
	if (!entry->answered)
		entry->answered = ++log->reported;
	entry->answered_s = number_of(params, "timestamp");
	if (!entry->status)
		entry->status = cdp_int(response, "status");
	set_text(log, &entry->status_text, cdp_text(response, "statusText"), WORD_MAX);
	set_text(log, &entry->mime, cdp_text(response, "mimeType"), WORD_MAX);
	set_text(log, &entry->protocol, cdp_text(response, "protocol"), WORD_MAX);
	set_text(log, &entry->remote_ip, cdp_text(response, "remoteIPAddress"), WORD_MAX);
	set_text(log, &entry->connection, connection, WORD_MAX);
	entry->remote_port = cdp_int(response, "remotePort");
	entry->encoded = cdp_int(response, "encodedDataLength");
	entry->from_cache |= cdp_true(response, "fromDiskCache") ||
			     cdp_true(response, "fromPrefetchCache");
	entry->from_service_worker = cdp_true(response, "fromServiceWorker");
	take_stages(entry, json_object_get(response, "timing"));
	if (!*entry->response_headers)
		set_headers(log, &entry->response_headers, json_object_get(response, "headers"));
}

/* The hop before has ended with this response. */
static void redirected(struct tab *tab, struct request_info *entry, const json_t *params)
{
	const json_t *response = json_object_get(params, "redirectResponse");
	take_response(tab, entry, params, response);
	entry->came |= !cdp_true(params, "redirectHasExtraInfo");
	entry->ended_s = entry->answered_s;
	entry->redirected_to = tab->requests->last + 1;
	end(tab, entry);
}

static void asked(struct tab *tab, const char *session, const json_t *params)
{
	const char *url = cdp_text(json_object_get(params, "request"), "url");
	struct request_info *before = find(tab, params);
	uint64_t from = before ? before->number : 0;
	if (!strncmp(url, "data:", 5))
		return;
	if (before && json_object_get(params, "redirectResponse"))
		redirected(tab, before, params);
	else if (before) /* a second time: it was a preload, or went on by itself */
		from = 0;
	struct request_info *entry = add_entry(tab, session, params);
	entry->redirected_from = from;
	take_request(tab, entry, params);
	take_early(tab->requests, entry);
	if (counts(entry))
		tab->in_flight++;
	begin_page(tab, entry);
	make_room(tab);
}

/* The oldest hop of which the real response is still to be reported. */
static struct request_info *find_unanswered(struct tab *tab, const json_t *params)
{
	const struct requests *log = log_of(tab);
	struct request_info *found = NULL, *entry = find(tab, params);
	while (entry) {
		found = entry->came ? found : entry;
		entry = entry->redirected_from >= log->first ? entry_at(log, entry->redirected_from)
							     : NULL;
	}
	return found;
}

static void sent(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (!entry || entry->sent) { /* the latter: of a hop to come */
		keep_early(tab->requests, params, false);
		return;
	}
	entry->sent = true;
	set_headers(tab->requests, &entry->request_headers, json_object_get(params, "headers"));
	make_room(tab);
}

static void came(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find_unanswered(tab, params);
	(void)session;
	if (!entry) {
		keep_early(tab->requests, params, true);
		return;
	}
	entry->came = true;
	entry->status = cdp_int(params, "statusCode");
	set_headers(tab->requests, &entry->response_headers, json_object_get(params, "headers"));
	make_room(tab);
}

/* ---- responses ---- */

static void answered(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (!entry)
		return;
	take_response(tab, entry, params, json_object_get(params, "response"));
	entry->came |= !cdp_true(params, "hasExtraInfo");
	if (*cdp_text(params, "type") && !entry->done)
		set_type(tab->requests, entry, cdp_text(params, "type"));
	make_room(tab);
}

static void cached(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (entry)
		entry->from_cache = true;
}

static void received(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	int64_t more = cdp_int(params, "dataLength");
	(void)session;
	if (entry && more > 0 && !entry->guessed && entry->received < CDP_INT_MAX)
		entry->received += more;
}

static void finished(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (!entry || (entry->done && !entry->guessed))
		return;
	if (entry->guessed) /* but it was not */
		set_text(tab->requests, &entry->failure, "", 0);
	entry->guessed = false;
	entry->ended_s = number_of(params, "timestamp");
	if (number_of(params, "encodedDataLength") > 0)
		entry->encoded = cdp_int(params, "encodedDataLength");
	end(tab, entry);
}

static void fail(struct tab *tab, struct request_info *entry, const char *why, double when)
{
	if (entry->done)
		return;
	entry->ended_s = when;
	set_text(tab->requests, &entry->failure, *why ? why : "it failed", WORD_MAX);
	end(tab, entry);
}

/* What a browser says of a request that it would not send is more than the error that the page gets. */
static void failed(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	const char *cors = cdp_text(json_object_get(params, "corsErrorStatus"), "corsError"),
		   *blocked = cdp_text(params, "blockedReason"), *reason = *cors ? cors : blocked;
	char why[WORD_MAX];
	(void)session;
	snprintf(why, sizeof why, "%s%s%s%s", cdp_text(params, "errorText"), *reason ? " (" : "",
		 reason, *reason ? ")" : "");
	if (!entry || entry->guessed)
		return;
	entry->canceled = cdp_true(params, "canceled");
	fail(tab, entry, why, number_of(params, "timestamp"));
}

/* ---- WebSockets ---- */

static void ws_made(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = add_entry(tab, session, params);
	struct requests *log = tab->requests;
	set_text(log, &entry->url, cdp_text(params, "url"), URL_MAX);
	set_text(log, &entry->method, "GET", WORD_MAX);
	set_text(log, &entry->type, "websocket", WORD_MAX);
}

static void ws_asked(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (!entry)
		return;
	entry->started = number_of(params, "wallTime");
	entry->begun_s = number_of(params, "timestamp");
	set_headers(tab->requests, &entry->request_headers,
		    json_object_get(json_object_get(params, "request"), "headers"));
	make_room(tab);
}

static void ws_answered(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (entry)
		take_response(tab, entry, params, json_object_get(params, "response"));
	make_room(tab);
}

static void ws_error(struct tab *tab, const char *session, const json_t *params)
{
	struct request_info *entry = find(tab, params);
	(void)session;
	if (entry)
		fail(tab, entry, cdp_text(params, "errorMessage"), number_of(params, "timestamp"));
}

/* ---- documents that go ---- */

/* Of a frame (NULL: of all of a session) what is not done, and is not of the document `but`. */
static void abandon(struct tab *tab, const char *frame, const char *session, const char *but)
{
	struct requests *log = log_of(tab);
	for (uint64_t n = log->first; n <= log->last; n++) {
		struct request_info *entry = entry_at(log, n);
		if ((frame && strcmp(entry->frame, frame) != 0) ||
		    (session && strcmp(entry->session, session) != 0) ||
		    (but && !strcmp(entry->loader, but)) || entry->done)
			continue;
		fail(tab, entry, "the document was left", 0);
		entry->guessed = true;
	}
}

/* Of a document whose process has just begun, the browser may not report the body, or report it as
 * canceled. */
static void end_document(struct tab *tab, struct request_info *entry, double when)
{
	json_t *headers = json_loads(entry->response_headers, 0, NULL), *value;
	const char *name;
	int64_t length = -1;
	bool coded = false;
	json_object_foreach(headers, name, value) {
		if (!strcasecmp(name, "content-length") && json_is_string(value))
			length = strtoll(json_string_value(value), NULL, 10);
		coded |= !strcasecmp(name, "content-encoding");
	}
	json_decref(headers);
	if (!entry->received && length > 0 && length <= CDP_INT_MAX && !coded) {
		entry->received = length;
		entry->encoded += length;
	}
	set_text(tab->requests, &entry->failure, "", 0);
	entry->ended_s = when;
	entry->guessed = true;
	end(tab, entry);
}

static void end_documents(struct tab *tab, const char *loader, double when)
{
	struct requests *log = log_of(tab);
	for (uint64_t n = log->first; n <= log->last; n++) {
		struct request_info *entry = entry_at(log, n);
		if (!strcmp(entry->id, loader) && entry->status &&
		    (!entry->done || (entry->canceled && !entry->received)))
			end_document(tab, entry, when);
	}
}

static void reached(struct tab *tab, const char *session, const json_t *params)
{
	struct requests *log = log_of(tab);
	const char *loader = cdp_text(params, "loaderId"), *name = cdp_text(params, "name");
	bool dom = !strcmp(name, "DOMContentLoaded"), load = !strcmp(name, "load");
	double when = number_of(params, "timestamp");
	(void)session;
	if (!*loader || (!dom && !load))
		return;
	end_documents(tab, loader, when);
	for (size_t i = 0; i < PAGES_MAX; i++) {
		struct request_page *page = &log->pages[i];
		if (page->loader && !strcmp(page->loader, loader))
			*(dom ? &page->dom_s : &page->load_s) = when;
	}
}

static void navigated(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *frame = json_object_get(params, "frame");
	abandon(tab, cdp_text(frame, "id"), NULL, cdp_text(frame, "loaderId"));
	abandon(tab, "", session, NULL); /* of its workers */
}

static void detached(struct tab *tab, const char *session, const json_t *params)
{
	(void)session;
	if (strcmp(cdp_text(params, "reason"), "swap") != 0)
		abandon(tab, cdp_text(params, "frameId"), NULL, NULL);
}

static void crashed(struct tab *tab, const char *session, const json_t *params)
{
	(void)params;
	abandon(tab, NULL, session, NULL);
}

static const struct tab_event rows[] = {
	{ "Network.requestWillBeSent", asked },
	{ "Network.requestWillBeSentExtraInfo", sent },
	{ "Network.responseReceivedExtraInfo", came },
	{ "Network.responseReceived", answered },
	{ "Network.requestServedFromCache", cached },
	{ "Network.dataReceived", received },
	{ "Network.loadingFinished", finished },
	{ "Network.loadingFailed", failed },
	{ "Network.webSocketCreated", ws_made },
	{ "Network.webSocketWillSendHandshakeRequest", ws_asked },
	{ "Network.webSocketHandshakeResponseReceived", ws_answered },
	{ "Network.webSocketFrameError", ws_error },
	{ "Network.webSocketClosed", finished },
	{ "Page.lifecycleEvent", reached },
	{ "Page.frameNavigated", navigated },
	{ "Page.frameDetached", detached },
	{ "Inspector.targetCrashed", crashed },
};
static const struct tab_enable enable[] = {
	{ "Network.enable", "{\"maxPostDataSize\":65536}" },
	{ NULL, NULL },
};
const struct tab_events request_events = {
	.rows = rows, .count = COUNT(rows), .enable = enable, .free = free_kept
};

/* ---- asking ---- */

uint64_t requests_latest(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	uint64_t latest = log_of(tab)->reported;
	pthread_mutex_unlock(&tab->lock);
	return latest;
}

static struct request_info copy(const struct request_info *from, struct arena *arena)
{
	struct request_info info = *from;
	for (size_t i = 0; i < COUNT(texts); i++) {
		const char **at = text_at(&info, texts[i]);
		*at = **at ? arena_strdup(arena, *at) : "";
	}
	return info;
}

struct awaited_request {
	const struct url_pattern *pattern;
	uint64_t since;
	bool response;
	struct arena *arena;
	struct request_info *ret;
};

/* The first of them in the order of what is waited for. What does not match now never will. */
static bool is_there(struct tab *tab, void *arg, int64_t *again)
{
	struct awaited_request *awaited = arg;
	const struct requests *log = log_of(tab);
	const struct request_info *found = NULL;
	uint64_t first = UINT64_MAX;
	(void)again;
	for (uint64_t n = log->first; n <= log->last; n++) {
		const struct request_info *entry = entry_at(log, n);
		uint64_t when = awaited->response ? entry->answered : entry->asked;
		if (when > awaited->since && when < first &&
		    url_pattern_match(awaited->pattern, entry->url)) {
			found = entry;
			first = when;
		}
	}
	if (found)
		*awaited->ret = copy(found, awaited->arena);
	awaited->since = log->reported;
	return found;
}

int requests_wait(struct tab *tab, uint64_t since, const char *url_pattern, bool response,
		  struct arena *arena, struct request_info *ret, const struct wait *wait,
		  struct err *err)
{
	struct awaited_request awaited = { url_pattern_compile(url_pattern, arena, err), since,
					   response, arena, ret };
	return awaited.pattern ? tab_wait(tab, is_there, &awaited, wait, err) : -1;
}

size_t requests_list(struct tab *tab, const struct url_pattern *pattern, size_t max,
		     struct arena *arena, struct request_info **ret)
{
	size_t count = 0;
	struct request_info *list = arena_alloc(arena, (REQUESTS_MAX + 1) * sizeof *list);
	pthread_mutex_lock(&tab->lock);
	const struct requests *log = log_of(tab);
	for (uint64_t n = log->last; n >= log->first && count < max; n--) {
		const struct request_info *entry = entry_at(log, n);
		if (!pattern || url_pattern_match(pattern, entry->url))
			list[REQUESTS_MAX - ++count] = copy(entry, arena);
	}
	pthread_mutex_unlock(&tab->lock);
	*ret = list + REQUESTS_MAX - count;
	return count;
}

size_t requests_pages(struct tab *tab, struct arena *arena, struct request_page **ret)
{
	size_t count = 0;
	struct request_page *list = *ret = arena_alloc(arena, (PAGES_MAX + 1) * sizeof *list);
	pthread_mutex_lock(&tab->lock);
	const struct requests *log = log_of(tab);
	uint64_t first = log->page > PAGES_MAX ? log->page - PAGES_MAX + 1 : 1;
	for (uint64_t n = first; n <= log->page; n++) {
		struct request_page page = log->pages[n % PAGES_MAX];
		page.loader = arena_strdup(arena, page.loader);
		page.url = arena_strdup(arena, page.url);
		list[count++] = page;
	}
	pthread_mutex_unlock(&tab->lock);
	return count;
}
