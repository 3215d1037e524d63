#include "base/wait.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"

enum {
	POLL_MAX_MS = 3600000,
	BLIND_MS = 100, /* between looks, where there was no descriptor for an eventfd */
	CHECK_MS = 20,
};

int wake_err(enum wake wake, struct err *err)
{
	switch (wake) {
	case WAKE_READY:
		return 0;
	case WAKE_TIMEOUT:
		return err_set(err, ERR_SLOW, "it took too long");
	case WAKE_LEFT:
		return err_set(err, ERR_GONE, "the caller left");
	case WAKE_STOPPING:
		break;
	}
	return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
}

enum wake wait_poll(const struct wait *wait, struct pollfd *fds, size_t count)
{
	struct pollfd all[WAIT_FDS + 2] = { { .fd = wait->stop_fd, .events = POLLIN },
					    { .fd = wait->client_fd } };
	memcpy(all + 2, fds, count * sizeof *fds);
	for (;;) {
		int64_t left = wait->until_ms - clock_ms();
		int ms = left <= 0 ? 0 : left < POLL_MAX_MS ? (int)left : POLL_MAX_MS;
		int n = poll(all, count + 2, ms);
		if (n < 0 && errno != EINTR)
			return WAKE_LEFT;
		bool stops = n > 0 && all[0].revents, gone = n > 0 && all[1].revents;
		if (n > stops + gone) {
			memcpy(fds, all + 2, count * sizeof *fds);
			return WAKE_READY;
		}
		if (stops)
			return WAKE_STOPPING;
		if (gone)
			return WAKE_LEFT;
		if (left <= 0)
			return WAKE_TIMEOUT;
	}
}

enum wake wait_fd(const struct wait *wait, int fd, short events)
{
	return wait_poll(wait, &(struct pollfd){ .fd = fd, .events = events }, 1);
}

enum wake wait_check(const struct wait *wait)
{
	static _Thread_local int64_t checked_ms;
	int64_t now = clock_ms();
	if (now - checked_ms < CHECK_MS)
		return WAKE_READY;
	checked_ms = now;
	struct wait look = { 0, wait->client_fd, wait->stop_fd };
	enum wake wake = wait_poll(&look, &(struct pollfd){ .fd = -1 }, 1);
	return wake == WAKE_TIMEOUT && now < wait->until_ms ? WAKE_READY : wake;
}

enum wake wait_stream(const struct wait *wait, struct pollfd *fds, size_t count)
{
	enum wake wake = wait_check(wait);
	return wake == WAKE_READY ? wait_poll(wait, fds, count) : wake;
}

/* The first descriptor is an eventfd, which may be missing. */
static enum wake poll_event(const struct wait *wait, struct pollfd *fds, size_t count)
{
	struct wait until = *wait;
	int64_t blind = fds[0].fd < 0 ? clock_ms() + BLIND_MS : INT64_MAX;
	if (blind < until.until_ms)
		until.until_ms = blind;
	enum wake wake = wait_poll(&until, fds, count);
	return wake == WAKE_TIMEOUT && until.until_ms != wait->until_ms ? WAKE_READY : wake;
}

enum wake wait_event(const struct wait *wait, int event_fd)
{
	eventfd_t ignored;
	enum wake wake = poll_event(wait, &(struct pollfd){ .fd = event_fd, .events = POLLIN }, 1);
	if (wake == WAKE_READY)
		(void)eventfd_read(event_fd, &ignored);
	return wake;
}

enum wake wait_change(const struct wait *wait, pthread_mutex_t *lock, struct waiter **list,
		      const struct pollfd *also)
{
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct waiter waiter = { .fd = fd };
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN } };
	if (also)
		fds[1] = *also;
	waiter_join(list, &waiter);
	pthread_mutex_unlock(lock);
	enum wake wake = poll_event(wait, fds, also ? 2 : 1);
	pthread_mutex_lock(lock);
	waiter_leave(list, &waiter);
	return wake;
}
