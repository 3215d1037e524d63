#include "net/local.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "net/listen.h"
#include "net/peer_uid.h"

enum { BACKLOG = 256 };

static void open_socket(struct local *local, const char *path, uid_t user, gid_t group)
{
	struct err err;
	struct listener listener;
	auto_free char *name = xasprintf("unix:%s", path);
	if (listen_open(name, &listener, &err) < 0) {
		log_warn("the sandbox's own programs cannot call it by a socket: %s", err.msg);
		return;
	}
	local->fds[0] = listener.fd;
	local->path = listener.path;
	fcntl(listener.fd, F_SETFL, O_NONBLOCK);
	if (geteuid() == 0 && lchown(path, user, group) < 0)
		log_warn("'%s' stays root's: %m", path);
}

/* Not by a name, as listen_open() has it: looking one up would cost each idle box some pages. */
static int listen_at(const struct sockaddr *address, socklen_t len)
{
	auto_close int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	return bind(fd, address, len) < 0 || listen(fd, BACKLOG) < 0 ? -1 : TAKE_FD(fd);
}

int local_listen(int port)
{
	const struct sockaddr_in in = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return listen_at((const struct sockaddr *)&in, sizeof in);
}

/* The port of both loopback addresses, as far as there are both. */
static void open_port(struct local *local, int port)
{
	const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)port),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	local->fds[1] = local_listen(port);
	if (local->fds[1] < 0) {
		log_warn("the sandbox's own programs cannot call it at localhost:%d: %m", port);
		return;
	}
	local->port = port;
	local->fds[2] = listen_at((const struct sockaddr *)&in6, sizeof in6);
	if (local->fds[2] < 0 && errno == EADDRINUSE)
		log_warn("the sandbox's own programs cannot call it at [::1]:%d: %m", port);
	peer_uid_ready();
}

void local_open(struct local *local, const char *path, int port, uid_t user, gid_t group)
{
	local->has_user = true;
	local->user = user;
	/* What the operator allows to callers with credentials is not for pages in the sandbox's
	 * browser. */
	local->guard = (struct guard){ .any_host = false };
	open_socket(local, path, user, group);
	if (port)
		open_port(local, port);
}

void local_close(struct local *local)
{
	if (local->path)
		unlink(local->path);
	free(local->path);
	local->path = NULL;
	for (size_t i = 0; i < COUNT(local->fds); i++) {
		own_close(&local->fds[i]);
		local->fds[i] = -1;
	}
}

bool local_admits(const struct local *local, int fd)
{
	uid_t uid;
	return peer_uid(fd, &uid) == 0 && (uid == 0 || uid == local->user);
}
