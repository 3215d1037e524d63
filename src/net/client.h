/* client.h - a small blocking HTTP client: one connection, one request after the other. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/http.h"

struct dial_wait;
struct err;

struct client {
	int fd;
	struct http http; /* http.head is the answer's */
	struct http_limits limits;
	char authority[300];
	const struct dial_wait *wait;
	char *absolute; /* "http://authority", which a proxy wants to see before the target; or NULL */
	char *proxy_authorization; /* or NULL */
	const char *via;           /* who asks a proxy; NULL: not said */
};

/* Connects to "http://host:port", "https://host:port" or "unix:PATH". -1 with ERR_UNAVAILABLE,
 * ERR_INVALID, ERR_SLOW. Each call ends with ERR_SLOW once wait says so; NULL: an answer may take as
 * long as it likes. wait must outlive the client. */
int client_open(struct client *client, const char *url, const struct dial_wait *wait,
		struct err *err);

/* Has the proxy that fd is connected to connect further. The status of its answer, behind which http may hold
 * more that came; -1. */
int client_tunnel(struct client *client, const char *host, int port, struct err *err);

/* The same for the world outside: through the proxy that the environment names, if it does. */
int client_open_out(struct client *client, const char *url, const struct dial_wait *wait,
		    struct err *err);
void client_close(struct client *client);

/* What is sent behind a body: a file from its beginning, and then the tail. */
struct client_file {
	int fd;
	int64_t size;
	const char *tail;
};

struct client_request {
	const char *method, *target;
	const char *const *headers; /* "Name: value", up to a NULL; may be NULL */
	const char *type;           /* of the body; NULL: JSON */
	const void *body;           /* NULL: none */
	size_t len;
	const struct client_file *file; /* NULL: none */
};

/* Sends a request and reads the head of its answer: the status, or -1. Of a file no more is sent once
 * there is an answer. */
int client_ask(struct client *client, const struct client_request *request, struct err *err);

/* Some of the answer's body: how much, 0 at its end, -1. */
ssize_t client_read(struct client *client, void *to, size_t room, struct err *err);

/* All of it, with a NUL behind; free() it. NULL with err, beyond max too. */
char *client_body(struct client *client, size_t max, size_t *ret_len, struct err *err);
