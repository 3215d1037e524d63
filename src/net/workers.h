/* workers.h - threads that are used again, one for each job that runs.
 *
 * A job may wait for long, and for other jobs, so none ever waits for a thread: where none is idle,
 * one is started. A thread is used again only with the rights that it began with. It ends when it
 * was not needed for a while; the last one stays, for a machine that has no more threads to give. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct hand;

struct workers {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t gone;  /* there is no thread left */
	LIST_HEAD(, hand) idle;
	size_t count, idle_count;
	bool ended;
};

void workers_init(struct workers *workers);

/* Waits for the end of all threads. There may be no job any more that does not end by itself. */
void workers_done(struct workers *workers);

/* Runs job(arg) in a thread. 0, or the errno for which none could be started. */
int workers_run(struct workers *workers, void (*job)(void *arg), void *arg);
