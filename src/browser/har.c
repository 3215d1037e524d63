#include "browser/har.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "browser/browser.h"
#include "browser/cdp_params.h"
#include "browser/requests.h"

enum { BODY_WAIT_MS = 3000, PART_MAX = 65536 };

struct har {
	struct tab *tab;
	struct arena *arena;
	struct jw *jw;
	const struct wait *wait;
	size_t bodies;   /* bytes of them so far */
	const char *why; /* no more bodies, for this reason; NULL: there may be more */
};

static const char *moment(struct har *har, double seconds)
{
	struct timespec when = { .tv_sec = (time_t)seconds };
	when.tv_nsec = (long)((seconds - (double)when.tv_sec) * 1e9);
	return timestamp_text(har->arena, &when);
}

static void key_num(struct jw *jw, const char *key, double value)
{
	jw_key(jw, key);
	jw_num(jw, value);
}

/* Milliseconds; -1: there was no such stage. */
static double between(double begin, double end)
{
	return begin > 0 && end >= begin ? (end - begin) * 1000 : -1;
}

static double at_least(double value)
{
	return value < 0 ? 0 : value;
}

/* ---- headers and cookies ---- */

static void put_pair(struct jw *jw, const char *name, const char *value, size_t len)
{
	jw_open(jw, '{');
	jw_key_str(jw, "name", name);
	jw_key(jw, "value");
	jw_text(jw, value, len);
	jw_close(jw, '}');
}

/* Several values of a name are lines of one string. */
static void put_headers(struct jw *jw, const json_t *headers)
{
	const char *name;
	json_t *value;
	jw_key(jw, "headers");
	jw_open(jw, '[');
	json_object_foreach((json_t *)(uintptr_t)headers, name, value) {
		const char *line = json_string_value(value);
		while (line) {
			size_t len = strcspn(line, "\n");
			put_pair(jw, name, line, len);
			line = line[len] ? line + len + 1 : NULL;
		}
	}
	jw_close(jw, ']');
}

/* "a=1" up to `end`. */
static void put_cookie(struct jw *jw, const char *at, const char *end)
{
	const char *equals = memchr(at, '=', (size_t)(end - at));
	const char *value = equals ? equals + 1 : end;
	jw_open(jw, '{');
	jw_key(jw, "name");
	jw_text(jw, at, (size_t)((equals ? equals : end) - at));
	jw_key(jw, "value");
	jw_text(jw, value, (size_t)(end - value));
	jw_close(jw, '}');
}

/* Of a request they are separated by semicolons; of a response each is a line, with attributes behind a
 * semicolon. */
static void put_cookies(struct jw *jw, const json_t *headers, bool response)
{
	const char *at = cdp_header(headers, response ? "set-cookie" : "cookie");
	jw_key(jw, "cookies");
	jw_open(jw, '[');
	while (at && *at) {
		at += strspn(at, " ");
		const char *end = at + strcspn(at, response ? ";\n" : ";");
		if (end > at)
			put_cookie(jw, at, end);
		if (response)
			end += strcspn(end, "\n");
		at = *end ? end + 1 : end;
	}
	jw_close(jw, ']');
}

static void put_query(struct jw *jw, const char *url)
{
	const char *query = strchr(url, '?');
	struct url_query it = { query ? query + 1 : "" };
	auto_buf struct buf name = BUF(PART_MAX), value = BUF(PART_MAX);
	jw_key(jw, "queryString");
	jw_open(jw, '[');
	while (url_query_next(&it, &name, &value)) {
		jw_open(jw, '{');
		jw_key(jw, "name");
		jw_text(jw, name.data ? name.data : "", name.len);
		jw_key(jw, "value");
		jw_text(jw, value.data ? value.data : "", value.len);
		jw_close(jw, '}');
	}
	jw_close(jw, ']');
}

/* ---- the request ---- */

static const char *version(const struct request_info *r)
{
	static const char *const rows[][2] = { { "h2", "HTTP/2.0" },
					       { "h3", "HTTP/3.0" },
					       { "http/1.0", "HTTP/1.0" },
					       { "http/1.1", "HTTP/1.1" } };
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcasecmp(r->protocol, rows[i][0]))
			return rows[i][1];
	return *r->protocol ? r->protocol : "HTTP/1.1";
}

static void put_post_data(struct jw *jw, const struct request_info *r, const json_t *headers)
{
	const char *type = cdp_header(headers, "content-type");
	jw_key(jw, "postData");
	jw_open(jw, '{');
	jw_key_str(jw, "mimeType", type ? type : "");
	jw_key(jw, "params");
	jw_open(jw, '[');
	jw_close(jw, ']');
	jw_key_str(jw, "text", r->post_data_cut ? "" : r->post_data);
	if (r->post_data_cut)
		jw_key_str(jw, "comment", "left out: it is not text, or larger than 64 KiB");
	jw_close(jw, '}');
}

static void put_request(struct jw *jw, const struct request_info *r)
{
	json_t *headers = json_loads(*r->request_headers ? r->request_headers : "{}", 0, NULL);
	jw_key(jw, "request");
	jw_open(jw, '{');
	jw_key_str(jw, "method", r->method);
	jw_key_str(jw, "url", r->url);
	jw_key_str(jw, "httpVersion", version(r));
	put_cookies(jw, headers, false);
	put_headers(jw, headers);
	put_query(jw, r->url);
	if (r->has_post_data)
		put_post_data(jw, r, headers);
	jw_key_int(jw, "headersSize", -1);
	jw_key_int(jw, "bodySize", r->post_data_cut ? -1 : (int64_t)strlen(r->post_data));
	jw_close(jw, '}');
	json_decref(headers);
}

/* ---- the response ---- */

static const char *why_no_body(struct har *har, const struct request_info *r)
{
	if (!r->done)
		return "left out: it was still being received";
	if (*r->failure || !r->status)
		return "left out: the request failed";
	if (r->redirected_to || !strcmp(r->type, "websocket") || !strcmp(r->method, "HEAD"))
		return "there is none";
	if (r->received > HAR_BODY_MAX)
		return "left out: it is larger than 1 MiB";
	if (har->bodies + (size_t)r->received > HAR_BODIES_MAX)
		return "left out: the bodies before it have 16 MiB together";
	return har->why;
}

/* NULL: the browser does not have it any more, or does not answer. */
static json_t *get_body(struct har *har, const struct request_info *r)
{
	struct wait wait = *har->wait;
	struct err err = { 0 };
	if (wait.until_ms > clock_ms() + BODY_WAIT_MS)
		wait.until_ms = clock_ms() + BODY_WAIT_MS;
	json_t *body = frame_call(har->tab, r->session, "Network.getResponseBody",
				  json_pack("{s:s}", "requestId", r->id), &wait, &err);
	if (!body && err.code != ERR_CONFLICT)
		har->why = "left out: the page did not answer";
	return body;
}

static void put_body(struct har *har, const struct request_info *r)
{
	const char *why = why_no_body(har, r);
	json_t *body = why ? NULL : get_body(har, r);
	const json_t *text = json_object_get(body, "body");
	if (text && json_string_length(text) <= 2 * HAR_BODY_MAX) {
		har->bodies += json_string_length(text);
		jw_key(har->jw, "text");
		jw_text(har->jw, json_string_value(text), json_string_length(text));
		if (cdp_true(body, "base64Encoded"))
			jw_key_str(har->jw, "encoding", "base64");
	} else {
		jw_key_str(har->jw, "comment",
			   why        ? why
			   : har->why ? har->why
				      : "left out: the browser does not have it any more");
	}
	json_decref(body);
}

static void put_content(struct har *har, const struct request_info *r)
{
	jw_key(har->jw, "content");
	jw_open(har->jw, '{');
	jw_key_int(har->jw, "size", r->received);
	jw_key_str(har->jw, "mimeType", *r->mime ? r->mime : "x-unknown");
	put_body(har, r);
	jw_close(har->jw, '}');
}

static void put_response(struct har *har, const struct request_info *r)
{
	struct jw *jw = har->jw;
	json_t *headers = json_loads(*r->response_headers ? r->response_headers : "{}", 0, NULL);
	const char *location = r->redirected_to ? cdp_header(headers, "location") : NULL;
	jw_key(jw, "response");
	jw_open(jw, '{');
	jw_key_int(jw, "status", r->status);
	jw_key_str(jw, "statusText", r->status_text);
	jw_key_str(jw, "httpVersion", version(r));
	put_cookies(jw, headers, true);
	put_headers(jw, headers);
	put_content(har, r);
	jw_key_str(jw, "redirectURL", location ? location : "");
	jw_key_int(jw, "headersSize", -1);
	jw_key_int(jw, "bodySize", r->from_cache ? 0 : -1);
	jw_key_int(jw, "_transferSize", r->encoded);
	if (*r->failure)
		jw_key_str(jw, "_error", r->failure);
	jw_close(jw, '}');
	json_decref(headers);
}

/* ---- times ---- */

/* All but ssl, which is part of connect, add up to the time of the entry. */
static void put_times(struct jw *jw, const struct request_info *r)
{
	const struct request_stages *s = &r->stages;
	double end = r->ended_s > 0 ? r->ended_s : r->answered_s;
	double send = at_least(between(s->send[0], s->send[1])),
	       wait = at_least(between(s->send[1], s->headers)),
	       receive = at_least(between(s->headers, end)), dns = between(s->dns[0], s->dns[1]),
	       connect = between(s->connect[0], s->connect[1]);
	double whole = at_least(between(r->begun_s, end)),
	       known = send + wait + receive + at_least(dns) + at_least(connect);
	double blocked = whole > known ? whole - known : 0;
	key_num(jw, "time", blocked + known);
	jw_key(jw, "timings");
	jw_open(jw, '{');
	key_num(jw, "blocked", blocked);
	key_num(jw, "dns", dns);
	key_num(jw, "connect", connect);
	key_num(jw, "send", send);
	key_num(jw, "wait", wait);
	key_num(jw, "receive", receive);
	key_num(jw, "ssl", between(s->ssl[0], s->ssl[1]));
	jw_close(jw, '}');
}

/* ---- the whole ---- */

static void put_entry(struct har *har, const struct request_info *r, bool has_page)
{
	struct jw *jw = har->jw;
	jw_open(jw, '{');
	if (has_page)
		jw_key_str(jw, "pageref",
			   arena_printf(har->arena, "page_%llu", (unsigned long long)r->page));
	jw_key_str(jw, "startedDateTime", moment(har, r->started));
	put_times(jw, r);
	put_request(jw, r);
	put_response(har, r);
	jw_key(jw, "cache");
	jw_open(jw, '{');
	jw_close(jw, '}');
	if (*r->remote_ip)
		jw_key_str(jw, "serverIPAddress", r->remote_ip);
	if (*r->connection)
		jw_key_str(jw, "connection", r->connection);
	jw_key_str(jw, "_resourceType", r->type);
	jw_close(jw, '}');
}

static void put_page(struct har *har, const struct request_page *page)
{
	struct jw *jw = har->jw;
	jw_open(jw, '{');
	jw_key_str(jw, "startedDateTime", moment(har, page->started));
	jw_key_str(jw, "id",
		   arena_printf(har->arena, "page_%llu", (unsigned long long)page->number));
	jw_key_str(jw, "title", page->url);
	jw_key(jw, "pageTimings");
	jw_open(jw, '{');
	key_num(jw, "onContentLoad", between(page->begun_s, page->dom_s));
	key_num(jw, "onLoad", between(page->begun_s, page->load_s));
	jw_close(jw, '}');
	jw_close(jw, '}');
}

static void put_program(struct jw *jw, const char *key, const char *name, const char *its_version)
{
	jw_key(jw, key);
	jw_open(jw, '{');
	jw_key_str(jw, "name", name);
	jw_key_str(jw, "version", its_version);
	jw_close(jw, '}');
}

static const char *hold_bodies(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	bool waits = tab->dialog || tab->crashed;
	pthread_mutex_unlock(&tab->lock);
	return waits ? "left out: the page has crashed, or waits for a dialog" : NULL;
}

size_t har_write(struct tab *tab, const char *creator_version, struct arena *arena, struct jw *jw,
		 const struct wait *wait)
{
	struct har har = { tab, arena, jw, wait, 0, hold_bodies(tab) };
	struct request_info *list;
	struct request_page *pages;
	size_t count = requests_list(tab, NULL, REQUESTS_MAX, arena, &list);
	size_t page_count = requests_pages(tab, arena, &pages);
	const char *product = strchr(browser_version(tab->browser), '/');
	jw_open(jw, '{');
	jw_key(jw, "log");
	jw_open(jw, '{');
	jw_key_str(jw, "version", "1.2");
	put_program(jw, "creator", "aio", creator_version);
	put_program(jw, "browser", "Chromium", product ? product + 1 : "");
	jw_key(jw, "pages");
	jw_open(jw, '[');
	for (size_t i = 0; i < page_count; i++)
		put_page(&har, &pages[i]);
	jw_close(jw, ']');
	jw_key(jw, "entries");
	jw_open(jw, '[');
	for (size_t i = 0; i < count; i++)
		put_entry(&har, &list[i], page_count && list[i].page >= pages[0].number);
	jw_close(jw, ']');
	jw_close(jw, '}');
	jw_close(jw, '}');
	return count;
}
