/* relay_drive.h - drives a relay in a connection's thread, which waits by poll(). */
#pragma once
#include <stdint.h>

#include "net/relay.h"

struct relay_drive {
	struct relay *relay; /* which has begun */
	struct http *http;   /* the response's; zero */
	const struct http_limits *limits;
	char *piece; /* FLOW_PIECE bytes */
	const struct relay_patience *patience;
	int stop_fd;     /* readable: what goes on until somebody ends it ends */
	int64_t idle_ms; /* how long nothing may move in any case; 0: for ever */
	/* Readable once the stream is not to be used any more: it ends when nothing moves for a moment;
	 * -1: never. */
	int stale_fd;
};

/* Goes on until there is nothing to wait for: the last step. RELAY_WAITS: the client is gone, the server stops, or
 * what *ret_fault says took too long. */
enum relay_step relay_drive(const struct relay_drive *drive, const char **ret_why,
			    enum relay_fault *ret_fault);
