/* url.h - percent-encoding, query strings, paths, hosts and absolute URLs, without any I/O. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/* Appends what a part of a path stands for. -1, adding nothing, on a '%' without two hex digits,
 * on %00, on a NUL, or when the buffer is full. '+' is a plus. */
int url_decode(struct buf *to, const char *text, size_t len);

/* Appends what a part of a query stands for: '+' is a space, a bad '%' stays as it is, and %00 is a
 * NUL byte, so a value is as long as the buffer says. -1, adding nothing, only when it is full. */
int url_query_decode(struct buf *to, const char *text, size_t len);

/* Appends text with everything but letters, digits and "-._~" percent-encoded: for one value in a
 * query or one segment of a path. -1 when the buffer is full. */
int url_encode(struct buf *to, const char *text);

/* Goes through the parameters in order:
 *	struct url_query it = { query };
 *	while (url_query_next(&it, &name, &value)) ...
 * Each step replaces what name and value hold; one that is beyond its cap is empty and full. */
struct url_query {
	const char *at;
};
bool url_query_next(struct url_query *it, struct buf *name, struct buf *value);

/* Sets ret to the file that a request's path (from its '/' up to the query) names below a root:
 * decoded, without the leading slash, so "" for "/"; a trailing slash stays. -1 for what is no
 * clean name: segments that are empty, "." or "..", NUL, a backslash, an encoded slash (a segment
 * is what routing took for one), what is not UTF-8; or when ret is full. */
int url_path_clean(const char *path, struct buf *ret);

enum { URL_HOST_MAX = 255, URL_TARGET_MAX = 8191 };

/* Takes "example.com", "localhost:8080" or "[::1]:80" apart, as in a Host header. name is in lower
 * case and without brackets, an IPv6 address in its shortest form; *ret_port is 0 where there is
 * none. -1, setting nothing, when it is malformed or the name does not fit in room bytes. */
int url_host_split(const char *host, char *name, size_t room, int *ret_port);

struct url_parts {
	char scheme[6];                        /* http, https, ws, wss */
	bool secure;                           /* https, wss */
	int port;                              /* the scheme's own unless given */
	char host[URL_HOST_MAX + 1];           /* as url_host_split() has it: for a resolver */
	char authority[URL_HOST_MAX + 1 + 16]; /* for a Host header: brackets, a port if unusual */
	char target[URL_TARGET_MAX + 1];       /* path and query, for a request line */
};

/* Takes an absolute URL apart. User names are refused; a fragment is dropped. What it sets is safe
 * to put in a request: no spaces, control characters or bytes beyond ASCII. */
int url_split(const char *url, struct url_parts *ret, struct err *err);
