#include "base/memo.h"

#include <stdatomic.h>

void memo_put(const struct memo_how *how, struct memo_value *value)
{
	if (value && atomic_fetch_sub(&value->users, 1) == 1)
		how->free(value);
}

/* Makes the next value; the caller has set busy, and so is alone here. */
static struct memo_value *make(struct memo *memo, const struct memo_how *how,
			       struct memo_value *old, void *arg, struct err *err)
{
	struct memo_value *value = how->make(old, arg, err);
	if (value)
		atomic_store(&value->users, 2); /* the memo and the caller */
	pthread_mutex_lock(&memo->lock);
	if (value)
		memo->value = value;
	memo->busy = false;
	pthread_cond_broadcast(&memo->made);
	pthread_mutex_unlock(&memo->lock);
	if (value)
		memo_put(how, old); /* the memo's */
	return value;
}

enum step { TAKE_IT, MAKE_IT, LOOK_AGAIN };

/* What to do about a value that is not fresh. Waits while somebody else makes the next one. */
static enum step decide(struct memo *memo, const struct memo_how *how,
			const struct memo_value *stale)
{
	enum step step = LOOK_AGAIN;
	pthread_mutex_lock(&memo->lock);
	if (memo->value == stale && !memo->busy) {
		memo->busy = true;
		step = MAKE_IT;
	} else if (memo->value == stale && stale && how->old_will_do) {
		step = TAKE_IT;
	} else {
		while (memo->value == stale && memo->busy)
			pthread_cond_wait(&memo->made, &memo->lock);
	}
	pthread_mutex_unlock(&memo->lock);
	return step;
}

struct memo_value *memo_get(struct memo *memo, const struct memo_how *how, void *arg,
			    struct err *err)
{
	for (;;) {
		pthread_mutex_lock(&memo->lock);
		struct memo_value *value = memo->value;
		if (value)
			atomic_fetch_add(&value->users, 1);
		pthread_mutex_unlock(&memo->lock);
		if (value && how->fresh(value, arg))
			return value;
		enum step step = decide(memo, how, value);
		if (step == TAKE_IT)
			return value;
		struct memo_value *next = step == MAKE_IT ? make(memo, how, value, arg, err) : NULL;
		memo_put(how, value);
		if (step == MAKE_IT)
			return next;
	}
}
