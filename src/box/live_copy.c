#include "box/live_copy.h"

#include <errno.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "box/files.h"

enum {
	PASSES = 4,       /* while users go on */
	LITTLE = 2 << 20, /* bytes that are copied at once */
};

/* A timer that is cancelled when the machine's clock is set; never due. */
static int watch_clock(void)
{
	const struct itimerspec never = { .it_value = { .tv_sec = 9000000000 } };
	auto_close int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (fd < 0 ||
	    timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0)
		return -1;
	return TAKE_FD(fd);
}

static bool was_set(int clock)
{
	uint64_t ignored;
	return clock < 0 || read(clock, &ignored, sizeof ignored) >= 0 || errno != EAGAIN;
}

/* A moment at which no user is in the middle of a change, by the clock that changes are timed with. */
static int find_moment(const struct live_copy_users *users, struct timespec *ret, struct err *err)
{
	int result = users->stop(users->arg, true, err);
	clock_gettime(CLOCK_REALTIME_COARSE, ret);
	return users->stop(users->arg, false, result < 0 ? NULL : err) < 0 ? -1 : result;
}

/* All that can be copied beforehand. */
static int copy_ahead(struct files_copy *const *copies, size_t count,
		      const struct live_copy_users *users, struct timespec *since, struct err *err)
{
	int64_t wrote = INT64_MAX;
	for (int pass = 0; pass < PASSES && wrote > LITTLE; pass++) {
		struct timespec now;
		if (find_moment(users, &now, err) < 0)
			return -1;
		wrote = 0;
		for (size_t i = 0; i < count; i++) {
			int64_t more = files_copy_moving(copies[i], since, err);
			if (more < 0)
				return -1;
			wrote += more;
		}
		*since = now;
	}
	return 0;
}

static int copy_rest(struct files_copy *const *copies, size_t count, const struct timespec *since,
		     struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if (files_copy_rest(copies[i], since, err) < 0)
			return -1;
	return 0;
}

int live_copy(struct files_copy *const *copies, size_t count, const struct live_copy_users *users,
	      struct err *err)
{
	struct timespec since = { 0 };
	if (!users)
		return copy_rest(copies, count, &since, err);
	auto_close int clock = watch_clock();
	int result = copy_ahead(copies, count, users, &since, err);
	if (result == 0)
		result = users->stop(users->arg, true, err);
	if (was_set(clock))
		since = (struct timespec){ 0 };
	if (result == 0)
		result = copy_rest(copies, count, &since, err);
	(void)users->stop(users->arg, false, NULL); /* also if not all of them stopped in time */
	return result;
}
