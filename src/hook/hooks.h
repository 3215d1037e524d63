/* hooks.h - when hooks are run: those of the start, from the environment, and those of the end, from the
 * environment and the API. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct list;
struct server;
struct wait;

enum { HOOKS_MAX = 50, HOOKS_NAME_MAX = 64, HOOKS_COMMAND_MAX = 4096 };

/* One that is run when the sandbox ends: lower priorities first, equal ones side by side. */
struct shutdown_hook {
	const char *name, *event, *command, *source; /* source: "env" or "api" */
	double timeout;                              /* seconds */
	int64_t priority;
};
#define HOOKS_SHUTDOWN "shutdown"

/* RUN_HOOK_INIT and RUN_HOOK_PRE_SERVICES, before anything is started or served. SIGTERM and SIGINT, which
 * the caller has blocked, end them and stay pending. -1: one has failed, and RUN_HOOKS_STRICT is set. */
int hooks_begin(struct server *server, struct err *err);

/* Waits for WAIT_PORTS, calls ready(), and runs RUN_HOOK_POST_READY: in a thread where that takes time. */
void hooks_ready(struct server *server, void (*ready)(const struct server *server));

/* Whether the sandbox is not ready yet, and what it waits for. */
bool hooks_pending(char *to, size_t room);

/* Adds one, or replaces the one of its name that came from the API. */
int hooks_add(const struct shutdown_hook *hook, struct err *err);
int hooks_remove(const char *name, struct err *err);

/* All, in the order in which they run, in the arena: of struct shutdown_hook. */
struct list hooks_list(struct arena *arena);

/* Runs those for the end, while the server still serves: for the server before it stops (a descriptor that
 * becomes readable when they have ended; -1: there are none), and for a host that is to end the box. */
int hooks_shutdown(struct server *server);
void hooks_shutdown_now(struct server *server, const struct wait *wait);

/* Waits for the threads of both, once the server stops. */
void hooks_end(void);
