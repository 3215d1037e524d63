#include "mcp/exchange.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "mcp/method.h"
#include "mcp/session.h"
#include "net/server.h"

enum { THREADS_MAX = 512, NOTICE_MAX = 1 << 20 };

const char *const exchange_levels[] = { "debug",    "info",  "notice",    "warning", "error",
					"critical", "alert", "emergency", NULL };

/* The exchanges that have threads of their own. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t fewer;
	struct exchange *first;
	int count;
} running = { .lock = PTHREAD_MUTEX_INITIALIZER, .fewer = PTHREAD_COND_INITIALIZER };

/* ---- life ---- */

static int rank_of(const char *level)
{
	for (int i = 0; level && exchange_levels[i]; i++)
		if (!strcmp(exchange_levels[i], level))
			return i;
	return RANK_NONE;
}

struct exchange *exchange_new(const struct exchange_from *from, struct mcp_stream *stream,
			      json_t *message)
{
	struct exchange *ex = xcalloc(1, sizeof *ex);
	ex->refs = 1;
	ex->from = *from;
	if (from->session)
		session_ref(from->session);
	ex->from.base_url = arena_strdup(&ex->arena, from->base_url ? from->base_url : "");
	ex->from.only = from->only ? arena_strdup(&ex->arena, from->only) : NULL;
	ex->from.within = from->within ? arena_strdup(&ex->arena, from->within) : NULL;
	ex->stream = stream_ref(stream);
	stream_expect(stream, 1);
	ex->message = message;
	ex->id = json_object_get(message, "id");
	ex->params = json_object_get(message, "params");
	ex->meta = json_object_get(ex->params, "_meta");
	ex->token = json_object_get(ex->meta, "progressToken");
	if (!json_is_string(ex->token) && !json_is_integer(ex->token))
		ex->token = NULL;
	ex->status = 200;
	ex->cancel_fds[0] = ex->cancel_fds[1] = -1;
	ex->started_ms = clock_ms();
	pthread_mutex_init(&ex->telling, NULL);
	ex->told = -INFINITY;
	if (from->revision >= MCP_2026_07_28) {
		ex->capabilities =
			json_object_get(ex->meta, "io.modelcontextprotocol/clientCapabilities");
		ex->log_level = rank_of(json_string_value(
			json_object_get(ex->meta, "io.modelcontextprotocol/logLevel")));
	} else {
		ex->capabilities = from->session ? session_capabilities(from->session) : NULL;
		ex->log_level = from->session ? session_log_level(from->session) : RANK_NONE;
	}
	return ex;
}

struct exchange *exchange_ref(struct exchange *ex)
{
	atomic_fetch_add(&ex->refs, 1);
	return ex;
}

void exchange_unref(struct exchange *ex)
{
	if (!ex || atomic_fetch_sub(&ex->refs, 1) > 1)
		return;
	for (int i = 0; i < 2; i++)
		if (ex->cancel_fds[i] >= 0)
			close(ex->cancel_fds[i]);
	stream_unref(ex->stream);
	json_decref(ex->message);
	json_decref(ex->error_data);
	arena_done(&ex->arena);
	if (ex->from.session)
		session_unref(ex->from.session);
	pthread_mutex_destroy(&ex->telling);
	free(ex);
}

void exchange_cancel(struct exchange *ex)
{
	if (atomic_exchange(&ex->cancelled, true))
		return;
	pthread_mutex_lock(&running.lock);
	if (ex->cancel_fds[1] >= 0)
		close(TAKE_FD(ex->cancel_fds[1]));
	pthread_mutex_unlock(&running.lock);
}

/* ---- the reply ---- */

void rpc_write_error(struct jw *jw, const json_t *id, int code, const char *text,
		     const json_t *data)
{
	jw_open(jw, '{');
	jw_key_str(jw, "jsonrpc", "2.0");
	jw_key(jw, "id");
	jw_json(jw, id);
	jw_key(jw, "error");
	jw_open(jw, '{');
	jw_key_int(jw, "code", code);
	jw_key_str(jw, "message", text);
	if (data) {
		jw_key(jw, "data");
		jw_json(jw, data);
	}
	jw_close(jw, '}');
	jw_close(jw, '}');
}

int exchange_fail(struct exchange *ex, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(ex->reason, sizeof ex->reason, format, args);
	va_end(args);
	ex->error = code;
	return -1;
}

/* The members that every result has in the revision without sessions. */
static void put_common(struct exchange *ex, const struct method *method)
{
	if (ex->from.revision < MCP_2026_07_28)
		return;
	jw_key_str(&ex->jw, "resultType", ex->result_type ? ex->result_type : "complete");
	if (!(method->flags & METHOD_CACHED))
		return;
	jw_key_int(&ex->jw, "ttlMs", method->ttl_ms);
	jw_key_str(&ex->jw, "cacheScope", "private");
}

static void serve(struct exchange *ex, const struct method *method)
{
	struct err err = { 0 };
	jw_init(&ex->jw, STREAM_REPLY_MAX);
	jw_open(&ex->jw, '{');
	jw_key_str(&ex->jw, "jsonrpc", "2.0");
	jw_key(&ex->jw, "id");
	jw_json(&ex->jw, ex->id);
	jw_key(&ex->jw, "result");
	jw_open(&ex->jw, '{');
	int result = method->serve(ex, &err);
	if (result < 0 && !ex->error)
		exchange_fail(ex,
			      err.code == ERR_INVALID || err_status(err.code) < 500 ? RPC_PARAMS
										    : RPC_INTERNAL,
			      "%s", err.msg);
	if (result == 0) {
		put_common(ex, method);
		jw_close(&ex->jw, '}');
		jw_close(&ex->jw, '}');
		if (jw_failed(&ex->jw))
			result = exchange_fail(ex, RPC_INTERNAL, "the result is larger than %d MiB",
					       STREAM_REPLY_MAX >> 20);
	}
	if (result < 0) {
		jw_done(&ex->jw);
		jw_init(&ex->jw, STREAM_REPLY_MAX);
		rpc_write_error(&ex->jw, ex->id, ex->error, ex->reason, ex->error_data);
	}
	if (ex->from.session)
		session_forget(ex->from.session, ex);
	pthread_mutex_lock(&ex->telling);
	ex->replied = true;
	pthread_mutex_unlock(&ex->telling);
	if (ex->cancelled)
		stream_skip(ex->stream); /* a reply is not expected any more */
	else
		stream_add(ex->stream, ex->jw.out.data, ex->jw.out.len, true);
	jw_done(&ex->jw);
}

/* ---- threads ---- */

static void *run(void *arg)
{
	struct exchange *ex = arg;
	serve(ex, method_find(ex));
	pthread_mutex_lock(&running.lock);
	struct exchange **at = &running.first;
	while (*at && *at != ex)
		at = &(*at)->next_running;
	if (*at)
		*at = ex->next_running;
	pthread_mutex_unlock(&running.lock);
	exchange_unref(ex);
	OPENSSL_thread_stop();
	pthread_mutex_lock(&running.lock);
	running.count--;
	pthread_cond_broadcast(&running.fewer);
	pthread_mutex_unlock(&running.lock);
	return NULL;
}

static bool start_thread(struct exchange *ex)
{
	bool started = false;
	pthread_mutex_lock(&running.lock);
	if (running.count < THREADS_MAX && pipe2(ex->cancel_fds, O_CLOEXEC) == 0) {
		if (ex->cancelled) /* before there was anything to hang up */
			close(TAKE_FD(ex->cancel_fds[1]));
		started = thread_start(run, exchange_ref(ex)) == 0;
		if (started) {
			ex->next_running = running.first;
			running.first = ex;
			running.count++;
		} else {
			atomic_fetch_sub(&ex->refs, 1);
		}
	}
	pthread_mutex_unlock(&running.lock);
	return started;
}

static int too_many(struct exchange *ex, struct err *err)
{
	(void)err;
	return exchange_fail(ex, RPC_FAILED, "too many calls at once: try again later");
}

static int too_large(struct exchange *ex, struct err *err)
{
	(void)err;
	return exchange_fail(
		ex, RPC_FAILED,
		"the replies before this one are too large: ask again once they are read");
}

void exchange_start(struct exchange *ex)
{
	static const struct method busy = { .serve = too_many }, full = { .serve = too_large };
	const struct method *method = method_find(ex);
	if (ex->from.session)
		session_remember(ex->from.session, ex);
	if (stream_bytes(ex->stream) > STREAM_REPLY_MAX)
		serve(ex, &full);
	else if (!method->is_slow || !method->is_slow(ex))
		serve(ex, method);
	else if (!start_thread(ex))
		serve(ex, &busy);
}

void exchange_end_all(void)
{
	pthread_mutex_lock(&running.lock);
	for (struct exchange *ex = running.first; ex; ex = ex->next_running)
		if (!atomic_exchange(&ex->cancelled, true) && ex->cancel_fds[1] >= 0)
			close(TAKE_FD(ex->cancel_fds[1]));
	while (running.count)
		pthread_cond_wait(&running.fewer, &running.lock);
	pthread_mutex_unlock(&running.lock);
}

/* ---- what is said before the reply ---- */

static void put_message(struct mcp_stream *stream, const json_t *id, const char *method,
			const json_t *params)
{
	struct jw jw;
	jw_init(&jw, NOTICE_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "jsonrpc", "2.0");
	if (id) {
		jw_key(&jw, "id");
		jw_json(&jw, id);
	}
	jw_key_str(&jw, "method", method);
	if (params) {
		jw_key(&jw, "params");
		jw_json(&jw, params);
	}
	jw_close(&jw, '}');
	if (!jw_failed(&jw))
		stream_add(stream, jw.out.data, jw.out.len, false);
	jw_done(&jw);
}

void exchange_notify(struct exchange *ex, const char *method, json_t *params)
{
	if (ex->from.listens && !ex->cancelled)
		put_message(ex->stream, NULL, method, params);
	json_decref(params);
}

/* What a client is told only increases, and ends with the reply. With the lock. */
static void tell_progress(struct exchange *ex, double progress, double total, const char *message)
{
	if (!ex->token || ex->replied || !(progress > ex->told))
		return;
	ex->told = progress;
	json_t *params = json_pack("{s:o,s:f}", "progressToken", json_deep_copy(ex->token),
				   "progress", progress);
	if (total > 0)
		json_object_set_new(params, "total", json_real(total));
	if (message && ex->from.revision >= MCP_2025_03_26)
		json_object_set_new(params, "message", json_string(message));
	exchange_notify(ex, "notifications/progress", params);
}

void exchange_progress(struct exchange *ex, double progress, double total, const char *message)
{
	pthread_mutex_lock(&ex->telling);
	ex->tells_progress = true;
	tell_progress(ex, ex->ticked + progress, total > 0 ? ex->ticked + total : 0, message);
	pthread_mutex_unlock(&ex->telling);
}

void exchange_log(struct exchange *ex, enum log_rank rank, const char *logger, const char *text)
{
	if ((int)rank < ex->log_level)
		return;
	exchange_notify(ex, "notifications/message",
			json_pack("{s:s,s:s,s:s}", "level", exchange_levels[rank], "logger", logger,
				  "data", text));
}

void exchange_tick(struct mcp_stream *stream)
{
	struct exchange *found[16];
	size_t count = 0;
	pthread_mutex_lock(&running.lock);
	for (struct exchange *ex = running.first; ex && count < COUNT(found); ex = ex->next_running)
		if (ex->stream == stream && ex->token)
			found[count++] = exchange_ref(ex);
	pthread_mutex_unlock(&running.lock);
	for (size_t i = 0; i < count; i++) {
		double seconds = (double)(clock_ms() - found[i]->started_ms) / 1000;
		char text[80];
		snprintf(text, sizeof text, "running for %.0f s", seconds);
		pthread_mutex_lock(&found[i]->telling);
		if (!found[i]->tells_progress) {
			found[i]->ticked = seconds;
			tell_progress(found[i], seconds, 0, text);
		}
		pthread_mutex_unlock(&found[i]->telling);
		exchange_unref(found[i]);
	}
}

static enum wake await(const struct exchange *ex, int fd, int64_t timeout_ms)
{
	const struct wait wait = { clock_ms() + timeout_ms, ex->cancel_fds[0],
				   server_stop_fd(ex->from.server) };
	return wait_fd(&wait, fd, POLLIN);
}

json_t *exchange_ask(struct exchange *ex, const char *method, json_t *params, int64_t timeout_ms,
		     struct err *err)
{
	json_t *result = NULL, *id = NULL;
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!ex->from.session || !ex->from.listens) {
		err_set(err, ERR_BAD_REQUEST, "the client cannot be asked: it has no event stream");
		json_decref(params);
		return NULL;
	}
	id = session_ask(ex->from.session, fd);
	put_message(ex->stream, id, method, params);
	json_decref(params);
	enum wake wake = await(ex, fd, timeout_ms);
	result = session_asked(ex->from.session, id);
	if (!result)
		err_set(err, ERR_SLOW, "the client did not answer %s%s", method,
			wake == WAKE_TIMEOUT ? " in time" : ": it cancelled the request");
	json_decref(id);
	return result;
}

bool exchange_can(const struct exchange *ex, const char *capability)
{
	return json_is_object(json_object_get(ex->capabilities, capability));
}

bool exchange_sleep(struct exchange *ex, int ms)
{
	return await(ex, -1, ms) == WAKE_TIMEOUT;
}
