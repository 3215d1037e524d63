#include "host/progress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/wait.h"

enum { LONG_MS = 300 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct waiter *waiters;
static const char *now;
static bool watched;

/* Prints each step once, after a while. */
static void *watch(void *arg)
{
	(void)arg;
	const char *printed = NULL;
	pthread_mutex_lock(&lock);
	while (now) {
		const char *step = now;
		const struct wait wait = { step == printed ? INT64_MAX : clock_ms() + LONG_MS, -1,
					   -1 };
		if (wait_change(&wait, &lock, &waiters, NULL) != WAKE_TIMEOUT || step != now)
			continue;
		fprintf(stderr, "aio up: %s …\n", step);
		printed = step;
	}
	watched = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

void progress(const char *step)
{
	pthread_mutex_lock(&lock);
	now = step;
	if (step && !watched)
		watched = thread_start(watch, NULL) == 0;
	waiter_wake(waiters);
	pthread_mutex_unlock(&lock);
}
