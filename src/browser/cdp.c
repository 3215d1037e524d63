/* Messages are JSON with a NUL behind each. Writers add to one queue, and write what the pipe takes at
 * once; the rest is the reader's to write, so nobody ever waits for a browser that does not read. */
#include "browser/cdp.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "browser/cdp_message.h"

enum {
	MESSAGE_MAX = 64 << 20, /* either way */
	QUEUE_MAX = MESSAGE_MAX + (8 << 20),
	KEEP = 1 << 20, /* of a buffer that was larger, for the next message */
	READ = 65536,
	PIPE = 1 << 20,
};

struct cdp_pending {
	struct cdp_pending *next;
	int64_t id;
	const char *session, *method;
	bool done;
	json_t *result; /* NULL: err */
	struct err err;
	struct waiter *waiters;
};

/* Of cdp_post_heard(). */
struct cdp_heard {
	struct cdp_heard *next;
	int64_t id;
	char *session, *method;
};

struct cdp_held {
	struct cdp_held *next;
	char *session;
	bool (*held)(const char *method);
	struct err why;
};

struct cdp {
	int in, out;
	int wake_fd; /* the reader is to look: there is a queue, or it is to end */
	struct cdp_user user;
	pthread_t thread;

	/* of the reader alone */
	struct buf message;
	bool skipping; /* what is left of a message that is too large */

	pthread_mutex_t lock; /* of what follows */
	struct cdp_pending *pending;
	struct cdp_heard *heard;
	struct cdp_held *held;
	struct buf queue;
	size_t written; /* of the queue */
	int64_t last_id;
	bool lost, ending, ended;
};

/* ---- writing; with the lock ---- */

/* Writes what the browser takes now. */
static void flush(struct cdp *c)
{
	while (c->written < c->queue.len) {
		ssize_t n = write(c->in, c->queue.data + c->written, c->queue.len - c->written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			c->lost = true;
		if (n < 0)
			return;
		c->written += (size_t)n;
	}
	c->queue.len = c->written = 0;
	if (c->queue.room > KEEP)
		buf_done(&c->queue);
}

/* What was written makes room. */
static void compact(struct cdp *c)
{
	memmove(c->queue.data, c->queue.data + c->written, c->queue.len - c->written);
	c->queue.len -= c->written;
	c->written = 0;
}

/* -1: it does not fit. */
static int enqueue(struct cdp *c, const struct buf *text)
{
	if (text->len + 1 > QUEUE_MAX - c->queue.len && c->written)
		compact(c);
	if (text->len + 1 > QUEUE_MAX - c->queue.len)
		return -1;
	(void)buf_add(&c->queue, text->data, text->len + 1);
	flush(c);
	if (c->queue.len || c->lost)
		(void)eventfd_write(c->wake_fd, 1);
	return 0;
}

/* ---- calls ---- */

/* The message without its id, which is only known under the lock: ,"method":… */
static int encode(struct jw *jw, const char *session, const char *method, json_t *params)
{
	jw_init(jw, MESSAGE_MAX);
	jw_key_str(jw, "method", method);
	if (session && *session)
		jw_key_str(jw, "sessionId", session);
	if (params) {
		jw_key(jw, "params");
		jw_json(jw, params);
		json_decref(params);
	}
	return jw_failed(jw) ? -1 : 0;
}

/* With the lock. */
static int send_message(struct cdp *c, int64_t id, const struct buf *rest)
{
	auto_buf struct buf whole = BUF(MESSAGE_MAX + 64);
	(void)buf_printf(&whole, "{\"id\":%lld,", (long long)id);
	(void)buf_add(&whole, rest->data, rest->len);
	(void)buf_str(&whole, "}");
	return whole.full ? -1 : enqueue(c, &whole);
}

static const struct cdp_held *find_held(const struct cdp *c, const char *session,
					const char *method)
{
	const struct cdp_held *held = c->held;
	while (held && strcmp(held->session, session) != 0)
		held = held->next;
	return held && (!held->held || held->held(method)) ? held : NULL;
}

static int lost_err(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "the browser has ended, or closed its connection");
}

/* With the lock. */
static int begin_call(struct cdp *c, struct cdp_pending *call, const struct buf *rest,
		      struct err *err)
{
	const struct cdp_held *held = find_held(c, call->session, call->method);
	if (c->lost)
		return lost_err(err);
	if (held) {
		*err = held->why;
		return -1;
	}
	call->id = ++c->last_id;
	if (send_message(c, call->id, rest) < 0)
		return err_set(err, ERR_UNAVAILABLE,
			       "the browser does not take what it is sent: it hangs, or is paused");
	call->next = c->pending;
	c->pending = call;
	return 0;
}

/* With the lock. */
static void end_call(struct cdp *c, const struct cdp_pending *call)
{
	struct cdp_pending **at = &c->pending;
	while (*at && *at != call)
		at = &(*at)->next;
	if (*at)
		*at = call->next;
}

static json_t *await(struct cdp *c, struct cdp_pending *call, const struct wait *wait,
		     struct err *err)
{
	enum wake wake = WAKE_READY;
	while (!call->done && wake == WAKE_READY)
		wake = wait_change(wait, &c->lock, &call->waiters, NULL);
	end_call(c, call);
	if (call->done && !call->result)
		*err = call->err;
	else if (wake == WAKE_TIMEOUT)
		err_set(err, ERR_SLOW, "%s took too long", call->method);
	else if (!call->done)
		(void)wake_err(wake, err);
	return call->result;
}

bool cdp_is_lost(struct cdp *cdp)
{
	pthread_mutex_lock(&cdp->lock);
	bool lost = cdp->lost;
	pthread_mutex_unlock(&cdp->lock);
	return lost;
}

json_t *cdp_call(struct cdp *cdp, const char *session, const char *method, json_t *params,
		 const struct wait *wait, struct err *err)
{
	struct cdp_pending call = { .session = session ? session : "", .method = method };
	struct err unused;
	struct jw jw;
	json_t *result = NULL;
	if (!err)
		err = &unused;
	if (encode(&jw, session, method, params) < 0) {
		err_set(err, ERR_TOO_LARGE, "the parameters of %s are too large", method);
	} else {
		pthread_mutex_lock(&cdp->lock);
		if (begin_call(cdp, &call, &jw.out, err) == 0)
			result = await(cdp, &call, wait, err);
		pthread_mutex_unlock(&cdp->lock);
	}
	jw_done(&jw);
	return result;
}

int cdp_ask(struct cdp *cdp, const char *session, const char *method, json_t *params,
	    const struct wait *wait, struct err *err)
{
	json_t *result = cdp_call(cdp, session, method, params, wait, err);
	json_decref(result);
	return result ? 0 : -1;
}

static int post(struct cdp *c, const char *session, const char *method, json_t *params,
		struct cdp_heard *heard)
{
	struct jw jw;
	bool fits = encode(&jw, session, method, params) == 0;
	pthread_mutex_lock(&c->lock);
	if (!c->lost && (!fits || send_message(c, ++c->last_id, &jw.out) < 0)) {
		c->lost = true;
		(void)eventfd_write(c->wake_fd, 1);
	}
	bool lost = c->lost;
	if (heard) { /* there is no answer before the lock is free: the reader takes it, too */
		heard->id = c->last_id;
		heard->next = c->heard;
		c->heard = heard;
	}
	pthread_mutex_unlock(&c->lock);
	jw_done(&jw);
	return lost ? -1 : 0;
}

int cdp_post(struct cdp *cdp, const char *session, const char *method, json_t *params)
{
	return post(cdp, session, method, params, NULL);
}

size_t cdp_queued(struct cdp *cdp)
{
	pthread_mutex_lock(&cdp->lock);
	size_t bytes = cdp->queue.len - cdp->written;
	pthread_mutex_unlock(&cdp->lock);
	return bytes;
}

int cdp_post_heard(struct cdp *cdp, const char *session, const char *method, json_t *params)
{
	struct cdp_heard *heard = xcalloc(1, sizeof *heard);
	heard->session = xstrdup(session ? session : "");
	heard->method = xstrdup(method);
	return post(cdp, session, method, params, heard);
}

static void free_heard(struct cdp_heard *heard)
{
	if (!heard)
		return;
	free(heard->session);
	free(heard->method);
	free(heard);
}

/* ---- calls that are not to be waited for; with the lock ---- */

static void fail_call(struct cdp_pending *call, const struct err *why)
{
	if (call->done)
		return;
	call->done = true;
	call->err = *why;
	waiter_wake(call->waiters);
}

static void drop_held(struct cdp *c, const char *session)
{
	struct cdp_held **at = &c->held;
	while (*at && strcmp((*at)->session, session) != 0)
		at = &(*at)->next;
	struct cdp_held *gone = *at;
	if (!gone)
		return;
	*at = gone->next;
	free(gone->session);
	free(gone);
}

static void fail_calls(struct cdp *c, const char *session, bool (*held)(const char *method),
		       const struct err *why)
{
	for (struct cdp_pending *call = c->pending; call; call = call->next)
		if ((!session || !strcmp(call->session, session)) && (!held || held(call->method)))
			fail_call(call, why);
}

void cdp_hold(struct cdp *cdp, const char *session, bool (*held)(const char *method),
	      const struct err *why)
{
	struct cdp_held *entry = xcalloc(1, sizeof *entry);
	*entry = (struct cdp_held){ .session = xstrdup(session), .held = held, .why = *why };
	pthread_mutex_lock(&cdp->lock);
	drop_held(cdp, session);
	entry->next = cdp->held;
	cdp->held = entry;
	fail_calls(cdp, session, held, why);
	pthread_mutex_unlock(&cdp->lock);
}

void cdp_release(struct cdp *cdp, const char *session)
{
	pthread_mutex_lock(&cdp->lock);
	drop_held(cdp, session);
	pthread_mutex_unlock(&cdp->lock);
}

void cdp_fail(struct cdp *cdp, const char *session, bool (*which)(const char *method),
	      const struct err *why)
{
	pthread_mutex_lock(&cdp->lock);
	fail_calls(cdp, session, which, why);
	pthread_mutex_unlock(&cdp->lock);
}

static void drop_heard(struct cdp *c, const char *session)
{
	struct cdp_heard **at = &c->heard;
	while (*at) {
		struct cdp_heard *heard = *at;
		if (strcmp(heard->session, session) != 0) {
			at = &heard->next;
			continue;
		}
		*at = heard->next;
		free_heard(heard);
	}
}

void cdp_cut(struct cdp *cdp, const char *session, const struct err *why)
{
	pthread_mutex_lock(&cdp->lock);
	drop_held(cdp, session);
	drop_heard(cdp, session);
	fail_calls(cdp, session, NULL, why);
	pthread_mutex_unlock(&cdp->lock);
}

/* ---- reading ---- */

/* Gives an answer, which is taken, to its caller. Nobody waits for those of cdp_post(), and of calls that
 * were over. */
static void deliver(struct cdp *c, int64_t id, json_t *result, const struct err *why)
{
	pthread_mutex_lock(&c->lock);
	struct cdp_pending *call = c->pending;
	while (call && call->id != id)
		call = call->next;
	if (call && !call->done && result) {
		call->done = true;
		call->result = TAKE(result);
		waiter_wake(call->waiters);
	} else if (call) {
		fail_call(call, why);
	} else if (!result) {
		log_debug("the browser refuses a message: %s", why->msg);
	}
	pthread_mutex_unlock(&c->lock);
	json_decref(result);
}

/* NULL: nobody hears that answer. */
static struct cdp_heard *find_heard(struct cdp *c, int64_t id)
{
	pthread_mutex_lock(&c->lock);
	struct cdp_heard **at = &c->heard;
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	struct cdp_heard *found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&c->lock);
	return found;
}

static void take_message(struct cdp *c)
{
	struct cdp_message m;
	struct err err = { 0 };
	int result = cdp_message_read(c->message.data, c->message.len, &m, &err);
	const int64_t id = m.id;
	struct cdp_heard *heard = id ? find_heard(c, id) : NULL;
	json_t *value = id && result == 0 ? json_incref(m.result) : NULL;
	if (!id && result == 0)
		c->user.event(c->user.arg, m.session, m.method, m.params);
	else if (heard && value)
		c->user.event(c->user.arg, heard->session, heard->method, value);
	else if (!id)
		log_debug("%s", err.msg);
	cdp_message_done(&m); /* first: nothing of it is shared with the caller's thread */
	free_heard(heard);
	if (id)
		deliver(c, id, value, &err);
	c->message.len = 0;
	if (c->message.room > KEEP) {
		buf_done(&c->message);
		malloc_trim(0); /* a million values leave a hundred megabytes of holes */
	}
}

static void skip_message(struct cdp *c)
{
	struct err err;
	err_set(&err, ERR_TOO_LARGE, "the browser's answer is larger than %d MiB",
		MESSAGE_MAX >> 20);
	int64_t id = cdp_message_peek(c->message.data, c->message.len);
	if (id)
		deliver(c, id, NULL, &err);
	buf_done(&c->message);
	c->skipping = true;
}

static void take_bytes(struct cdp *c, const char *at, size_t len)
{
	for (const char *end = at + len; at < end;) {
		const char *stop = memchr(at, 0, (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);
		if (!c->skipping && buf_add(&c->message, at, n) < 0)
			skip_message(c);
		if (stop && !c->skipping && c->message.len)
			take_message(c);
		if (stop)
			c->skipping = false;
		at = stop ? stop + 1 : end;
	}
}

/* False: nothing comes any more. */
static bool take_output(struct cdp *c)
{
	char data[READ];
	ssize_t n = read(c->out, data, sizeof data);
	if (n > 0)
		take_bytes(c, data, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* What is to be waited for; false: it is over. */
static bool look(struct cdp *c, bool *ret_queue)
{
	pthread_mutex_lock(&c->lock);
	flush(c);
	*ret_queue = c->queue.len;
	bool over = c->lost || c->ending;
	pthread_mutex_unlock(&c->lock);
	return !over;
}

/* Who was in a call finds, once it has failed, that this is known to all. */
static void lose(struct cdp *c)
{
	struct err why;
	(void)lost_err(&why);
	pthread_mutex_lock(&c->lock);
	c->lost = true;
	pthread_mutex_unlock(&c->lock);
	if (c->user.lost)
		c->user.lost(c->user.arg);
	pthread_mutex_lock(&c->lock);
	fail_calls(c, NULL, NULL, &why);
	pthread_mutex_unlock(&c->lock);
}

static void *reader(void *arg)
{
	struct cdp *c = arg;
	bool queue, open = true;
	while (open && look(c, &queue)) {
		const struct wait wait = { c->user.due ? c->user.due(c->user.arg) : INT64_MAX, -1,
					   -1 };
		eventfd_t ignored;
		struct pollfd fds[] = { { .fd = c->out, .events = POLLIN },
					{ .fd = c->wake_fd, .events = POLLIN },
					{ .fd = queue ? c->in : -1, .events = POLLOUT } };
		enum wake wake = wait_poll(&wait, fds, COUNT(fds));
		if (wake == WAKE_READY && fds[1].revents)
			(void)eventfd_read(c->wake_fd, &ignored);
		if (wake == WAKE_READY && fds[0].revents)
			open = take_output(c);
		else if (wake != WAKE_READY && wake != WAKE_TIMEOUT)
			open = false;
	}
	lose(c);
	return NULL;
}

/* ---- life ---- */

static void set_pipe(int fd)
{
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	(void)fcntl(fd, F_SETPIPE_SZ, PIPE);
}

static void free_all(struct cdp *c)
{
	while (c->held)
		drop_held(c, c->held->session);
	while (c->heard) {
		struct cdp_heard *next = c->heard->next;
		free_heard(c->heard);
		c->heard = next;
	}
	buf_done(&c->queue);
	buf_done(&c->message);
	own_close(&c->wake_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

struct cdp *cdp_new(int in, int out, const struct cdp_user *user, struct err *err)
{
	struct cdp *c = xcalloc(1, sizeof *c);
	c->in = in;
	c->out = out;
	c->user = *user;
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	buf_init(&c->message, MESSAGE_MAX);
	buf_init(&c->queue, QUEUE_MAX);
	pthread_mutex_init(&c->lock, NULL);
	set_pipe(in);
	set_pipe(out);
	if (c->wake_fd >= 0 && thread_start_joinable(&c->thread, reader, c) == 0)
		return c;
	free_all(c);
	err_set(err, ERR_LIMIT, "there is no thread or descriptor for the browser's connection");
	return NULL;
}

void cdp_end(struct cdp *cdp)
{
	if (cdp->ended)
		return;
	pthread_mutex_lock(&cdp->lock);
	cdp->ending = true;
	pthread_mutex_unlock(&cdp->lock);
	(void)eventfd_write(cdp->wake_fd, 1);
	pthread_join(cdp->thread, NULL);
	cdp->ended = true;
}

void cdp_free(struct cdp *cdp)
{
	if (!cdp)
		return;
	cdp_end(cdp);
	free_all(cdp);
}
