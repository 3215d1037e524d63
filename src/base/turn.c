#include "base/turn.h"

#include "base/err.h"

struct turn_place {
	struct turn_place *next;
};

static void join(struct turn *turn, struct turn_place *place)
{
	struct turn_place **at = &turn->first;
	while (*at)
		at = &(*at)->next;
	*at = place;
}

static void leave(struct turn *turn, const struct turn_place *place)
{
	struct turn_place **at = &turn->first;
	while (*at != place)
		at = &(*at)->next;
	*at = place->next;
}

int turn_take(struct turn *turn, const struct wait *wait, struct err *err)
{
	struct turn_place mine = { NULL };
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&turn->lock);
	join(turn, &mine);
	while ((turn->taken || turn->first != &mine) && wake == WAKE_READY)
		wake = wait_change(wait, &turn->lock, &turn->waiters, NULL);
	bool got = !turn->taken && turn->first == &mine;
	leave(turn, &mine);
	if (got)
		turn->taken = true;
	else
		waiter_wake(turn->waiters);
	pthread_mutex_unlock(&turn->lock);
	return got ? 0 : wake_err(wake, err);
}

void turn_give(struct turn *turn)
{
	pthread_mutex_lock(&turn->lock);
	turn->taken = false;
	waiter_wake(turn->waiters);
	pthread_mutex_unlock(&turn->lock);
}
