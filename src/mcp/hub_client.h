/* hub_client.h - a connection to one other MCP server: requests go out, results come back. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct exchange;
struct hub_client;
struct pair;
struct server;
struct service_run;
struct service_start;

/* How to reach a server. */
struct hub_spec {
	const char *name;
	const char *command; /* of a program; NULL: a URL */
	char *const *args;   /* beyond the command; ends with NULL */
	const char *cwd;     /* NULL: the workspace */
	const char *url;
	const struct pair *env, *headers;
	size_t env_count, header_count;
	int64_t idle_ms; /* a program that nobody used for so long is ended */
};

enum {
	HUB_MESSAGE_MAX = 16 << 20,
	HUB_GRACE_MS = 1000, /* for a program to end by itself when its input ends */
};

struct hub_client_ops {
	/* Sends a request and waits for its result: new, or NULL with err. params is borrowed. ex, when
	 * not NULL, may cancel it, and is told of progress. */
	json_t *(*request)(struct hub_client *client, const char *method, const json_t *params,
			   struct exchange *ex, int64_t timeout_ms, struct err *err);
	int (*notify)(struct hub_client *client, const char *method, struct err *err);
	void (*close)(struct hub_client *client); /* nobody will use it: NULL: nothing to do */
	void (*free)(struct hub_client *client);
};

/* The value of a run of the service that the server is: it lives as long as that, and a client that is
 * of no use any more says so by service_lost(). */
struct hub_client {
	const struct hub_client_ops *ops;
	struct service_run *run;
	struct server *server;
	const struct hub_spec *spec;
	void (*tools_changed)(void *arg); /* the run's */
};

/* Fills in what is to be started for a program. */
int hub_stdio_prepare(struct server *server, const struct hub_spec *spec, struct service_run *run,
		      struct service_start *start, struct err *err);

/* Makes the client of a run, of which `from` has all but ops. Not initialized yet. NULL with err. */
struct hub_client *hub_stdio_open(const struct hub_client *from, struct err *err);
struct hub_client *hub_http_open(const struct hub_client *from, struct err *err);

/* The program that a command names, as the sandbox user would find it: in the arena, or NULL. */
const char *hub_stdio_find(struct server *server, const char *command, struct arena *arena);

/* The result of a JSON-RPC answer: new, or NULL with the error's message in err. */
json_t *hub_result(const char *name, const json_t *answer, struct err *err);

/* What a server asks of us: an answer, new. */
json_t *hub_answer(struct server *server, const json_t *request);

/* What a server tells us, unasked. */
void hub_told(const struct hub_client *client, const json_t *message);
