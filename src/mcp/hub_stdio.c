/* A program that speaks on its standard input and output, one message on a line. A thread of its own
 * reads it, notices its end, and ends it when nobody has used it for a while. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/hub_client.h"
#include "net/server.h"
#include "proc/environment.h"
#include "proc/program.h"
#include "proc/tree.h"
#include "proc/user.h"

enum {
	WRITE_MS = 10000, /* for a program to take a message */
	GRACE_MS = 1000,  /* to end by itself when its input ends */
};

struct pending {
	struct pending *next;
	json_int_t id;
	int event_fd;
	struct exchange *ex; /* to be told of progress; NULL: nobody */
	json_t *answer;
};

struct stdio_client {
	struct hub_client client; /* first */
	struct server *server;
	char *name;
	struct hub_events events;
	struct program *program;
	int in, out; /* its standard descriptors, from our side */
	int wake_fd; /* tells the reader to end it */
	int64_t idle_ms;
	const _Atomic bool *abandoned;
	struct buf line; /* of the reader alone */
	_Atomic int holders;
	bool started;
	_Atomic bool dead;   /* it takes no more requests */
	_Atomic bool buried; /* and it is known why */
	pthread_mutex_t write_lock;
	pthread_mutex_t lock; /* of what follows */
	struct pending *pending;
	json_int_t next_id;
	int64_t used_ms;
	char reason[400];
};

/* ---- life ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t none;
	int count;
} readers = { .lock = PTHREAD_MUTEX_INITIALIZER, .none = PTHREAD_COND_INITIALIZER };

void hub_stdio_count(int more)
{
	pthread_mutex_lock(&readers.lock);
	readers.count += more;
	if (!readers.count)
		pthread_cond_broadcast(&readers.none);
	while (!more && readers.count)
		pthread_cond_wait(&readers.none, &readers.lock);
	pthread_mutex_unlock(&readers.lock);
}

/* Two hold it: all its users together, and its reader. */
static void release(struct stdio_client *c)
{
	if (atomic_fetch_sub(&c->holders, 1) > 1)
		return;
	int fds[] = { c->in, c->out, c->wake_fd };
	for (size_t i = 0; i < COUNT(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (c->started)
		c->events.release(c->events.arg);
	program_unref(c->program);
	buf_done(&c->line);
	pthread_mutex_destroy(&c->write_lock);
	pthread_mutex_destroy(&c->lock);
	free(c->name);
	free(c);
}

static void unref(struct hub_client *client)
{
	struct stdio_client *c = (struct stdio_client *)client;
	if (atomic_fetch_sub(&client->refs, 1) > 1)
		return;
	(void)eventfd_write(c->wake_fd, 1); /* nobody will use it: the reader ends it */
	release(c);
}

static bool alive(struct hub_client *client)
{
	return !((struct stdio_client *)client)->dead;
}

static void say_why(struct stdio_client *c, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!*c->reason)
		snprintf(c->reason, sizeof c->reason, "%.*s", (int)sizeof c->reason - 1, why);
	pthread_mutex_unlock(&c->lock);
}

/* ---- writing ---- */

/* Nobody waits for a program that is to be ended. */
static int write_all(struct stdio_client *c, const char *data, size_t len, struct err *err)
{
	int64_t until = clock_ms() + WRITE_MS;
	while (len) {
		ssize_t n = write(c->in, data, len);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		struct pollfd pfds[] = { { .fd = c->in, .events = POLLOUT },
					 { .fd = c->wake_fd, .events = POLLIN } };
		int64_t left = until - clock_ms();
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(err, ERR_UNAVAILABLE, "%s does not read its input: %s",
				       c->name, strerror(errno));
		if (left > 0 && !c->dead)
			poll(pfds, COUNT(pfds), left < 200 ? (int)left : 200);
		if (left <= 0 || c->dead || pfds[1].revents)
			return err_set(err, ERR_UNAVAILABLE, "%s does not read its input", c->name);
	}
	return 0;
}

/* Takes the message over. */
static int send_message(struct stdio_client *c, json_t *message, struct err *err)
{
	struct jw jw;
	jw_init(&jw, HUB_MESSAGE_MAX);
	jw_json(&jw, message);
	json_decref(message);
	int result;
	if (jw_failed(&jw) || buf_str(&jw.out, "\n") < 0) {
		result = err_set(err, ERR_TOO_LARGE, "the arguments are too large");
	} else {
		pthread_mutex_lock(&c->write_lock);
		result = write_all(c, jw.out.data, jw.out.len, err);
		pthread_mutex_unlock(&c->write_lock);
	}
	jw_done(&jw);
	return result;
}

/* ---- reading ---- */

static void relay_progress(struct stdio_client *c, const json_t *params)
{
	const json_t *token = json_object_get(params, "progressToken");
	struct exchange *ex = NULL;
	pthread_mutex_lock(&c->lock);
	for (struct pending *at = c->pending; at && !ex; at = at->next)
		if (at->ex && json_is_integer(token) && json_integer_value(token) == at->id)
			ex = exchange_ref(at->ex);
	pthread_mutex_unlock(&c->lock);
	if (!ex)
		return;
	exchange_progress(ex, json_number_value(json_object_get(params, "progress")),
			  json_number_value(json_object_get(params, "total")),
			  json_string_value(json_object_get(params, "message")));
	exchange_unref(ex);
}

/* Gives an answer away to whoever waits for it; one that nobody waits for is dropped. */
static void deliver(struct stdio_client *c, json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	pthread_mutex_lock(&c->lock);
	for (struct pending *at = c->pending; at && json_is_integer(id); at = at->next)
		if (at->id == json_integer_value(id) && !at->answer) {
			at->answer = TAKE(message);
			(void)eventfd_write(at->event_fd, 1);
			break;
		}
	pthread_mutex_unlock(&c->lock);
	json_decref(message);
}

/* Takes the message over. False when it asks, and does not hear the answer. */
static bool take_message(struct stdio_client *c, json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	struct err err;
	bool heard = true;
	if (!method) {
		deliver(c, message);
		return true;
	}
	if (json_object_get(message, "id"))
		heard = send_message(c, hub_answer(c->server, message), &err) == 0;
	else if (!strcmp(method, "notifications/progress"))
		relay_progress(c, json_object_get(message, "params"));
	else
		hub_told(c->name, message, &c->events);
	json_decref(message);
	if (!heard)
		say_why(c, err.msg);
	return heard;
}

/* What is no message is what programs print by mistake: it is passed over. */
static bool take_line(struct stdio_client *c)
{
	struct buf *line = &c->line;
	bool heard = true;
	json_t *message = line->len && memchr(line->data, '{', line->len)
				  ? json_parse(line->data, line->len, NULL)
				  : NULL;
	if (json_is_object(message))
		heard = take_message(c, message);
	else
		json_decref(message);
	line->len = 0;
	return heard;
}

/* False when it cannot go on. */
static bool take_output(struct stdio_client *c)
{
	char data[65536];
	ssize_t n = read(c->out, data, sizeof data);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	for (const char *at = data, *end = data + n; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (buf_add(&c->line, at, (size_t)((stop ? stop : end) - at)) < 0) {
			say_why(c, "it sent a message larger than 16 MiB");
			return false;
		}
		if (stop && !take_line(c))
			return false;
		at = stop ? stop + 1 : end;
	}
	return true;
}

/* One who holds it beside the hub is about to ask something. */
static bool is_idle(struct stdio_client *c)
{
	pthread_mutex_lock(&c->lock);
	bool idle = !c->pending && c->client.refs <= 1 && clock_ms() - c->used_ms >= c->idle_ms;
	pthread_mutex_unlock(&c->lock);
	return idle;
}

/* Ends what is left of it, and tells those that wait. */
static void finish(struct stdio_client *c)
{
	const struct wait grace = { clock_ms() + GRACE_MS, -1, -1 };
	struct program_status how;
	char words[251];
	c->dead = true;
	pthread_mutex_lock(&c->write_lock);
	close(TAKE_FD(c->in));
	pthread_mutex_unlock(&c->write_lock);
	(void)program_wait(c->program, &grace, NULL);
	program_end(c->program, 0, &how);
	program_words(c->program, words, sizeof words);
	pthread_mutex_lock(&c->lock);
	if (!*c->reason)
		snprintf(c->reason, sizeof c->reason, "it ended with exit code %d%s%s", how.code,
			 *words ? ": " : "", words);
	c->buried = true;
	for (struct pending *at = c->pending; at; at = at->next)
		(void)eventfd_write(at->event_fd, 1);
	pthread_mutex_unlock(&c->lock);
}

static void *reader(void *arg)
{
	struct stdio_client *c = arg;
	struct pollfd pfds[] = { { .fd = c->out, .events = POLLIN },
				 { .fd = program_fd(c->program), .events = POLLIN },
				 { .fd = c->wake_fd, .events = POLLIN } };
	for (;;) {
		if (poll(pfds, COUNT(pfds), (int)(c->idle_ms < 1000 ? c->idle_ms : 1000)) < 0 &&
		    errno != EINTR)
			break;
		if (pfds[0].revents && !take_output(c))
			break;
		if ((pfds[1].revents && !pfds[0].revents) || pfds[2].revents)
			break;
		if (is_idle(c)) {
			say_why(c, "it was idle");
			break;
		}
	}
	finish(c);
	c->events.ended(c->events.arg, &c->client);
	release(c);
	OPENSSL_thread_stop();
	hub_stdio_count(-1);
	return NULL;
}

/* ---- requests ---- */

static struct pending *add_pending(struct stdio_client *c, int fd, struct exchange *ex)
{
	struct pending *pending = xcalloc(1, sizeof *pending);
	pending->event_fd = fd;
	pending->ex = ex && ex->token ? ex : NULL;
	pthread_mutex_lock(&c->lock);
	pending->id = ++c->next_id;
	pending->next = c->pending;
	c->pending = pending;
	c->used_ms = clock_ms();
	pthread_mutex_unlock(&c->lock);
	return pending;
}

/* Takes the answer, if there is one; *ret_why is the reason for none. */
static json_t *remove_pending(struct stdio_client *c, struct pending *pending, char *ret_why,
			      size_t room)
{
	pthread_mutex_lock(&c->lock);
	for (struct pending **at = &c->pending; *at; at = &(*at)->next)
		if (*at == pending) {
			*at = pending->next;
			break;
		}
	c->used_ms = clock_ms();
	snprintf(ret_why, room, "%s", c->reason);
	pthread_mutex_unlock(&c->lock);
	json_t *answer = pending->answer;
	free(pending);
	return answer;
}

/* Waits for an answer: false when it was cancelled, the server stops, or time is over. */
static bool await(struct stdio_client *c, struct pending *pending, struct exchange *ex,
		  int64_t timeout_ms)
{
	int64_t until = clock_ms() + timeout_ms;
	while (!c->buried && !*c->abandoned && clock_ms() < until) {
		/* Its end may come between the look at it and the wait. */
		int64_t look = clock_ms() + 500;
		const struct wait wait = { look < until ? look : until, ex ? ex->cancel_fds[0] : -1,
					   server_stop_fd(c->server) };
		enum wake wake = wait_event(&wait, pending->event_fd);
		if (wake > WAKE_TIMEOUT)
			return false;
		pthread_mutex_lock(&c->lock);
		bool came = pending->answer != NULL;
		pthread_mutex_unlock(&c->lock);
		if (came)
			return true;
	}
	return c->buried;
}

static json_t *request(struct hub_client *client, const char *method, const json_t *params,
		       struct exchange *ex, int64_t timeout_ms, struct err *err)
{
	struct stdio_client *c = (struct stdio_client *)client;
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct pending *pending = add_pending(c, fd, ex);
	json_int_t id = pending->id;
	json_t *sent = params ? json_deep_copy(params) : json_object();
	char why[400];
	if (pending->ex)
		json_object_set_new(sent, "_meta", json_pack("{s:I}", "progressToken", id));
	bool told = send_message(c,
				 json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", id,
					   "method", method, "params", sent),
				 err) == 0;
	bool came = told && await(c, pending, ex, timeout_ms);
	json_t *answer = remove_pending(c, pending, why, sizeof why), *result = NULL;
	if (answer) {
		result = hub_result(c->name, answer, err);
		json_decref(answer);
	} else if (c->dead && told) {
		err_set(err, ERR_UNAVAILABLE, "the MCP server %s failed: %s", c->name, why);
	} else if (told && !came) {
		struct err ignored;
		bool cancelled = ex && ex->cancelled;
		(void)send_message(c,
				   json_pack("{s:s,s:s,s:{s:I}}", "jsonrpc", "2.0", "method",
					     "notifications/cancelled", "params", "requestId", id),
				   &ignored);
		err_set(err, ERR_SLOW,
			cancelled
				? "the call of the MCP server %s was cancelled after at most %lld s"
				: "the MCP server %s did not answer within %lld s",
			c->name, (long long)(timeout_ms / 1000));
	}
	return result;
}

static int notify(struct hub_client *client, const char *method, struct err *err)
{
	return send_message((struct stdio_client *)client,
			    json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", method), err);
}

/* ---- starting ---- */

const char *hub_stdio_find(struct server *server, const char *command, struct arena *arena)
{
	struct err ignored;
	const struct user *user = user_sandbox(server->config->user, &ignored);
	if (!user)
		return NULL;
	if (strchr(command, '/'))
		return access(command, X_OK) == 0 ? command : NULL;
	char **env = environment_make(arena, user, server->home, NULL);
	for (; *env; env++)
		if (!strncmp(*env, "PATH=", 5))
			break;
	for (const char *at = *env ? *env + 5 : ""; *at;) {
		size_t n = strcspn(at, ":");
		const char *path = arena_printf(arena, "%.*s/%s", (int)n, at, command);
		if (n && access(path, X_OK) == 0)
			return path;
		at += n + (at[n] == ':');
	}
	return NULL;
}

static struct program *start_program(struct server *server, const struct hub_spec *spec, int in,
				     int out, struct err *err)
{
	struct arena arena = { 0 };
	struct program *program = NULL;
	const struct user *user = user_sandbox(server->config->user, err);
	const char *path = user ? hub_stdio_find(server, spec->command, &arena) : NULL;
	char marker[112];
	size_t count = 0;
	while (spec->args && spec->args[count])
		count++;
	char **argv = arena_alloc(&arena, (count + 2) * sizeof *argv);
	argv[0] = (char *)spec->command;
	for (size_t i = 0; i < count; i++)
		argv[i + 1] = spec->args[i];
	tree_marker(marker, sizeof marker, spec->name);
	if (path) {
		struct program_spec it = {
			.spawn = { .path = path,
				   .argv = argv,
				   .cwd = spec->cwd ? spec->cwd : server->config->workspace,
				   .fds = { in, out, -1 } },
			.marker = marker,
			.words = true,
		};
		spawn_sandboxed(&it.spawn, &arena, user, server->home, marker,
				&(struct list){ spec->env_count, spec->env });
		program = program_start(&it, err);
	} else if (user) {
		err_set(err, ERR_UNAVAILABLE, "the program '%s' is not installed", spec->command);
	}
	arena_done(&arena);
	return program;
}

static int open_pipes(struct stdio_client *c, int fds[2], struct err *err)
{
	int *ours[2] = { &c->in, &c->out };
	for (int i = 0; i < 2; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_set(err, ERR_LIMIT, "no pipes for an MCP server: %s",
				       strerror(errno));
		fds[i] = ends[i == 0 ? 0 : 1];
		*ours[i] = ends[i == 0 ? 1 : 0];
		fcntl(*ours[i], F_SETFL, O_NONBLOCK);
	}
	return 0;
}

struct hub_client *hub_stdio_start(struct server *server, const struct hub_spec *spec,
				   const struct hub_events *events, struct err *err)
{
	static const struct hub_client_ops ops = { request, notify, alive, unref };
	struct stdio_client *c = xcalloc(1, sizeof *c);
	int fds[2] = { -1, -1 };
	*c = (struct stdio_client){ .client = { &ops, 1 },
				    .holders = 1,
				    .server = server,
				    .name = xstrdup(spec->name),
				    .events = *events,
				    .in = -1,
				    .out = -1,
				    .idle_ms = spec->idle_ms,
				    .abandoned = spec->abandoned,
				    .line = BUF(HUB_MESSAGE_MAX),
				    .used_ms = clock_ms(),
				    .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->write_lock, NULL);
	if (open_pipes(c, fds, err) == 0)
		c->program = start_program(server, spec, fds[0], fds[1], err);
	int result = c->program ? 0 : -1;
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (result == 0) {
		hub_stdio_count(1);
		c->started = true;
		c->holders++;
		if (thread_start(reader, c) != 0) {
			hub_stdio_count(-1);
			c->started = false;
			c->holders--;
			finish(c);
			result = err_set(err, ERR_LIMIT, "no thread for an MCP server");
		}
	}
	if (result == 0)
		return &c->client;
	unref(&c->client);
	return NULL;
}
