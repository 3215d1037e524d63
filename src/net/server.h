/* server.h - a listening server: it accepts, gives each connection a thread, and stops in order. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"
#include "net/local.h"
#include "net/route.h"

struct auth;
struct config;
struct conn;
struct err;

struct server {
	const struct config *config;
	const struct route_group *const *groups;
	struct auth *auth;
	struct router router;
	struct http_limits limits;
	char home[4096]; /* where the product's own files are: web/, node_modules/, .venv/ */
	char url[300];   /* where it listens */
	int listen_fd, stop_fd;
	bool local;          /* a Unix socket: no browser comes directly */
	char *socket_path;   /* to be removed at the end */
	struct local inside; /* for the sandbox's own programs */
	_Atomic bool stopping;
	int signal;         /* which one ended server_run() */
	int64_t stop_by_ms; /* of clock_ms(): until when requests may go on after it */
	_Atomic uint64_t accepted, refused;
	bool starved; /* the last accept() found no descriptor, which was told */
	int64_t started_ms;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t empty;
	struct conn *conns;
	size_t conn_count;
};

/* groups ends with NULL. config and groups must outlive the server. */
int server_init(struct server *server, const struct config *config,
		const struct route_group *const *groups, struct err *err);

/* Opens what config->listen names. Refuses an address that is not loopback while there is no
 * authentication, unless config->insecure. */
int server_listen(struct server *server, struct err *err);

/* Serves until SIGTERM or SIGINT (which the caller has blocked in all threads), then stops
 * accepting, gives running requests 5 s, and returns when all connections are closed. False: some
 * are not, their threads still use the server, and only the end of the process ends them. */
bool server_run(struct server *server);

void server_done(struct server *server);

/* Readable once the server stops. */
int server_stop_fd(const struct server *server);

/* For connections: joins the server's list, leaves it, and says that its thread is done. */
void server_add(struct server *server, struct conn *conn);
void server_remove(struct server *server, struct conn *conn);
void server_leave(struct server *server);
size_t server_conn_count(struct server *server);
