#include "base/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

/* --- percent-encoding --------------------------------------------------------------------- */

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* The byte that the %XX at text stands for, or -1. */
static int escape(const char *text, size_t len)
{
	if (len < 3 || hex(text[1]) < 0 || hex(text[2]) < 0)
		return -1;
	return hex(text[1]) << 4 | hex(text[2]);
}

static bool decodable(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!text[i] || (text[i] == '%' && escape(text + i, len - i) <= 0))
			return false;
	return true;
}

static int decode(struct buf *to, const char *text, size_t len, bool query)
{
	size_t room = len;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '%' && escape(text + i, len - i) >= 0)
			room -= 2;
	char *at = buf_grow(to, room);
	if (!at)
		return -1;
	for (size_t i = 0; i < len; i++) {
		int byte = text[i] == '%' ? escape(text + i, len - i) : -1;
		if (byte >= 0)
			i += 2;
		*at++ = byte >= 0 ? (char)byte : query && text[i] == '+' ? ' ' : text[i];
	}
	*at = 0;
	to->len += room;
	return 0;
}

int url_decode(struct buf *to, const char *text, size_t len)
{
	return decodable(text, len) ? decode(to, text, len, false) : -1;
}

int url_query_decode(struct buf *to, const char *text, size_t len)
{
	return decode(to, text, len, true);
}

int url_encode(struct buf *to, const char *text)
{
	while (*text) {
		size_t plain = strspn(text, LETTERS DIGITS "-._~");
		if (buf_add(to, text, plain) < 0)
			return -1;
		text += plain;
		if (*text && buf_printf(to, "%%%02X", (unsigned char)*text++) < 0)
			return -1;
	}
	return 0;
}

/* --- queries -------------------------------------------------------------------------------- */

static void empty(struct buf *buf)
{
	buf->full = false;
	buf->len = 0;
	if (buf->data)
		*buf->data = 0;
}

bool url_query_next(struct url_query *it, struct buf *name, struct buf *value)
{
	const char *at = it->at ? it->at + strspn(it->at, "&") : "";
	size_t len = strcspn(at, "&"), name_len = strcspn(at, "=&");
	it->at = at + len;
	empty(name);
	empty(value);
	if (!len)
		return false;
	size_t skip = name_len < len ? name_len + 1 : len;
	(void)url_query_decode(name, at, name_len);
	(void)url_query_decode(value, at + skip, len - skip);
	return true;
}

/* --- paths ---------------------------------------------------------------------------------- */

static bool clean_segment(const char *text, size_t len)
{
	return !(len == 1 && text[0] == '.') && !(len == 2 && text[0] == '.' && text[1] == '.') &&
	       !memchr(text, '\\', len) && !memchr(text, '/', len);
}

static int clean_path(const char *path, struct buf *ret)
{
	if (*path++ != '/' || buf_str(ret, "") < 0)
		return -1;
	while (*path) {
		size_t len = strcspn(path, "/"), start = ret->len;
		if (!len || url_decode(ret, path, len) < 0 ||
		    !clean_segment(ret->data + start, ret->len - start))
			return -1;
		path += len;
		if (*path && buf_str(ret, "/") < 0)
			return -1;
		path += *path == '/';
	}
	return utf8_valid(ret->data, ret->len) ? 0 : -1;
}

int url_path_clean(const char *path, struct buf *ret)
{
	empty(ret);
	if (clean_path(path, ret) == 0)
		return 0;
	bool full = ret->full;
	empty(ret);
	ret->full = full;
	return -1;
}

/* --- hosts and URLs ------------------------------------------------------------------------- */

/* Writes the name or address of len bytes at text as url_host_split() returns it. */
static int host_name(const char *text, size_t len, char *name, size_t room)
{
	char copy[URL_HOST_MAX + 1];
	if (!len || len > URL_HOST_MAX)
		return -1;
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 32) : text[i];
	copy[len] = 0;
	if (copy[0] == '[') {
		struct in6_addr address;
		if (len < 2 || copy[len - 1] != ']')
			return -1;
		copy[len - 1] = 0;
		if (inet_pton(AF_INET6, copy + 1, &address) != 1)
			return -1;
		inet_ntop(AF_INET6, &address, copy, sizeof copy);
	} else if (strspn(copy, LETTERS DIGITS "-._") != len || copy[0] == '.' ||
		   strstr(copy, "..")) {
		return -1;
	}
	if (strlen(copy) >= room)
		return -1;
	strcpy(name, copy);
	return 0;
}

int url_host_split(const char *host, char *name, size_t room, int *ret_port)
{
	size_t len = *host == '[' ? strcspn(host, "]") : strcspn(host, ":");
	if (*host == '[' && host[len])
		len++;
	const char *rest = host + len;
	int port = 0;
	if (*rest == ':') {
		size_t digits = strspn(rest + 1, DIGITS);
		if (digits > 5 || rest[1 + digits])
			return -1;
		for (size_t i = 0; i < digits; i++)
			port = port * 10 + (rest[1 + i] - '0');
		if (port > 65535 || (digits && !port))
			return -1;
	} else if (*rest) {
		return -1;
	}
	if (host_name(host, len, name, room) < 0)
		return -1;
	*ret_port = port;
	return 0;
}

static const struct scheme {
	const char *name;
	bool secure;
	int port;
} schemes[] = {
	{ "http", false, 80 },
	{ "https", true, 443 },
	{ "ws", false, 80 },
	{ "wss", true, 443 },
};

static const struct scheme *find_scheme(const char *text, size_t len)
{
	for (size_t i = 0; i < COUNT(schemes); i++)
		if (strlen(schemes[i].name) == len && !strncasecmp(schemes[i].name, text, len))
			return &schemes[i];
	return NULL;
}

static int split_target(const char *text, struct url_parts *to, struct err *err)
{
	size_t len = strcspn(text, "#");
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127)
			return err_set(err, ERR_INVALID,
				       "the URL has a character that must be percent-encoded");
	int want = snprintf(to->target, sizeof to->target, "%s%.*s", *text == '/' ? "" : "/",
			    len <= URL_TARGET_MAX ? (int)len : URL_TARGET_MAX + 1, text);
	if ((size_t)want >= sizeof to->target)
		return err_set(err, ERR_INVALID, "the URL is longer than %d bytes", URL_TARGET_MAX);
	return 0;
}

static int split_host(const char *text, size_t len, const struct scheme *scheme,
		      struct url_parts *to, struct err *err)
{
	char host[URL_HOST_MAX + 1 + 3]; /* with brackets */
	if (memchr(text, '@', len))
		return err_set(err, ERR_INVALID,
			       "the URL holds a user name, which is not supported");
	auto_free char *copy = xstrndup(text, len);
	if (url_host_split(copy, to->host, sizeof to->host, &to->port) < 0)
		return err_set(err, ERR_INVALID, "the URL has a malformed host or port");
	bool ipv6 = strchr(to->host, ':') != NULL;
	snprintf(host, sizeof host, ipv6 ? "[%s]" : "%s", to->host);
	if (to->port && to->port != scheme->port)
		snprintf(to->authority, sizeof to->authority, "%s:%d", host, to->port);
	else
		strcpy(to->authority, host);
	if (!to->port)
		to->port = scheme->port;
	return 0;
}

int url_split(const char *url, struct url_parts *ret, struct err *err)
{
	struct url_parts parts = { 0 };
	const char *at = strstr(url, "://");
	const struct scheme *scheme = at ? find_scheme(url, (size_t)(at - url)) : NULL;
	if (!scheme)
		return err_set(err, ERR_INVALID,
			       "a URL must begin with http://, https://, ws:// or wss://");
	at += strlen("://");
	size_t len = strcspn(at, "/?#");
	if (split_host(at, len, scheme, &parts, err) < 0 || split_target(at + len, &parts, err) < 0)
		return -1;
	strcpy(parts.scheme, scheme->name);
	parts.secure = scheme->secure;
	*ret = parts;
	return 0;
}
