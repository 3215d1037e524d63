#include "net/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/dial.h"
#include "net/proxy.h"

enum { HEAD_MAX = 65536 };

/* The parser is given no time at all: it says ERR_SLOW when it has read what there is. More is waited for
 * here, as long as somebody waits. */
static bool goes_on(const struct client *client, const struct err *why, struct err *err)
{
	if (why->code == ERR_SLOW)
		return dial_await(client->fd, POLLIN, client->wait, INT64_MAX, err) == 0;
	if (err)
		*err = *why;
	return false;
}

static int read_head(struct client *client, struct err *err)
{
	const struct http *http = &client->http;
	struct err why;
	int got;
	do {
		if (http->used == http->len &&
		    dial_await(client->fd, POLLIN, client->wait, INT64_MAX, err) < 0)
			return -1;
		got = http_read_head(&client->http, &why);
		if (got == 0)
			return err_set(err, ERR_GONE, "the server closed the connection");
	} while (got < 0 && goes_on(client, &why, err));
	return got < 0 ? -1 : 0;
}

int client_tunnel(struct client *client, const char *host, int port, struct err *err)
{
	auto_buf struct buf head = BUF(HEAD_MAX);
	bool six = strchr(host, ':') != NULL;
	auto_free char *to = six ? xasprintf("[%s]:%d", host, port)
				 : xasprintf("%s:%d", host, port);
	buf_printf(&head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", to, to);
	if (client->proxy_authorization)
		buf_printf(&head, "Proxy-Authorization: %s\r\n", client->proxy_authorization);
	if (client->via)
		buf_printf(&head, "Via: %s\r\n", client->via);
	buf_str(&head, "\r\n");
	http_init(&client->http, client->fd, HTTP_RESPONSES, &client->limits);
	if (dial_send(client->fd, head.data, head.len, client->wait, err) < 0 ||
	    read_head(client, err) < 0)
		return -1;
	return client->http.head.status;
}

/* Has a proxy connect us to a server that TLS will be spoken with. */
static int ask_through(struct client *client, const struct url_parts *url, struct err *err)
{
	int status = client_tunnel(client, url->host, url->port, err);
	bool clean = client->http.used == client->http.len;
	http_done(&client->http);
	if (status < 0)
		return -1;
	return status / 100 == 2 && clean
		       ? 0
		       : err_set(err, ERR_UNAVAILABLE, "the proxy answered %d", status);
}

static int connect_by(struct client *client, const struct url_parts *url, struct proxy *proxy,
		      struct err *err)
{
	client->proxy_authorization = TAKE(proxy->authorization);
	client->fd = dial(&proxy->at, client->wait, err);
	if (client->fd < 0)
		return -1;
	if (!url->secure)
		client->absolute = xasprintf("http://%s", url->authority);
	return url->secure ? ask_through(client, url, err) : 0;
}

static int connect_url(struct client *client, const char *text, bool out, struct err *err)
{
	struct url_parts url;
	struct proxy proxy = { 0 };
	if (url_split(text, &url, err) < 0)
		return -1;
	snprintf(client->authority, sizeof client->authority, "%s", url.authority);
	int found = out ? proxy_find(&url, &proxy, err) : 0;
	if (found < 0 || (found > 0 && connect_by(client, &url, &proxy, err) < 0))
		return -1;
	if (found == 0)
		client->fd = dial(&url, client->wait, err);
	if (client->fd >= 0 && url.secure)
		client->fd = dial_tls(client->fd, url.host, client->wait, err);
	return client->fd < 0 ? -1 : 0;
}

static int open_it(struct client *client, const char *url, bool out, const struct dial_wait *wait,
		   struct err *err)
{
	*client = (struct client){ .fd = -1, .wait = wait, .limits = { HEAD_MAX, 0, 0, INT_MIN } };
	int result = 0;
	if (!strncmp(url, "unix:", 5)) {
		snprintf(client->authority, sizeof client->authority, "localhost");
		client->fd = dial_unix(url + 5, wait, err);
		result = client->fd < 0 ? -1 : 0;
	} else {
		result = connect_url(client, url, out, err);
	}
	http_init(&client->http, client->fd, HTTP_RESPONSES, &client->limits);
	if (result < 0)
		client_close(client);
	return result;
}

int client_open(struct client *client, const char *url, const struct dial_wait *wait,
		struct err *err)
{
	return open_it(client, url, false, wait, err);
}

int client_open_out(struct client *client, const char *url, const struct dial_wait *wait,
		    struct err *err)
{
	return open_it(client, url, true, wait, err);
}

void client_close(struct client *client)
{
	http_done(&client->http);
	own_close(&client->fd);
	client->fd = -1;
	free(TAKE(client->absolute));
	free(TAKE(client->proxy_authorization));
}

static bool has_answer(const struct client *client)
{
	return poll(&(struct pollfd){ .fd = client->fd, .events = POLLIN }, 1, 0) > 0;
}

/* sendfile() waits unless the descriptor says otherwise. */
static int set_waiting(int fd, bool waits)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 ? -1
			 : fcntl(fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static int send_pieces(struct client *client, const struct client_file *file, struct err *err)
{
	enum { PIECE = 1 << 20 };
	for (off_t at = 0; at < file->size && !has_answer(client);) {
		ssize_t n = sendfile(client->fd, file->fd, &at, PIECE);
		if (n == 0)
			return err_set(err, ERR_CONFLICT, "the file became shorter meanwhile");
		if (n < 0 && errno == EAGAIN) {
			if (dial_await(client->fd, POLLIN | POLLOUT, client->wait, INT64_MAX, err) <
			    0)
				return -1;
		} else if (n < 0 && errno != EINTR) {
			int code = errno;
			if (!has_answer(client))
				return err_set(err, ERR_GONE, "sending: %s", strerror(code));
		}
	}
	return 0;
}

static int send_file(struct client *client, const struct client_file *file, struct err *err)
{
	if (set_waiting(client->fd, false) < 0)
		return err_set(err, errno, "sending a file");
	int result = send_pieces(client, file, err);
	set_waiting(client->fd, true);
	if (result < 0 || has_answer(client)) /* it was refused: the answer says why */
		return result;
	return dial_send(client->fd, file->tail, strlen(file->tail), client->wait, err);
}

int client_ask(struct client *client, const struct client_request *request, struct err *err)
{
	auto_buf struct buf head = BUF(HEAD_MAX);
	const struct client_file *file = request->file;
	if (client->http.head_done)
		http_next(&client->http);
	buf_printf(&head, "%s %s%s HTTP/1.1\r\nHost: %s\r\n", request->method,
		   client->absolute ? client->absolute : "", request->target, client->authority);
	if (client->absolute && client->proxy_authorization)
		buf_printf(&head, "Proxy-Authorization: %s\r\n", client->proxy_authorization);
	for (const char *const *h = request->headers; h && *h; h++)
		buf_printf(&head, "%s\r\n", *h);
	if (request->body)
		buf_printf(&head, "Content-Type: %s\r\nContent-Length: %lld\r\n",
			   request->type ? request->type : "application/json",
			   (long long)request->len +
				   (file ? file->size + (long long)strlen(file->tail) : 0));
	if (buf_str(&head, "\r\n") < 0)
		return err_set(err, ERR_INVALID, "the request is too large");
	if (dial_send(client->fd, head.data, head.len, client->wait, err) < 0 ||
	    dial_send(client->fd, request->body, request->body ? request->len : 0, client->wait,
		      err) < 0 ||
	    (file && send_file(client, file, err) < 0))
		return -1;
	while (read_head(client, err) == 0) {
		if (client->http.head.status >= 200)
			return client->http.head.status;
		http_next(&client->http);
	}
	return -1;
}

ssize_t client_read(struct client *client, void *to, size_t room, struct err *err)
{
	struct err why;
	ssize_t n;
	do
		n = http_read_body(&client->http, to, room, &why);
	while (n < 0 && goes_on(client, &why, err));
	return n;
}

char *client_body(struct client *client, size_t max, size_t *ret_len, struct err *err)
{
	auto_buf struct buf body = BUF(max + 1);
	char piece[16384];
	ssize_t n;
	while ((n = client_read(client, piece, sizeof piece, err)) > 0)
		if (buf_add(&body, piece, (size_t)n) < 0) {
			err_set(err, ERR_TOO_LARGE, "the answer is larger than %zu bytes", max);
			return NULL;
		}
	if (n < 0)
		return NULL;
	*ret_len = body.len;
	char *text = body.data ? body.data : xstrdup("");
	body.data = NULL;
	return text;
}
