#include "net/workers.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"

enum {
	IDLE_MAX = 64, /* threads that wait for a job at once */
	IDLE_SECONDS = 5,
	GROUPS_MAX = 64, /* as many as user_enter() would ever replace */
};

struct hand {
	LIST_ENTRY(hand) link;
	struct workers *workers;
	pthread_cond_t wake;
	void (*job)(void *arg); /* NULL: none yet */
	void *arg;
};

/* ---- what a job may change of its thread, and has to change back ---- */

struct rights {
	uid_t uid;
	gid_t gid, groups[GROUPS_MAX];
	int group_count; /* -1: more than there is room for */
	sigset_t blocked;
};

static void read_rights(struct rights *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->uid = (uid_t)setfsuid((uid_t)-1);
	ret->gid = (gid_t)setfsgid((gid_t)-1);
	ret->group_count = getgroups(GROUPS_MAX, ret->groups);
	pthread_sigmask(SIG_BLOCK, NULL, &ret->blocked);
}

static bool rights_are(const struct rights *before)
{
	struct rights now;
	read_rights(&now);
	if (now.uid == before->uid && now.gid == before->gid &&
	    now.group_count == before->group_count &&
	    !memcmp(now.groups, before->groups, sizeof now.groups) &&
	    !memcmp(&now.blocked, &before->blocked, sizeof now.blocked))
		return true;
	log_error(
		"a request left its thread with other rights or blocked signals than before (user "
		"%u, group %u): the thread ends",
		now.uid, now.gid);
	return false;
}

/* ---- threads ---- */

/* The name says whether a thread is needed, to whoever looks at the process. */
static void set_name(const char *name)
{
	pthread_setname_np(pthread_self(), name);
}

static bool is_last(const struct workers *workers, const struct hand *hand)
{
	return LIST_FIRST(&workers->idle) == hand && !LIST_NEXT(hand, link);
}

/* Whoever was idle for the shortest time is taken first, so those that are too many end. */
static bool next_job(struct workers *workers, struct hand *hand)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += IDLE_SECONDS;
	hand->job = NULL;
	set_name("idle");
	pthread_mutex_lock(&workers->lock);
	int code = workers->idle_count < IDLE_MAX ? 0 : ETIMEDOUT;
	LIST_INSERT_HEAD(&workers->idle, hand, link);
	workers->idle_count++;
	while (!hand->job && !workers->ended && code != ETIMEDOUT)
		code = is_last(workers, hand) ? pthread_cond_wait(&hand->wake, &workers->lock)
					      : pthread_cond_clockwait(&hand->wake, &workers->lock,
								       CLOCK_MONOTONIC, &until);
	if (!hand->job) {
		LIST_REMOVE(hand, link);
		workers->idle_count--;
	}
	pthread_mutex_unlock(&workers->lock);
	return hand->job;
}

static void *work(void *arg)
{
	struct hand *hand = arg;
	struct workers *workers = hand->workers;
	struct rights rights;
	read_rights(&rights);
	do {
		set_name("busy");
		hand->job(hand->arg);
	} while (rights_are(&rights) && next_job(workers, hand));
	pthread_cond_destroy(&hand->wake);
	free(hand);
	OPENSSL_thread_stop(); /* its memory of this thread, which the process may outrun */
	pthread_mutex_lock(&workers->lock);
	if (--workers->count == 0)
		pthread_cond_broadcast(&workers->gone);
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

static int start(struct workers *workers, void (*job)(void *arg), void *arg)
{
	struct hand *hand = xcalloc(1, sizeof *hand);
	hand->workers = workers;
	hand->job = job;
	hand->arg = arg;
	pthread_cond_init(&hand->wake, NULL);
	int code = thread_start(work, hand);
	if (code) {
		pthread_cond_destroy(&hand->wake);
		free(hand);
	}
	return code;
}

int workers_run(struct workers *workers, void (*job)(void *arg), void *arg)
{
	pthread_mutex_lock(&workers->lock);
	struct hand *hand = LIST_FIRST(&workers->idle);
	if (hand) {
		LIST_REMOVE(hand, link);
		workers->idle_count--;
		hand->arg = arg;
		hand->job = job;
		pthread_cond_signal(&hand->wake);
	} else {
		workers->count++;
	}
	pthread_mutex_unlock(&workers->lock);
	int code = hand ? 0 : start(workers, job, arg);
	if (code) {
		pthread_mutex_lock(&workers->lock);
		workers->count--;
		pthread_mutex_unlock(&workers->lock);
	}
	return code;
}

void workers_init(struct workers *workers)
{
	*workers = (struct workers){ .idle = LIST_HEAD_INITIALIZER(workers->idle) };
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->gone, NULL);
}

void workers_done(struct workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->ended = true;
	for (struct hand *hand = LIST_FIRST(&workers->idle); hand; hand = LIST_NEXT(hand, link))
		pthread_cond_signal(&hand->wake);
	while (workers->count)
		pthread_cond_wait(&workers->gone, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
	pthread_cond_destroy(&workers->gone);
	pthread_mutex_destroy(&workers->lock);
}
