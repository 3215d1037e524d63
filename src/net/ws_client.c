#include "net/ws_client.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/un.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/dial.h"
#include "net/http.h"
#include "net/ws.h"

enum {
	TIMEOUT_MS = 10 * 1000,
	MESSAGE_MAX = 16 * 1024 * 1024,
	REQUEST_MAX = 64 * 1024,
	HEAD_MAX = 16 * 1024,
};

struct ws_client_place {
	char socket[sizeof((struct sockaddr_un){ 0 }).sun_path]; /* its path; "" for TCP */
	struct url_parts url;
};

/* ws+unix:/run/some.sock:/path?query */
static int split_unix(const char *text, struct ws_client_place *ret, struct err *err)
{
	size_t len = strcspn(text, ":");
	const char *target = text[len] ? text + len + 1 : "/";
	if (*text != '/' || *target != '/')
		return err_set(err, ERR_INVALID, "not a WebSocket URL: 'ws+unix:%s'", text);
	if (len >= sizeof ret->socket)
		return err_set(err, ERR_INVALID, "the path of the Unix socket is too long");
	auto_free char *url = xasprintf("ws://localhost%s", target);
	if (url_split(url, &ret->url, err) < 0)
		return -1;
	memcpy(ret->socket, text, len);
	return 0;
}

static int split(const char *url, struct ws_client_place *ret, struct err *err)
{
	static const char unix_scheme[] = "ws+unix:";
	if (!strncmp(url, unix_scheme, strlen(unix_scheme)))
		return split_unix(url + strlen(unix_scheme), ret, err);
	if (url_split(url, &ret->url, err) < 0)
		return -1;
	if (strcmp(ret->url.scheme, "ws") != 0 && strcmp(ret->url.scheme, "wss") != 0)
		return err_set(err, ERR_INVALID, "not a WebSocket URL: '%s'", url);
	return 0;
}

static int send_request(int fd, const struct ws_client_place *place, const char *key,
			const char *const *headers, const struct dial_wait *wait, struct err *err)
{
	auto_buf struct buf request = BUF(REQUEST_MAX);
	buf_printf(&request, "GET %s HTTP/1.1\r\nHost: %s\r\n", place->url.target,
		   place->url.authority);
	buf_printf(&request,
		   "Upgrade: websocket\r\nConnection: Upgrade\r\n"
		   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		   key);
	for (; headers && *headers; headers++) {
		if (strpbrk(*headers, "\r\n") || !strchr(*headers, ':'))
			return err_set(err, ERR_INVALID, "not a header: '%s'", *headers);
		buf_printf(&request, "%s\r\n", *headers);
	}
	if (buf_str(&request, "\r\n") < 0)
		return err_set(err, ERR_INVALID, "the headers are too large");
	return dial_send(fd, request.data, request.len, wait, err);
}

static bool protocol_was_asked(const char *const *headers, const char *protocol)
{
	static const char name[] = "Sec-WebSocket-Protocol:";
	for (; headers && *headers; headers++)
		if (!strncasecmp(*headers, name, strlen(name)) &&
		    http_has_token(*headers + strlen(name), protocol))
			return true;
	return false;
}

static int check_answer(const struct http_head *head, const char *key, const char *const *headers,
			struct err *err)
{
	const char *upgrade = http_header(head, "upgrade");
	const char *accept = http_header(head, "sec-websocket-accept");
	const char *protocol = http_header(head, "sec-websocket-protocol");
	char wanted[29];
	ws_accept_key(key, wanted);
	if (head->status != 101)
		return err_set(err, ERR_UNAVAILABLE, "the server answered %d instead of 101",
			       head->status);
	if (!head->upgrade || !upgrade || strcasecmp(upgrade, "websocket"))
		return err_set(err, ERR_UNAVAILABLE, "the server did not switch to WebSocket");
	if (!accept || strcmp(accept, wanted))
		return err_set(err, ERR_UNAVAILABLE, "the server's Sec-WebSocket-Accept is wrong");
	if (http_header(head, "sec-websocket-extensions"))
		return err_set(err, ERR_UNAVAILABLE,
			       "the server chose an extension that was not offered");
	if (protocol && !protocol_was_asked(headers, protocol))
		return err_set(err, ERR_UNAVAILABLE,
			       "the server chose a protocol that was not offered");
	return 0;
}

/* Reads the server's half of the handshake; what came behind it becomes the ws's first input. */
static struct ws *read_answer(int fd, const char *key, const char *const *headers,
			      size_t max_message, int64_t deadline_ms, struct err *err)
{
	int64_t left = deadline_ms - clock_ms();
	const struct http_limits limits = {
		.head = HEAD_MAX,
		.idle_ms = left > 0 ? (int)left : 1,
		.head_ms = left > 0 ? (int)left : 1,
	};
	struct http http;
	struct ws *ws = NULL;
	http_init(&http, fd, HTTP_RESPONSES, &limits);
	int got = http_read_head(&http, err);
	if (got > 0 && check_answer(&http.head, key, headers, err) == 0)
		ws = ws_new(fd, WS_CLIENT, http.data + http.used, http.len - http.used,
			    max_message);
	else if (clock_ms() >= deadline_ms)
		(void)err_set(err, ERR_SLOW, "the server took too long to answer");
	else if (got == 0)
		(void)err_set(err, ERR_UNAVAILABLE, "the server hung up instead of answering");
	else if (got < 0 && err)
		err->code = ERR_UNAVAILABLE; /* bad input, but not from our client */
	http_done(&http);
	return ws;
}

struct ws *ws_connect(const char *url, const char *const *headers, const struct ws_options *options,
		      struct err *err)
{
	int timeout_ms = options && options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
	size_t max_message = options && options->max_message ? options->max_message : MESSAGE_MAX;
	const struct dial_wait wait = { .all = { clock_ms() + timeout_ms, -1, -1 },
					.connect_ms = timeout_ms };
	struct ws_client_place place = { 0 };
	if (split(url, &place, err) < 0)
		return NULL;
	auto_close int fd = *place.socket ? dial_unix(place.socket, &wait, err)
					  : dial(&place.url, &wait, err);
	if (fd >= 0 && place.url.secure)
		fd = dial_tls(fd, place.url.host, &wait, err);
	if (fd < 0)
		return NULL;
	unsigned char random[16];
	auto_buf struct buf key = BUF(24);
	if (getrandom(random, sizeof random, 0) != sizeof random ||
	    base64_encode(&key, random, sizeof random) < 0) {
		(void)err_set(err, ERR_INTERNAL, "no random bytes for the handshake");
		return NULL;
	}
	if (send_request(fd, &place, key.data, headers, &wait, err) < 0)
		return NULL;
	struct ws *ws = read_answer(fd, key.data, headers, max_message, wait.all.until_ms, err);
	if (ws) {
		(void)TAKE_FD(fd);
		ws_own_fd(ws);
	}
	return ws;
}
