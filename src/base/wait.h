/* wait.h - waiting for something, but never for ever: until a moment, until the caller leaves, until
 * the server stops. */
#pragma once
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

struct err;

/* Until when, and what ends it early. */
struct wait {
	int64_t until_ms; /* of clock_ms(); INT64_MAX: no deadline */
	int client_fd;    /* hung up: the caller left; -1: none */
	int stop_fd;      /* readable: the server is stopping; -1: none */
};

enum wake { WAKE_READY, WAKE_TIMEOUT, WAKE_LEFT, WAKE_STOPPING };

/* 0 for WAKE_READY; -1 with ERR_SLOW, ERR_GONE or ERR_UNAVAILABLE for the others. */
int wake_err(enum wake wake, struct err *err);

/* Waits until one of at most WAIT_FDS descriptors is ready, as its revents then says. That wins over
 * the rest: work that is done is done. A half-closed caller has not left. */
enum { WAIT_FDS = 7 };
enum wake wait_poll(const struct wait *wait, struct pollfd *fds, size_t count);
enum wake wait_fd(const struct wait *wait, int fd, short events);

/* wait_fd() that only a moment ends. False: it has come. */
static inline bool wait_until(int fd, short events, int64_t until_ms)
{
	return wait_fd(&(struct wait){ until_ms, -1, -1 }, fd, events) == WAKE_READY;
}

/* The same for an eventfd, whose signal is taken. Without one, because there was no descriptor for it,
 * it is as if signalled now and then. */
enum wake wait_event(const struct wait *wait, int event_fd);

/* For a long computation, to be asked often: looks every 20 ms. WAKE_READY: go on. */
enum wake wait_check(const struct wait *wait);

/* wait_poll() for sources that may always be ready, with a wait_check(). */
enum wake wait_stream(const struct wait *wait, struct pollfd *fds, size_t count);

/* ---- for an object to change ---- */

/* One thread that waits. The object has a list of them, guarded by its lock. */
struct waiter {
	int fd; /* an eventfd */
	struct waiter *next;
};

static inline void waiter_join(struct waiter **list, struct waiter *waiter)
{
	waiter->next = *list;
	*list = waiter;
}

static inline void waiter_leave(struct waiter **list, const struct waiter *waiter)
{
	while (*list && *list != waiter)
		list = &(*list)->next;
	if (*list)
		*list = waiter->next;
}

static inline void waiter_wake(struct waiter *list)
{
	for (; list; list = list->next)
		(void)eventfd_write(list->fd, 1);
}

/* Called with the lock, which is given up meanwhile: waits until the list is woken or, where `also` is
 * not NULL, that descriptor is ready. As with a condition variable, WAKE_READY means: look again. */
enum wake wait_change(const struct wait *wait, pthread_mutex_t *lock, struct waiter **list,
		      const struct pollfd *also);
