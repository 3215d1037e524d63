#include "service/ready.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "proc/program.h"

enum { PROBE_MS = 2, PROBE_MOST_MS = 50 }; /* between two probes: doubled each time */

union address {
	struct sockaddr any;
	struct sockaddr_un local;
	struct sockaddr_in in;
};

static socklen_t address_of(const struct ready *ready, union address *ret)
{
	if (ready->how == READY_TCP) {
		ret->in = (struct sockaddr_in){ .sin_family = AF_INET,
						.sin_port = htons((uint16_t)ready->number),
						.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		return sizeof ret->in;
	}
	ret->local = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (ready->how == READY_DISPLAY)
		snprintf(ret->local.sun_path, sizeof ret->local.sun_path, "/tmp/.X11-unix/X%d",
			 ready->number);
	else
		snprintf(ret->local.sun_path, sizeof ret->local.sun_path, "%s", ready->path);
	return sizeof ret->local;
}

static bool accepts(const struct ready *ready)
{
	const struct timeval most = { .tv_usec = PROBE_MOST_MS * 1000 }; /* its queue may be full */
	union address address;
	socklen_t len = address_of(ready, &address);
	auto_close int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) == 0 &&
	       connect(fd, &address.any, len) == 0;
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
