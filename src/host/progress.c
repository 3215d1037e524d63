#include "host/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "base/thread.h"

enum { LONG_MS = 300 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const char *now; /* under the lock */
static bool watched;

static struct timespec soon(void)
{
	struct timespec when;
	clock_gettime(CLOCK_REALTIME, &when);
	when.tv_nsec += LONG_MS * 1000000l;
	when.tv_sec += when.tv_nsec / 1000000000;
	when.tv_nsec %= 1000000000;
	return when;
}

/* Each step is said once, after a while. */
static void *watch(void *arg)
{
	(void)arg;
	const char *said = NULL;
	pthread_mutex_lock(&lock);
	while (now) {
		const char *step = now;
		struct timespec when = soon();
		int code = step == said ? pthread_cond_wait(&changed, &lock)
					: pthread_cond_timedwait(&changed, &lock, &when);
		if (code != ETIMEDOUT || step != now)
			continue;
		fprintf(stderr, "aio up: %s …\n", step);
		said = step;
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
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}
