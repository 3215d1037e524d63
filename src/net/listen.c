#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/own.h"

enum { BACKLOG = 4096, ALIVE_S = 60 };

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* Fills in what the socket is. */
static int describe(struct listener *l, struct err *err)
{
	union address a = { 0 };
	socklen_t len = sizeof a;
	int listening = 0;
	socklen_t size = sizeof listening;
	if (getsockname(l->fd, &a.any, &len) < 0)
		return err_set(err, errno, "the descriptor is not a socket");
	if (getsockopt(l->fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening)
		return err_set(err, EINVAL, "the socket does not listen");
	char text[INET6_ADDRSTRLEN] = "";
	if (a.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a.in.sin_addr, text, sizeof text);
		l->loopback = ntohl(a.in.sin_addr.s_addr) >> 24 == 127;
		snprintf(l->url, sizeof l->url, "http://%s:%d",
			 a.in.sin_addr.s_addr == INADDR_ANY ? "localhost" : text,
			 ntohs(a.in.sin_port));
	} else if (a.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a.in6.sin6_addr, text, sizeof text);
		l->loopback = IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr);
		snprintf(l->url, sizeof l->url, "http://[%s]:%d",
			 IN6_IS_ADDR_UNSPECIFIED(&a.in6.sin6_addr) ? "::1" : text,
			 ntohs(a.in6.sin6_port));
	} else if (a.any.sa_family == AF_UNIX) {
		l->local = l->loopback = true;
		snprintf(l->url, sizeof l->url, "unix:%.*s", (int)sizeof a.un.sun_path,
			 a.un.sun_path);
	} else {
		return err_set(err, EAFNOSUPPORT, "the socket");
	}
	return 0;
}

static int open_fd(const char *text, struct listener *ret, struct err *err)
{
	char *end;
	long fd = strtol(text, &end, 10);
	if (end == text || *end || fd < 0 || fd > 1000000)
		return err_set(err, ERR_INVALID, "'%s' is not a descriptor number", text);
	ret->fd = (int)fd;
	if (fcntl(ret->fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, errno, "descriptor %ld", fd);
	if (fcntl(ret->fd, F_SETFL, fcntl(ret->fd, F_GETFL) & ~O_NONBLOCK) < 0)
		return err_set(err, errno, "descriptor %ld", fd);
	return describe(ret, err);
}

/* Removes a socket whose server is gone; anything else stays and makes bind fail. */
static void remove_stale(const struct sockaddr_un *address)
{
	struct stat st;
	if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	auto_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(probe, (const struct sockaddr *)address, sizeof *address) < 0 &&
	    errno == ECONNREFUSED)
		unlink(address->sun_path);
}

static int open_unix(const char *path, struct listener *ret, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (!*path || strlen(path) >= sizeof address.sun_path)
		return err_set(err, ERR_INVALID, "the path of a Unix socket has 1 to %zu bytes",
			       sizeof address.sun_path - 1);
	memcpy(address.sun_path, path, strlen(path));
	remove_stale(&address);
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t mask = umask(0177); /* other users' programs must not drive the sandbox */
	int result = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
	int code = errno;
	umask(mask);
	if (result < 0)
		return err_set(err, code, "cannot listen on unix:%s", path);
	if (listen(fd, BACKLOG) < 0)
		return err_set(err, errno, "cannot listen on unix:%s", path);
	ret->fd = TAKE_FD(fd);
	ret->path = xstrdup(path);
	return describe(ret, err);
}

/* Who closed and is gone looks like one who only will not send any more, and a machine that was switched
 * off like one that waits. What is accepted inherits this. */
static void notice_lost_peers(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ ALIVE_S }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ ALIVE_S / 4 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ 4 }, sizeof(int));
}

static int open_tcp(const char *name, struct listener *ret, struct err *err)
{
	char host[256];
	const char *colon = strrchr(name, ':');
	size_t len = colon ? (size_t)(colon - name) : 0;
	if (!colon || len >= sizeof host || !colon[1] ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strtol(colon + 1, NULL, 10) > 65535)
		return err_set(err, ERR_INVALID, "'%s' is not HOST:PORT, unix:PATH or fd:N", name);
	bool brackets = len > 1 && name[0] == '[' && name[len - 1] == ']';
	snprintf(host, sizeof host, "%.*s", (int)(len - (brackets ? 2 : 0)), name + brackets);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE },
			*found = NULL;
	int failed = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found);
	if (failed)
		return err_set(err, ERR_INVALID, "'%s': %s", name, gai_strerror(failed));
	auto_close int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
		notice_lost_peers(fd);
	}
	int result = fd < 0 ? -1 : bind(fd, found->ai_addr, found->ai_addrlen);
	if (result == 0)
		result = listen(fd, BACKLOG);
	int code = errno;
	freeaddrinfo(found);
	if (result < 0)
		return err_set(err, code, "cannot listen on %s", name);
	ret->fd = TAKE_FD(fd);
	return describe(ret, err);
}

int listen_open(const char *name, struct listener *ret, struct err *err)
{
	*ret = (struct listener){ .fd = -1 };
	return !strncmp(name, "fd:", 3)     ? open_fd(name + 3, ret, err)
	       : !strncmp(name, "unix:", 5) ? open_unix(name + 5, ret, err)
					    : open_tcp(name, ret, err);
}

int listen_peer(const struct sockaddr_storage *from, char *to, size_t room)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
	snprintf(to, room, "local");
	if (from->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, to, (socklen_t)room);
		return ntohs(in->sin_port);
	}
	if (from->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, to, (socklen_t)room);
		return ntohs(in6->sin6_port);
	}
	return 0;
}

bool listen_starved(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

void listen_refuse(int fd, const char *status, const char *detail)
{
	char answer[400];
	int len = snprintf(answer, sizeof answer,
			   "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\n\r\n{\"detail\":\"%s\"}",
			   status, strlen(detail) + 13, detail);
	(void)!send(fd, answer, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void listen_refuse_full(int fd)
{
	listen_refuse(fd, "503 Service Unavailable\r\nRetry-After: 1", "Too many connections.");
}
