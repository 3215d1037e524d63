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

/* How to reach a server. */
struct hub_spec {
	const char *name;
	const char *command; /* of a program; NULL: a URL */
	char *const *args;   /* beyond the command; ends with NULL */
	const char *cwd;     /* NULL: the workspace */
	const char *url;
	const struct pair *env, *headers;
	size_t env_count, header_count;
	int64_t idle_ms;               /* a program that nobody used for so long is ended */
	const _Atomic bool *abandoned; /* nobody wants it any more: requests fail */
};

/* What is told of a client while there is one. arg is released with it. */
struct hub_events {
	void (*tools_changed)(void *arg);
	void (*ended)(void *arg, struct hub_client *client); /* it cannot be used any more */
	void (*release)(void *arg);
	void *arg;
};

enum { HUB_MESSAGE_MAX = 16 << 20 };

struct hub_client_ops {
	/* Sends a request and waits for its result: new, or NULL with err. params is borrowed. ex, when
	 * not NULL, may cancel it, and is told of progress. */
	json_t *(*request)(struct hub_client *client, const char *method, const json_t *params,
			   struct exchange *ex, int64_t timeout_ms, struct err *err);
	int (*notify)(struct hub_client *client, const char *method, struct err *err);
	bool (*alive)(struct hub_client *client); /* can still be used */
	void (*unref)(struct hub_client *client);
};

struct hub_client {
	const struct hub_client_ops *ops;
	_Atomic int refs;
};

/* NULL with err, and then nothing is released. Not initialized yet. */
struct hub_client *hub_stdio_start(struct server *server, const struct hub_spec *spec,
				   const struct hub_events *events, struct err *err);
struct hub_client *hub_http_start(struct server *server, const struct hub_spec *spec,
				  const struct hub_events *events, struct err *err);

/* The program that a command names, as the sandbox user would find it: in the arena, or NULL. */
const char *hub_stdio_find(struct server *server, const char *command, struct arena *arena);

/* Counts the threads that read programs; with 0, waits until there is none. */
void hub_stdio_count(int more);

/* The result of a JSON-RPC answer: new, or NULL with the error's message in err. */
json_t *hub_result(const char *name, const json_t *answer, struct err *err);

/* What a server asks of us: an answer, new. */
json_t *hub_answer(struct server *server, const json_t *request);

/* What a server tells us, unasked. */
void hub_told(const char *name, const json_t *message, const struct hub_events *events);
