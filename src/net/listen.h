/* listen.h - a listening socket from its name, and what all who accept there need. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct sockaddr_storage;

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

/* The address that a connection comes from, and as result its port; "local" and 0 for a Unix socket. */
int listen_peer(const struct sockaddr_storage *from, char *to, size_t room);

/* Whether accept() failed with this for lack of descriptors or memory: what waits in the backlog would
 * be reported again at once. */
bool listen_starved(int code);

/* Answers a connection that will not be served. status: with further headers, if there are any. */
void listen_refuse(int fd, const char *status, const char *detail);
void listen_refuse_full(int fd);
