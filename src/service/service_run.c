#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "journal/journal.h"
#include "proc/limits.h"
#include "service/service_state.h"

enum {
	RETRY_MS = 2000, /* after a failure, doubled with each further one, up to a minute */
	RETRY_MOST_MS = 60000,
	RETRY_LIMIT_MS = 1000, /* after there was no room for it */
	NEVER_MS = 86400000,
};

static const struct wait forever = { INT64_MAX, -1, -1 };

/* ---- references ---- */

struct life *service_run_make(struct service *s)
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
	const char *colon = *words ? ": " : "";
	const char *signal = how.signal ? sigabbrev_np(how.signal) : NULL;
	if (signal)
		snprintf(to, room, "it was killed by SIG%s%s%s", signal, colon, words);
	else
		snprintf(to, room, "it ended with exit code %d%s%s", how.code, colon, words);
}

/* ---- ending; with the lock ---- */

void service_run_ask(struct life *life, const char *why, bool unwanted)
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
			service_run_ask(s->life, "what it runs on has ended", true);
			any = true;
		}
	return any;
}

/* ---- starting ---- */

static int await_needs(struct life *life, size_t from, size_t end, const struct wait *wait,
		       struct err *err)
{
	for (size_t i = from; i < end; i++)
		if (service_need(life->run.service->row->needs[i], wait, &life->needs[i], err) < 0)
			return -1;
	return 0;
}

static void begin_needs(const struct life *life, size_t from)
{
	for (size_t i = from; i < life->need_count; i++)
		service_begin_need(life->run.service->row->needs[i]);
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
	if (row->prepare(run, start, err) == 0) {
		/* Of a server that is killed, nothing is to stay in the way of the next one. */
		start->program.spawn.with_thread = true;
		run->program = program_start(&start->program, err);
	}
	for (size_t i = 0; i < COUNT(start->program.spawn.fds); i++)
		own_close(&start->program.spawn.fds[i]);
	return run->program ? 0 : -1;
}

static int await_ready(struct life *life, const struct ready *ready, const struct wait *wait,
		       struct err *err)
{
	char why[SERVICE_WHY];
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
	const size_t before = life->need_count - row->beside;
	struct arena arena = { 0 };
	struct service_start what = { .arena = &arena };
	int result = limits_need(row->pids, row->memory, err);
	if (result == 0)
		result = await_needs(life, 0, before, &wait, err);
	if (result == 0)
		begin_needs(life, before);
	if (result == 0 && row->find)
		result = spawn(life, &what, err);
	if (result == 0)
		result = await_needs(life, before, life->need_count, &wait, err);
	if (result == 0)
		result = await_ready(life, &what.ready, &wait, err);
	if (result == 0 && row->open)
		result = row->open(&life->run, &wait, err);
	arena_done(&arena);
	return result;
}

/* ---- its life, in a thread of its own ---- */

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
		service_run_ask(life, "it was idle", true);
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
	service_run_ask(life, NULL, false);
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
	/* Once there is room again, the wait is to be short. */
	if (err->code == ERR_LIMIT || err->code == ENOSPC || err->code == EDQUOT)
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
void service_run_finish(struct life *life, const struct err *failure)
{
	struct service *s = life->run.service;
	char why[SERVICE_WHY];
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
 * run is asked to end, and whoever asks then does the rest: see service_run_take_alone(). */
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

bool service_run_take_alone(struct life *life)
{
	bool alone = life && life->alone;
	if (alone)
		life->alone = false;
	return alone;
}

void *service_run_live(void *arg)
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
	service_run_finish(life, ready ? NULL : &err);
	return NULL;
}

void service_lost(struct service_run *run, const char *why)
{
	struct life *life = life_of(run);
	pthread_mutex_lock(&services.lock);
	service_run_ask(life, why, false);
	bool alone = service_run_take_alone(life);
	pthread_mutex_unlock(&services.lock);
	if (alone)
		service_run_finish(life, NULL);
}
