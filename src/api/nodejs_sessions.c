#include "api/nodejs_sessions.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "api/room.h"
#include "api/routes.h"
#include "api/sessions.h"
#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "net/server.h"
#include "proc/limits.h"
#include "proc/node_files.h"

enum { NODE_TASKS = 12 }; /* processes and threads that one has, about */

/* ---- sessions ---- */

struct nodejs_session {
	_Atomic int refs;
	pthread_mutex_t lock;
	char id[SESSION_ID_MAX * 4 + 1];
	char program[4096];
	const struct config *config;
	struct waiter *waiters; /* for their turn */
	bool busy, closed;
	bool named; /* somebody chose its id, came back to it, or asked for a session as such */
	struct node *node; /* NULL before the first use, and once its process has ended */
	bool moved;        /* cwd is not where the process is */
	bool lost;         /* its process has ended, and with it the state */
	char *cwd, *context, *language;
	int64_t count, used_ms, idle_ms;
	double created, used; /* milliseconds since 1970 */
};

static void session_ref(void *arg)
{
	struct nodejs_session *session = arg;
	atomic_fetch_add(&session->refs, 1);
}

static void session_unref(void *arg)
{
	struct nodejs_session *session = arg;
	if (!session || atomic_fetch_sub(&session->refs, 1) > 1)
		return;
	node_unref(session->node);
	pthread_mutex_destroy(&session->lock);
	free(session->cwd);
	free(session->context);
	free(session->language);
	free(session);
}

/* Somebody has it beside the table: who runs code in it, or is about to. */
static bool session_busy(void *arg)
{
	struct nodejs_session *session = arg;
	return atomic_load(&session->refs) > 1;
}

/* Moved back for one that may be idle for a shorter time than others, so that it expires then. */
static int64_t session_used_ms(void *arg)
{
	struct nodejs_session *session = arg;
	pthread_mutex_lock(&session->lock);
	int64_t used = session->used_ms;
	if (session->idle_ms < session->config->session_ms)
		used -= session->config->session_ms - session->idle_ms;
	pthread_mutex_unlock(&session->lock);
	return used;
}

static bool session_unnamed(void *arg)
{
	struct nodejs_session *session = arg;
	pthread_mutex_lock(&session->lock);
	bool named = session->named;
	pthread_mutex_unlock(&session->lock);
	return !named;
}

static void session_end(void *arg)
{
	struct nodejs_session *session = arg;
	pthread_mutex_lock(&session->lock);
	session->closed = true;
	struct node *node = session->node ? node_ref(session->node) : NULL;
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->lock);
	if (node)
		node_end(node);
	node_unref(node);
}

static const struct sessions_ops session_ops = { session_ref,     session_unref, session_busy,
						 session_used_ms, session_end,   session_unnamed };
struct sessions nodejs_sessions = SESSIONS("nodejs", &session_ops);

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return floor((double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6);
}

/* With the lock. */
static void touch(struct nodejs_session *session)
{
	session->used_ms = awake_ms();
	session->used = now_ms();
}

struct recipe {
	const struct config *config;
	const struct nodejs_session_wish *wish;
	bool made;
};

static void *session_make(const char *id, void *arg, struct err *err)
{
	(void)err;
	struct recipe *recipe = arg;
	const struct nodejs_session_wish *wish = recipe->wish;
	struct nodejs_session *session = xcalloc(1, sizeof *session);
	session->refs = 1;
	pthread_mutex_init(&session->lock, NULL);
	snprintf(session->id, sizeof session->id, "%s", id);
	snprintf(session->program, sizeof session->program, "%s", wish->program);
	session->config = recipe->config;
	session->cwd = xstrdup(wish->cwd ? wish->cwd : recipe->config->workspace);
	session->context = wish->context ? xstrdup(wish->context) : NULL;
	session->language = wish->language ? xstrdup(wish->language) : NULL;
	session->idle_ms = wish->idle_ms;
	session->lost = wish->id && sessions_gave(&nodejs_sessions, wish->id);
	touch(session);
	session->created = session->used;
	recipe->made = true;
	return session;
}

/* ---- finding or making ---- */

struct nodejs_session *nodejs_session_open(const struct config *config,
					   const struct nodejs_session_wish *wish, bool *ret_made,
					   struct err *err)
{
	struct recipe recipe = { config, wish, false };
	struct nodejs_session *session =
		sessions_open(&nodejs_sessions, config, wish->id, session_make, &recipe, err);
	*ret_made = recipe.made;
	if (session && (wish->wanted || (wish->id && *wish->id))) {
		pthread_mutex_lock(&session->lock);
		session->named = true;
		pthread_mutex_unlock(&session->lock);
	}
	return session;
}

struct nodejs_session *nodejs_session_find(const char *id, struct err *err)
{
	return sessions_find(&nodejs_sessions, id, err);
}

void nodejs_session_unref(struct nodejs_session *session)
{
	session_unref(session);
}

int nodejs_session_close(const char *id, struct err *err)
{
	return sessions_close(&nodejs_sessions, id, err);
}

const char *nodejs_session_id(const struct nodejs_session *session)
{
	return session->id;
}

const char *nodejs_session_program(const struct nodejs_session *session)
{
	return session->program;
}

/* ---- running code ---- */

int nodejs_session_take(struct nodejs_session *session, const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&session->lock);
	while (session->busy && !session->closed && wake == WAKE_READY)
		wake = wait_change(wait, &session->lock, &session->waiters, NULL);
	bool closed = session->closed, taken = !session->busy && !closed;
	if (taken) {
		session->busy = true;
		touch(session);
	}
	pthread_mutex_unlock(&session->lock);
	if (taken)
		return 0;
	if (!closed && wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	return err_set(err, closed ? ERR_NOT_FOUND : ERR_CONFLICT,
		       closed ? "the session '%.80s' was deleted" : "the session '%.80s' is busy",
		       session->id);
}

void nodejs_session_give_back(struct nodejs_session *session)
{
	pthread_mutex_lock(&session->lock);
	if (!session->named && session->node && node_alive(session->node))
		node_set_expendable(session->node, true);
	session->busy = false;
	touch(session);
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->lock);
}

/* Its process, started where there is none. For who has taken the session. */
static struct node *session_node(struct nodejs_session *session, const struct node_where *where,
				 struct err *err)
{
	struct node *node;
	if (session->node && node_alive(session->node)) {
		node_set_expendable(session->node, false);
		return session->node;
	}
	room_make(NODE_TASKS);
	if (limits_exceed(NODE_TASKS)) { /* it would hang, for want of threads */
		limits_refuse(EAGAIN, "Node.js cannot be started", err);
		return NULL;
	}
	while (!(node = node_open(where, session->id, session->cwd, err)))
		if (err->code != ERR_LIMIT || !room_evict())
			return NULL;
	pthread_mutex_lock(&session->lock);
	struct node *old = session->node;
	session->lost = session->lost || old;
	session->node = node;
	session->moved = false;
	bool closed = session->closed;
	pthread_mutex_unlock(&session->lock);
	if (old) /* it may have left children */
		node_end(old);
	node_unref(old);
	if (closed) /* meanwhile: whoever closed it has not seen this one */
		node_end(node);
	return node;
}

/* Takes over what the execution has told. */
static void session_note(struct nodejs_session *session, struct node_result *ret,
			 struct arena *arena, bool anew)
{
	pthread_mutex_lock(&session->lock);
	ret->count = ++session->count;
	if (ret->cwd && *ret->cwd == '/') {
		free(session->cwd);
		session->cwd = xstrdup(ret->cwd);
		session->moved = false;
	}
	if (anew)
		ret->notice = arena_printf(arena,
					   "the session's process had ended: this is a new one, "
					   "without the state of the old%s%s",
					   ret->notice ? "; " : "", ret->notice ? ret->notice : "");
	session->lost = false;
	pthread_mutex_unlock(&session->lock);
}

int nodejs_session_start(struct nodejs_session *session, const struct node_where *where,
			 struct err *err)
{
	return session_node(session, where, err) ? 0 : -1;
}

int nodejs_session_execute(struct nodejs_session *session, const struct node_where *where,
			   const struct node_request *what, const struct node_caller *caller,
			   struct arena *arena, struct node_result *ret, struct err *err)
{
	bool anew = false;
	*ret = (struct node_result){ .unborn = true };
	for (int tries = 0; ret->unborn && tries < 2; tries++) { /* it may be dying already */
		struct node *node = session_node(session, where, err);
		if (!node)
			return -1;
		struct node_request request = *what;
		pthread_mutex_lock(&session->lock);
		anew = session->lost;
		const char *dir = arena_strdup(arena, session->cwd);
		if (!request.cwd && session->moved)
			request.cwd = dir;
		pthread_mutex_unlock(&session->lock);
		if (node_files_write(where->user, request.cwd ? request.cwd : dir, &request.files,
				     err) < 0 ||
		    node_execute(node, &request, caller, arena, ret, err) < 0)
			return -1;
	}
	if (ret->unborn) {
		ret->status = NODE_FAILED;
		ret->notice = arena_printf(
			arena, "the session's process has ended at its start, with exit code %d",
			ret->exit_code);
	}
	session_note(session, ret, arena, anew && !ret->unborn);
	return 0;
}

/* ---- what is said of them ---- */

void nodejs_session_change(struct nodejs_session *session, const char *cwd, int64_t idle_ms)
{
	pthread_mutex_lock(&session->lock);
	if (idle_ms != INT_ABSENT)
		session->idle_ms = idle_ms;
	if (cwd) {
		free(session->cwd);
		session->cwd = xstrdup(cwd);
		session->moved = true;
	}
	touch(session);
	pthread_mutex_unlock(&session->lock);
}

struct nodejs_session_info nodejs_session_describe(struct nodejs_session *session,
						   struct arena *arena)
{
	pthread_mutex_lock(&session->lock);
	struct nodejs_session_info info = {
		.id = arena_strdup(arena, session->id),
		.cwd = arena_strdup(arena, session->cwd),
		.program = arena_strdup(arena, session->program),
		.context = session->context ? arena_strdup(arena, session->context) : NULL,
		.language = session->language ? arena_strdup(arena, session->language) : NULL,
		.busy = session->busy,
		.created = session->created,
		.used = session->used,
		.idle_ms = session->idle_ms,
		.age_seconds = (awake_ms() - session->used_ms) / 1000,
	};
	pthread_mutex_unlock(&session->lock);
	return info;
}

struct listing {
	struct arena *arena;
	struct nodejs_session_info *infos;
	size_t count, room;
};

static void list_one(void *session, void *to)
{
	struct listing *listing = to;
	if (listing->count < listing->room)
		listing->infos[listing->count++] = nodejs_session_describe(session, listing->arena);
}

void nodejs_session_expire(struct server *server)
{
	sessions_expire(&nodejs_sessions, server->config);
}

struct list nodejs_session_list(struct server *server, struct arena *arena)
{
	nodejs_session_expire(server);
	struct listing listing = { .arena = arena, .room = sessions_count(&nodejs_sessions) };
	listing.infos = arena_alloc(arena, (listing.room + 1) * sizeof *listing.infos);
	sessions_each(&nodejs_sessions, list_one, &listing);
	return (struct list){ listing.count, listing.infos };
}
