/* dial.h - a stream to the server of a URL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct url_parts;

/* Who waits for a stream. over() is asked several times a second. */
struct dial_wait {
	bool (*over)(void *arg); /* NULL: never */
	void *arg;
	int connect_ms;   /* for each step on the way to a stream; 0: 10 s */
	int64_t until_ms; /* of clock_ms(): for all that is waited for; 0: no such time */
	bool only_ipv4;   /* dial_port(): not ::1 */
};

/* Finds the server and connects: a blocking descriptor. -1: ERR_SLOW, ERR_UNAVAILABLE, ERR_LIMIT. */
int dial(const struct url_parts *url, const struct dial_wait *wait, struct err *err);

/* The same for a port of this machine's loopback, 127.0.0.1 first, and for the path of a Unix socket:
 * nothing is looked up. */
int dial_port(int port, const struct dial_wait *wait, struct err *err);
int dial_unix(const char *path, const struct dial_wait *wait, struct err *err);

/* Goes on over TLS with a server that must prove to be that host. Takes the descriptor, also where it
 * fails, and gives another, on which its owner reads and writes plain text. */
int dial_tls(int fd, const char *host, const struct dial_wait *wait, struct err *err);

/* Sends all of it. -1 with ERR_SLOW, or ERR_GONE when the peer takes no more. */
int dial_send(int fd, const char *data, size_t len, const struct dial_wait *wait, struct err *err);

/* Waits for poll() events of a descriptor, until a time of clock_ms(). -1 with ERR_SLOW when that is
 * over, or nobody waits any more. */
int dial_await(int fd, short events, const struct dial_wait *wait, int64_t until_ms,
	       struct err *err);
