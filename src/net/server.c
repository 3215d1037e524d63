#include "net/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/wait.h"
#include "net/auth.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/offline.h"
#include "net/peer_uid.h"

enum {
	STOP_MS = 5000,
	LEAST_MS = 1000, /* of these, when the others went by before it stopped */
	FORCED_MS = 500,
	PAUSE_MS = 50,   /* before what the machine did not give is asked for again */
	MOMENT_MS = 100, /* that a connection keeps its thread for the next request */
	EVENTS_MAX = 64,
	/* Connections of the sandbox's own programs: each may take a thread, and a box's server has 1,024
	 * of those. */
	INSIDE_MAX = 256,
	PROXIED_MAX = 256, /* the same for those of the forward proxy */
};

int server_init(struct server *server, const struct server_options *options,
		const struct route_group *const *groups, struct err *err)
{
	*server = (struct server){

		.options = options,
		.home = options->home,
		.groups = groups,
		.listen_fd = -1,
		.offline_fd = -1,
		.proxy_fd = -1,
		.inside = LOCAL_NONE
	};
	/* What is left of the idle time is spent without a thread. */
	int64_t moment_ms = options->idle_ms < MOMENT_MS ? options->idle_ms : MOMENT_MS;
	server->limits = (struct http_limits){ (size_t)options->max_head, (int)moment_ms,
					       (int)options->head_ms, (int)options->body_ms };
	server->started_ms = clock_ms();
	pthread_mutex_init(&server->lock, NULL);
	TAILQ_INIT(&server->busy);
	TAILQ_INIT(&server->parked);
	TAILQ_INIT(&server->waiting);
	workers_init(&server->workers);
	router_init(&server->router, groups);
	mallopt(M_ARENA_MAX, 4);            /* many threads, not an arena for each */
	mallopt(M_MMAP_THRESHOLD, 1 << 20); /* what is large goes back, and stays in no arena */
	server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->stop_fd < 0 || server->epoll_fd < 0)
		return err_set(err, errno, "eventfd or epoll");
	struct auth_config auth = { .jwt_public_key = options->jwt_public_key,
				    .api_key = options->api_key,
				    .auth_token = options->auth_token,
				    .ticket_ttl = (int)((options->ticket_ttl_ms + 999) / 1000) };
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
	own_close(&server->offline_fd);
	server->offline_fd = -1;
	int proxy_fd = atomic_exchange(&server->proxy_fd, -1);
	own_close(&proxy_fd);
	local_close(&server->inside);
}

void server_done(struct server *server)
{
	stop_listening(server);
	workers_done(&server->workers);
	close(server->epoll_fd);
	close(server->stop_fd);
	auth_free(server->auth);
	router_done(&server->router);
	pthread_mutex_destroy(&server->lock);
}

int server_listen(struct server *server, struct err *err)
{
	struct listener listener;
	int result = listen_open(server->options->listen, &listener, err);
	server->listen_fd = listener.fd;
	server->local = listener.local;
	server->loopback = listener.loopback;
	server->socket_path = listener.path;
	server->guard = (struct guard){ .domain = server->options->domain,
					.cors_origins = server->options->cors_origins,
					.any_host = listener.local || server->options->insecure };
	snprintf(server->url, sizeof server->url, "%s", listener.url);
	if (result < 0)
		return -1;
	/* Another server may share it, and accept first: nothing may hold up those who are parked. */
	if (fcntl(listener.fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, errno, "cannot listen on %s", server->options->listen);
	if (!listener.loopback && !auth_enabled(server->auth) && !server->options->insecure)
		return err_set(
			err, ERR_INVALID,
			"refusing to listen on %s without authentication: set SANDBOX_API_KEY or "
			"JWT_PUBLIC_KEY, or give --insecure",
			server->options->listen);
	return 0;
}

int server_stop_fd(const struct server *server)
{
	return server->stop_fd;
}

struct server_load server_load(struct server *server)
{
	struct server_load load;
	pthread_mutex_lock(&server->lock);
	load.connections = server->peer_count;
	load.parked = server->parked_count;
	pthread_mutex_unlock(&server->lock);
	pthread_mutex_lock(&server->workers.lock);
	load.threads = server->workers.count;
	load.idle_threads = server->workers.idle_count;
	pthread_mutex_unlock(&server->workers.lock);
	return load;
}

/* ---- those who are connected ---- */

static void list(struct peer *peer, struct peers *in, bool first)
{
	struct server *server = peer->server;
	peer->in = in;
	server->parked_count += in != &server->busy;
	if (first)
		TAILQ_INSERT_HEAD(in, peer, link);
	else
		TAILQ_INSERT_TAIL(in, peer, link);
}

static void unlist(struct peer *peer)
{
	struct server *server = peer->server;
	server->parked_count -= peer->in != &server->busy;
	TAILQ_REMOVE(peer->in, peer, link);
}

static void move(struct peer *peer, struct peers *to, bool first)
{
	pthread_mutex_lock(&peer->server->lock); /* who parked the peer may still have it */
	unlist(peer);
	list(peer, to, first);
	pthread_mutex_unlock(&peer->server->lock);
}

/* Has the epoll report its next input, once. */
static bool arm(struct peer *peer)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT,
				     .data.ptr = peer };
	int operation = peer->known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	peer->known = epoll_ctl(peer->server->epoll_fd, operation, peer->fd, &event) == 0;
	return peer->known;
}

static void end(struct peer *peer)
{
	struct server *server = peer->server;
	pthread_mutex_lock(&server->lock);
	unlist(peer); /* before the descriptor's number can be another's */
	server->inside.conns -= peer->inside;
	server->proxied -= peer->proxied;
	if (--server->peer_count == 0)
		waiter_wake(server->waiters);
	pthread_mutex_unlock(&server->lock);
	/* A child that has just been forked may hold the socket in the epoll. */
	if (peer->in != &server->busy)
		epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
	close(peer->fd);
	free(peer);
}

/* Gives up the thread's peer, which another thread may serve before this returns. */
static bool park(struct peer *peer)
{
	struct server *server = peer->server;
	pthread_mutex_lock(&server->lock);
	bool parked = !server->stopping && arm(peer);
	if (parked) {
		unlist(peer);
		list(peer, &server->parked, false);
		peer->until_ms = clock_ms() + server->options->idle_ms - server->limits.idle_ms;
	}
	pthread_mutex_unlock(&server->lock);
	return parked;
}

static void serve(void *arg)
{
	struct peer *peer = arg;
	if (!conn_serve(peer) || !park(peer))
		end(peer);
}

/* ---- accepting ---- */

static void set_name(struct peer *peer, const struct sockaddr_storage *address)
{
	char text[INET6_ADDRSTRLEN];
	int port = listen_peer(address, text, sizeof text);
	if (port)
		snprintf(peer->name, sizeof peer->name,
			 address->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", text, port);
	else
		snprintf(peer->name, sizeof peer->name, "%s", text);
}

/* After it was answered. */
static void refuse(struct peer *peer, const char *why)
{
	peer->server->refused++;
	log_warn("connection refused: %s", why);
	end(peer);
}

static void refuse_full(struct peer *peer, const char *why)
{
	listen_refuse_full(peer->fd);
	refuse(peer, why);
}

static void refuse_user(struct peer *peer)
{
	listen_refuse(peer->fd, "403 Forbidden",
		      "Only the sandbox user and root may call the sandbox from inside.");
	refuse(peer, "it is not the sandbox user's");
}

/* 0, and a thread serves it, or an error's number. */
static int start(struct peer *peer)
{
	return workers_run(&peer->server->workers, serve, peer);
}

/* Gives a thread to those who wait for one, in the order in which they asked. */
static void serve_waiting(struct server *server)
{
	struct peer *peer;
	while ((peer = TAILQ_FIRST(&server->waiting))) {
		move(peer, &server->busy, false);
		if (start(peer) == 0)
			continue;
		move(peer, &server->waiting, true);
		server->retry_ms = clock_ms() + PAUSE_MS;
		return;
	}
}

/* Without a thread, someone new is refused. Who was served before may be the one that can end what
 * takes all threads: they wait for one, and come first. */
static void welcome(struct peer *peer)
{
	serve_waiting(peer->server);
	int code = TAILQ_EMPTY(&peer->server->waiting) ? start(peer) : EAGAIN;
	if (code)
		refuse_full(peer, strerror(code));
}

/* Programs of the sandbox leave room for callers from outside. */
static void admit(struct server *server, int fd, const struct sockaddr_storage *address,
		  const void *by)
{
	struct peer *peer = xcalloc(1, sizeof *peer);
	peer->server = server;
	peer->fd = fd;
	peer->proxied = by == &server->proxy_fd;
	peer->inside = by != &server->listen_fd && !peer->proxied;
	set_name(peer, address);
	pthread_mutex_lock(&server->lock);
	list(peer, &server->busy, false);
	server->inside.conns += peer->inside;
	server->proxied += peer->proxied;
	bool full = server->peer_count++ >= (size_t)server->options->max_connections;
	bool crowded = (peer->inside && server->inside.conns > INSIDE_MAX) ||
		       (peer->proxied && server->proxied > PROXIED_MAX);
	pthread_mutex_unlock(&server->lock);
	if (full)
		refuse_full(peer, "--max-connections is reached");
	else if (crowded)
		refuse_full(peer, "too many of the sandbox's own programs");
	else if ((peer->inside || peer->proxied) && !local_admits(&server->inside, fd))
		refuse_user(peer);
	else
		welcome(peer);
}

/* Its listeners, NULL after the last: those at which programs of the sandbox call come after the first, and
 * that of the proxy is the last. */
static void *listener(struct server *server, size_t i)
{
	return i == 0                     ? (void *)&server->listen_fd
	       : i <= LOCAL_LISTENERS     ? (void *)&server->inside.fds[i - 1]
	       : i == LOCAL_LISTENERS + 1 ? (void *)&server->proxy_fd
					  : NULL;
}

static int listener_fd(struct server *server, const void *listener)
{
	return listener == &server->proxy_fd ? atomic_load(&server->proxy_fd)
					     : *(const int *)listener;
}

static int watch_listener(struct server *server, void *listener, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = listener };
	int fd = listener_fd(server, listener);
	if (fd < 0 || epoll_ctl(server->epoll_fd, operation, fd, &event) == 0)
		return 0;
	return errno == EEXIST ? 0
			       : -1; /* the proxy's may have been opened before the loop began */
}

static int watch_listeners(struct server *server, int operation, uint32_t events)
{
	for (size_t i = 0; listener(server, i); i++)
		if (watch_listener(server, listener(server, i), operation, events) < 0)
			return -1;
	return 0;
}

int server_open_proxy(struct server *server, int port, void (*one)(struct conn *conn),
		      struct err *err)
{
	if (!server->inside.has_user)
		return err_set(err, ERR_UNAVAILABLE, "the sandbox has no user");
	auto_close int fd = local_listen(port);
	if (fd < 0)
		return err_set(err, errno, "port %d of 127.0.0.1 cannot be listened at", port);
	peer_uid_ready();
	server->serve_proxied = one;
	atomic_store(&server->proxy_fd, TAKE_FD(fd));
	return watch_listener(server, &server->proxy_fd, EPOLL_CTL_ADD, EPOLLIN);
}

static void accept_one(struct server *server, const void *from)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof address;
	int fd =
		accept4(listener_fd(server, from), (struct sockaddr *)&address, &len, SOCK_CLOEXEC);
	if (fd >= 0) {
		server->starved = false;
		server->accepted++;
		admit(server, fd, &address, from);
	} else if (listen_starved(errno)) {
		if (!server->starved)
			log_error("cannot accept: %s", strerror(errno));
		server->starved = true;
		/* The backlog holds them until something closes. */
		server->accept_ms = clock_ms() + PAUSE_MS;
		watch_listeners(server, EPOLL_CTL_MOD, 0);
	}
}

/* ---- waiting for those who are parked ---- */

static void wake(struct peer *peer)
{
	move(peer, &peer->server->waiting, false);
	serve_waiting(peer->server);
}

/* Whether there is nothing to be read from them any more. */
static bool has_left(const struct peer *peer)
{
	char byte;
	ssize_t n = recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* The one that has been parked for longest, unless it may stay. */
static struct peer *overdue(struct server *server, int64_t now_ms)
{
	pthread_mutex_lock(&server->lock);
	struct peer *peer = TAILQ_FIRST(&server->parked);
	bool over = peer && peer->until_ms <= now_ms;
	pthread_mutex_unlock(&server->lock);
	return over ? peer : NULL;
}

static void keep_time(struct server *server)
{
	int64_t now_ms = clock_ms();
	struct peer *peer;
	while ((peer = overdue(server, now_ms)))
		end(peer);
	if (!TAILQ_EMPTY(&server->waiting) && server->retry_ms <= now_ms)
		serve_waiting(server);
	if (server->accept_ms && server->accept_ms <= now_ms) {
		server->accept_ms = 0;
		watch_listeners(server, EPOLL_CTL_MOD, EPOLLIN);
	}
}

/* How long the loop may sleep; -1: until something happens. Nobody who is parked meanwhile has to go
 * much earlier: a moment of their time is over, no more. */
static int wait_ms(struct server *server)
{
	int64_t now_ms = clock_ms(), until_ms = INT64_MAX;
	pthread_mutex_lock(&server->lock);
	if (server->peer_count)
		until_ms = now_ms + server->options->idle_ms;
	if (!TAILQ_EMPTY(&server->parked))
		until_ms = TAILQ_FIRST(&server->parked)->until_ms;
	pthread_mutex_unlock(&server->lock);
	if (!TAILQ_EMPTY(&server->waiting) && server->retry_ms < until_ms)
		until_ms = server->retry_ms;
	if (server->accept_ms && server->accept_ms < until_ms)
		until_ms = server->accept_ms;
	return until_ms == INT64_MAX ? -1 : until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

/* ---- stopping ---- */

static void shut(struct server *server, bool all)
{
	pthread_mutex_lock(&server->lock);
	for (struct peer *peer = TAILQ_FIRST(&server->busy); peer; peer = TAILQ_NEXT(peer, link))
		if (all || peer->idle)
			shutdown(peer->fd, all ? SHUT_RDWR : SHUT_RD);
	pthread_mutex_unlock(&server->lock);
}

/* Waits until no connection is left, or a second signal comes. */
static bool wait_empty(struct server *server, int signal_fd, int64_t until_ms)
{
	const struct wait wait = { until_ms, -1, signal_fd };
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&server->lock);
	while (server->peer_count && wake == WAKE_READY)
		wake = wait_change(&wait, &server->lock, &server->waiters, NULL);
	bool empty = server->peer_count == 0;
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
	struct peer *peer;
	while ((peer = overdue(server, INT64_MAX)) || (peer = TAILQ_FIRST(&server->waiting)))
		end(peer);
	shut(server, false);
	if (wait_empty(server, signal_fd, server->stop_by_ms))
		return true;
	log_warn("%zu requests did not finish in time", server_load(server).connections);
	shut(server, true);
	return wait_empty(server, -1, clock_ms() + FORCED_MS);
}

/* False once a signal has come. */
static bool handle(struct server *server, const struct epoll_event *event)
{
	void *what = event->data.ptr;
	if (what == &server->signal || what == &server->ending)
		return false;
	if (what == &server->offline_fd) {
		offline_answer(server->offline_fd);
		return true;
	}
	for (size_t i = 0; listener(server, i); i++)
		if (what == listener(server, i)) {
			accept_one(server, what);
			return true;
		}
	if (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) && has_left(what))
		end(what);
	else
		wake(what);
	return true;
}

static void run(struct server *server)
{
	struct epoll_event events[EVENTS_MAX];
	for (bool going = true; going; keep_time(server)) {
		int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, wait_ms(server));
		if (n < 0 && errno != EINTR)
			return;
		for (int i = 0; i < n; i++)
			going &= handle(server, &events[i]);
	}
}

/* Names are answered by the loop itself: that takes microseconds, and waits for nobody. */
static int watch_names(struct server *server)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->offline_fd };
	int fd = server->offline_fd;
	return fd < 0 ? 0 : epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Serves on until that is done, or a second signal comes. */
static void finish(struct server *server)
{
	int fd = server->ending ? server->ending(server) : -1;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->ending };
	if (fd < 0 || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return;
	run(server);
	epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

bool server_run(struct server *server)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	auto_close int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->signal };
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, signal_fd, &event) < 0 ||
	    watch_listeners(server, EPOLL_CTL_ADD, EPOLLIN) < 0 || watch_names(server) < 0)
		log_error("cannot wait for connections: %s", strerror(errno));
	else
		run(server);
	struct signalfd_siginfo info;
	if (read(signal_fd, &info, sizeof info) == sizeof info)
		server->signal = (int)info.ssi_signo;
	server->stop_by_ms = clock_ms() + STOP_MS;
	finish(server);
	if (server->stop_by_ms < clock_ms() + LEAST_MS)
		server->stop_by_ms = clock_ms() + LEAST_MS;
	return stop(server, signal_fd);
}
