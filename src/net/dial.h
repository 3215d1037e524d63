/* dial.h - a stream to the server of a URL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct sockaddr_in;
struct sockaddr_un;
struct url_parts;

/* Who waits for a stream. NULL: nothing but the time of a step ends the wait. */
struct dial_wait {
	struct wait all;         /* for all that is waited for */
	bool (*over)(void *arg); /* a reason to end that no descriptor reports; asked ten times a
				  * second. NULL: none */
	void *arg;
	int connect_ms; /* for each step on the way to a stream; 0: 10 s */
	bool only_ipv4; /* dial_port(): not ::1 */
};

/* Finds the server and connects: a blocking descriptor. -1: ERR_SLOW, ERR_UNAVAILABLE, ERR_LIMIT. */
int dial(const struct url_parts *url, const struct dial_wait *wait, struct err *err);

/* The same for a port of this machine's loopback, 127.0.0.1 first, and for the path of a Unix socket:
 * nothing is looked up. */
int dial_port(int port, const struct dial_wait *wait, struct err *err);
int dial_unix(const char *path, const struct dial_wait *wait, struct err *err);

/* The same for an address that was looked up before. -1: err has ERR_SLOW, or the code of errno. */
int dial_address(const struct sockaddr_in *to, const struct dial_wait *wait, struct err *err);

/* For loops, which wait for nothing: a non-blocking descriptor, or -1 with errno. EAGAIN: the queue of
 * the listener is full. before() is called with the socket that is not connected yet; NULL: none. */
int dial_at_once(const struct sockaddr_un *to, void (*before)(int fd, void *arg), void *arg);

/* Goes on over TLS with a server that must prove to be that host. Takes the descriptor, also where it
 * fails, and gives another, on which its owner reads and writes plain text. */
int dial_tls(int fd, const char *host, const struct dial_wait *wait, struct err *err);

/* Sends all of it. -1 with ERR_SLOW, or ERR_GONE when the peer takes no more. */
int dial_send(int fd, const char *data, size_t len, const struct dial_wait *wait, struct err *err);

/* Waits for poll() events of a descriptor, until a time of clock_ms(). -1 with ERR_SLOW when that is
 * over, or nobody waits any more. */
int dial_await(int fd, short events, const struct dial_wait *wait, int64_t until_ms,
	       struct err *err);
