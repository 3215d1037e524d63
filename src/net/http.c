#include "net/http.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"

enum { READ_SIZE = 4096, BODY_READ_SIZE = 65536, BODY_RATE = 1024 /* bytes a second */ };

/* ---- what llhttp calls ---- */

static int on_target(llhttp_t *parser, const char *at, size_t len)
{
	struct http *http = parser->data;
	if (!http->target_len)
		http->target = (uint32_t)(at - http->data);
	http->target_len += (uint32_t)len;
	return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
	struct http *http = parser->data;
	if (http->trailers)
		return 0;
	if (http->head.count == HTTP_HEADERS_MAX)
		return HPE_USER;
	if (!http->at[http->head.count].name_len)
		http->at[http->head.count].name = (uint32_t)(at - http->data);
	http->at[http->head.count].name_len += (uint32_t)len;
	return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
	struct http *http = parser->data;
	if (http->trailers)
		return 0;
	if (!http->at[http->head.count].value_len)
		http->at[http->head.count].value = (uint32_t)(at - http->data);
	http->at[http->head.count].value_len += (uint32_t)len;
	return 0;
}

static int on_value_end(llhttp_t *parser)
{
	struct http *http = parser->data;
	if (!http->trailers && ++http->head.count < HTTP_HEADERS_MAX)
		memset(&http->at[http->head.count], 0, sizeof http->at[0]);
	return 0;
}

static int on_head_end(llhttp_t *parser)
{
	struct http *http = parser->data;
	http->head_done = true;
	return HPE_PAUSED;
}

/* Pauses where the trailers begin, because their lines have to be looked at. */
static int on_chunk(llhttp_t *parser)
{
	struct http *http = parser->data;
	http->last_chunk = parser->content_length == 0;
	return http->last_chunk ? HPE_PAUSED : 0;
}

static int on_data(llhttp_t *parser, const char *at, size_t len)
{
	struct http *http = parser->data;
	memcpy(http->body_to + http->body_len, at, len);
	http->body_len += len;
	return 0;
}

static int on_message_end(llhttp_t *parser)
{
	struct http *http = parser->data;
	http->body_done = true;
	return HPE_PAUSED;
}

static llhttp_settings_t settings;

static void settings_init(void)
{
	llhttp_settings_init(&settings);
	settings.on_url = on_target;
	settings.on_header_field = on_name;
	settings.on_header_value = on_value;
	settings.on_header_value_complete = on_value_end;
	settings.on_headers_complete = on_head_end;
	settings.on_chunk_header = on_chunk;
	settings.on_body = on_data;
	settings.on_message_complete = on_message_end;
}

static void parser_start(struct http *http)
{
	llhttp_init(&http->parser, http->side == HTTP_REQUESTS ? HTTP_REQUEST : HTTP_RESPONSE,
		    &settings);
	http->parser.data = http;
	http->head.count = http->target_len = 0;
	memset(&http->at[0], 0, sizeof http->at[0]);
	http->head_done = http->body_done = http->trailers = http->last_chunk = http->failed =
		false;
	http->before = '\n'; /* a line begins, in a head as in trailers */
	http->body_got = 0;
	http->overhead = 0;
}

void http_init(struct http *http, int fd, enum http_side side, const struct http_limits *limits)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, settings_init);
	*http = (struct http){ .fd = fd, .side = side, .limits = limits };
	parser_start(http);
}

void http_done(struct http *http)
{
	free(http->data);
	http->data = NULL;
	http->len = http->used = http->room = 0;
}

/* ---- the head ---- */

static void make_room(struct http *http, size_t n)
{
	if (http->room - http->len >= n)
		return;
	http->room = http->len + n;
	http->data = xrealloc(http->data, http->room);
}

static char *text_at(struct http *http, uint32_t at, uint32_t len)
{
	while (len && (http->data[at + len - 1] == ' ' || http->data[at + len - 1] == '\t'))
		len--;
	http->data[at + len] = 0;
	return http->data + at;
}

/* llhttp 8 lets a bare LF end a line and joins folded lines; both have split requests before. `before`
 * is the byte before, and is kept for the lines that follow. */
static bool lines_are_clean(const char *text, size_t len, char *before)
{
	for (const char *at = text, *end = text + len; at < end; at++) {
		if ((*at == '\n' && *before != '\r') ||
		    (*before == '\n' && (*at == ' ' || *at == '\t')))
			return false;
		*before = *at;
	}
	return true;
}

/* Two single spaces, no more: llhttp skips any number. */
static bool request_line_is_clean(const struct http *http)
{
	const char *target = http->data + http->target;
	return target[-1] == ' ' && target[-2] != ' ' &&
	       !strncmp(target + http->target_len, " HTTP/", 6);
}

static bool names_are_clean(const struct http *http)
{
	for (size_t i = 0; i < http->head.count; i++)
		if (!http->at[i].name_len)
			return false;
	return true;
}

static int framing_check(struct http *http, struct err *err)
{
	struct http_head *head = &http->head;
	const char *coding = http_header(head, "transfer-encoding");
	size_t lengths = http_header_count(head, "content-length");
	if (http->parser.http_major != 1)
		return err_set(err, ERR_HTTP_VERSION, "HTTP/%d.%d is not spoken here, use HTTP/1.1",
			       http->parser.http_major, http->parser.http_minor);
	if (lengths > 1 || (lengths && coding))
		return err_set(err, ERR_BAD_REQUEST,
			       "duplicate Content-Length, or one beside Transfer-Encoding");
	/* llhttp takes what follows for another protocol, and would find no chunks. */
	if (coding && http->side == HTTP_REQUESTS && http->parser.method == HTTP_CONNECT)
		return err_set(err, ERR_BAD_REQUEST, "a CONNECT has no body");
	if (coding && (strcasecmp(coding, "chunked") || head->minor == 0 ||
		       http_header_count(head, "transfer-encoding") > 1))
		return err_set(err, ERR_BAD_REQUEST,
			       "the only transfer coding understood is 'chunked'");
	if (http->side == HTTP_REQUESTS && http_header_count(head, "host") != 1 &&
	    (head->minor > 0 || http_header(head, "host")))
		return err_set(err, ERR_BAD_REQUEST, "a request needs exactly one Host header");
	head->chunked = coding != NULL;
	return 0;
}

static bool has_no_body(const struct http_head *head, enum http_side side)
{
	if (side == HTTP_REQUESTS)
		return !head->chunked && !http_header(head, "content-length");
	return head->status < 200 || head->status == 204 || head->status == 304;
}

static int head_finish(struct http *http, struct err *err)
{
	struct http_head *head = &http->head;
	head->size = (size_t)(llhttp_get_error_pos(&http->parser) - http->data) - http->used;
	if (!lines_are_clean(http->data + http->used, head->size, &http->before))
		return err_set(err, ERR_BAD_REQUEST,
			       "a line of the head is folded or ends with a bare LF");
	if (http->side == HTTP_REQUESTS && http->parser.http_major && !request_line_is_clean(http))
		return err_set(err, ERR_BAD_REQUEST, "the request line has superfluous spaces");
	if (!names_are_clean(http))
		return err_set(err, ERR_BAD_REQUEST, "a header has no name");
	if (http->parser.flags & F_CHUNKED)
		make_room(http, BODY_READ_SIZE); /* now: the headers point into the buffer */
	for (size_t i = 0; i < head->count; i++) {
		head->headers[i].name = text_at(http, http->at[i].name, http->at[i].name_len);
		head->headers[i].value = http->at[i].value_len ? text_at(http, http->at[i].value,
									 http->at[i].value_len)
							       : "";
	}
	head->minor = http->parser.http_minor;
	if (http->side == HTTP_REQUESTS) {
		head->method = llhttp_method_name(http->parser.method);
		head->target = text_at(http, http->target, http->target_len);
	}
	head->status = http->parser.status_code;
	if (framing_check(http, err) < 0)
		return -1;
	head->keep_alive = llhttp_should_keep_alive(&http->parser);
	head->upgrade = http_header(head, "upgrade") &&
			http_has_token(http_header(head, "connection"), "upgrade");
	const char *expect = http_header(head, "expect");
	head->expect_continue = expect && !strcasecmp(expect, "100-continue");
	bool has_length = http_header(head, "content-length") != NULL;
	if (has_length && http->parser.content_length > INT64_MAX)
		return err_set(err, ERR_BAD_REQUEST, "the length of the body is out of range");
	head->length = has_no_body(head, http->side) ? 0
		       : has_length                  ? (int64_t)http->parser.content_length
						     : -1;
	http->used += head->size;
	http->body_at = http->used;
	http->left = head->length;
	http->body_done = head->length == 0;
	http->body_start_ms = clock_ms();
	return 1;
}

static int parse_error(struct http *http, struct err *err)
{
	if (!http->head_done && http->head.count == HTTP_HEADERS_MAX)
		return err_set(err, ERR_HEAD_TOO_LARGE, "more than %d headers", HTTP_HEADERS_MAX);
	const char *reason = llhttp_get_error_reason(&http->parser);
	return err_set(err, ERR_BAD_REQUEST, "malformed HTTP: %s",
		       reason && *reason ? reason
					 : llhttp_errno_name(llhttp_get_errno(&http->parser)));
}

/* Parses data[parsed..len), which continues the head that starts at data[used]. */
static int head_parse(struct http *http, struct err *err)
{
	const char *from = http->data + http->parsed;
	llhttp_errno_t got = llhttp_execute(&http->parser, from, http->len - http->parsed);
	http->parsed = http->len;
	if (got == HPE_PAUSED && http->head_done) {
		if ((size_t)(llhttp_get_error_pos(&http->parser) - http->data) - http->used >
		    http->limits->head)
			return err_set(err, ERR_HEAD_TOO_LARGE, "the head is larger than %zu bytes",
				       http->limits->head);
		return head_finish(http, err);
	}
	if (got != HPE_OK)
		return parse_error(http, err);
	if (http->len - http->used > http->limits->head)
		return err_set(err, ERR_HEAD_TOO_LARGE, "the head is larger than %zu bytes",
			       http->limits->head);
	return 0;
}

int http_feed(struct http *http, const void *data, size_t len, struct err *err)
{
	make_room(http, len + 1);
	if (len)
		memcpy(http->data + http->len, data, len);
	http->len += len;
	return head_parse(http, err);
}

/* Receives up to room bytes before a moment; 0 at the end of the stream. */
static ssize_t receive(struct http *http, void *to, size_t room, int64_t until_ms, struct err *err)
{
	for (;;) {
		ssize_t n = recv(http->fd, to, room, MSG_DONTWAIT);
		if (n >= 0)
			return n;
		if (errno == EAGAIN) {
			if (!wait_until(http->fd, POLLIN, until_ms))
				return err_set(err, ERR_SLOW, "the %s took too long to arrive",
					       http->head_done ? "body" : "head");
		} else if (errno != EINTR) {
			return err_set(err, ERR_GONE, "the peer is gone");
		}
	}
}

/* The first read of a message blocks: one system call for a busy connection, not three. */
static ssize_t receive_first(struct http *http, struct err *err)
{
	struct timeval idle = { .tv_sec = http->limits->idle_ms / 1000,
				.tv_usec = http->limits->idle_ms % 1000 * 1000 };
	if (!http->idle_set) {
		setsockopt(http->fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
		http->idle_set = true;
	}
	make_room(http, READ_SIZE + 1);
	ssize_t n;
	do
		n = recv(http->fd, http->data + http->len, READ_SIZE, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		return err_set(err, ERR_GONE, "the peer is gone");
	http->ended = n == 0;
	return n < 0 ? 0 : n;
}

int http_read_head(struct http *http, struct err *err)
{
	int64_t until_ms = 0;
	for (;;) {
		if (http->parsed < http->len) {
			int got = head_parse(http, err);
			if (got)
				return got;
		}
		ssize_t n;
		if (http->used == http->len) {
			n = receive_first(http, err);
			if (n <= 0)
				return (int)n;
		} else {
			if (!until_ms)
				until_ms = clock_ms() + http->limits->head_ms;
			make_room(http, READ_SIZE + 1);
			n = receive(http, http->data + http->len, READ_SIZE, until_ms, err);
			if (n < 0)
				return -1;
			if (n == 0)
				return err_set(err, ERR_GONE, "the head ends in the middle");
		}
		http->len += (size_t)n;
	}
}

/* ---- the body ---- */

static int64_t body_deadline(const struct http *http)
{
	return http->body_start_ms + http->limits->body_ms + http->body_got * 1000 / BODY_RATE;
}

static ssize_t read_plain(struct http *http, char *to, size_t room, struct err *err)
{
	if (http->left >= 0 && (int64_t)room > http->left)
		room = (size_t)http->left;
	ssize_t n;
	if (http->used < http->len) {
		n = (ssize_t)(http->len - http->used < room ? http->len - http->used : room);
		memcpy(to, http->data + http->used, (size_t)n);
		http->used += (size_t)n;
	} else {
		n = receive(http, to, room, body_deadline(http), err);
		if (n < 0)
			return -1;
		if (n == 0 && http->left > 0)
			return err_set(err, ERR_GONE, "the body ends in the middle");
	}
	if (http->left > 0)
		http->left -= n;
	http->body_done = http->left == 0 || n == 0;
	http->body_got += n;
	return n;
}

/* Gives the parser at most room bytes of input, so that their data fits into to. */
static int parse_chunks(struct http *http, char *to, size_t room, struct err *err)
{
	size_t size = http->len - http->used < room ? http->len - http->used : room;
	const char *start = http->data + http->used;
	http->trailers = true;
	http->body_to = to;
	http->body_len = 0;
	if (llhttp_get_errno(&http->parser) == HPE_PAUSED)
		llhttp_resume(&http->parser);
	bool in_trailers = http->last_chunk;
	llhttp_errno_t got = llhttp_execute(&http->parser, start, size);
	if (got != HPE_OK && got != HPE_PAUSED)
		return parse_error(http, err);
	size_t taken = got == HPE_OK ? size : (size_t)(llhttp_get_error_pos(&http->parser) - start);
	if (in_trailers && !lines_are_clean(start, taken, &http->before))
		return err_set(err, ERR_BAD_REQUEST, "a trailer is folded or ends with a bare LF");
	http->used += taken;
	http->overhead = http->body_len ? 0 : http->overhead + taken;
	if (http->overhead > http->limits->head)
		return err_set(err, ERR_BAD_REQUEST, "too much chunk framing");
	return 0;
}

static ssize_t read_chunked(struct http *http, char *to, size_t room, struct err *err)
{
	for (;;) {
		if (http->used == http->len) {
			http->used = http->len = http->body_at;
			ssize_t n = receive(http, http->data + http->len, http->room - http->len,
					    body_deadline(http), err);
			if (n < 0)
				return -1;
			if (n == 0)
				return err_set(err, ERR_GONE, "the body ends in the middle");
			http->len += (size_t)n;
		}
		if (parse_chunks(http, to, room, err) < 0)
			return -1;
		http->body_got += (int64_t)http->body_len;
		if (http->body_len || http->body_done)
			return (ssize_t)http->body_len;
	}
}

ssize_t http_read_body(struct http *http, void *to, size_t room, struct err *err)
{
	if (http->body_done || !room)
		return 0;
	ssize_t n = http->head.chunked ? read_chunked(http, to, room, err)
				       : read_plain(http, to, room, err);
	http->failed = n < 0;
	return n;
}

void http_next(struct http *http)
{
	if (http->room > READ_SIZE * 4 && http->len - http->used <= READ_SIZE) {
		char *rest = xmalloc(READ_SIZE * 2);
		memcpy(rest, http->data + http->used, http->len - http->used);
		free(http->data);
		http->data = rest;
		http->room = READ_SIZE * 2;
	} else if (http->used) {
		memmove(http->data, http->data + http->used, http->len - http->used);
	}
	http->len -= http->used;
	http->used = http->parsed = 0;
	parser_start(http);
}

/* ---- headers ---- */

const char *http_header(const struct http_head *head, const char *name)
{
	for (size_t i = 0; i < head->count; i++)
		if (!strcasecmp(head->headers[i].name, name))
			return head->headers[i].value;
	return NULL;
}

void http_drop(struct http_head *head, const char *prefix)
{
	size_t kept = 0;
	for (size_t i = 0; i < head->count; i++)
		if (strncasecmp(head->headers[i].name, prefix, strlen(prefix)) != 0)
			head->headers[kept++] = head->headers[i];
	head->count = kept;
}

size_t http_header_count(const struct http_head *head, const char *name)
{
	size_t count = 0;
	for (size_t i = 0; i < head->count; i++)
		count += !strcasecmp(head->headers[i].name, name);
	return count;
}

bool http_has_token(const char *value, const char *token)
{
	size_t len = strlen(token);
	for (const char *at = value; at && *at;) {
		at += strspn(at, " \t,");
		size_t n = strcspn(at, ",");
		size_t end = n;
		while (end && (at[end - 1] == ' ' || at[end - 1] == '\t'))
			end--;
		if (end == len && !strncasecmp(at, token, len))
			return true;
		at += n;
	}
	return false;
}

/* ---- status ---- */

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = {
		{ 101, "Switching Protocols" },
		{ 200, "OK" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return "Unknown";
}
