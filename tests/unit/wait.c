#include "base/wait.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

enum { LONG_MS = 60000 };

static int event(unsigned value)
{
	return eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK);
}

static struct wait for_long(void)
{
	return (struct wait){ clock_ms() + LONG_MS, -1, -1 };
}

static void test_descriptors(void)
{
	auto_close int quiet = event(0), ready = event(1), stop = event(1);
	struct wait wait = for_long();
	CHECK(wait_fd(&wait, ready, POLLIN) == WAKE_READY);
	CHECK(wait_fd(&wait, quiet, POLLOUT) == WAKE_READY);
	struct pollfd fds[] = { { .fd = quiet, .events = POLLIN },
				{ .fd = -1, .events = POLLIN },
				{ .fd = ready, .events = POLLIN } };
	CHECK(wait_poll(&wait, fds, COUNT(fds)) == WAKE_READY);
	CHECK(!fds[0].revents && !fds[1].revents && fds[2].revents == POLLIN);

	struct wait soon = { clock_ms() + 20, -1, -1 };
	CHECK(wait_fd(&soon, quiet, POLLIN) == WAKE_TIMEOUT);
	CHECK(clock_ms() >= soon.until_ms);
	CHECK(wait_fd(&soon, ready, POLLIN) == WAKE_READY); /* late, but done */

	wait.stop_fd = quiet;
	CHECK(wait_fd(&wait, ready, POLLIN) == WAKE_READY);
	wait.stop_fd = stop;
	CHECK(wait_fd(&wait, ready, POLLIN) == WAKE_READY);
	CHECK(wait_fd(&wait, quiet, POLLIN) == WAKE_STOPPING);
}

static void test_client(void)
{
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	auto_close int client = pair[0], quiet = event(0), stop = event(1);
	struct wait wait = { clock_ms() + 20, client, -1 };
	shutdown(pair[1], SHUT_WR);
	CHECK(wait_fd(&wait, quiet, POLLIN) == WAKE_TIMEOUT); /* half-closed: it still listens */
	close(pair[1]);
	wait.until_ms = INT64_MAX;
	CHECK(wait_fd(&wait, quiet, POLLIN) == WAKE_LEFT);
	wait.until_ms = 0;
	CHECK(wait_fd(&wait, quiet, POLLIN) == WAKE_LEFT);
	wait.stop_fd = stop;
	CHECK(wait_fd(&wait, quiet, POLLIN) == WAKE_STOPPING);
}

static void test_errors(void)
{
	static const int codes[] = { 0, ERR_SLOW, ERR_GONE, ERR_UNAVAILABLE };
	for (int i = 0; i < (int)COUNT(codes); i++) {
		struct err err = { 0 };
		CHECK(wake_err((enum wake)i, &err) == (i ? -1 : 0) && err.code == codes[i]);
	}
}

/* One look every 20 ms: the next one is waited for. */
static enum wake check_next(const struct wait *wait)
{
	struct wait pause = { clock_ms() + 21, -1, -1 };
	(void)wait_fd(&pause, -1, 0);
	return wait_check(wait);
}

static void test_check(void)
{
	auto_close int stop = event(0);
	struct wait wait = { clock_ms() + LONG_MS, -1, stop };
	CHECK(check_next(&wait) == WAKE_READY);
	eventfd_write(stop, 1);
	CHECK(check_next(&wait) == WAKE_STOPPING);
	CHECK(wait_check(&wait) == WAKE_READY); /* not looked at again so soon */
	struct wait late = { clock_ms() - 1, -1, -1 };
	CHECK(check_next(&late) == WAKE_TIMEOUT);
}

/* ---- an object that changes ---- */

static struct {
	pthread_mutex_t lock;
	struct waiter *waiters;
	int value, looking;
} object = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *await_value(void *arg)
{
	struct wait wait = for_long();
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&object.lock);
	object.looking++;
	while (object.value < *(const int *)arg && wake == WAKE_READY)
		wake = wait_change(&wait, &object.lock, &object.waiters, NULL);
	bool right = wake == WAKE_READY && object.value >= *(const int *)arg;
	pthread_mutex_unlock(&object.lock);
	return right ? arg : NULL;
}

static void test_change(void)
{
	pthread_t threads[3];
	int wanted[] = { 1, 1, 2 };
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, await_value, &wanted[i]) == 0);
	for (bool all = false; !all;) { /* with the lock, who looks is also in the list */
		pthread_mutex_lock(&object.lock);
		all = object.looking == 3;
		if (all) {
			object.value = 1;
			waiter_wake(object.waiters);
		}
		pthread_mutex_unlock(&object.lock);
	}
	for (int i = 0; i < 3; i++) {
		void *result = NULL;
		pthread_join(threads[i], &result);
		CHECK(result == &wanted[i]);
		pthread_mutex_lock(&object.lock);
		object.value = i + 1;
		waiter_wake(object.waiters);
		pthread_mutex_unlock(&object.lock);
	}
	CHECK(!object.waiters);
}

static void test_change_ends(void)
{
	auto_close int ready = event(1), stop = event(1);
	struct wait wait = { clock_ms() + 20, -1, -1 };
	const struct pollfd also = { .fd = ready, .events = POLLIN };
	pthread_mutex_lock(&object.lock);
	CHECK(wait_change(&wait, &object.lock, &object.waiters, NULL) == WAKE_TIMEOUT);
	wait = for_long();
	CHECK(wait_change(&wait, &object.lock, &object.waiters, &also) == WAKE_READY);
	wait.stop_fd = stop;
	CHECK(wait_change(&wait, &object.lock, &object.waiters, NULL) == WAKE_STOPPING);
	CHECK(!object.waiters);

	struct rlimit limit, full;
	getrlimit(RLIMIT_NOFILE, &limit);
	int next = dup(ready);
	close(next);
	full = (struct rlimit){ (rlim_t)next, limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &full); /* no eventfd: it looks now and then */
	wait = for_long();
	CHECK(wait_change(&wait, &object.lock, &object.waiters, NULL) == WAKE_READY);
	wait.until_ms = clock_ms() - 1;
	CHECK(wait_change(&wait, &object.lock, &object.waiters, NULL) == WAKE_TIMEOUT);
	setrlimit(RLIMIT_NOFILE, &limit);
	pthread_mutex_unlock(&object.lock);
}

int main(void)
{
	test_descriptors();
	test_client();
	test_errors();
	test_check();
	test_change();
	test_change_ends();
	return tap_done();
}
