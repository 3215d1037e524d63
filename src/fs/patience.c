#include "fs/patience.h"

#include <poll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"

enum { LOOK_MS = 20 };

int patience_check(struct patience *patience, struct err *err)
{
	int64_t now = clock_ms();
	if (now - patience->looked_ms < LOOK_MS)
		return 0;
	patience->looked_ms = now;
	struct pollfd pfds[] = { { .fd = patience->client_fd ? patience->client_fd : -1 },
				 { .fd = patience->stop_fd ? patience->stop_fd : -1,
				   .events = POLLIN } };
	if (poll(pfds, COUNT(pfds), 0) > 0)
		return pfds[0].revents ? err_set(err, ERR_GONE, "the caller left")
				       : err_set(err, ERR_UNAVAILABLE, "the server is stopping");
	return now < patience->until_ms ? 0 : err_set(err, ERR_SLOW, "it took too long");
}
