/* turn.h - one at a time, in the order in which they came: for what takes longer than a lock may be held. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "base/wait.h"

struct turn {
	pthread_mutex_t lock;
	bool taken;
	struct turn_place *first; /* those who wait */
	struct waiter *waiters;
};
#define TURN                                      \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

/* 0: the turn is the caller's until turn_give(). -1 with err: its wait was over. */
int turn_take(struct turn *turn, const struct wait *wait, struct err *err);
void turn_give(struct turn *turn);
