#include "host/gateway.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "host/link.h"
#include "host/netns.h"
#include "net/listen.h"

enum { BATCH = 128, ACCEPTS = 32, SWEEP_MS = 500, ACCEPT_PAUSE_MS = 100, TELL_MS = 10000 };

/* The longest wait that is spent looking instead of sleeping, and the first step towards it; who yields
 * for longer than the last has let another run. */
enum { LOOK_MAX_US = 100, LOOK_FIRST_US = 20, YIELD_US = 10 };

/* What epoll says instead of a link. */
enum { IS_LISTENER = 2, IS_WAKE = 4 };

struct gateway {
	struct gateway_config config;
	struct loop *loops;
	int count, wanted; /* of them */
	_Atomic size_t connections;
	_Atomic bool stopping;
	_Atomic int64_t stop_by_ms;
	_Atomic int64_t told_ms; /* when it was last told that there is no descriptor */
	int look_max_us; /* 0 where there is one core: looking would keep others from answering */
};

static int listen_again(struct loop *loop)
{
	struct epoll_event event = { EPOLLIN | EPOLLEXCLUSIVE, .data.u64 = IS_LISTENER };
	loop->accept_ms = 0;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->config->listen_fd, &event);
}

/* A connection that there is no descriptor for stays in the backlog, and would wake the loop for ever:
 * it is not looked for until something may have been closed. */
static void pause_accepting(struct loop *loop, int code)
{
	struct gateway *gateway = loop->gateway;
	if (!listen_starved(code))
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, loop->config->listen_fd, NULL);
	loop->accept_ms = loop->now_ms + ACCEPT_PAUSE_MS;
	int64_t told = gateway->told_ms;
	if ((!told || loop->now_ms - told >= TELL_MS) &&
	    atomic_compare_exchange_strong(&gateway->told_ms, &told, loop->now_ms))
		log_error("cannot accept: %s (%zu connections are open; see 'ulimit -n')",
			  strerror(code), (size_t)gateway->connections);
}

static void accept_some(struct loop *loop)
{
	struct gateway *gateway = loop->gateway;
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage address = { 0 };
		socklen_t len = sizeof address;
		char peer[INET6_ADDRSTRLEN];
		int fd = accept4(loop->config->listen_fd, (struct sockaddr *)&address, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			pause_accepting(loop, errno);
			return;
		}
		if (gateway->connections >= (size_t)loop->config->max_connections) {
			listen_refuse_full(fd);
			close(fd);
			continue;
		}
		gateway->connections++;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		listen_peer(&address, peer, sizeof peer);
		struct link *link = link_new(loop, fd, peer);
		link_run(link, EPOLLIN, 0); /* the request is often there already */
	}
}

static void bury(struct loop *loop)
{
	while (loop->dead) {
		struct link *link = loop->dead;
		loop->dead = link->next_dead;
		link_free(link);
		loop->gateway->connections--;
	}
}

static void each_link(struct loop *loop, bool parked)
{
	for (struct link *link = loop->links, *next; link; link = next) {
		next = link->next;
		if (!parked)
			link_expire(link);
		else if (link->phase == PARKED)
			link_run(link, 0, 0);
	}
}

static void take_events(struct loop *loop, const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t data = events[i].data.u64;
		struct link *link = (struct link *)(uintptr_t)(data & ~(uint64_t)7);
		eventfd_t ignored;
		if (data == IS_LISTENER) {
			accept_some(loop);
		} else if (data == IS_WAKE) {
			(void)eventfd_read(loop->wake_fd, &ignored);
			each_link(loop, true);
		} else if (data & 1) {
			link_run(link, 0, events[i].events);
		} else {
			link_run(link, events[i].events, 0);
		}
	}
	bury(loop);
}

static bool may_end(struct loop *loop)
{
	struct gateway *gateway = loop->gateway;
	if (!gateway->stopping)
		return false;
	if (!loop->stopping) {
		loop->stopping = true;
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, loop->config->listen_fd, NULL);
		each_link(loop, false); /* idle ones end at once */
		bury(loop);
	}
	return !loop->links || loop->now_ms >= gateway->stop_by_ms;
}

/* Going to sleep and being woken costs more than a box's server takes for a small answer. So where
 * events have been following each other closely, the next one is looked for before the loop sleeps:
 * for longer while that would have helped, not at all once it did not. */
static int next_events(struct loop *loop, struct epoll_event *events, int timeout_ms)
{
	int64_t begin = clock_us(), now = begin;
	for (bool busy = false; !busy && now - begin < loop->look_us;) {
		int n = epoll_wait(loop->epoll_fd, events, BATCH, 0);
		if (n)
			return n;
		int64_t before = clock_us();
		sched_yield();
		now = clock_us();
		busy = now - before > YIELD_US; /* others have use for the core */
	}
	int n = epoll_wait(loop->epoll_fd, events, BATCH, timeout_ms);
	if (clock_us() - begin > loop->gateway->look_max_us)
		loop->look_us = 0;
	else if (loop->look_us < loop->gateway->look_max_us)
		loop->look_us = loop->look_us ? loop->look_us * 2 : LOOK_FIRST_US;
	return n;
}

/* How long the loop may sleep. */
static int patience(const struct loop *loop, int64_t sweep_ms)
{
	int64_t until = loop->links ? sweep_ms : INT64_MAX;
	if (loop->accept_ms && loop->accept_ms < until)
		until = loop->accept_ms;
	if (loop->stopping)
		return 20;
	if (until == INT64_MAX)
		return -1;
	return until > loop->now_ms ? (int)(until - loop->now_ms) : 0;
}

static void *run(void *arg)
{
	struct loop *loop = arg;
	struct epoll_event events[BATCH];
	int64_t sweep_ms = clock_ms() + SWEEP_MS;
	loop->now_ms = clock_ms();
	while (!may_end(loop)) {
		int n = next_events(loop, events, patience(loop, sweep_ms));
		loop->now_ms = clock_ms();
		if (loop->accept_ms && loop->now_ms >= loop->accept_ms && !loop->stopping)
			(void)listen_again(loop);
		if (n > 0)
			take_events(loop, events, n);
		if (loop->now_ms >= sweep_ms) {
			each_link(loop, false);
			bury(loop);
			sweep_ms = loop->now_ms + SWEEP_MS;
		}
	}
	while (loop->links) {
		link_free(loop->links);
		loop->gateway->connections--;
	}
	http_done(&loop->http);
	return NULL;
}

static int loop_start(struct gateway *gateway, struct loop *loop, struct err *err)
{
	loop->config = &gateway->config;
	loop->gateway = gateway;
	loop->limits = (struct http_limits){ .head = gateway->config.max_head };
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event wake = { EPOLLIN, .data.u64 = IS_WAKE };
	if (loop->epoll_fd < 0 || loop->wake_fd < 0 || listen_again(loop) < 0 ||
	    epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &wake) < 0)
		return err_set(err, errno, "epoll");
	int code = thread_start_joinable(&loop->thread, run, loop);
	return code ? err_set(err, code, "no thread for a loop") : 0;
}

static int start_loops(void *arg, struct err *err)
{
	struct gateway *gateway = arg;
	for (; gateway->count < gateway->wanted; gateway->count++)
		if (loop_start(gateway, &gateway->loops[gateway->count], err) < 0)
			return -1;
	return 0;
}

/* Each in its box's own directory: file systems are slow where many files have just been deleted. */
struct sockaddr_un gateway_address(int state_dir, const char *id)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/boxes/%s/socket",
		 state_dir, id);
	return address;
}

struct gateway *gateway_start(const struct gateway_config *config, int loops, struct err *err)
{
	struct gateway *gateway = xcalloc(1, sizeof *gateway);
	gateway->config = *config;
	gateway->look_max_us = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? LOOK_MAX_US : 0;
	gateway->loops = xcalloc((size_t)loops, sizeof *gateway->loops);
	gateway->wanted = loops;
	if (netns_call(config->netns, start_loops, gateway, err) == 0)
		return gateway;
	gateway_stop(gateway, 0);
	gateway_free(gateway);
	return NULL;
}

void gateway_notice(struct gateway *gateway)
{
	for (int i = 0; i < gateway->count; i++)
		(void)eventfd_write(gateway->loops[i].wake_fd, 1);
}

void gateway_stop(struct gateway *gateway, int ms)
{
	gateway->stop_by_ms = clock_ms() + ms;
	gateway->stopping = true;
	gateway_notice(gateway);
	for (int i = 0; i < gateway->count; i++)
		pthread_join(gateway->loops[i].thread, NULL);
}

void gateway_free(struct gateway *gateway)
{
	for (int i = 0; i < gateway->count; i++) {
		close(gateway->loops[i].epoll_fd);
		close(gateway->loops[i].wake_fd);
	}
	free(gateway->loops);
	free(gateway);
}
