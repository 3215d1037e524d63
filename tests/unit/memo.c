#include "base/memo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

enum { THREADS = 32, ROUNDS = 200 };

struct number {
	struct memo_value memo;
	int number;
};

static _Atomic int made, freed, wanted, at_once;
static _Atomic bool slow, held, failing, overlap;

static bool fresh(const struct memo_value *value, void *arg)
{
	(void)arg;
	return ((const struct number *)value)->number >= wanted;
}

static struct memo_value *make(const struct memo_value *old, void *arg, struct err *err)
{
	(void)arg;
	if (atomic_fetch_add(&at_once, 1))
		overlap = true;
	int next = old ? ((const struct number *)old)->number + 1 : 1;
	if (slow)
		usleep(20000);
	while (held)
		usleep(100);
	atomic_fetch_sub(&at_once, 1);
	if (failing) {
		err_set(err, ERR_UNAVAILABLE, "not today");
		return NULL;
	}
	struct number *number = calloc(1, sizeof *number);
	number->number = next > wanted ? next : wanted;
	made++;
	return &number->memo;
}

static void done(struct memo_value *value)
{
	freed++;
	free(value);
}

static const struct memo_how waiting = { fresh, make, done, .old_will_do = false };
static const struct memo_how hasty = { fresh, make, done, .old_will_do = true };
static struct memo memo = MEMO;

static int get(const struct memo_how *how)
{
	struct err err = { 0 };
	struct memo_value *value = memo_get(&memo, how, NULL, &err);
	int number = value ? ((struct number *)value)->number : -err.code;
	memo_put(how, value);
	return number;
}

static void *get_one(void *how)
{
	return (void *)(long)get(how);
}

static void *get_many(void *how)
{
	long good = 1;
	for (int i = 0; i < ROUNDS; i++) {
		int want = wanted;
		if (i % 20 == 0)
			wanted++;
		good = good && get(how) >= (how == &hasty ? 1 : want);
	}
	return (void *)good;
}

static bool all(void *(*run)(void *), const struct memo_how *how, long expect)
{
	pthread_t threads[THREADS];
	bool good = true;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)how);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		good = good && (long)result == expect;
	}
	return good;
}

int main(void)
{
	failing = true;
	CHECK(get(&waiting) == -ERR_UNAVAILABLE);
	failing = false;

	/* The first requests come together: one makes it, all get it. */
	wanted = 1;
	slow = true;
	CHECK(all(get_one, &waiting, 1));
	CHECK(made == 1 && freed == 0);
	CHECK(get(&waiting) == 1 && made == 1);

	/* Stale: one makes the next; whoever may have the old one does not wait for it. */
	wanted = 2;
	held = true;
	pthread_t maker;
	void *result;
	pthread_create(&maker, NULL, get_one, (void *)&hasty);
	while (!at_once)
		usleep(100);
	CHECK(get(&hasty) == 1);
	held = false;
	CHECK(get(&waiting) == 2);
	pthread_join(maker, &result);
	CHECK((long)result == 2);
	CHECK(made == 2 && freed == 1);

	/* A failure leaves the old one where it was. */
	failing = true;
	wanted = 3;
	CHECK(get(&waiting) == -ERR_UNAVAILABLE);
	failing = false;
	wanted = 2;
	CHECK(get(&waiting) == 2 && made == 2);

	slow = false;
	CHECK(all(get_many, &waiting, 1));
	CHECK(all(get_many, &hasty, 1));
	CHECK(!overlap);
	CHECK(made == freed + 1);
	memo_put(&waiting, memo.value);
	CHECK(made == freed);
	return tap_done();
}
