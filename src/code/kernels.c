#include "code/kernels.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/wait.h"
#include "code/code_events.h"
#include "code/evict.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "journal/journal.h"
#include "kernel/kernel.h"
#include "kernel/kernelspec.h"
#include "kernel/pool.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/limits.h"
#include "proc/tree.h"
#include "proc/user.h"

enum { START_MS = 60000 };

/* ---- sessions ---- */

struct kernel_session {
	struct session base; /* named: also one that was asked for as such */
	char marker[112];
	char *kernel_name, *language, *context;
	char *asked, *notice; /* the kernel_name that its kernel stands in for, and why; or NULL */

	struct waiter *waiters; /* under the lock, like what follows */
	char *cwd;
	struct kernel *kernel; /* NULL before the first use; changed only by whoever made it busy */
	char lost[160];        /* how the kernel before ended, until the next call has told */
	bool busy;
	int64_t executions;
	/* Of clients of Jupyter: how many are connected; that one which has left waits for the end of what runs
	 * (stays); what they last heard of the kernel; that it has ever had any. */
	int64_t clients;
	bool stays, runs, shared;
};

static void session_done(void *arg)
{
	struct kernel_session *session = arg;
	kernel_unref(session->kernel);
	free(session->kernel_name);
	free(session->language);
	free(session->context);
	free(session->asked);
	free(session->notice);
	free(session->cwd);
}

static void session_end(void *arg)
{
	struct kernel_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	struct kernel *kernel = session->kernel ? kernel_ref(session->kernel) : NULL;
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->base.lock);
	if (!kernel)
		return;
	kernel_end(kernel);
	kernel_unref(kernel);
	tree_end(session->marker);
}

struct sessions kernels_sessions = {
	.kind = "jupyter",
	.size = sizeof(struct kernel_session),
	.end = session_end,
	.done = session_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

struct making {
	const struct kernelspec *spec;
	const char *asked, *cwd, *context;
	bool made, back; /* back: somebody has its id from us, of a session before */
};

static void session_fill(void *arg, void *how)
{
	struct kernel_session *session = arg;
	struct making *making = how;
	tree_marker(session->marker, sizeof session->marker, session->base.id);
	session->kernel_name = xstrdup(making->spec->name);
	session->language = xstrdup(making->spec->language);
	session->context = making->context ? xstrdup(making->context) : NULL;
	session->cwd = xstrdup(making->cwd);
	if (making->spec->notice) {
		session->asked = xstrdup(making->asked);
		session->notice = xstrdup(making->spec->notice);
	}
	if (making->back)
		snprintf(session->lost, sizeof session->lost, "The session had ended.");
	making->made = true;
}

/* ---- the keeper: a thread that ends what was idle for too long ---- */

/* Of what keeps kernels ready, without a session: like a service. */
static int64_t ready_idle_ms;

static void *keep(void *arg)
{
	int stop_fd = (int)(intptr_t)arg; /* closed in the end, which poll() reports too */
	int64_t pause = ready_idle_ms / 8 < 30000 ? ready_idle_ms / 8 : 30000;
	awake_begin(pause);
	while (wait_fd(&(struct wait){ clock_ms() + pause, -1, -1 }, stop_fd, POLLIN) ==
	       WAKE_TIMEOUT) {
		(void)awake_ms();
		sessions_expire(&kernels_sessions);
		if (!sessions_count(&kernels_sessions))
			pool_rest(ready_idle_ms);
	}
	return NULL;
}

static void start_keeper(const struct server *server)
{
	static atomic_flag started = ATOMIC_FLAG_INIT;
	if (atomic_flag_test_and_set(&started))
		return;
	ready_idle_ms = config_idle(server->config, kernels_sessions.idle_ms);
	if (thread_start(keep, (void *)(intptr_t)server_stop_fd(server)) != 0) {
		atomic_flag_clear(&started);
		log_warn("no thread to end idle kernels; the next session tries again");
	}
}

/* ---- finding or making ---- */

int kernels_where(struct server *server, struct tools_where *ret, struct err *err)
{
	const struct user *user = user_sandbox(server->config->user, err);
	*ret = (struct tools_where){ server->home, user, server_stop_fd(server) };
	return user ? 0 : -1;
}

static const struct kernelspec *pick_spec(const struct tools_where *where,
					  const struct kernels_wish *wish, struct arena *arena,
					  struct err *err)
{
	if (!wish->language)
		return kernelspec_find(where, wish->kernel_name, arena, err);
	const struct kernelspec *spec = kernelspec_for(where, wish->language, arena);
	if (!spec)
		err_set(err, ERR_BAD_REQUEST,
			"no kernel for '%.60s' is installed: see GET /v1/jupyter/info",
			wish->language);
	return spec;
}

/* Whether this was asked for by a name that its kernel only stands in for. */
static bool stands_in(const struct kernel_session *session, const struct kernels_wish *wish)
{
	return session->asked && wish->kernel_name && !strcmp(wish->kernel_name, session->asked);
}

/* A session that is there keeps its kernel: a wish for another one is a mistake. */
static int check_same(const struct kernel_session *session, const struct kernels_wish *wish,
		      struct err *err)
{
	if (wish->language && strcasecmp(wish->language, session->language) != 0)
		return err_set(err, ERR_CONFLICT, "session '%.80s' speaks %s, not %.60s",
			       session->base.id, session->language, wish->language);
	if (!wish->language && wish->kernel_name && *wish->kernel_name &&
	    strcasecmp(kernelspec_name(wish->kernel_name), session->kernel_name) != 0 &&
	    !stands_in(session, wish))
		return err_set(err, ERR_CONFLICT, "session '%.80s' has the kernel %s, not %.60s",
			       session->base.id, session->kernel_name, wish->kernel_name);
	return 0;
}

static struct kernel_session *find_or_make(struct call *call, const struct kernels_wish *wish,
					   bool *ret_made, struct err *err)
{
	const struct config *config = call->server->config;
	struct tools_where where;
	*ret_made = false;
	if (kernels_where(call->server, &where, err) < 0)
		return NULL;
	struct kernel_session *session =
		wish->id && *wish->id ? sessions_find(&kernels_sessions, wish->id, NULL) : NULL;
	if (!session) {
		struct making making = {
			.spec = pick_spec(&where, wish, call->arena, err),
			.asked = wish->kernel_name,
			.cwd = wish->cwd ? wish->cwd : config->workspace,
			.context = wish->context,
			.back = wish->id && sessions_gave(&kernels_sessions, wish->id),
		};
		if (!making.spec)
			return NULL;
		start_keeper(call->server);
		session = sessions_open(&kernels_sessions, wish->id, session_fill, &making, err);
		*ret_made = making.made;
		if (!session && err->code == ERR_LIMIT)
			err_set(err, ERR_LIMIT,
				"all %lld kernels are busy: end a session, or raise --max-kernels",
				(long long)config->max_kernels);
	}
	if (session && check_same(session, wish, err) < 0) {
		sessions_release(session);
		return NULL;
	}
	return session;
}

/* ---- one at a time ---- */

/* Waits, with the lock, until nobody runs code in it. */
static enum wake wait_turn(struct call *call, struct kernel_session *session, int64_t until_ms)
{
	struct wait wait = call_until(call, until_ms);
	enum wake wake = WAKE_READY;
	while (session->busy && !session->base.closed && wake == WAKE_READY)
		wake = wait_change(&wait, &session->base.lock, &session->waiters, NULL);
	return wake;
}

/* Makes it busy, when it is one's turn. */
static int enter(struct call *call, struct kernel_session *session, bool named, int64_t until_ms,
		 struct err *err)
{
	pthread_mutex_lock(&session->base.lock);
	enum wake wake = session->busy ? wait_turn(call, session, until_ms) : WAKE_READY;
	bool closed = session->base.closed, mine = !session->busy && !closed;
	if (mine)
		session->busy = true;
	sessions_touch(&session->base);
	if (named)
		session->base.named = true;
	pthread_mutex_unlock(&session->base.lock);
	if (mine)
		return 0;
	if (closed)
		return err_set(err, ERR_CONFLICT, "session '%.80s' was ended", session->base.id);
	if (wake > WAKE_TIMEOUT)
		return wake_err(wake, err);
	return err_set(err, ERR_CONFLICT, "session '%.80s' is busy with other code",
		       session->base.id);
}

static void leave(struct kernel_session *session)
{
	if (session->kernel && !session->base.named)
		kernel_set_expendable(session->kernel, true);
	pthread_mutex_lock(&session->base.lock);
	if (session->kernel && session->shared)
		kernel_rest(session->kernel);
	session->busy = false;
	sessions_touch(&session->base);
	waiter_wake(session->waiters);
	bool closed = session->base.closed;
	struct kernel *kernel = closed && session->kernel ? kernel_ref(session->kernel) : NULL;
	pthread_mutex_unlock(&session->base.lock);
	if (kernel) { /* who closed it may not have seen a kernel that was being started */
		kernel_end(kernel);
		kernel_unref(kernel);
		tree_end(session->marker);
	}
}

/* Idle sessions that nobody named make room for it, where there is too little. */
static struct kernel *take_kernel(const struct pool_config *config, const struct kernelspec *spec,
				  const struct kernel_place *place, const struct wait *wait,
				  struct err *err)
{
	struct kernel *kernel;
	int64_t killed = limits_killed();
	evict_for(KERNEL_TASKS);
	while (!(kernel = pool_take(config, spec, place, wait, err)) &&
	       (err->code == EAGAIN || err->code == ENOMEM || err->code == ERR_LIMIT) &&
	       evict_one())
		;
	if (!kernel && (err->code == EAGAIN || err->code == ENOMEM)) {
		log_debug("no kernel: %s", err->msg);
		limits_refuse(limits_killed() > killed ? ENOMEM : err->code,
			      "a kernel cannot be started", err);
	}
	return kernel;
}

/* While busy: a kernel that runs, a new one if need be. */
static int have_kernel(struct call *call, struct kernel_session *session, struct err *err)
{
	struct tools_where where;
	if (session->kernel && !kernel_ended(session->kernel))
		return 0;
	if (kernels_where(call->server, &where, err) < 0)
		return -1;
	const struct kernelspec *spec =
		kernelspec_find(&where, session->kernel_name, call->arena, err);
	if (!spec)
		return -1;
	char how[128];
	if (session->kernel && !*session->lost)
		snprintf(session->lost, sizeof session->lost, "The kernel has ended %s.",
			 kernel_end_text(session->kernel, how, sizeof how));
	const struct pool_config config = { call->server->home,
					    call->server->config->kernel_preload, where.user };
	const struct kernel_place place = { session->cwd, session->marker, where.home, where.user };
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	struct kernel *kernel = take_kernel(&config, spec, &place, &wait, err);
	if (!kernel)
		return -1;
	pthread_mutex_lock(&session->base.lock);
	struct kernel *old = session->kernel;
	session->kernel = kernel;
	session->runs = false;
	pthread_mutex_unlock(&session->base.lock);
	kernel_unref(old);
	return 0;
}

static void describe(const struct kernel_session *session, bool made, struct arena *arena,
		     struct kernels_opened *ret)
{
	*ret = (struct kernels_opened){ .id = arena_strdup(arena, session->base.id),
					.kernel_name = arena_strdup(arena, session->kernel_name),
					.language = arena_strdup(arena, session->language),
					.made = made,
					.created = session->base.created };
}

/* Finds or makes a session, waits for one's turn, and sees to its kernel. leave() it. */
static struct kernel_session *begin(struct call *call, const struct kernels_wish *wish, bool named,
				    int64_t until_ms, struct kernels_opened *ret, struct err *err)
{
	bool made;
	struct kernel_session *session = find_or_make(call, wish, &made, err);
	if (!session)
		return NULL;
	describe(session, made, call->arena, ret);
	ret->notice = stands_in(session, wish) ? arena_strdup(call->arena, session->notice) : NULL;
	if (enter(call, session, named, until_ms, err) == 0) {
		if (have_kernel(call, session, err) == 0) {
			kernel_set_expendable(session->kernel, false);
			return session;
		}
		leave(session);
		if (made)
			(void)sessions_close(&kernels_sessions, session->base.id, NULL);
	}
	sessions_release(session);
	return NULL;
}

int kernels_open(struct call *call, const struct kernels_wish *asked, struct kernels_opened *ret,
		 struct err *err)
{
	struct kernels_wish wish = *asked;
	if (workdir_find(call, "cwd", asked->cwd, &wish.cwd, err) < 0)
		return -1;
	auto_session struct kernel_session *session =
		begin(call, &wish, true, clock_ms() + START_MS, ret, err);
	if (!session)
		return -1;
	*session->lost = 0;
	leave(session);
	return 0;
}

/* ---- running code ---- */

struct running {
	struct call *call;
	struct outputs *outputs;
	bool events;
};

static int take_message(void *arg, const char *type, const json_t *content)
{
	struct running *running = arg;
	struct err ignored;
	if (running->events)
		return code_events_message(running->call, type, content, &ignored);
	outputs_add(running->outputs, type, content);
	return 0;
}

static int take_nothing(void *arg, const char *type, const json_t *content)
{
	(void)arg;
	(void)type;
	(void)content;
	return 0;
}

/* Code that changes the directory; false in a language of which we do not know how. */
static bool write_change(const char *language, const char *cwd, struct jw *jw)
{
	if (!strcasecmp(language, "bash")) {
		(void)buf_str(&jw->out, "cd -- '");
		for (const char *at = cwd; *at; at++)
			(void)buf_printf(&jw->out, *at == '\'' ? "'\\''" : "%c", *at);
		(void)buf_str(&jw->out, "'");
		return true;
	}
	bool python = !strcasecmp(language, "python");
	if (!python && strcasecmp(language, "r") != 0)
		return false;
	(void)buf_str(&jw->out, python ? "__import__('os').chdir(" : "setwd(");
	jw_str(jw, cwd);
	(void)buf_str(&jw->out, ")");
	return true;
}

/* A directory that is given with code is where the code runs, in a kernel that is there already. */
static int change_directory(struct call *call, const struct kernel_session *session,
			    const char *cwd, struct err *err)
{
	struct jw jw;
	struct kernel_result result;
	if (!cwd)
		return 0;
	jw_init(&jw, 65536);
	if (!write_change(session->language, cwd, &jw)) {
		jw_done(&jw);
		return !strcmp(cwd, session->cwd)
			       ? 0
			       : err_set(err, ERR_BAD_REQUEST,
					 "cwd: this %s kernel stays where it was started, in %.200s",
					 session->language, session->cwd);
	}
	const struct kernel_job job = { { jw.out.data, jw.out.len }, .silent = true };
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	int done = kernel_run(session->kernel, &job, &wait, take_nothing, NULL, &result, err);
	jw_done(&jw);
	if (done == 0 && result.outcome != KERNEL_OK)
		done = err_set(err, ERR_BAD_REQUEST, "cwd: the kernel cannot change to '%.200s'",
			       cwd);
	return done;
}

static void add_notice(struct call *call, struct kernels_result *ret, const char *text)
{
	ret->notice = ret->notice ? arena_printf(call->arena, "%s %s", ret->notice, text)
				  : arena_strdup(call->arena, text);
}

/* The kernel's end, as an error among the outputs. starved: something was killed for lack of memory. */
static void tell_death(struct call *call, struct kernel_session *session,
		       const struct kernels_job *job, const struct kernel_result *result,
		       bool starved, struct kernels_result *ret)
{
	char how[128];
	const char *what =
		result->killed ? "The code could not be interrupted, so its kernel was ended."
		: starved && kernel_end_cause(session->kernel) == ENOMEM
			? "The kernel has ended. " LIMITS_STARVED "."
			: arena_printf(call->arena, "The kernel has ended %s.",
				       kernel_end_text(session->kernel, how, sizeof how));
	snprintf(session->lost, sizeof session->lost, "%s", what);
	if (result->outcome != KERNEL_DIED && !result->killed) {
		add_notice(call, ret, what); /* it left in good order: exit() */
		return;
	}
	ret->died = true;
	json_t *error = json_object();
	json_object_set_new(error, "ename", json_string("DeadKernelError"));
	json_object_set_new(error, "evalue", json_string(what));
	json_object_set_new(error, "traceback", json_array());
	take_message(&(struct running){ call, ret->outputs, job->events }, "error", error);
	json_decref(error);
	add_notice(call, ret, what);
	add_notice(call, ret, "The next call gets a new one, without its variables.");
	if (starved && !strstr(what, LIMITS_STARVED))
		add_notice(call, ret, LIMITS_STARVED ".");
	if (starved)
		add_notice(call, ret, LIMITS_STARVED_HINT);
}

static int run(struct call *call, struct kernel_session *session, const struct kernels_job *job,
	       struct kernels_result *ret, struct err *err)
{
	static const char *const states[] = { "ok", "error", "timeout", "error" };
	struct running running = { call, ret->outputs, job->events };
	struct kernel_result result;
	const struct kernel_job what = { job->code, .prompt = job->events };
	if (!ret->session.made && change_directory(call, session, job->where.cwd, err) < 0)
		return -1;
	ret->notice = ret->session.notice;
	if (*session->lost)
		add_notice(call, ret,
			   arena_printf(call->arena,
					"%s A new kernel was started: the variables are gone.",
					session->lost));
	*session->lost = 0;
	if (job->events && code_events_start(call, session->language,
					     job->once ? NULL : session->base.id, err) < 0)
		return -1;
	const struct wait wait = call_until(call, clock_ms() + job->timeout_ms);
	int64_t killed = limits_killed();
	pthread_mutex_lock(&session->base.lock);
	session->executions++;
	pthread_mutex_unlock(&session->base.lock);
	if (kernel_run(session->kernel, &what, &wait, take_message, &running, &result, err) < 0)
		return -1;
	if (result.outcome == KERNEL_LEFT)
		return wake_err(WAKE_LEFT, err);
	if (result.outcome == KERNEL_STOPPING)
		return wake_err(WAKE_STOPPING, err);
	ret->status = states[result.outcome];
	ret->count = result.count;
	ret->exit_code = result.outcome == KERNEL_OK        ? 0
			 : result.outcome == KERNEL_TIMEOUT ? INT_ABSENT
			 : result.exit_code == INT_ABSENT   ? 1
							    : result.exit_code;
	ret->id = arena_strdup(call->arena, result.id);
	if (result.lost)
		add_notice(call, ret, "Some of the output did not arrive.");
	if (result.unbegun)
		add_notice(
			call, ret,
			"The code was not run: the kernel was busy with a notebook's all the time.");
	if (kernel_ended(session->kernel))
		tell_death(call, session, job, &result, limits_killed() > killed, ret);
	return 0;
}

static void free_outputs(void *outputs)
{
	outputs_done(outputs);
}

int kernels_execute(struct call *call, const struct kernels_job *asked, struct kernels_result *ret,
		    struct err *err)
{
	struct kernels_job own = *asked, *job = &own;
	if (workdir_find(call, "cwd", asked->where.cwd, &own.where.cwd, err) < 0)
		return -1;
	*ret = (struct kernels_result){ .count = INT_ABSENT };
	ret->outputs = arena_alloc(call->arena, sizeof *ret->outputs);
	outputs_init(ret->outputs, (size_t)call->server->config->kernel_output);
	arena_defer(call->arena, free_outputs, ret->outputs);
	bool named = job->where.id && *job->where.id;
	auto_session struct kernel_session *session =
		begin(call, &job->where, named, clock_ms() + job->timeout_ms, &ret->session, err);
	if (!session)
		return -1;
	const struct journal_started started = { ret->session.language,
						 job->once ? NULL : ret->session.id, NULL,
						 job->code };
	struct journal_run *running = journal_begin(JOURNAL_CODE_STARTED, &started);
	int result = run(call, session, job, ret, err);
	journal_end(running, result < 0 ? "cancelled" : ret->status,
		    result < 0 ? INT_ABSENT : ret->exit_code);
	leave(session);
	if (job->once)
		(void)sessions_close(&kernels_sessions, session->base.id, NULL);
	if (result == 0 && job->events) {
		const struct code_events_end end = { ret->status,
						     job->once ? NULL : ret->session.id,
						     ret->notice, ret->exit_code, ret->count };
		result = code_events_finish(call, &end, err);
	}
	return result;
}

/* ---- what is there; the end ---- */

static struct kernels_info inform(struct kernel_session *session, struct arena *arena)
{
	pthread_mutex_lock(&session->base.lock);
	struct kernels_info info = {
		.id = session->base.id,
		.kernel_name = session->kernel_name,
		.language = session->language,
		.context = session->context,
		.cwd = arena_strdup(arena, session->cwd),
		.connection_file =
			session->kernel
				? arena_strdup(arena, kernel_connection_file(session->kernel))
				: NULL,
		.created = session->base.created,
		.used = session->base.used,
		.pid = session->kernel ? kernel_pid(session->kernel) : INT_ABSENT,
		.executions = session->executions,
		.clients = session->clients,
		.busy = session->busy || session->runs,
	};
	pthread_mutex_unlock(&session->base.lock);
	return info;
}

struct list kernels_list(struct arena *arena)
{
	sessions_expire(&kernels_sessions);
	size_t count;
	void **all = sessions_list(&kernels_sessions, arena, &count);
	struct kernels_info *infos = arena_alloc(arena, (count + 1) * sizeof *infos);
	for (size_t i = 0; i < count; i++)
		infos[i] = inform(all[i], arena);
	return (struct list){ count, infos };
}

int kernels_look(const char *id, struct arena *arena, struct kernels_info *ret, struct err *err)
{
	struct kernel_session *session = sessions_find(&kernels_sessions, id, err);
	if (!session)
		return -1;
	*ret = inform(session, arena);
	ret->id = arena_strdup(arena, ret->id);
	ret->kernel_name = arena_strdup(arena, ret->kernel_name);
	ret->language = arena_strdup(arena, ret->language);
	ret->context = NULL;
	sessions_release(session);
	return 0;
}

/* ---- clients of Jupyter ---- */

/* A kernel that runs, with a reference; NULL: there is none. From now on nobody else takes its outputs between two
 * executions of ours, so those are not kept for us. */
static struct kernel *share_kernel(struct kernel_session *session)
{
	pthread_mutex_lock(&session->base.lock);
	bool runs = session->kernel && !kernel_ended(session->kernel) && !session->base.closed;
	struct kernel *kernel = runs ? kernel_ref(session->kernel) : NULL;
	if (kernel && !session->busy)
		kernel_rest(kernel);
	if (kernel) {
		session->shared = true;
		session->clients++;
	}
	session->base.named = true;
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
	return kernel;
}

/* Has a kernel started where there is none, once nobody runs code in it. */
static int revive(struct call *call, struct kernel_session *session, struct err *err)
{
	if (enter(call, session, true, clock_ms() + START_MS, err) < 0)
		return -1;
	int result = have_kernel(call, session, err);
	if (result == 0)
		kernel_set_expendable(session->kernel, false);
	leave(session);
	return result;
}

int kernels_attach(struct call *call, const char *id, struct kernels_client *ret, struct err *err)
{
	struct kernel_session *session = sessions_find(&kernels_sessions, id, err);
	if (!session)
		return -1;
	struct kernel *kernel = share_kernel(session);
	if (!kernel && revive(call, session, err) == 0) {
		kernel = share_kernel(session);
		if (!kernel)
			err_set(err, ERR_UNAVAILABLE,
				"the kernel of session '%.80s' has just ended", id);
	}
	if (!kernel) {
		sessions_release(session);
		return -1;
	}
	kernel_set_expendable(kernel, false);
	*ret = (struct kernels_client){ .session = session, .kernel = kernel };
	return 0;
}

void kernels_detach(struct kernels_client *client)
{
	struct kernel_session *session = client->session;
	pthread_mutex_lock(&session->base.lock);
	session->clients -= !client->left;
	if (client->stays)
		session->stays = false;
	if (session->clients == 0 && !session->stays)
		session->runs = false;
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
	kernel_unref(client->kernel);
	sessions_release(session);
}

void kernels_note_state(const struct kernels_client *client, bool busy)
{
	struct kernel_session *session = client->session;
	pthread_mutex_lock(&session->base.lock);
	if (session->kernel == client->kernel)
		session->runs = busy;
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
}

void kernels_note_request(const struct kernels_client *client)
{
	struct kernel_session *session = client->session;
	pthread_mutex_lock(&session->base.lock);
	session->executions++;
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
}

bool kernels_stays(struct kernels_client *client)
{
	struct kernel_session *session = client->session;
	pthread_mutex_lock(&session->base.lock);
	if (!client->left) {
		client->left = true;
		session->clients--;
		client->stays = session->clients == 0 && !session->stays;
		session->stays |= client->stays;
	}
	bool stays = client->stays && session->runs && !session->base.closed &&
		     session->kernel == client->kernel;
	pthread_mutex_unlock(&session->base.lock);
	return stays;
}

bool kernels_is_closed(const struct kernels_client *client)
{
	struct kernel_session *session = client->session;
	pthread_mutex_lock(&session->base.lock);
	bool closed = session->base.closed;
	pthread_mutex_unlock(&session->base.lock);
	return closed;
}

int kernels_interrupt(const char *id, struct err *err)
{
	auto_session struct kernel_session *session = sessions_find(&kernels_sessions, id, err);
	if (!session)
		return -1;
	pthread_mutex_lock(&session->base.lock);
	struct kernel *kernel = session->kernel ? kernel_ref(session->kernel) : NULL;
	pthread_mutex_unlock(&session->base.lock);
	int result = kernel && !kernel_ended(kernel) ? kernel_interrupt_all(kernel, err) : 0;
	kernel_unref(kernel);
	return result;
}

/* Whoever runs code in it sees the kernel die, and whoever is connected, too. */
static void end_kernel(struct kernel_session *session)
{
	char how[128];
	pthread_mutex_lock(&session->base.lock);
	struct kernel *kernel = session->kernel ? kernel_ref(session->kernel) : NULL;
	pthread_mutex_unlock(&session->base.lock);
	if (!kernel)
		return;
	kernel_end(kernel);
	(void)kernel_end_text(kernel, how, sizeof how); /* waits for it */
	kernel_unref(kernel);
}

int kernels_restart(struct call *call, const char *id, struct err *err)
{
	auto_session struct kernel_session *session = sessions_find(&kernels_sessions, id, err);
	if (!session)
		return -1;
	end_kernel(session);
	if (enter(call, session, true, clock_ms() + START_MS, err) < 0)
		return -1;
	if (!*session->lost)
		snprintf(session->lost, sizeof session->lost, "The kernel was restarted.");
	int result = have_kernel(call, session, err);
	if (result == 0)
		kernel_set_expendable(session->kernel, false);
	leave(session);
	return result;
}

int kernels_close(const char *id, struct err *err)
{
	return sessions_close(&kernels_sessions, id, err);
}

size_t kernels_close_all(void)
{
	return sessions_close_all(&kernels_sessions);
}

void kernels_start(struct server *server)
{
	sessions_limit(&kernels_sessions, server->config->max_kernels,
		       server->config->kernel_idle_ms);
}

int kernels_warm(struct server *server, struct err *err)
{
	struct tools_where where;
	struct arena arena = { 0 };
	if (kernels_where(server, &where, err) < 0)
		return -1;
	const struct kernelspec *spec = kernelspec_find(&where, NULL, &arena, err);
	const struct pool_config config = { server->home, server->config->kernel_preload,
					    where.user };
	int result = spec && spec->python ? pool_warm(&config, spec, err) : spec ? 0 : -1;
	arena_done(&arena);
	return result;
}

void kernels_end(void)
{
	pool_end();
	kernel_end_all();
}
