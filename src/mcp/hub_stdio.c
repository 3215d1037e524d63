/* A program that speaks on its standard input and output, one message on a line. A thread of its own
 * reads it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
#include "proc/tree.h"
#include "proc/user.h"
#include "service/service.h"

enum { WRITE_MS = 10000 }; /* for a program to take a message */

struct hub_stdio_pending {
	struct hub_stdio_pending *next;
	json_int_t id;
	int event_fd;
	struct exchange *ex; /* to be told of progress; NULL: nobody */
	json_t *answer;
};

struct stdio_client {
	struct hub_client client; /* first */
	const char *name;
	struct service_run *run;
	struct buf line; /* of the reader alone */
	pthread_mutex_t write_lock;
	pthread_mutex_t lock; /* of what follows */
	struct hub_stdio_pending *pending;
	json_int_t next_id;
	bool over; /* the reader has ended, and with it the program */
	char reason[400];
};

/* ---- life ---- */

static void release(struct hub_client *client)
{
	struct stdio_client *c = (struct stdio_client *)client;
	buf_done(&c->line);
	pthread_mutex_destroy(&c->write_lock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* The end of its input is how it is asked to end. */
static void close_input(struct hub_client *client)
{
	struct stdio_client *c = (struct stdio_client *)client;
	pthread_mutex_lock(&c->write_lock);
	own_close(&c->run->in);
	c->run->in = -1;
	pthread_mutex_unlock(&c->write_lock);
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
	const struct wait wait = { clock_ms() + WRITE_MS, -1, c->run->end_fd };
	while (len) {
		ssize_t n = write(c->run->in, data, len);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return err_set(err, ERR_UNAVAILABLE, "%s does not read its input: %s",
				       c->name, strerror(errno));
		} else if (wait_fd(&wait, c->run->in, POLLOUT) != WAKE_READY) {
			return err_set(err, ERR_UNAVAILABLE, "%s does not read its input", c->name);
		}
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
	for (struct hub_stdio_pending *at = c->pending; at && !ex; at = at->next)
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
	for (struct hub_stdio_pending *at = c->pending; at && json_is_integer(id); at = at->next)
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
		heard = send_message(c, hub_answer(c->client.server, message), &err) == 0;
	else if (!strcmp(method, "notifications/progress"))
		relay_progress(c, json_object_get(message, "params"));
	else
		hub_told(&c->client, message);
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
	ssize_t n = read(c->run->out, data, sizeof data);
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

/* Ends what is left of it, and wakes those that wait. */
static void finish(struct stdio_client *c)
{
	const struct wait grace = { clock_ms() + HUB_GRACE_MS, -1, -1 };
	char why[sizeof c->reason];
	service_lost(c->run, *c->reason ? c->reason : NULL); /* first: who writes to it stops */
	close_input(&c->client);
	(void)program_wait(c->run->program, &grace, NULL);
	program_end(c->run->program, 0, NULL);
	service_why(c->run, why, sizeof why);
	say_why(c, why);
	pthread_mutex_lock(&c->lock);
	c->over = true;
	for (struct hub_stdio_pending *at = c->pending; at; at = at->next)
		(void)eventfd_write(at->event_fd, 1);
	pthread_mutex_unlock(&c->lock);
}

static void *reader(void *arg)
{
	struct stdio_client *c = arg;
	struct service_run *run = c->run;
	struct wait wait = { INT64_MAX, -1, run->end_fd };
	for (;;) {
		struct pollfd fds[] = { { .fd = run->out, .events = POLLIN },
					{ .fd = program_fd(run->program), .events = POLLIN } };
		enum wake wake = wait_stream(&wait, fds, COUNT(fds));
		if (wake == WAKE_STOPPING && !run->unwanted)
			/* The program has ended; what it has written is still to be read. */
			wait = (struct wait){ clock_ms() + HUB_GRACE_MS, -1, -1 };
		else if (wake != WAKE_READY || !fds[0].revents || !take_output(c))
			break;
	}
	finish(c);
	OPENSSL_thread_stop();
	service_run_unref(run);
	return NULL;
}

/* ---- requests ---- */

static struct hub_stdio_pending *add_pending(struct stdio_client *c, int fd, struct exchange *ex)
{
	struct hub_stdio_pending *pending = xcalloc(1, sizeof *pending);
	pending->event_fd = fd;
	pending->ex = ex && ex->token ? ex : NULL;
	pthread_mutex_lock(&c->lock);
	pending->id = ++c->next_id;
	pending->next = c->pending;
	c->pending = pending;
	pthread_mutex_unlock(&c->lock);
	return pending;
}

/* Takes the answer, if there is one; *ret_why is the reason for none. */
static json_t *remove_pending(struct stdio_client *c, struct hub_stdio_pending *pending,
			      char *ret_why, size_t room)
{
	pthread_mutex_lock(&c->lock);
	for (struct hub_stdio_pending **at = &c->pending; *at; at = &(*at)->next)
		if (*at == pending) {
			*at = pending->next;
			break;
		}
	snprintf(ret_why, room, "%s", c->reason);
	pthread_mutex_unlock(&c->lock);
	json_t *answer = pending->answer;
	free(pending);
	return answer;
}

/* Waits for an answer, or the end of the program: false when it was cancelled, the server stops, or
 * time is over. */
static bool await(struct stdio_client *c, struct hub_stdio_pending *pending, struct exchange *ex,
		  int64_t timeout_ms)
{
	const struct wait wait = { clock_ms() + timeout_ms, ex ? ex->cancel_fds[0] : -1,
				   server_stop_fd(c->client.server) };
	for (bool came = false; !came;) {
		if (wait_event(&wait, pending->event_fd) != WAKE_READY)
			return false;
		pthread_mutex_lock(&c->lock);
		came = pending->answer || c->over;
		pthread_mutex_unlock(&c->lock);
	}
	return true;
}

static json_t *request(struct hub_client *client, const char *method, const json_t *params,
		       struct exchange *ex, int64_t timeout_ms, struct err *err)
{
	struct stdio_client *c = (struct stdio_client *)client;
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct hub_stdio_pending *pending = add_pending(c, fd, ex);
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
	} else if (came) {
		err_set(err, ERR_UNAVAILABLE, "the MCP server %s failed: %s", c->name, why);
	} else if (told) {
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

static int open_pipes(struct service_run *run, int theirs[2], struct err *err)
{
	int *ours[2] = { &run->in, &run->out };
	for (int i = 0; i < 2; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_set(err, ERR_LIMIT, "no pipes for an MCP server: %s",
				       strerror(errno));
		theirs[i] = ends[i == 0 ? 0 : 1];
		*ours[i] = ends[i == 0 ? 1 : 0];
		fcntl(*ours[i], F_SETFL, O_NONBLOCK);
	}
	return 0;
}

int hub_stdio_prepare(struct server *server, const struct hub_spec *spec, struct service_run *run,
		      struct service_start *start, struct err *err)
{
	enum { MARKER_MAX = 112 };
	const struct user *user = user_sandbox(server->config->user, err);
	struct spawn *spawn = &start->program.spawn;
	char *marker = arena_alloc(start->arena, MARKER_MAX);
	size_t count = 0;
	if (!user || open_pipes(run, spawn->fds, err) < 0)
		return -1;
	while (spec->args && spec->args[count])
		count++;
	char **argv = arena_alloc(start->arena, (count + 2) * sizeof *argv);
	argv[0] = (char *)spec->command;
	for (size_t i = 0; i < count; i++)
		argv[i + 1] = spec->args[i];
	argv[count + 1] = NULL;
	spawn->argv = argv;
	spawn->cwd = spec->cwd ? spec->cwd : server->config->workspace;
	tree_marker(marker, MARKER_MAX, spec->name);
	start->program.marker = marker;
	spawn_sandboxed(spawn, start->arena, user, server->home, marker,
			&(struct list){ spec->env_count, spec->env });
	return 0;
}

struct hub_client *hub_stdio_open(const struct hub_client *from, struct err *err)
{
	static const struct hub_client_ops ops = { request, notify, close_input, release };
	struct stdio_client *c = xcalloc(1, sizeof *c);
	*c = (struct stdio_client){ .client = *from,
				    .name = from->spec->name,
				    .run = service_run_ref(from->run),
				    .line = BUF(HUB_MESSAGE_MAX) };
	c->client.ops = &ops;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->write_lock, NULL);
	if (thread_start(reader, c) == 0)
		return &c->client;
	release(&c->client);
	service_run_unref(from->run);
	err_set(err, ERR_LIMIT, "no thread for an MCP server");
	return NULL;
}
