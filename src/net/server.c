#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/home.h"
#include "base/log.h"
#include "base/own.h"
#include "net/auth.h"
#include "net/conn.h"
#include "net/listen.h"

enum { STOP_MS = 5000, FORCED_MS = 500, ACCEPT_PAUSE_MS = 50, INSIDE_MAX = 256 };

int server_init(struct server *server, const struct config *config,
		const struct route_group *const *groups, struct err *err)
{
	*server = (struct server){
		.config = config, .groups = groups, .listen_fd = -1, .inside = LOCAL_NONE
	};
	server->limits = (struct http_limits){ (size_t)config->max_head, (int)config->idle_ms,
					       (int)config->head_ms, (int)config->body_ms };
	server->started_ms = clock_ms();
	pthread_mutex_init(&server->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&server->empty, &attr);
	pthread_condattr_destroy(&attr);
	router_init(&server->router, groups);
	home_find(server->home, sizeof server->home);
	mallopt(M_ARENA_MAX, 4); /* a thread per connection, not an arena per thread */
	server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->stop_fd < 0)
		return err_set(err, errno, "eventfd");
	struct auth_config auth = { .jwt_public_key = config->jwt_public_key,
				    .api_key = config->api_key,
				    .auth_token = config->auth_token,
				    .ticket_ttl = (int)((config->ticket_ttl_ms + 999) / 1000) };
	server->auth = auth_new(&auth, err);
	return server->auth ? 0 : -1;
}

/* The name goes first: once nobody listens, the next server may take it for its own. */
static void stop_listening(struct server *server)
{
	if (server->socket_path)
		unlink(server->socket_path);
	free(server->socket_path);
	server->socket_path = NULL;
	if (server->listen_fd >= 0)
		close(server->listen_fd);
	server->listen_fd = -1;
	local_close(&server->inside);
}

void server_done(struct server *server)
{
	stop_listening(server);
	close(server->stop_fd);
	auth_free(server->auth);
	router_done(&server->router);
	pthread_cond_destroy(&server->empty);
	pthread_mutex_destroy(&server->lock);
}

int server_listen(struct server *server, struct err *err)
{
	struct listener listener;
	int result = listen_open(server->config->listen, &listener, err);
	server->listen_fd = listener.fd;
	server->local = listener.local;
	server->socket_path = listener.path;
	snprintf(server->url, sizeof server->url, "%s", listener.url);
	if (result < 0)
		return -1;
	if (!listener.loopback && !auth_enabled(server->auth) && !server->config->insecure)
		return err_set(
			err, ERR_INVALID,
			"refusing to listen on %s without authentication: set SANDBOX_API_KEY or "
			"JWT_PUBLIC_KEY, or give --insecure",
			server->config->listen);
	return 0;
}

int server_stop_fd(const struct server *server)
{
	return server->stop_fd;
}

/* ---- the list of connections ---- */

void server_add(struct server *server, struct conn *conn)
{
	pthread_mutex_lock(&server->lock);
	conn->next = server->conns;
	if (conn->next)
		conn->next->previous = conn;
	server->conns = conn;
	server->conn_count++;
	server->inside.conns += conn->inside;
	pthread_mutex_unlock(&server->lock);
}

void server_remove(struct server *server, struct conn *conn)
{
	pthread_mutex_lock(&server->lock);
	if (conn->previous)
		conn->previous->next = conn->next;
	else
		server->conns = conn->next;
	if (conn->next)
		conn->next->previous = conn->previous;
	server->inside.conns -= conn->inside;
	pthread_mutex_unlock(&server->lock);
}

void server_leave(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	if (--server->conn_count == 0)
		pthread_cond_broadcast(&server->empty);
	pthread_mutex_unlock(&server->lock);
}

size_t server_conn_count(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	size_t count = server->conn_count;
	pthread_mutex_unlock(&server->lock);
	return count;
}

/* ---- accepting ---- */

static void peer_name(int fd, char *to, size_t room)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof address;
	char text[INET6_ADDRSTRLEN] = "";
	snprintf(to, room, "local");
	if (getpeername(fd, (struct sockaddr *)&address, &len) < 0)
		return;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
	if (address.ss_family == AF_INET)
		snprintf(to, room, "%s:%d", inet_ntop(AF_INET, &in->sin_addr, text, sizeof text),
			 ntohs(in->sin_port));
	else if (address.ss_family == AF_INET6)
		snprintf(to, room, "[%s]:%d",
			 inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text),
			 ntohs(in6->sin6_port));
}

static void refuse_with(struct server *server, int fd, const char *status, const char *detail,
			const char *why)
{
	char answer[400];
	int len = snprintf(answer, sizeof answer,
			   "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\n\r\n{\"detail\":\"%s\"}",
			   status, strlen(detail) + 13, detail);
	server->refused++;
	log_warn("connection refused: %s", why);
	(void)!send(fd, answer, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void refuse(struct server *server, int fd, const char *why)
{
	refuse_with(server, fd, "503 Service Unavailable\r\nRetry-After: 1",
		    "Too many connections.", why);
}

/* A connection for one of the sandbox's own programs: other users' are refused, and those that are admitted
 * leave room for callers from outside. */
static bool admit(struct server *server, int fd)
{
	if (!local_admits(&server->inside, fd)) {
		refuse_with(server, fd, "403 Forbidden",
			    "Only the sandbox user and root may call the sandbox from inside.",
			    "it is not the sandbox user's");
		return false;
	}
	pthread_mutex_lock(&server->lock);
	bool full = server->inside.conns >= INSIDE_MAX;
	pthread_mutex_unlock(&server->lock);
	if (full)
		refuse(server, fd, "too many of the sandbox's own programs");
	return !full;
}

static void accept_one(struct server *server, int listen_fd)
{
	struct err err;
	char peer[64];
	bool inside = listen_fd != server->listen_fd;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (!server->starved)
				log_error("cannot accept: %s", strerror(errno));
			server->starved = true;
			poll(NULL, 0,
			     ACCEPT_PAUSE_MS); /* the backlog holds them until something closes */
		}
		return;
	}
	server->starved = false;
	server->accepted++;
	if (server_conn_count(server) >= (size_t)server->config->max_connections) {
		refuse(server, fd, "--max-connections is reached");
		return;
	}
	if (inside && !admit(server, fd))
		return;
	peer_name(fd, peer, sizeof peer);
	if (conn_start(server, fd, peer, inside, &err) < 0)
		refuse(server, fd, err.msg);
}

/* ---- stopping ---- */

static void shut(struct server *server, bool all)
{
	pthread_mutex_lock(&server->lock);
	for (struct conn *conn = server->conns; conn; conn = conn->next)
		if (all || conn->idle)
			shutdown(conn->fd, all ? SHUT_RDWR : SHUT_RD);
	pthread_mutex_unlock(&server->lock);
}

/* Waits until no connection is left, or a second signal comes. */
static bool wait_empty(struct server *server, int signal_fd, int64_t until)
{
	pthread_mutex_lock(&server->lock);
	while (server->conn_count && clock_ms() < until) {
		struct pollfd pfd = { .fd = signal_fd, .events = POLLIN };
		if (signal_fd >= 0 && poll(&pfd, 1, 0) > 0)
			break;
		int64_t step = clock_ms() + 50;
		struct timespec when = { step / 1000, step % 1000 * 1000000 };
		pthread_cond_timedwait(&server->empty, &server->lock, &when);
	}
	bool empty = server->conn_count == 0;
	pthread_mutex_unlock(&server->lock);
	return empty;
}

static bool stop(struct server *server, int signal_fd)
{
	stop_listening(server);
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	pthread_mutex_unlock(&server->lock);
	(void)eventfd_write(server->stop_fd, 1);
	shut(server, false);
	if (wait_empty(server, signal_fd, server->stop_by_ms))
		return true;
	log_warn("%zu requests did not finish in time", server_conn_count(server));
	shut(server, true);
	return wait_empty(server, -1, clock_ms() + FORCED_MS);
}

bool server_run(struct server *server)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	auto_close int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	struct pollfd pfds[2 + LOCAL_LISTENERS] = { { .fd = signal_fd, .events = POLLIN },
						    { .fd = server->listen_fd, .events = POLLIN } };
	for (size_t i = 0; i < LOCAL_LISTENERS; i++)
		pfds[2 + i] = (struct pollfd){ .fd = server->inside.fds[i], .events = POLLIN };
	for (;;) {
		if (poll(pfds, COUNT(pfds), -1) < 0 && errno != EINTR)
			break;
		if (pfds[0].revents)
			break;
		for (size_t i = 1; i < COUNT(pfds); i++)
			if (pfds[i].revents)
				accept_one(server, pfds[i].fd);
	}
	struct signalfd_siginfo info;
	if (read(signal_fd, &info, sizeof info) == sizeof info)
		server->signal = (int)info.ssi_signo;
	server->stop_by_ms = clock_ms() + STOP_MS;
	return stop(server, signal_fd);
}
