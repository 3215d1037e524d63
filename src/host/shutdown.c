#include "host/shutdown.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "host/gateway.h"
#include "host/host.h"
#include "host/ward.h"

/* A box may be hostile: all that it can do is to have its own end wait that long. */
enum { RESPOND_MS = 2000, HOOKS_MS = 10000, BYTES_MAX = 65536 };

struct parting {
	bool responds;
	size_t bytes;
};

/* A box that does not run its server any more refuses at once. */
static int ask(const struct host *host, const struct box *box)
{
	const struct sockaddr_un address = gateway_address(host->state_fd, box->id);
	char request[512];
	int len = snprintf(request, sizeof request,
			   "POST /.aio/run-shutdown-hooks HTTP/1.1\r\nHost: localhost\r\n"
			   "X-AIO-API-Key: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			   box->secret);
	auto_close int fd = ward_dial(&address, box->id);
	bool sent = fd >= 0 && send(fd, request, (size_t)len, MSG_NOSIGNAL) == len;
	explicit_bzero(request, sizeof request);
	return sent ? TAKE_FD(fd) : -1;
}

/* False at the end of what it responds, or of what is taken of that. */
static bool take(int fd, struct parting *parting)
{
	char data[4096];
	ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
	parting->responds = true;
	parting->bytes += n > 0 ? (size_t)n : 0;
	return n > 0 && parting->bytes < BYTES_MAX;
}

static void forget(struct pollfd *pfd)
{
	own_close(&pfd->fd);
	pfd->fd = -1;
}

/* Until all have ended, or the time of those that have not is over. */
static void await(struct pollfd *fds, struct parting *partings, size_t count)
{
	int64_t began_ms = clock_ms(), until_ms = began_ms + HOOKS_MS;
	for (;;) {
		size_t left = 0, silent = 0;
		int64_t now_ms = clock_ms();
		for (size_t i = 0; i < count; i++) {
			if (fds[i].fd >= 0 && !partings[i].responds &&
			    now_ms >= began_ms + RESPOND_MS)
				forget(&fds[i]);
			left += fds[i].fd >= 0;
			silent += fds[i].fd >= 0 && !partings[i].responds;
		}
		int64_t next_ms = silent ? began_ms + RESPOND_MS : until_ms;
		if (!left || now_ms >= until_ms)
			return;
		(void)poll(fds, count, (int)(next_ms - now_ms));
		for (size_t i = 0; i < count; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !take(fds[i].fd, &partings[i]))
				forget(&fds[i]);
	}
}

void shutdown_hooks(const struct host *host, struct box *const *boxes, size_t count)
{
	if (host->part_by_ms && clock_ms() >= host->part_by_ms)
		return;
	auto_free struct pollfd *fds = xcalloc(count + 1, sizeof *fds);
	auto_free struct parting *partings = xcalloc(count + 1, sizeof *partings);
	for (size_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = boxes[i]->parted ? -1 : ask(host, boxes[i]),
					  .events = POLLIN };
	await(fds, partings, count);
	for (size_t i = 0; i < count; i++)
		boxes[i]->parted = true;
	for (size_t i = 0; i < count; i++)
		if (fds[i].fd >= 0) {
			log_warn("box %s: its shutdown hooks did not end within %d s", boxes[i]->id,
				 HOOKS_MS / 1000);
			forget(&fds[i]);
		}
}
