/* service_state.h - what the files of services share: a service, a run of it, and all of them.
 *
 * service.c has the services, and those who use them; service_run.c has one run, from its start to its
 * end. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "service/service.h"

enum { SERVICE_WHY = 500 };

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
	char refused[SERVICE_WHY]; /* why it may not be used; "": it may */
	struct err missing;        /* its program was, when we looked; code 0: it was not */
	struct err failure;        /* the last one */
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
	char why[SERVICE_WHY];      /* it is ending; "": that is for its program to say */
	struct service_run **needs; /* leases of what it runs on; may have gaps */
	size_t need_count;
};

/* All of them. */
struct services {
	pthread_mutex_t lock; /* of all services and their runs; nothing is called under it */
	pthread_cond_t none;
	struct service *first;
	size_t lives;
	bool stopping;
};
extern struct services services;

static inline struct life *life_of(struct service_run *run)
{
	return (struct life *)run;
}

/* ---- service.c ---- */

/* service_use() of the service of that name. *ret is set under the same lock: what it runs on cannot end
 * without knowing of it. */
int service_need(const char *name, const struct wait *wait, struct service_run **ret,
		 struct err *err);

/* service_begin() of the service of that name. */
void service_begin_need(const char *name);

/* ---- service_run.c ---- */

/* A new one, with one reference. */
struct life *service_run_make(struct service *s);

/* Its thread; the argument is the life. */
void *service_run_live(void *arg);

/* With the lock: has it end. why may be NULL where that is for its program to say. */
void service_run_ask(struct life *life, const char *why, bool unwanted);

/* With the lock: whether it has no thread, and the caller has to finish it, without the lock. life may
 * be NULL. */
bool service_run_take_alone(struct life *life);

/* Ends it. */
void service_run_finish(struct life *life, const struct err *failure);
