#include "code/nodejs_sessions.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "code/evict.h"
#include "config/config.h"
#include "node/node_files.h"
#include "proc/limits.h"

enum { NODE_TASKS = 12 }; /* processes and threads that one has, about */

/* ---- sessions ---- */

struct nodejs_session {
	struct session base; /* named: also one that was asked for as such */
	char program[4096];
	struct waiter *waiters; /* for their turn */
	bool busy;
	struct node *node; /* NULL before the first use, and once its process has ended */
	bool moved;        /* cwd is not where the process is */
	bool lost;         /* its process has ended, and with it the state */
	char *cwd, *context, *language;
	int64_t count;
};

static void session_done(void *arg)
{
	struct nodejs_session *session = arg;
	node_unref(session->node);
	free(session->cwd);
	free(session->context);
	free(session->language);
}

static void session_end(void *arg)
{
	struct nodejs_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	struct node *node = session->node ? node_ref(session->node) : NULL;
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->base.lock);
	if (node)
		node_end(node);
	node_unref(node);
}

struct sessions nodejs_sessions = {
	.kind = "nodejs",
	.size = sizeof(struct nodejs_session),
	.end = session_end,
	.done = session_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

struct nodejs_sessions_recipe {
	const struct config *config;
	const struct nodejs_session_wish *wish;
	bool made;
};

static void session_fill(void *arg, void *how)
{
	struct nodejs_session *session = arg;
	struct nodejs_sessions_recipe *recipe = how;
	const struct nodejs_session_wish *wish = recipe->wish;
	snprintf(session->program, sizeof session->program, "%s", wish->program);
	session->cwd = xstrdup(wish->cwd ? wish->cwd : recipe->config->workspace);
	session->context = wish->context ? xstrdup(wish->context) : NULL;
	session->language = wish->language ? xstrdup(wish->language) : NULL;
	session->base.idle_ms = wish->idle_ms;
	session->lost = wish->id && sessions_gave(&nodejs_sessions, wish->id);
	recipe->made = true;
}

/* ---- finding or making ---- */

struct nodejs_session *nodejs_session_open(const struct config *config,
					   const struct nodejs_session_wish *wish, bool *ret_made,
					   struct err *err)
{
	struct nodejs_sessions_recipe recipe = { config, wish, false };
	struct nodejs_session *session =
		sessions_open(&nodejs_sessions, wish->id, session_fill, &recipe, err);
	*ret_made = recipe.made;
	if (session && (wish->wanted || (wish->id && *wish->id)))
		session->base.named = true;
	return session;
}

struct nodejs_session *nodejs_session_find(const char *id, struct err *err)
{
	return sessions_find(&nodejs_sessions, id, err);
}

int nodejs_session_close(const char *id, struct err *err)
{
	return sessions_close(&nodejs_sessions, id, err);
}

const char *nodejs_session_id(const struct nodejs_session *session)
{
	return session->base.id;
}

const char *nodejs_session_program(const struct nodejs_session *session)
{
	return session->program;
}

/* ---- running code ---- */

int nodejs_session_take(struct nodejs_session *session, const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&session->base.lock);
	while (session->busy && !session->base.closed && wake == WAKE_READY)
		wake = wait_change(wait, &session->base.lock, &session->waiters, NULL);
	bool closed = session->base.closed, taken = !session->busy && !closed;
	if (taken) {
		session->busy = true;
		sessions_touch(&session->base);
	}
	pthread_mutex_unlock(&session->base.lock);
	if (taken)
		return 0;
	if (!closed && wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	return err_set(err, closed ? ERR_NOT_FOUND : ERR_CONFLICT,
		       closed ? "the session '%.80s' was deleted" : "the session '%.80s' is busy",
		       session->base.id);
}

void nodejs_session_give_back(struct nodejs_session *session)
{
	pthread_mutex_lock(&session->base.lock);
	if (!session->base.named && session->node && node_alive(session->node))
		node_set_expendable(session->node, true);
	session->busy = false;
	sessions_touch(&session->base);
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->base.lock);
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
	evict_for(NODE_TASKS);
	if (limits_exceed(NODE_TASKS)) { /* it would hang, for want of threads */
		limits_refuse(EAGAIN, "Node.js cannot be started", err);
		return NULL;
	}
	while (!(node = node_open(where, session->base.id, session->cwd, err)))
		if (err->code != ERR_LIMIT || !evict_one())
			return NULL;
	pthread_mutex_lock(&session->base.lock);
	struct node *old = session->node;
	session->lost = session->lost || old;
	session->node = node;
	session->moved = false;
	bool closed = session->base.closed;
	pthread_mutex_unlock(&session->base.lock);
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
	pthread_mutex_lock(&session->base.lock);
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
	pthread_mutex_unlock(&session->base.lock);
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
		pthread_mutex_lock(&session->base.lock);
		anew = session->lost;
		const char *dir = arena_strdup(arena, session->cwd);
		if (!request.cwd && session->moved)
			request.cwd = dir;
		pthread_mutex_unlock(&session->base.lock);
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
	pthread_mutex_lock(&session->base.lock);
	if (idle_ms != INT_ABSENT)
		session->base.idle_ms = idle_ms;
	if (cwd) {
		free(session->cwd);
		session->cwd = xstrdup(cwd);
		session->moved = true;
	}
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
}

static double milliseconds(const struct timespec *time)
{
	return floor((double)time->tv_sec * 1e3 + (double)time->tv_nsec / 1e6);
}

struct nodejs_session_info nodejs_session_describe(struct nodejs_session *session,
						   struct arena *arena)
{
	pthread_mutex_lock(&session->base.lock);
	struct nodejs_session_info info = {
		.id = arena_strdup(arena, session->base.id),
		.cwd = arena_strdup(arena, session->cwd),
		.program = arena_strdup(arena, session->program),
		.context = session->context ? arena_strdup(arena, session->context) : NULL,
		.language = session->language ? arena_strdup(arena, session->language) : NULL,
		.busy = session->busy,
		.created = milliseconds(&session->base.created),
		.used = milliseconds(&session->base.used),
		.idle_ms = session->base.idle_ms,
		.age_seconds = (awake_ms() - session->base.used_ms) / 1000,
	};
	pthread_mutex_unlock(&session->base.lock);
	return info;
}

struct list nodejs_session_list(struct arena *arena)
{
	sessions_expire(&nodejs_sessions);
	size_t count;
	void **all = sessions_list(&nodejs_sessions, arena, &count);
	struct nodejs_session_info *infos = arena_alloc(arena, (count + 1) * sizeof *infos);
	for (size_t i = 0; i < count; i++)
		infos[i] = nodejs_session_describe(all[i], arena);
	return (struct list){ count, infos };
}
