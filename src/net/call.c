#include "net/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/url.h"
#include "net/http.h"
#include "net/offline.h"
#include "net/route.h"
#include "net/server.h"
#include "net/ws.h"

enum { REPLY_BUFFER_MAX = JW_FLUSH * 4, PING_MS = 15000 };

/* ---- JSON ---- */

static int flush_json(void *arg, const char *data, size_t len)
{
	struct call *call = arg;
	struct err ignored;
	if (!call->sink->begun &&
	    call->sink->begin(call->sink,
			      &(struct answer){ 200, "application/json", -1, .header_count = 0 },
			      &ignored) < 0)
		return -1;
	return call->sink->write(call->sink, data, len, &ignored);
}

/* A string of any length passes through in pieces, so the cap is never met while flushing. */
struct jw *call_reply_begin(struct call *call, struct err *err)
{
	(void)err;
	jw_init(&call->jw, REPLY_BUFFER_MAX);
	call->jw.flush = flush_json;
	call->jw.arg = call;
	if (call->route->flags & BARE)
		return &call->jw;
	const char *usual = call->route->message ? call->route->message : "Operation successful";
	jw_open(&call->jw, '{');
	jw_key_bool(&call->jw, "success", !call->failed);
	jw_key_str(&call->jw, "message", call->message ? call->message : usual);
	jw_key(&call->jw, "data");
	return &call->jw;
}

static void put_extra(struct call *call)
{
	const struct schema *extra = call->route->extra;
	for (size_t i = 0; i < extra->count; i++) {
		jw_key(&call->jw, extra->fields[i].name);
		desc_encode_value(&extra->fields[i],
				  (const char *)call->extra + extra->fields[i].at, &call->jw);
	}
}

const char *call_hint(const struct call *call)
{
	return call->hint                     ? call->hint
	       : offline_refused(call->began) ? call->server->offline_hint
					      : NULL;
}

int call_reply_end(struct call *call, struct err *err)
{
	if (!(call->route->flags & BARE)) {
		jw_key_str(&call->jw, "hint", call_hint(call));
		if (call->route->extra && call->extra)
			put_extra(call);
		jw_close(&call->jw, '}');
	}
	int result = 0;
	if (jw_failed(&call->jw)) {
		result = err_set(err, ERR_GONE, "the caller left in the middle of the answer");
	} else if (call->sink->begun) {
		result = call->sink->write(call->sink, call->jw.out.data, call->jw.out.len, err);
	} else {
		struct answer answer = { 200, "application/json", (int64_t)call->jw.out.len,
					 .header_count = 0 };
		result = call->sink->begin(call->sink, &answer, err);
		if (result == 0)
			result = call->sink->write(call->sink, call->jw.out.data, call->jw.out.len,
						   err);
	}
	jw_done(&call->jw);
	return result;
}

int call_reply(struct call *call, const void *data, struct err *err)
{
	struct jw *jw = call_reply_begin(call, err);
	if (!data || !call->route->data)
		jw_null(jw);
	else if (call->route->data->type == T_OBJ)
		desc_encode(call->route->data->of, data, jw);
	else
		desc_encode_value(call->route->data, data, jw);
	return call_reply_end(call, err);
}

/* ---- text, redirects, events ---- */

int call_text(struct call *call, const char *type, const char *text, size_t len, struct err *err)
{
	struct answer answer = { 200, type, (int64_t)len, .header_count = 0 };
	if (call->sink->begin(call->sink, &answer, err) < 0)
		return -1;
	return call->sink->write(call->sink, text, len, err);
}

int call_redirect(struct call *call, const char *to, struct err *err)
{
	struct answer answer = { 307, NULL, 0,
				 .headers = { { "Location", to }, { "Cache-Control", "no-store" } },
				 .header_count = 2 };
	return call->sink->begin(call->sink, &answer, err);
}

static int event_stream(struct call *call, struct err *err)
{
	if (call->sink->begun)
		return 0;
	struct answer answer = { 200, "text/event-stream; charset=utf-8", -1,
				 .headers = { { "Cache-Control", "no-store" },
					      { "X-Accel-Buffering", "no" } },
				 .header_count = 2 };
	return call->sink->begin(call->sink, &answer, err);
}

static void event_head(struct buf *to, const char *event, const char *id)
{
	if (id)
		buf_printf(to, "id: %s\n", id);
	if (event)
		buf_printf(to, "event: %s\n", event);
}

/* The length of the first line. A CR ends a line too: what follows it would be a field of its own. */
static size_t line_length(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	len = end ? (size_t)(end - text) : len;
	end = memchr(text, '\r', len);
	return end ? (size_t)(end - text) : len;
}

int call_event(struct call *call, const char *event, const char *id, const char *data, size_t len,
	       struct err *err)
{
	auto_buf struct buf text = BUF(len * 7 + 1024);
	if (event_stream(call, err) < 0)
		return -1;
	event_head(&text, event, id);
	for (size_t at = 0, n; at <= len; at += n + 1) {
		n = at < len ? line_length(data + at, len - at) : 0;
		buf_str(&text, "data: ");
		buf_add(&text, n ? data + at : "", n);
		buf_str(&text, "\n");
		at += at + n + 1 < len && data[at + n] == '\r' && data[at + n + 1] == '\n';
	}
	buf_str(&text, "\n");
	return call->sink->write(call->sink, text.data, text.len, err);
}

int call_event_ping(struct call *call, struct err *err)
{
	if (event_stream(call, err) < 0)
		return -1;
	return call->sink->write(call->sink, ": ping\n\n", 8, err);
}

/* An answer of JSON is one line. */
static int send_event(struct call *call, struct jw *jw, struct err *err)
{
	buf_str(&jw->out, "\n\n");
	if (event_stream(call, err) < 0)
		return -1;
	return call->sink->write(call->sink, jw->out.data, jw->out.len, err);
}

int call_send(struct call *call, const char *name, const char *id, const void *value,
	      struct err *err)
{
	struct jw jw;
	int result;
	jw_init(&jw, SIZE_MAX / 16);
	if (!call->ws) {
		event_head(&jw.out, name, id);
		buf_str(&jw.out, "data: ");
	}
	if (desc_encode_variant(call->route->sends, name, value, &jw) < 0)
		result = err_set(err, ERR_INTERNAL, "the route does not send '%s'", name);
	else if (call->ws)
		result = ws_send(call->ws, WS_TEXT, jw.out.data, jw.out.len, err);
	else
		result = send_event(call, &jw, err);
	jw_done(&jw);
	return result;
}

/* ---- files ---- */

struct call_range {
	int64_t first, count;
};

/* One range of a file, as RFC 9110 writes it: 1 found, 0 to be ignored, -1 beyond the file. */
static int parse_range(const char *text, int64_t size, struct call_range *ret)
{
	if (strncmp(text, "bytes=", 6) != 0 || strchr(text, ','))
		return 0;
	text += 6;
	char *end;
	if (*text == '-') {
		int64_t last = strtoll(text + 1, &end, 10);
		if (text[1] < '0' || text[1] > '9' || *end)
			return 0;
		if (last == 0 || size == 0)
			return -1;
		last = last < size ? last : size;
		*ret = (struct call_range){ size - last, last };
		return 1;
	}
	if (*text < '0' || *text > '9')
		return 0;
	int64_t first = strtoll(text, &end, 10), last = size - 1;
	if (*end++ != '-')
		return 0;
	if (*end) {
		char *rest;
		last = strtoll(end, &rest, 10);
		if (*end < '0' || *end > '9' || *rest || last < first)
			return 0;
	}
	if (first >= size)
		return -1;
	last = last < size - 1 ? last : size - 1;
	*ret = (struct call_range){ first, last - first + 1 };
	return 1;
}

static bool tag_listed(const char *list, const char *tag)
{
	if (!strcmp(list, "*"))
		return true;
	const char *at = strstr(list, tag);
	return at != NULL;
}

static const char *disposition(struct call *call, const char *name)
{
	auto_buf struct buf coded = BUF(4096);
	char plain[256];
	size_t len = 0;
	for (const char *at = name; *at && len < sizeof plain - 1; at++)
		plain[len++] = *at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\' ? *at : '_';
	plain[len] = 0;
	url_encode(&coded, name);
	return arena_printf(call->arena, "attachment; filename=\"%s\"; filename*=UTF-8''%s", plain,
			    coded.data ? coded.data : "");
}

static void add_header(struct answer *answer, const char *name, const char *value)
{
	if (answer->header_count < COUNT(answer->headers))
		answer->headers[answer->header_count++] = (struct pair){ name, value };
}

int call_file(struct call *call, int fd, const char *type, const char *name,
	      const struct pair *headers, size_t count, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "stat of the file");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_BAD_REQUEST, "not a regular file");
	const char *tag = arena_printf(call->arena, "\"%llx-%llx-%llx\"",
				       (unsigned long long)st.st_ino,
				       (unsigned long long)st.st_size,
				       (unsigned long long)st.st_mtim.tv_sec * 1000000000ull +
					       (unsigned long long)st.st_mtim.tv_nsec);
	struct answer answer = { 200, type, st.st_size, .header_count = 0 };
	add_header(&answer, "ETag", tag);
	add_header(&answer, "Accept-Ranges", "bytes");
	for (size_t i = 0; i < count && i < 4; i++)
		add_header(&answer, headers[i].name, headers[i].value);
	if (name)
		add_header(&answer, "Content-Disposition", disposition(call, name));
	if (call->if_none_match && tag_listed(call->if_none_match, tag)) {
		answer.status = 304;
		answer.length = 0;
		return call->sink->begin(call->sink, &answer, err);
	}
	struct call_range range = { 0, st.st_size };
	bool wanted = call->range && (!call->if_range || !strcmp(call->if_range, tag));
	int ranged = wanted ? parse_range(call->range, st.st_size, &range) : 0;
	if (ranged) {
		answer.status = ranged > 0 ? 206 : 416;
		answer.length = ranged > 0 ? range.count : 0;
		add_header(&answer, "Content-Range",
			   ranged > 0 ? arena_printf(call->arena, "bytes %lld-%lld/%lld",
						     (long long)range.first,
						     (long long)(range.first + range.count - 1),
						     (long long)st.st_size)
				      : arena_printf(call->arena, "bytes */%lld",
						     (long long)st.st_size));
	}
	if (call->sink->begin(call->sink, &answer, err) < 0)
		return -1;
	if (!answer.length || call->head_only)
		return 0;
	return call->sink->file(call->sink, fd, range.first, range.count, err);
}

/* ---- waiting ---- */

struct wait call_until(const struct call *call, int64_t until_ms)
{
	return (struct wait){ until_ms, call->sink->client_fd, server_stop_fd(call->server) };
}

struct wait call_until_ping(const struct call *call, int64_t until_ms)
{
	int64_t ping = clock_ms() + PING_MS;
	return call_until(call, until_ms < ping ? until_ms : ping);
}

enum wake call_wait(struct call *call, int event_fd, int64_t until_ms)
{
	struct wait wait = call_until(call, until_ms);
	return wait_event(&wait, event_fd);
}

enum wake call_wait_events(struct call *call, int event_fd, int64_t until_ms)
{
	struct err ignored;
	for (;;) {
		int64_t ping = clock_ms() + PING_MS;
		enum wake wake = call_wait(call, event_fd, until_ms < ping ? until_ms : ping);
		if (wake != WAKE_TIMEOUT || clock_ms() >= until_ms)
			return wake;
		if (call_event_ping(call, &ignored) < 0)
			return WAKE_LEFT;
	}
}
