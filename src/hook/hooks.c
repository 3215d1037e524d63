#include "hook/hooks.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/turn.h"
#include "base/wait.h"
#include "config/config.h"
#include "hook/hook.h"
#include "net/server.h"
#include "service/ready.h"

/* AIO Sandbox's hub and API have ports of their own there. Here this server is both. */
enum { AIO_HUB_PORT = 8079, AIO_API_PORT = 8091, PORTS_MAX = 64 };

static struct {
	pthread_mutex_t lock; /* of what follows up to `waits` */
	struct shutdown_hook
		all[HOOKS_MAX]; /* of the API; in the order of their first registration */
	size_t count;
	char waits[64];   /* "port 3000"; "": ready */
	struct turn turn; /* who runs those for the end */
	struct server *server;
	void (*ready)(const struct server *server);
	pthread_t start_thread, end_thread;
	bool starting, ending; /* those threads are there */
	int end_fd;
} hooks = { .lock = PTHREAD_MUTEX_INITIALIZER, .turn = TURN, .end_fd = -1 };

static bool is_given(const char *command)
{
	return command && command[strspn(command, " \t\r\n")];
}

/* ---- the start ---- */

static bool run_start(struct server *server, const char *name, const char *event,
		      const char *command, int stop_fd)
{
	const struct hook hook = { name, event, command, server->config->hook_ms };
	const struct wait wait = { INT64_MAX, -1, stop_fd };
	struct pollfd stopping = { .fd = stop_fd, .events = POLLIN };
	if (!is_given(command) || poll(&stopping, 1, 0) > 0)
		return true;
	return hook_run(server, &hook, 1, &wait) == 0;
}

int hooks_begin(struct server *server, struct err *err)
{
	const struct config *config = server->config;
	if (!is_given(config->hook_init) && !is_given(config->hook_pre_services))
		return 0;
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	auto_close int stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	const char *failed = NULL;
	if (!run_start(server, "RUN_HOOK_INIT", "init", config->hook_init, stop_fd))
		failed = "RUN_HOOK_INIT";
	if (!(failed && config->hooks_strict) &&
	    !run_start(server, "RUN_HOOK_PRE_SERVICES", "pre_services", config->hook_pre_services,
		       stop_fd))
		failed = "RUN_HOOK_PRE_SERVICES";
	if (failed && config->hooks_strict)
		return err_set(err, ERR_UNAVAILABLE,
			       "%s has failed, and RUN_HOOKS_STRICT is set: see the log", failed);
	return 0;
}

/* 0: none any more. */
static void set_waits(int port)
{
	pthread_mutex_lock(&hooks.lock);
	*hooks.waits = 0;
	if (port)
		snprintf(hooks.waits, sizeof hooks.waits, "port %d", port);
	pthread_mutex_unlock(&hooks.lock);
}

bool hooks_pending(char *to, size_t room)
{
	pthread_mutex_lock(&hooks.lock);
	snprintf(to, room, "%s", hooks.waits);
	pthread_mutex_unlock(&hooks.lock);
	return *to;
}

/* The ports of WAIT_PORTS that are not this server's own. */
static size_t parse_ports(const struct config *config, int ports[PORTS_MAX])
{
	size_t count = 0;
	for (const char *at = config->wait_ports ? config->wait_ports : ""; *at;) {
		size_t len = strcspn(at, ", \t\n");
		char *end = (char *)at;
		long port = len && *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
		bool own = port == AIO_HUB_PORT || port == AIO_API_PORT ||
			   port == config->public_port;
		if (len && (end != at + len || port < 1 || port > 65535))
			log_warn("WAIT_PORTS: '%.*s' is not a port: it is not waited for", (int)len,
				 at);
		else if (len && !own && count < PORTS_MAX)
			ports[count++] = (int)port;
		at += len + (at[len] != 0);
	}
	return count;
}

static void wait_ports(struct server *server, const int *ports, size_t count)
{
	const struct wait wait = { clock_ms() + server->config->wait_ms, -1,
				   server_stop_fd(server) };
	for (size_t i = 0; i < count; i++) {
		set_waits(ports[i]);
		const struct ready ready = { .how = READY_TCP, .number = ports[i] };
		if (ready_wait(&ready, NULL, &wait) == WAKE_TIMEOUT)
			log_error(
				"WAIT_PORTS: nothing listens on port %d after %lld s (WAIT_TIMEOUT): "
				"the sandbox is taken for ready without it",
				ports[i], (long long)server->config->wait_ms / 1000);
	}
	set_waits(0);
}

static void *start_thread(void *arg)
{
	struct server *server = arg;
	int ports[PORTS_MAX];
	wait_ports(server, ports, parse_ports(server->config, ports));
	hooks.ready(server);
	(void)run_start(server, "RUN_HOOK_POST_READY", "post_ready",
			server->config->hook_post_ready, server_stop_fd(server));
	return NULL;
}

void hooks_ready(struct server *server, void (*ready)(const struct server *server))
{
	int ports[PORTS_MAX];
	hooks.server = server;
	hooks.ready = ready;
	size_t count = parse_ports(server->config, ports);
	if (count)
		set_waits(ports[0]);
	if (!count && !is_given(server->config->hook_post_ready)) {
		ready(server);
		return;
	}
	hooks.starting = thread_start_joinable(&hooks.start_thread, start_thread, server) == 0;
	if (hooks.starting)
		return;
	log_error("no thread to wait for WAIT_PORTS and to run RUN_HOOK_POST_READY");
	set_waits(0);
	ready(server);
}

/* ---- those of the end ---- */

static bool is_name(const char *name)
{
	size_t len = strlen(name);
	return len && len <= HOOKS_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
		       len;
}

static size_t find(const char *name)
{
	size_t i = 0;
	while (i < hooks.count && strcmp(hooks.all[i].name, name) != 0)
		i++;
	return i;
}

static void forget(const struct shutdown_hook *hook)
{
	free((char *)hook->name);
	free((char *)hook->command);
}

#define ENV_NAME "SANDBOX_SHUTDOWN_HOOKS"

int hooks_add(const struct shutdown_hook *hook, struct err *err)
{
	if (strcmp(hook->event, HOOKS_SHUTDOWN) != 0)
		return err_set(err, ERR_INVALID,
			       "unknown event '%.40s': hooks are for '" HOOKS_SHUTDOWN "'",
			       hook->event);
	if (!is_name(hook->name))
		return err_set(err, ERR_INVALID,
			       "invalid name '%.80s': expected 1 to %d letters, digits, '_' or '-'",
			       hook->name, HOOKS_NAME_MAX);
	if (!strcmp(hook->name, ENV_NAME))
		return err_set(err, ERR_CONFLICT, "the name '%s' is that of the environment's hook",
			       hook->name);
	int result = 0;
	pthread_mutex_lock(&hooks.lock);
	size_t at = find(hook->name);
	if (at == HOOKS_MAX) {
		result = err_set(err, ERR_LIMIT, "there are %d hooks already: remove one",
				 HOOKS_MAX);
	} else {
		if (at == hooks.count)
			hooks.count++;
		else
			forget(&hooks.all[at]);
		hooks.all[at] = *hook;
		hooks.all[at].event = HOOKS_SHUTDOWN;
		hooks.all[at].source = "api";
		hooks.all[at].name = xstrdup(hook->name);
		hooks.all[at].command = xstrdup(hook->command);
	}
	pthread_mutex_unlock(&hooks.lock);
	return result;
}

int hooks_remove(const char *name, struct err *err)
{
	bool of_env = !strcmp(name, ENV_NAME) && hooks.server &&
		      is_given(hooks.server->config->shutdown_hooks);
	if (of_env)
		return err_set(err, ERR_CONFLICT,
			       "the hook '%s' comes from the environment and cannot be removed",
			       name);
	pthread_mutex_lock(&hooks.lock);
	size_t at = find(name);
	bool found = at < hooks.count;
	if (found) {
		forget(&hooks.all[at]);
		memmove(&hooks.all[at], &hooks.all[at + 1],
			(hooks.count - at - 1) * sizeof *hooks.all);
		hooks.count--;
	}
	pthread_mutex_unlock(&hooks.lock);
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "there is no hook '%.80s'", name);
}

struct list hooks_list(struct arena *arena)
{
	const char *env = hooks.server ? hooks.server->config->shutdown_hooks : NULL;
	struct shutdown_hook *list = arena_alloc(arena, (HOOKS_MAX + 1) * sizeof *list);
	size_t count = 0;
	if (is_given(env)) /* first: what others do may need what it does, never the reverse */
		list[count++] =
			(struct shutdown_hook){ ENV_NAME, HOOKS_SHUTDOWN, env, "env", 10, 0 };
	pthread_mutex_lock(&hooks.lock);
	for (size_t i = 0; i < hooks.count; i++) {
		struct shutdown_hook hook = hooks.all[i];
		hook.name = arena_strdup(arena, hook.name);
		hook.command = arena_strdup(arena, hook.command);
		size_t at = count++;
		for (; at && list[at - 1].priority > hook.priority; at--)
			list[at] = list[at - 1];
		list[at] = hook;
	}
	pthread_mutex_unlock(&hooks.lock);
	return (struct list){ count, list };
}

/* Those of one priority, the first of the list: how many. */
static size_t run_equals(struct server *server, const struct shutdown_hook *list, size_t count,
			 const struct wait *wait)
{
	struct hook run[HOOKS_MAX + 1];
	size_t n = 0;
	for (; n < count && list[n].priority == list[0].priority; n++)
		run[n] = (struct hook){ list[n].name, HOOKS_SHUTDOWN, list[n].command,
					(int64_t)(list[n].timeout * 1000) };
	(void)hook_run(server, run, n, wait);
	return n;
}

void hooks_shutdown_now(struct server *server, const struct wait *wait)
{
	int64_t until_ms = clock_ms() + server->config->shutdown_ms;
	const struct wait own = { until_ms < wait->until_ms ? until_ms : wait->until_ms,
				  wait->client_fd, wait->stop_fd };
	struct arena arena = { 0 };
	const struct list all = hooks_list(&arena);
	const struct shutdown_hook *list = all.items;
	size_t done = 0;
	if (all.count && turn_take(&hooks.turn, &own, NULL) == 0) {
		while (done < all.count && wait_check(&own) == WAKE_READY)
			done += run_equals(server, list + done, all.count - done, &own);
		turn_give(&hooks.turn);
	}
	if (done < all.count)
		log_error(
			"%zu of %zu shutdown hooks were not run: the time for all of them was over, or "
			"a second signal came",
			all.count - done, all.count);
	arena_done(&arena);
}

static void *end_thread(void *arg)
{
	struct server *server = arg;
	hooks_shutdown_now(server, &(struct wait){ INT64_MAX, -1, server_stop_fd(server) });
	(void)eventfd_write(hooks.end_fd, 1);
	return NULL;
}

int hooks_shutdown(struct server *server)
{
	struct arena arena = { 0 };
	size_t count = hooks_list(&arena).count;
	arena_done(&arena);
	if (!count)
		return -1;
	hooks.end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	hooks.ending = hooks.end_fd >= 0 &&
		       thread_start_joinable(&hooks.end_thread, end_thread, server) == 0;
	if (!hooks.ending)
		log_error("no thread or descriptor to run the shutdown hooks");
	return hooks.ending ? hooks.end_fd : -1;
}

void hooks_end(void)
{
	if (hooks.starting)
		pthread_join(hooks.start_thread, NULL);
	if (hooks.ending)
		pthread_join(hooks.end_thread, NULL);
	own_close(&hooks.end_fd);
	while (hooks.count)
		forget(&hooks.all[--hooks.count]);
}
