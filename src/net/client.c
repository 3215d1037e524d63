#include "net/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"

enum { HEAD_MAX = 65536, FOREVER_MS = 1000000000 };

static int connect_unix(const char *path, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof address.sun_path)
		return err_set(err, ERR_INVALID, "the path of the Unix socket is too long");
	memcpy(address.sun_path, path, strlen(path));
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return err_set(err, ERR_UNAVAILABLE, "cannot connect to unix:%s: %s", path,
			       strerror(errno));
	return TAKE_FD(fd);
}

static int connect_tcp(const struct url_parts *url, struct err *err)
{
	char port[8];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	snprintf(port, sizeof port, "%d", url->port);
	int failed = getaddrinfo(url->host, port, &hints, &found);
	if (failed)
		return err_set(err, ERR_UNAVAILABLE, "'%s': %s", url->host, gai_strerror(failed));
	auto_close int fd = -1;
	int code = 0;
	for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
		fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
			code = errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "cannot connect to %s: %s", url->authority,
			       strerror(code));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	return TAKE_FD(fd);
}

int client_open(struct client *client, const char *url, struct err *err)
{
	struct url_parts parts = { 0 };
	*client = (struct client){ .fd = -1, .limits = { HEAD_MAX, 0, FOREVER_MS, FOREVER_MS } };
	if (!strncmp(url, "unix:", 5)) {
		snprintf(client->authority, sizeof client->authority, "localhost");
		client->fd = connect_unix(url + 5, err);
	} else {
		if (url_split(url, &parts, err) < 0)
			return -1;
		if (parts.secure)
			return err_set(err, ERR_INVALID, "https is not supported");
		snprintf(client->authority, sizeof client->authority, "%s", parts.authority);
		client->fd = connect_tcp(&parts, err);
	}
	if (client->fd < 0)
		return -1;
	http_init(&client->http, client->fd, HTTP_RESPONSES, &client->limits);
	return 0;
}

void client_close(struct client *client)
{
	http_done(&client->http);
	own_close(&client->fd);
	client->fd = -1;
}

static int send_all(int fd, const char *data, size_t len, struct err *err)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_GONE, "the server is gone");
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int client_ask(struct client *client, const struct client_request *request, struct err *err)
{
	auto_buf struct buf head = BUF(HEAD_MAX);
	if (client->http.head_done)
		http_next(&client->http);
	buf_printf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", request->method, request->target,
		   client->authority);
	for (const char *const *h = request->headers; h && *h; h++)
		buf_printf(&head, "%s\r\n", *h);
	if (request->body)
		buf_printf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n",
			   request->type ? request->type : "application/json", request->len);
	if (buf_str(&head, "\r\n") < 0)
		return err_set(err, ERR_INVALID, "the request is too large");
	if (send_all(client->fd, head.data, head.len, err) < 0 ||
	    send_all(client->fd, request->body, request->body ? request->len : 0, err) < 0)
		return -1;
	for (;;) {
		int got = http_read_head(&client->http, err);
		if (got <= 0)
			return got < 0 ? -1
				       : err_set(err, ERR_GONE, "the server closed the connection");
		if (client->http.head.status >= 200)
			return client->http.head.status;
		http_next(&client->http);
	}
}

ssize_t client_read(struct client *client, void *to, size_t room, struct err *err)
{
	return http_read_body(&client->http, to, room, err);
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
