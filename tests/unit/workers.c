#include "net/workers.h"

#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"

enum { CROWD = 200, PATIENCE_MS = 20000 };

static struct workers workers;
static sem_t done;

static void post(void *arg)
{
	(void)arg;
	sem_post(&done);
}

static void run_one(void (*job)(void *arg), void *arg)
{
	if (CHECK(workers_run(&workers, job, arg) == 0))
		sem_wait(&done);
}

static bool becomes(const size_t *count, size_t want)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += 10) {
		pthread_mutex_lock(&workers.lock);
		bool is = *count == want;
		pthread_mutex_unlock(&workers.lock);
		if (is)
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

static void used_again(void)
{
	bool again = true;
	for (int i = 0; i < 20; i++) {
		run_one(post, NULL);
		again = again && becomes(&workers.idle_count, 1);
	}
	CHECK(again && workers.count == 1);
}

/* ---- jobs that wait for each other ---- */

static pthread_barrier_t all_there;

static void meet(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&all_there);
	sem_post(&done);
}

static void never_wait_for_a_thread(void)
{
	int failed = 0;
	pthread_barrier_init(&all_there, NULL, CROWD);
	for (int i = 0; i < CROWD; i++)
		failed += workers_run(&workers, meet, NULL) != 0;
	CHECK(!failed);
	for (int i = 0; i < CROWD; i++)
		sem_wait(&done);
	pthread_barrier_destroy(&all_there);
	CHECK(becomes(&workers.count, 1)); /* and that one stays */
}

/* ---- jobs that leave something behind ---- */

static void block_a_signal(void *arg)
{
	sigset_t set;
	(void)arg;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sem_post(&done);
}

static void keep_user(void *arg)
{
	(void)arg;
	setfsuid(12345);
	sem_post(&done);
}

static void keep_group(void *arg)
{
	(void)arg;
	setfsgid(12345);
	sem_post(&done);
}

/* The system call itself, because the library's changes every thread. */
static void keep_groups(void *arg)
{
	gid_t groups[] = { 12345, 12346 };
	(void)arg;
	syscall(SYS_setgroups, 2, groups);
	sem_post(&done);
}

struct state {
	int uid, gid, group_count;
	gid_t groups[64];
	bool blocked;
};

static void look(void *arg)
{
	struct state *state = arg;
	sigset_t set;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	*state = (struct state){ setfsuid((uid_t)-1), setfsgid((gid_t)-1),
				 .blocked = sigismember(&set, SIGUSR1) };
	state->group_count = getgroups(64, state->groups);
	sem_post(&done);
}

static void not_used_again(void (*job)(void *arg))
{
	struct state before = { 0 }, after = { 0 };
	run_one(look, &before);
	CHECK(becomes(&workers.idle_count, 1));
	run_one(job, NULL);
	CHECK(becomes(&workers.count, 0));
	run_one(look, &after);
	CHECK(becomes(&workers.idle_count, 1));
	CHECK(!memcmp(&before, &after, sizeof before));
}

int main(void)
{
	sem_init(&done, 0, 0);
	workers_init(&workers);
	used_again();
	never_wait_for_a_thread();
	not_used_again(block_a_signal);
	if (geteuid() == 0) {
		not_used_again(keep_user);
		not_used_again(keep_group);
		not_used_again(keep_groups);
	} else {
		printf("ok %d # SKIP only root can become another user\n", ++tap_count);
	}
	workers_done(&workers);
	CHECK(workers.count == 0 && workers.idle_count == 0);
	return tap_done();
}
