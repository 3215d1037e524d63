#include "service/service.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/thread.h"
#include "proc/environment.h"
#include "service/service_names.h"
#include "service/service_state.h"

enum { LOOK_MS = 2000 }; /* between two looks for a program that is missing */

const char *const service_state_names[] = { "idle", "starting", "ready", "failed", NULL };

struct services services = { .lock = PTHREAD_MUTEX_INITIALIZER, .none = PTHREAD_COND_INITIALIZER };

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

static int unavailable(const struct service *s, int code, const char *reason, struct err *err)
{
	const char *title = s->row->title;
	bool named = !strncmp(reason, title, strlen(title));
	return err_set(err, code == ERR_LIMIT ? ERR_LIMIT : ERR_UNAVAILABLE, "%s%s%s",
		       named ? "" : title, named ? "" : " is unavailable: ", reason);
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
	struct life *life = service_run_make(s);
	s->life = life;
	s->state = SERVICE_STARTING;
	s->starts++;
	services.lives++;
	if (life->run.end_fd >= 0 && thread_start(service_run_live, life) == 0)
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

/* With the lock: whether its program, or one that it runs on, is gone. Its thread may not have noticed. */
static bool is_dead(const struct life *life)
{
	bool dead = life->run.program && program_ended(life->run.program);
	for (size_t i = 0; i < life->need_count && !dead; i++)
		dead = life->needs[i] && is_dead(life_of(life->needs[i]));
	return dead;
}

/* With the lock. */
static struct service_run *lease(struct service *s)
{
	if (s->state != SERVICE_READY || s->life->run.ending || is_dead(s->life))
		return NULL;
	s->life->leases++;
	return service_run_ref(&s->life->run);
}

/* *ret_need is set under the lock; it may be NULL. */
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

int service_need(const char *name, const struct wait *wait, struct service_run **ret,
		 struct err *err)
{
	struct service *s = find(name);
	if (!s)
		return err_set(err, ERR_INTERNAL, "there is no service '%s'", name);
	bool runs = use(s, wait, ret, err);
	service_unref(s);
	return runs ? 0 : -1;
}

void service_begin_need(const char *name)
{
	struct service *s = find(name);
	if (s)
		(void)service_begin(s);
	service_unref(s);
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

bool service_is_usable(struct service *service)
{
	look(service);
	pthread_mutex_lock(&services.lock);
	bool usable = !*service->refused && (service->life || !service->missing.code);
	pthread_mutex_unlock(&services.lock);
	return usable;
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
		environment_give(&row->gives, row->given);
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
		service_run_ask(life, why, true);
	bool alone = service_run_take_alone(life);
	waiter_wake(service->waiters);
	pthread_mutex_unlock(&services.lock);
	if (alone)
		service_run_finish(life, NULL);
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
			service_run_ask(s->life, "the server is stopping", true);
		waiter_wake(s->waiters);
	}
	pthread_mutex_unlock(&services.lock);
}

static struct life *next_alone(void)
{
	pthread_mutex_lock(&services.lock);
	struct service *s = services.first;
	while (s && !service_run_take_alone(s->life))
		s = s->next;
	struct life *life = s ? s->life : NULL;
	pthread_mutex_unlock(&services.lock);
	return life;
}

void service_end_all(void)
{
	service_stop_all();
	for (struct life *life; (life = next_alone());)
		service_run_finish(life, NULL);
	pthread_mutex_lock(&services.lock);
	while (services.lives)
		pthread_cond_wait(&services.none, &services.lock);
	pthread_mutex_unlock(&services.lock);
	for (struct service *s = services.first, *next; s; s = next) {
		next = s->next;
		service_unref(s);
	}
}
