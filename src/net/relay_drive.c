#include "net/relay_drive.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/clock.h"
#include "base/own.h"
#include "net/http.h"

enum { STALE_MS = 1000 };

static int timeout(int64_t until_ms)
{
	int64_t left = until_ms == INT64_MAX ? -1 : until_ms - clock_ms();
	return until_ms == INT64_MAX ? -1 : left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* False when the client is gone, nothing came until that time, or the server stops and the response is one
 * that goes on until somebody ends it. */
static bool wait_ready(const struct relay_drive *drive, int64_t until_ms, bool *stale)
{
	const struct relay *relay = drive->relay;
	struct end *client = relay->client, *server = relay->server;
	bool takes = relay_reads_client(relay), gives = relay_reads_server(relay);
	bool endless = relay->tunnel || relay->events;
	struct pollfd pfds[] = {
		{ .fd = client->fd,
		  .events = (short)((takes ? POLLIN : 0) | (end_pending(client) ? POLLOUT : 0)) },
		{ .fd = gives || end_pending(server) ? server->fd : -1,
		  .events = (short)((gives ? POLLIN : 0) | (end_pending(server) ? POLLOUT : 0)) },
		{ .fd = endless ? drive->stop_fd : -1, .events = POLLIN },
		{ .fd = *stale ? -1 : drive->stale_fd, .events = POLLIN },
	};
	int n = poll(pfds, COUNT(pfds), timeout(until_ms));
	if (n == 0 || (n < 0 && errno != EINTR) || pfds[2].revents)
		return false;
	/* One that only half-closed has not gone: see what poll() is not asked for. */
	if (pfds[0].revents & (POLLERR | POLLHUP) && !(pfds[0].revents & POLLIN))
		return false;
	client->readable |= (pfds[0].revents & POLLIN) != 0;
	server->readable |= (pfds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
	*stale |= pfds[3].revents != 0;
	return true;
}

/* What it waits for now, and until when at most. */
static enum relay_fault waits_for(const struct relay_drive *drive, bool stale,
				  int64_t *ret_until_ms)
{
	int64_t most_ms = stale ? STALE_MS : drive->idle_ms;
	int64_t idle_ms = most_ms ? drive->relay->moved_ms + most_ms : INT64_MAX;
	enum relay_fault fault = relay_waits_for(drive->relay, drive->patience, ret_until_ms);
	if (*ret_until_ms <= idle_ms)
		return fault;
	*ret_until_ms = idle_ms;
	return RELAY_STUCK;
}

enum relay_step relay_drive(const struct relay_drive *drive, const char **ret_why,
			    enum relay_fault *ret_fault)
{
	struct relay_tools tools = { drive->http, drive->limits, drive->piece, clock_ms() };
	enum relay_step step;
	bool stale = false;
	while ((step = relay_step(drive->relay, &tools, ret_why)) <= RELAY_MOVED) {
		int64_t until_ms;
		*ret_fault = waits_for(drive, stale, &until_ms);
		if (step == RELAY_WAITS && !wait_ready(drive, until_ms, &stale)) {
			if (clock_ms() < until_ms)
				*ret_fault = RELAY_STUCK;
			return step;
		}
		tools.now_ms = clock_ms();
	}
	return step;
}
