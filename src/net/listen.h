/* listen.h - a listening socket from its name. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

struct listener {
	int fd;
	bool local;    /* a Unix socket */
	bool loopback; /* reachable from this machine only */
	char *path;    /* of a Unix socket we made, to be removed; else NULL */
	char url[300];
};

/* Opens "HOST:PORT", "[IPV6]:PORT", "unix:PATH" or "fd:N", an inherited descriptor. Port 0 takes
 * any free one. A Unix socket that nobody listens on any more is replaced. */
int listen_open(const char *name, struct listener *ret, struct err *err);
