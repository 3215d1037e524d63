#include "base/awake.h"

#include <pthread.h>

#include "base/clock.h"

enum { LATE_MS = 1000 }; /* so much later a busy machine may look */

static struct {
	pthread_mutex_t lock;
	int64_t every, seen, lost;
} awake = { .lock = PTHREAD_MUTEX_INITIALIZER };

void awake_begin(int64_t every_ms)
{
	pthread_mutex_lock(&awake.lock);
	awake.every = every_ms;
	awake.seen = clock_ms();
	pthread_mutex_unlock(&awake.lock);
}

int64_t awake_lost_ms(void)
{
	pthread_mutex_lock(&awake.lock);
	int64_t now = clock_ms(), since = now - awake.seen;
	if (awake.every && since > 2 * awake.every + LATE_MS)
		awake.lost += since;
	awake.seen = now;
	int64_t lost = awake.lost;
	pthread_mutex_unlock(&awake.lock);
	return lost;
}
