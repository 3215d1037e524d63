/* server.h - a listening server: it accepts, gives each busy connection a thread, and stops in order.
 *
 * A connection that has nothing to say is parked: the thread of server_run() waits for all of those
 * at once, and they cost little more than their descriptor. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/http.h"
#include "net/local.h"
#include "net/route.h"
#include "net/workers.h"

struct answer;
struct auth;
struct buf;
struct config;
struct conn;
struct err;
struct server;

/* Who is connected: what there is of a connection while no thread serves it. A busy peer belongs to the
 * thread that serves it, any other to the thread of server_run(). */
TAILQ_HEAD(peers, peer);
struct peer {
	TAILQ_ENTRY(peer) link; /* in one of the server's lists, under its lock */
	struct server *server;
	int fd;
	bool inside;      /* of a program of the sandbox: see local.h */
	bool proxied;     /* it came in by proxy_fd */
	bool idle;        /* its input may end; under the server's lock */
	struct peers *in; /* which list it is in; likewise */
	bool served;      /* it had a thread before */
	bool known;       /* to the epoll */
	int64_t until_ms; /* of clock_ms(): how long it may stay parked */
	char name[64];
};

/* How a server behaves. Strings outlive it. */
struct server_options {
	const char *listen;
	const char *domain, *cors_origins;
	bool insecure; /* any address and Host name, without authentication */
	const char *jwt_public_key, *api_key, *auth_token;
	const char *key_hint; /* which key it is and where: for who has none; may be NULL */
	int64_t ticket_ttl_ms;
	const char *home;    /* where the product's own files are: web/, node_modules/, .venv/ */
	const char *scratch; /* where uploads are spooled */
	int64_t max_head, max_body, max_upload, max_connections;
	int64_t idle_ms, head_ms, body_ms, send_ms;
	int64_t upstream_ms; /* for an upstream to begin its answer */
};

/* What people without credentials are shown: a page that asks for a key and leads back. False: there is
 * none. */
typedef bool server_ask_key(const char *prefix, const char *back, struct answer *ret,
			    struct buf *ret_page);

struct server {
	const struct server_options *options;
	const struct config *config; /* what handlers go by; set by who starts the server */
	server_ask_key *ask_key;     /* likewise; NULL: people get the same errors as programs */
	/* Likewise: begins what is to be done before the server stops, while it still serves. A descriptor
	 * that becomes readable when that is done; -1: nothing is. NULL: there never is. */
	int (*ending)(struct server *server);
	const char *offline_hint; /* likewise; for calls during which a name was refused */
	const struct route_group *const *groups;
	struct auth *auth;
	struct router router;
	struct http_limits limits;
	const char *home;
	char url[300]; /* where it listens */
	int listen_fd, stop_fd, epoll_fd;
	struct guard guard; /* of its own listener */
	int offline_fd;     /* where names are answered, see offline.h; -1: nowhere */
	/* The sandbox's programs speak to a forward proxy there, see server_open_proxy(); -1: closed */
	_Atomic int proxy_fd;
	void (*serve_proxied)(struct conn *conn); /* one request of theirs; set with it */
	size_t proxied;                           /* how many are connected; under the lock */
	bool local;                               /* a Unix socket: no browser comes directly */
	bool loopback;                            /* reachable from this machine only */
	char *socket_path;                        /* to be removed at the end */
	struct local inside;                      /* for the sandbox's own programs */
	_Atomic bool stopping;
	int signal;         /* which one ended server_run() */
	int64_t stop_by_ms; /* of clock_ms(): until when requests may go on after it */
	_Atomic uint64_t accepted, refused;
	bool starved;      /* the last accept() found no descriptor, which was told */
	int64_t accept_ms; /* when to try again; 0: now */
	int64_t retry_ms;  /* when to ask for a thread again */
	int64_t started_ms;
	struct workers workers;
	pthread_mutex_t lock;   /* of what follows */
	struct waiter *waiters; /* for the end of the last connection */
	/* Those parked first come first. Those who wait have asked, but there was no thread to be had:
	 * only the thread of server_run() changes that list. */
	struct peers busy, parked, waiting;
	size_t peer_count, parked_count; /* parked: not busy */
};

/* groups ends with NULL. options and groups must outlive the server. */
int server_init(struct server *server, const struct server_options *options,
		const struct route_group *const *groups, struct err *err);

/* Opens what options->listen names. Refuses an address that is not loopback while there is no
 * authentication, unless options->insecure. */
int server_listen(struct server *server, struct err *err);

/* Serves until SIGTERM or SIGINT (which the caller has blocked in all threads), then stops
 * accepting, gives running requests 5 s, and returns when all connections are closed. False: some
 * are not, their threads still use the server, and only the end of the process ends them. */
bool server_run(struct server *server);

void server_done(struct server *server);

/* Has it serve a forward proxy, too, at a port of 127.0.0.1 and for the sandbox's own programs alone. At any
 * time, by one thread at a time. -1: the port is taken, or there is no user to admit. */
int server_open_proxy(struct server *server, int port, void (*one)(struct conn *conn),
		      struct err *err);

/* Readable once the server stops. */
int server_stop_fd(const struct server *server);

/* How much there is of what clients cause, at this moment. */
struct server_load {
	size_t connections, parked, threads, idle_threads;
};
struct server_load server_load(struct server *server);
