/* http.h - HTTP/1.1 messages read from a stream, requests or responses, over llhttp.
 *
 * What is ambiguous is refused: two lengths, a length beside chunked, line folding, bare CR or
 * LF, names with spaces. A message is read head first; its body is then pulled piece by piece,
 * so that no message is ever held whole. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <llhttp.h>

struct err;

enum { HTTP_HEADERS_MAX = 100 };

enum http_side { HTTP_REQUESTS, HTTP_RESPONSES };

struct http_header {
	const char *name, *value;
};

struct http_head {
	const char *method; /* of a request */
	char *target;
	int status; /* of a response */
	int minor;  /* HTTP/1.minor */
	bool keep_alive, upgrade, chunked, expect_continue;
	int64_t length;     /* of the body; -1: chunked, or a response that ends with its stream */
	size_t count, size; /* of the headers; of the whole head in bytes */
	struct http_header headers[HTTP_HEADERS_MAX];
};

struct http_limits {
	size_t head;          /* bytes */
	int idle_ms;          /* to the first byte of a message; 0: for ever */
	int head_ms, body_ms; /* for a head; for a body, and a second more per KiB that came */
};

struct http {
	int fd;
	enum http_side side;
	const struct http_limits *limits;
	struct http_head head;
	llhttp_t parser;
	char *data; /* data[used..len) is input that no message has taken yet */
	size_t len, used, room, body_at;
	size_t parsed; /* of the head: data[used..parsed) */
	struct {
		uint32_t name, name_len, value, value_len;
	} at[HTTP_HEADERS_MAX];
	uint32_t target, target_len;
	bool head_done, body_done, trailers;
	bool last_chunk; /* was seen: what comes are trailers */
	bool failed;     /* the end of the body will never be found */
	char before;     /* the byte before, where lines are looked at */
	int64_t left;    /* of a body with a length */
	char *body_to;   /* where the parser puts the data of chunks */
	size_t body_len; /* how much it has put there */
	size_t overhead; /* bytes of framing since the last byte of data */
	int64_t body_start_ms, body_got;
	bool idle_set;
	bool ended; /* the peer closed before the first byte of a message */
};

/* limits must outlive it. The descriptor stays the caller's. */
void http_init(struct http *http, int fd, enum http_side side, const struct http_limits *limits);
void http_done(struct http *http);

/* Reads the head of the next message into http->head. Returns 1, 0 when its first byte did not come
 * in time or, see http->ended, will never come, -1 on error: ERR_BAD_REQUEST, ERR_HEAD_TOO_LARGE, ERR_HTTP_VERSION, ERR_SLOW,
 * ERR_GONE. */
int http_read_head(struct http *http, struct err *err);

/* Takes input from memory instead of the descriptor: 1 when the head is whole, 0 when more is
 * needed, -1 on error. No data at all goes on with what came behind the message before. */
int http_feed(struct http *http, const void *data, size_t len, struct err *err);

/* Reads some of the body. Returns how much, 0 at its end, -1 on error. */
ssize_t http_read_body(struct http *http, void *to, size_t room, struct err *err);

/* Forgets the message whose body was read to its end; what came after it stays. */
void http_next(struct http *http);

/* The value of the first header of that name, or NULL. */
const char *http_header(const struct http_head *head, const char *name);

/* Removes all headers whose names begin so, ignoring case. */
void http_drop(struct http_head *head, const char *prefix);

/* How many headers have that name. */
size_t http_header_count(const struct http_head *head, const char *name);

/* Whether a comma-separated header value has this token, ignoring case. */
bool http_has_token(const char *value, const char *token);

/* What stands beside a status: "Not Found". */
const char *http_reason(int status);
