#include "base/awake.h"

#include <pthread.h>

#include "base/clock.h"

enum { LATE_MS = 1000 }; /* so much later a busy machine may ask */

static struct {
	pthread_mutex_t lock;
	int64_t every, seen, lost;
} awake = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock. */
static int64_t look(void)
{
	int64_t now = clock_ms(), since = now - awake.seen;
	if (awake.every && since > 2 * awake.every + LATE_MS)
		awake.lost += since;
	awake.seen = now;
	return now - awake.lost;
}

void awake_begin(int64_t every_ms)
{
	pthread_mutex_lock(&awake.lock);
	look();
	if (!awake.every || every_ms < awake.every)
		awake.every = every_ms;
	pthread_mutex_unlock(&awake.lock);
}

int64_t awake_ms(void)
{
	pthread_mutex_lock(&awake.lock);
	int64_t now = look();
	pthread_mutex_unlock(&awake.lock);
	return now;
}
