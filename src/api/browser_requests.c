/* What the current tab has asked of the network. */
#include <string.h>

#include "api/file.h"
#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/timestamp.h"
#include "browser/har.h"
#include "browser/requests.h"
#include "browser/tab.h"
#include "browser/url_pattern.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"

struct network_query {
	const char *filter;
	int64_t limit;
};
static const struct field query_fields[] = {
	STR(network_query, filter, QUERY,
	    "Only URLs that contain this text, or, with wildcards, match it: * is any text without "
	    "a slash, ** any text, {a,b} either of them.",
	    .alias = "url_pattern,pattern,url", .max_len = URL_PATTERN_MAX),
	INT(network_query, limit, QUERY | MIN | MAX, "At most so many, the latest ones.",
	    .def = "100", .min = 1, .max = REQUESTS_MAX),
};
static const struct schema query_schema = SCHEMA(network_query, "NetworkQuery", query_fields);

struct network_timing {
	double dns_ms, connect_ms, ssl_ms, send_ms, wait_ms, receive_ms;
};
static const struct field timing_fields[] = {
	NUM(network_timing, dns_ms, NULLABLE, "Finding the address."),
	NUM(network_timing, connect_ms, NULLABLE, "Connecting, with TLS."),
	NUM(network_timing, ssl_ms, NULLABLE, "TLS alone."),
	NUM(network_timing, send_ms, NULLABLE, "Sending the request."),
	NUM(network_timing, wait_ms, NULLABLE, "Until the header of the response was there."),
	NUM(network_timing, receive_ms, NULLABLE, "Receiving the rest."),
};
static const struct schema timing_schema =
	SCHEMA(network_timing, "BrowserRequestTiming", timing_fields);
static const char *const states[] = { "pending", "finished", "failed", NULL };

struct network_request {
	int64_t id;
	const char *url, *method, *resource_type, *state;
	int64_t status;
	const char *status_text, *mime_type, *protocol, *remote_address, *failure, *started_at;
	double timestamp, duration_ms;
	const struct network_timing *timing;
	int64_t transfer_size, body_size;
	bool from_cache, from_service_worker;
	json_t *headers, *response_headers;
	const char *post_data, *frame_id;
	int64_t redirected_from, redirected_to;
};
static const struct field request_fields[] = {
	INT(network_request, id, 0, "Its number in the tab, from 1."),
	STR(network_request, url, 0, "Its URL, without a fragment."),
	STR(network_request, method, 0, "GET, POST, …"),
	STR(network_request, resource_type, 0,
	    "What it is for: document, stylesheet, image, media, font, script, xhr, fetch, "
	    "eventsource, websocket, manifest, ping, preflight, other, …"),
	ENUM(network_request, state, 0, "How far it has come.", .choices = states),
	INT(network_request, status, NULLABLE, "Status of the response; null while there is none."),
	STR(network_request, status_text, NULLABLE, "The text behind the status."),
	STR(network_request, mime_type, NULLABLE, "Type of the content."),
	STR(network_request, protocol, NULLABLE, "http/1.1, h2, h3, …"),
	STR(network_request, remote_address, NULLABLE, "Address and port it was sent to."),
	STR(network_request, failure, NULLABLE, "Why it failed, such as net::ERR_ABORTED."),
	STR(network_request, started_at, 0, "When it began."),
	NUM(network_request, timestamp, 0, "The same as milliseconds since 1970."),
	NUM(network_request, duration_ms, NULLABLE, "From then to its end; null until then."),
	OBJ(network_request, timing, NULLABLE, "Its stages in milliseconds.", .of = &timing_schema),
	INT(network_request, transfer_size, 0, "Bytes that came over the network."),
	INT(network_request, body_size, 0, "Bytes of the body, decompressed."),
	BOOL(network_request, from_cache, 0, "Whether the cache answered."),
	BOOL(network_request, from_service_worker, 0, "Whether a service worker answered."),
	JSON(network_request, headers, 0, "The request's headers, as they were sent."),
	JSON(network_request, response_headers, NULLABLE, "The response's headers."),
	STR(network_request, post_data, NULLABLE, "The body, where it is text of at most 64 KiB."),
	STR(network_request, frame_id, NULLABLE, "The frame that it is for."),
	INT(network_request, redirected_from, NULLABLE, "The request that was redirected to it."),
	INT(network_request, redirected_to, NULLABLE, "The request that it was redirected to."),
};
static const struct schema request_schema =
	SCHEMA(network_request, "BrowserRequest", request_fields);
static const struct field list_data = { .type = T_LIST,
					.item = T_OBJ,
					.of = &request_schema,
					.help = "The requests, the oldest first." };

/* ---- the filter ---- */

/* NULL: all. Text without wildcards may be anywhere in the URL, even if it has a scheme. */
static int compile_filter(struct call *call, const char *filter, const struct url_pattern **ret,
			  struct err *err)
{
	*ret = NULL;
	if (!filter || !*filter)
		return 0;
	if (!strpbrk(filter, "*{\\"))
		filter = arena_printf(call->arena, "**%s**", filter);
	*ret = url_pattern_compile(filter, call->arena, err);
	return *ret ? 0 : -1;
}

/* ---- one of them ---- */

static void give_back(void *json)
{
	json_decref(json);
}

static json_t *headers_of(struct call *call, const char *text)
{
	json_t *json = *text ? json_loads(text, 0, NULL) : NULL;
	if (json)
		arena_defer(call->arena, give_back, json);
	return json;
}

static double between_ms(double begin, double end)
{
	return begin > 0 && end >= begin ? (end - begin) * 1000 : NAN;
}

static const struct network_timing *timing_of(struct call *call, const struct request_info *r)
{
	const struct request_stages *s = &r->stages;
	struct network_timing *timing = arena_alloc(call->arena, sizeof *timing);
	if (!r->status)
		return NULL;
	*timing = (struct network_timing){
		between_ms(s->dns[0], s->dns[1]),   between_ms(s->connect[0], s->connect[1]),
		between_ms(s->ssl[0], s->ssl[1]),   between_ms(s->send[0], s->send[1]),
		between_ms(s->send[1], s->headers), between_ms(s->headers, r->ended_s)
	};
	return timing;
}

static const char *moment(struct call *call, double seconds)
{
	struct timespec when = { .tv_sec = (time_t)seconds };
	when.tv_nsec = (long)((seconds - (double)when.tv_sec) * 1e9);
	return timestamp_text(call->arena, &when);
}

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static const char *address_of(struct call *call, const struct request_info *r)
{
	if (!*r->remote_ip)
		return NULL;
	return arena_printf(call->arena, "%s:%lld", r->remote_ip, (long long)r->remote_port);
}

static struct network_request describe(struct call *call, const struct request_info *r)
{
	json_t *headers = headers_of(call, r->request_headers);
	return (struct network_request){
		.id = (int64_t)r->number,
		.url = r->url,
		.method = r->method,
		.resource_type = r->type,
		.state = !r->done      ? states[0]
			 : *r->failure ? states[2]
				       : states[1],
		.status = r->status ? r->status : INT_ABSENT,
		.status_text = r->status ? r->status_text : NULL,
		.mime_type = or_null(r->mime),
		.protocol = or_null(r->protocol),
		.remote_address = address_of(call, r),
		.failure = or_null(r->failure),
		.started_at = moment(call, r->started),
		.timestamp = r->started * 1000,
		.duration_ms = r->done ? between_ms(r->begun_s, r->ended_s) : NAN,
		.timing = timing_of(call, r),
		.transfer_size = r->encoded,
		.body_size = r->received,
		.from_cache = r->from_cache,
		.from_service_worker = r->from_service_worker,
		.headers = headers ? headers : headers_of(call, "{}"),
		.response_headers = headers_of(call, r->response_headers),
		.post_data = r->has_post_data && !r->post_data_cut ? r->post_data : NULL,
		.frame_id = or_null(r->frame),
		.redirected_from = r->redirected_from ? (int64_t)r->redirected_from : INT_ABSENT,
		.redirected_to = r->redirected_to ? (int64_t)r->redirected_to : INT_ABSENT,
	};
}

static int list_requests(struct call *call, const void *in, struct err *err)
{
	const struct network_query *query = in;
	const struct url_pattern *pattern;
	struct page_call page;
	struct request_info *found;
	if (compile_filter(call, query->filter, &pattern, err) < 0 ||
	    page_begin(call, 0, &page, err) < 0)
		return -1;
	size_t count = requests_list(page.tab, pattern, (size_t)query->limit, call->arena, &found);
	struct network_request *items = arena_alloc(call->arena, (count + 1) * sizeof *items);
	for (size_t i = 0; i < count; i++)
		items[i] = describe(call, &found[i]);
	return page_reply(call, &page, &(struct list){ count, items }, err);
}

/* ---- as an archive ---- */

struct har_export {
	const char *save_path;
};
static const struct field export_fields[] = {
	STR(har_export, save_path, OPTIONAL,
	    "The file to write; a relative one is in the workspace. When absent, data is the "
	    "archive itself.",
	    .min_len = 1, .alias = "path,file"),
};
static const struct schema export_schema = SCHEMA(har_export, "ExportHarRequest", export_fields);
static const struct field export_data = {
	.type = T_JSON,
	.help = "The archive, or, where it was written to a file: path, entries and bytes.",
};

static int write_har(struct call *call, const char *path, const struct buf *har, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	const struct save save = { .data = har->data, .len = har->len, .fd = -1 };
	if (file_user_enter(call, false, &view, err) < 0 || place_hold(path, &place, err) < 0)
		return -1;
	return save_put(&save, &place, err);
}

static int reply_har(struct call *call, struct page_call *page, const char *path, size_t count,
		     const struct buf *har, struct err *err)
{
	struct err cause = { 0 };
	if (!path) {
		json_t *whole = json_loadb(har->data, har->len, JSON_ALLOW_NUL, NULL);
		if (whole)
			arena_defer(call->arena, give_back, whole);
		return page_reply(call, page, &whole, err);
	}
	if (write_har(call, path, har, &cause) < 0) {
		cause.code = cause.code < ERR_BAD_REQUEST ? ERR_CONFLICT : cause.code;
		return page_failed(call, page, &cause, err);
	}
	journal_add(JOURNAL_FILE_WRITTEN,
		    &(struct journal_file){ path, "write", (int64_t)har->len });
	json_t *done = json_pack("{s:s, s:I, s:I}", "path", path, "entries", (json_int_t)count,
				 "bytes", (json_int_t)har->len);
	if (done)
		arena_defer(call->arena, give_back, done);
	return page_reply(call, page, &done, err);
}

static int export_har(struct call *call, const void *in, struct err *err)
{
	const char *path = ((const struct har_export *)in)->save_path;
	struct page_call page;
	struct jw jw;
	if (path && !(path = file_path(call, path, NULL, err)))
		return -1;
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	jw_init(&jw, HAR_MAX);
	size_t count = har_write(page.tab, AIO_VERSION, call->arena, &jw, &page.wait);
	int result = jw_failed(&jw) ? err_set(err, ERR_TOO_LARGE,
					      "the archive has more than %d MiB", HAR_MAX >> 20)
				    : reply_har(call, &page, path, count, &jw.out, err);
	jw_done(&jw);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/network/requests", list_requests, &query_schema, &list_data,
	  "List network requests",
	  "What the active tab and its frames have asked of the network: at most the latest 1000, "
	  "from the moment the tab was opened. Each hop of a redirect is an entry. data: URLs are "
	  "not." },
	{ "POST", "/v1/browser/network/export_har", export_har, &export_schema, &export_data,
	  "Export requests as a HAR file",
	  "Writes the requests of the active tab as an HTTP archive (HAR 1.2). Bodies of responses "
	  "are in it where the page still has them, up to 1 MiB each and 16 MiB together." },
};
const struct route_group browser_requests_group = { "browser", "The browser's network.", routes,
						    COUNT(routes) };
