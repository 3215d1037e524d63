/* memo.h - something costly that one thread makes when it is stale and all threads share.
 *
 *	static struct memo memo = MEMO;
 *	static const struct memo_how how = { .fresh = …, .make = …, .free = … };
 *	struct menu *menu = (struct menu *)memo_get(&memo, &how, arg, err);
 *	…
 *	memo_put(&how, &menu->memo);
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* The first member of what is shared, which nobody changes once it is made. */
struct memo_value {
	_Atomic size_t users;
};

struct memo {
	pthread_mutex_t lock;
	pthread_cond_t made;
	struct memo_value *value;
	bool busy; /* somebody makes the next one */
};

#define MEMO                                                                     \
	{                                                                        \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false \
	}

/* None of these runs under the memo's lock. */
struct memo_how {
	bool (*fresh)(const struct memo_value *value, void *arg);
	/* NULL with err on failure. old may be NULL. */
	struct memo_value *(*make)(const struct memo_value *old, void *arg, struct err *err);
	void (*free)(struct memo_value *value);
	bool old_will_do; /* while one caller makes the next, the others get the old one */
};

/* The value: the one there is while it is fresh, else a new one, made by the caller unless somebody
 * is already at it. NULL with err when making it failed. Give it back with memo_put(). */
struct memo_value *memo_get(struct memo *memo, const struct memo_how *how, void *arg,
			    struct err *err);
void memo_put(const struct memo_how *how, struct memo_value *value); /* NULL is fine */
