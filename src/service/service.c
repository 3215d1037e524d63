#include "service/service.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/thread.h"
#include "journal/journal.h"
#include "proc/environment.h"
#include "proc/limits.h"
#include "service/service_names.h"

enum {
	RETRY_MS = 2000, /* after a failure, doubled with each further one, up to a minute */
	RETRY_MOST_MS = 60000,
	RETRY_LIMIT_MS = 1000, /* after there was no room for it */
	LOOK_MS = 2000,        /* between two looks for a program that is missing */
	NEVER_MS = 86400000,
	WHY_MAX = 500,
};

const char *const service_state_names[] = { "idle", "starting", "ready", "failed", NULL };

struct service {
	struct service *next;
	_Atomic int refs; /* of its owner and users, and of its runs */
	const struct service_row *row;
	void *arg;

	/* under the lock */
	enum service_state state;
	struct life *life; /* being started, ready, or ending; NULL: none */
	struct waiter *waiters;
	bool removed;
	char refused[WHY_MAX]; /* why it may not be used; "": it may */
	struct err missing;    /* its program was, when we looked; code 0: it was not */
	struct err failure;    /* the last one */
	int64_t look_ms, retry_ms;
	int failures_in_a_row;
	uint64_t starts, failures;
};

struct life {
	struct service_run run; /* first */
	_Atomic int refs;

	/* under the lock */
	size_t leases;
	int64_t used_ms;            /* of awake_ms(): when the last lease was released */
	bool alone;                 /* its thread has left: there is nothing to watch */
	char why[WHY_MAX];          /* it is ending; "": that is for its program to say */
	struct service_run **needs; /* leases of what it runs on; may have gaps */
	size_t need_count;
};

static struct {
	pthread_mutex_t lock; /* of all services and their runs; nothing is called under it */
	pthread_cond_t none;
	struct service *first;
	size_t lives;
	bool stopping;
} services = { .lock = PTHREAD_MUTEX_INITIALIZER, .none = PTHREAD_COND_INITIALIZER };

static const struct wait forever = { INT64_MAX, -1, -1 };

static struct life *life_of(struct service_run *run)
{
	return (struct life *)run;
}

/* ---- references ---- */

struct service *service_ref(struct service *service)
{
	atomic_fetch_add(&service->refs, 1);
	return service;
}

void service_unref(struct service *service)
{
	if (!service || atomic_fetch_sub(&service->refs, 1) > 1)
		return;
	pthread_mutex_lock(&services.lock);
	struct service **at = &services.first;
	while (*at != service)
		at = &(*at)->next;
	*at = service->next;
	pthread_mutex_unlock(&services.lock);
	if (service->row->done)
		service->row->done(service->arg);
	free(service);
}

struct service_run *service_run_ref(struct service_run *run)
{
	atomic_fetch_add(&life_of(run)->refs, 1);
	return run;
}

static void life_free(struct life *life)
{
	struct service_run *run = &life->run;
	if (run->service->row->free && run->value)
		run->service->row->free(run);
	own_close(&run->in);
	own_close(&run->out);
	own_close(&run->end_fd);
	program_unref(run->program);
	service_unref(run->service);
	free(life->needs);
	free(life);
}

void service_run_unref(struct service_run *run)
{
	if (atomic_fetch_sub(&life_of(run)->refs, 1) > 1)
		return;
	life_free(life_of(run));
	pthread_mutex_lock(&services.lock);
	if (--services.lives == 0)
		pthread_cond_broadcast(&services.none);
	pthread_mutex_unlock(&services.lock);
}

/* ---- what is said of it ---- */

static void report(const struct service *s, enum service_state state, const char *reason)
{
	static const enum log_level levels[] = { LOG_INFO, LOG_DEBUG, LOG_INFO, LOG_WARN };
	const char *name = s->row->name, *word = service_state_names[state];
	const struct log_fact facts[] = { { "name", name, 0 },
					  { "state", word, 0 },
					  { "reason", reason, 0 } };
	journal_add(JOURNAL_SERVICE_CHANGED, &(struct journal_service){ name, word, reason });
	log_event(levels[state], "service", facts, reason ? 3 : 2);
}

static int unavailable(const struct service *s, int code, const char *reason, struct err *err)
{
	const char *title = s->row->title;
	bool named = !strncmp(reason, title, strlen(title));
	return err_set(err, code == ERR_LIMIT ? ERR_LIMIT : ERR_UNAVAILABLE, "%s%s%s",
		       named ? "" : title, named ? "" : " is unavailable: ", reason);
}

void service_why(struct service_run *run, char *to, size_t room)
{
	struct program_status how;
	char words[251];
	pthread_mutex_lock(&services.lock);
	snprintf(to, room, "%s", life_of(run)->why);
	pthread_mutex_unlock(&services.lock);
	if (*to || !run->program)
		return;
	if (program_wait(run->program, &(struct wait){ 0, -1, -1 }, &how) != WAKE_READY) {
		snprintf(to, room, "it is ending");
		return;
	}
	program_words(run->program, words, sizeof words);
	snprintf(to, room, "it ended with exit code %d%s%s", how.code, *words ? ": " : "", words);
}

/* ---- ending; with the lock ---- */

static void ask_to_end(struct life *life, const char *why, bool unwanted)
{
	if (!*life->why && why)
		snprintf(life->why, sizeof life->why, "%s", why);
	if (unwanted)
		life->run.unwanted = true;
	life->run.ending = true;
	(void)eventfd_write(life->run.end_fd, 1);
}

static bool runs_on(const struct life *life, const struct service_run *other)
{
	for (size_t i = 0; life && i < life->need_count; i++)
		if (life->needs[i] == other)
			return true;
	return false;
}

/* Asks those that run on it to end, too. Whether there are any. */
static bool ask_dependents(struct life *life)
{
	bool any = false;
	for (struct service *s = services.first; s; s = s->next)
		if (runs_on(s->life, &life->run)) {
			ask_to_end(s->life, "what it runs on has ended", true);
			any = true;
		}
	return any;
}

/* ---- one life, in a thread of its own ---- */

static struct service *find(const char *name)
{
	pthread_mutex_lock(&services.lock);
	struct service *s = services.first;
	while (s && (s->removed || strcmp(s->row->name, name) != 0))
		s = s->next;
	if (s)
		service_ref(s);
	pthread_mutex_unlock(&services.lock);
	return s;
}

static struct service_run *use(struct service *s, const struct wait *wait,
			       struct service_run **ret_need, struct err *err);

static int start_needs(struct life *life, const struct wait *wait, struct err *err)
{
	for (size_t i = 0; i < life->need_count; i++) {
		const char *name = life->run.service->row->needs[i];
		struct service *s = find(name);
		if (!s)
			return err_set(err, ERR_INTERNAL, "there is no service '%s'", name);
		bool runs = use(s, wait, &life->needs[i], err);
		service_unref(s);
		if (!runs)
			return -1;
	}
	return 0;
}

static int spawn(struct life *life, struct service_start *start, struct err *err)
{
	struct service_run *run = &life->run;
	const struct service_row *row = run->service->row;
	const char *path = row->find(run->arg, start->arena, err);
	if (!path)
		return -1;
	start->program =
		(struct program_spec){ .spawn = { .path = path, .fds = { -1, -1, -1, -1, -1 } },
				       .worth = row->worth,
				       .words = true };
	if (row->prepare(run, start, err) == 0)
		run->program = program_start(&start->program, err);
	for (size_t i = 0; i < COUNT(start->program.spawn.fds); i++)
		own_close(&start->program.spawn.fds[i]);
	return run->program ? 0 : -1;
}

static int await_ready(struct life *life, const struct ready *ready, const struct wait *wait,
		       struct err *err)
{
	char why[WHY_MAX];
	enum wake wake = ready_wait(ready, life->run.program, wait);
	if (wake == WAKE_TIMEOUT)
		return err_set(err, ERR_UNAVAILABLE, "it was not ready within %g s",
			       (double)life->run.service->row->start_ms / 1000);
	if (wake != WAKE_LEFT)
		return wake_err(wake, err);
	(void)program_wait(life->run.program, &forever, NULL);
	service_why(&life->run, why, sizeof why);
	return err_set(err, ERR_UNAVAILABLE, "%s", why);
}

static int start(struct life *life, struct err *err)
{
	const struct service_row *row = life->run.service->row;
	const struct wait wait = { clock_ms() + row->start_ms, -1, life->run.end_fd };
	struct arena arena = { 0 };
	struct service_start what = { .arena = &arena };
	int result = limits_need(row->pids, row->memory, err);
	if (result == 0)
		result = start_needs(life, &wait, err);
	if (result == 0 && row->find)
		result = spawn(life, &what, err);
	if (result == 0)
		result = await_ready(life, &what.ready, &wait, err);
	if (result == 0 && row->open)
		result = row->open(&life->run, &wait, err);
	arena_done(&arena);
	return result;
}

/* How long it may still be idle. Once it may not, it takes no more leases. */
static int64_t idle_left(struct life *life)
{
	const struct service_row *row = life->run.service->row;
	if (!row->idle_ms)
		return NEVER_MS;
	bool busy = row->busy && row->busy(&life->run);
	pthread_mutex_lock(&services.lock);
	int64_t now = awake_ms();
	if (busy || life->leases || life->run.service->waiters) /* who waited will have a lease */
		life->used_ms = now;
	int64_t left = life->used_ms + row->idle_ms - now;
	if (left <= 0)
		ask_to_end(life, "it was idle", true);
	pthread_mutex_unlock(&services.lock);
	return left;
}

/* Returns when the program has ended, or when it is to be. */
static void watch(struct life *life)
{
	int pidfd = life->run.program ? program_fd(life->run.program) : -1;
	int64_t left;
	enum wake wake = WAKE_TIMEOUT;
	while (wake == WAKE_TIMEOUT && (left = idle_left(life)) > 0) {
		const struct wait wait = { clock_ms() + left, -1, life->run.end_fd };
		wake = wait_fd(&wait, pidfd, POLLIN);
	}
	if (wake == WAKE_READY)
		(void)program_wait(life->run.program, &forever, NULL);
}

static void end(struct life *life)
{
	struct service_run *run = &life->run;
	const struct service_row *row = run->service->row;
	pthread_mutex_lock(&services.lock);
	ask_to_end(life, NULL, false);
	while (ask_dependents(life))
		(void)wait_change(&forever, &services.lock, &run->service->waiters, NULL);
	pthread_mutex_unlock(&services.lock);
	if (row->close)
		row->close(run);
	if (run->program) {
		if (!row->close && row->grace_ms)
			program_terminate(run->program);
		(void)program_wait(run->program,
				   &(struct wait){ clock_ms() + row->grace_ms, -1, -1 }, NULL);
		program_end(run->program, 0, NULL);
	}
	for (size_t i = 0; i < life->need_count; i++) {
		pthread_mutex_lock(&services.lock);
		struct service_run *need = TAKE(life->needs[i]);
		pthread_mutex_unlock(&services.lock);
		service_release(need);
	}
}

static void note_failure(struct service *s, const struct err *err)
{
	int64_t pause = s->row->retry_ms ? s->row->retry_ms : RETRY_MS;
	for (int i = 0; i < s->failures_in_a_row && pause < RETRY_MOST_MS; i++)
		pause *= 2;
	s->failures++;
	s->failures_in_a_row++;
	s->failure = *err;
	if (err->code == ERR_LIMIT) /* whoever makes room for it need not wait for long */
		pause = RETRY_LIMIT_MS;
	s->retry_ms = clock_ms() + (pause < RETRY_MOST_MS ? pause : RETRY_MOST_MS);
}

static void become(struct service *s, enum service_state state, const struct err *failure)
{
	pthread_mutex_lock(&services.lock);
	s->state = state;
	if (state != SERVICE_READY)
		s->life = NULL;
	else
		s->failures_in_a_row = 0;
	if (failure)
		note_failure(s, failure);
	waiter_wake(s->waiters);
	pthread_mutex_unlock(&services.lock);
}

/* Those who wait see a state only when it has been reported. */
static void finish(struct life *life, const struct err *failure)
{
	struct service *s = life->run.service;
	char why[WHY_MAX];
	end(life);
	if (!failure || life->run.unwanted) {
		service_why(&life->run, why, sizeof why);
		report(s, SERVICE_IDLE, why);
		become(s, SERVICE_IDLE, NULL);
	} else {
		report(s, SERVICE_FAILED, failure->msg);
		if (s->row->failed)
			s->row->failed(s->arg, failure->msg);
		become(s, SERVICE_FAILED, failure);
	}
	service_run_unref(&life->run);
}

/* Without a program, needs and an idle time there is nothing that a thread would have to do until the
 * run is asked to end, and whoever asks then does the rest: see take_alone(). */
static bool leave_alone(struct life *life)
{
	if (life->run.program || life->need_count || life->run.service->row->idle_ms)
		return false;
	pthread_mutex_lock(&services.lock);
	life->alone = !life->run.ending;
	int end_fd = life->alone ? TAKE_FD(life->run.end_fd) : -1;
	bool alone = life->alone;
	pthread_mutex_unlock(&services.lock);
	own_close(&end_fd);
	return alone;
}

/* With the lock: whether the caller has to finish it, without the lock. */
static bool take_alone(struct life *life)
{
	bool alone = life && life->alone;
	if (alone)
		life->alone = false;
	return alone;
}

static void *live(void *arg)
{
	struct life *life = arg;
	struct service *s = life->run.service;
	struct err err = { 0 };
	report(s, SERVICE_STARTING, NULL);
	bool ready = start(life, &err) == 0;
	if (ready) {
		report(s, SERVICE_READY, NULL);
		become(s, SERVICE_READY, NULL);
		if (leave_alone(life))
			return NULL;
		watch(life);
	}
	finish(life, ready ? NULL : &err);
	return NULL;
}

/* ---- starting ---- */

/* Looks whether its program is there. */
static void look(struct service *s)
{
	struct arena arena = { 0 };
	struct err why = { 0 };
	const struct service_row *row = s->row;
	pthread_mutex_lock(&services.lock);
	bool due = row->find && !s->life && !*s->refused && clock_ms() >= s->look_ms;
	pthread_mutex_unlock(&services.lock);
	if (!due)
		return;
	bool there = row->find(s->arg, &arena, &why);
	arena_done(&arena);
	pthread_mutex_lock(&services.lock);
	s->look_ms = there ? 0 : clock_ms() + LOOK_MS;
	s->missing.code = 0;
	if (!there)
		err_set(&s->missing, ERR_UNAVAILABLE, "%s%s%s", why.msg, row->install ? ": " : "",
			row->install ? row->install : "");
	pthread_mutex_unlock(&services.lock);
}

static struct life *life_make(struct service *s)
{
	struct life *life = xcalloc(1, sizeof *life);
	life->refs = 1;
	life->used_ms = awake_ms();
	life->run = (struct service_run){ .service = service_ref(s),
					  .arg = s->arg,
					  .in = -1,
					  .out = -1,
					  .end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	while (s->row->needs && s->row->needs[life->need_count])
		life->need_count++;
	life->needs = xcalloc(life->need_count + 1, sizeof(struct service_run *));
	return life;
}

/* With the lock. 0: a run is there, or on its way, or on its way out. */
static int begin(struct service *s, struct err *err)
{
	if (services.stopping)
		return wake_err(WAKE_STOPPING, err);
	if (*s->refused)
		return unavailable(s, ERR_UNAVAILABLE, s->refused, err);
	if (s->life)
		return 0;
	if (s->missing.code)
		return unavailable(s, ERR_UNAVAILABLE, s->missing.msg, err);
	if (s->state == SERVICE_FAILED && clock_ms() < s->retry_ms)
		return unavailable(s, s->failure.code, s->failure.msg, err);
	struct life *life = life_make(s);
	s->life = life;
	s->state = SERVICE_STARTING;
	s->starts++;
	services.lives++;
	if (life->run.end_fd >= 0 && thread_start(live, life) == 0)
		return 0;
	s->life = NULL;
	s->state = SERVICE_IDLE;
	services.lives--;
	atomic_fetch_sub(&s->refs, 1); /* never the last: the caller has one */
	own_close(&life->run.end_fd);
	free(life->needs);
	free(life);
	return unavailable(s, ERR_LIMIT, "there is no thread or descriptor for it", err);
}

/* ---- using ---- */

/* With the lock. */
static struct service_run *lease(struct service *s)
{
	if (s->state != SERVICE_READY || s->life->run.ending)
		return NULL;
	s->life->leases++;
	return service_run_ref(&s->life->run);
}

/* *ret_need is set under the same lock: what it runs on cannot end without knowing of it. */
static struct service_run *use(struct service *s, const struct wait *wait,
			       struct service_run **ret_need, struct err *err)
{
	enum wake wake = WAKE_READY;
	struct service_run *run;
	look(s);
	pthread_mutex_lock(&services.lock);
	while (!(run = lease(s)) && wake == WAKE_READY && begin(s, err) == 0)
		wake = wait_change(wait, &services.lock, &s->waiters, NULL);
	if (run && ret_need)
		*ret_need = run;
	pthread_mutex_unlock(&services.lock);
	if (!run && wake == WAKE_TIMEOUT)
		unavailable(s, ERR_UNAVAILABLE, "it is still starting", err);
	else if (!run && wake != WAKE_READY)
		(void)wake_err(wake, err);
	return run;
}

struct service_run *service_use(struct service *service, const struct wait *wait, struct err *err)
{
	return use(service, wait, NULL, err);
}

void service_release(struct service_run *run)
{
	if (!run)
		return;
	pthread_mutex_lock(&services.lock);
	life_of(run)->leases--;
	life_of(run)->used_ms = awake_ms();
	waiter_wake(run->service->waiters); /* it may be ending, and wait for this */
	pthread_mutex_unlock(&services.lock);
	service_run_unref(run);
}

struct service_run *service_current(struct service *service)
{
	pthread_mutex_lock(&services.lock);
	struct service_run *run = lease(service);
	pthread_mutex_unlock(&services.lock);
	return run;
}

bool service_begin(struct service *service)
{
	look(service);
	pthread_mutex_lock(&services.lock);
	bool starting = begin(service, NULL) == 0 && service->state == SERVICE_STARTING;
	pthread_mutex_unlock(&services.lock);
	return starting;
}

enum service_state service_look(struct service *service, char *ret_reason, size_t room)
{
	look(service);
	pthread_mutex_lock(&services.lock);
	enum service_state state = service->state;
	const char *why = *service->refused                         ? service->refused
			  : !service->life && service->missing.code ? service->missing.msg
			  : state == SERVICE_FAILED                 ? service->failure.msg
								    : "";
	snprintf(ret_reason, room, "%s", why);
	pthread_mutex_unlock(&services.lock);
	return *ret_reason ? SERVICE_FAILED : state;
}

void service_lost(struct service_run *run, const char *why)
{
	struct life *life = life_of(run);
	pthread_mutex_lock(&services.lock);
	ask_to_end(life, why, false);
	bool alone = take_alone(life);
	pthread_mutex_unlock(&services.lock);
	if (alone)
		finish(life, NULL);
}

/* ---- all services ---- */

const char *service_disabled(const char *name)
{
#define DISABLED(service, option, variable, what) { service, variable },
	static const struct pair variables[] = { SERVICE_NAMES(DISABLED) };
	for (size_t i = 0; i < COUNT(variables); i++) {
		const char *set = strcmp(variables[i].name, name) ? NULL
								  : getenv(variables[i].value);
		bool disabled = false;
		if (set && opt_bool(set, &disabled) == 0 && disabled)
			return variables[i].value;
	}
	return NULL;
}

struct service *service_add(const struct service_row *row, void *arg)
{
	struct service *s = xcalloc(1, sizeof *s);
	const char *disabled = service_disabled(row->name);
	s->refs = 1;
	s->row = row;
	s->arg = arg;
	if (disabled)
		snprintf(s->refused, sizeof s->refused, "it is disabled by the variable %s",
			 disabled);
	else if (row->refused)
		snprintf(s->refused, sizeof s->refused, "%s", row->refused);
	else
		environment_give(&row->gives);
	pthread_mutex_lock(&services.lock);
	s->next = services.first;
	services.first = s;
	pthread_mutex_unlock(&services.lock);
	return s;
}

void service_remove(struct service *service, const char *why)
{
	pthread_mutex_lock(&services.lock);
	struct life *life = service->life;
	service->removed = true;
	snprintf(service->refused, sizeof service->refused, "%s", why);
	if (life)
		ask_to_end(life, why, true);
	bool alone = take_alone(life);
	waiter_wake(service->waiters);
	pthread_mutex_unlock(&services.lock);
	if (alone)
		finish(life, NULL);
	service_unref(service);
}

size_t service_list(struct arena *arena, struct service_info **ret)
{
	size_t count = 0;
	pthread_mutex_lock(&services.lock);
	for (struct service *s = services.first; s; s = s->next)
		count++;
	struct service_info *list = *ret = arena_alloc(arena, (count + 1) * sizeof *list);
	count = 0;
	for (struct service *s = services.first; s; s = s->next)
		if (!*s->refused)
			list[count++] = (struct service_info){ arena_strdup(arena, s->row->name),
							       s->state, s->starts, s->failures };
	pthread_mutex_unlock(&services.lock);
	return count;
}

void service_stop_all(void)
{
	pthread_mutex_lock(&services.lock);
	services.stopping = true;
	for (struct service *s = services.first; s; s = s->next) {
		if (s->life)
			ask_to_end(s->life, "the server is stopping", true);
		waiter_wake(s->waiters);
	}
	pthread_mutex_unlock(&services.lock);
}

static struct life *next_alone(void)
{
	pthread_mutex_lock(&services.lock);
	struct service *s = services.first;
	while (s && !take_alone(s->life))
		s = s->next;
	struct life *life = s ? s->life : NULL;
	pthread_mutex_unlock(&services.lock);
	return life;
}

void service_end_all(void)
{
	service_stop_all();
	for (struct life *life; (life = next_alone());)
		finish(life, NULL);
	pthread_mutex_lock(&services.lock);
	while (services.lives)
		pthread_cond_wait(&services.none, &services.lock);
	pthread_mutex_unlock(&services.lock);
	for (struct service *s = services.first, *next; s; s = next) {
		next = s->next;
		service_unref(s);
	}
}
