#include "service/ready.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "net/dial.h"
#include "proc/program.h"

enum { PROBE_MS = 2, PROBE_MOST_MS = 50 }; /* between two probes: doubled each time */

static bool accepts(const struct ready *ready)
{
	const struct dial_wait wait = { .all = { INT64_MAX, -1, -1 },
					.connect_ms = PROBE_MOST_MS, /* its queue may be full */
					.only_ipv4 = true };
	char display[sizeof "/tmp/.X11-unix/X" + 11];
	snprintf(display, sizeof display, "/tmp/.X11-unix/X%d", ready->number);
	auto_close int fd = ready->how == READY_TCP
				    ? dial_port(ready->number, &wait, NULL)
				    : dial_unix(ready->how == READY_DISPLAY ? display : ready->path,
						&wait, NULL);
	return fd >= 0;
}

static enum wake wait_accepts(const struct ready *ready, int pidfd, const struct wait *wait)
{
	for (int64_t pause = PROBE_MS;; pause = pause < PROBE_MOST_MS ? pause * 2 : pause) {
		if (accepts(ready))
			return WAKE_READY;
		int64_t next = clock_ms() + pause;
		const struct wait until = { next < wait->until_ms ? next : wait->until_ms,
					    wait->client_fd, wait->stop_fd };
		enum wake wake = wait_fd(&until, pidfd, POLLIN);
		if (wake == WAKE_READY)
			return WAKE_LEFT;
		if (wake != WAKE_TIMEOUT || until.until_ms == wait->until_ms)
			return wake;
	}
}

/* What it has written counts even if it has ended since. */
static enum wake wait_line(int fd, int pidfd, const struct wait *wait)
{
	for (char byte = 0; byte != '\n';) {
		struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN } };
		enum wake wake = wait_poll(wait, fds, COUNT(fds));
		if (wake != WAKE_READY)
			return wake;
		if (!fds[0].revents)
			return WAKE_LEFT;
		ssize_t n = read(fd, &byte, 1);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			fd = -1; /* no line will come: what is left is its end */
	}
	return WAKE_READY;
}

enum wake ready_wait(const struct ready *ready, struct program *program, const struct wait *wait)
{
	int pidfd = program ? program_fd(program) : -1;
	switch (ready->how) {
	case READY_AT_ONCE:
		return WAKE_READY;
	case READY_LINE:
		return wait_line(ready->fd, pidfd, wait);
	default:
		return wait_accepts(ready, pidfd, wait);
	}
}
