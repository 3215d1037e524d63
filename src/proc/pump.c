#include "proc/pump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/awake.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"

enum { BATCH = 64, LOOK_MS = 300000 };

static struct {
	pthread_mutex_t lock;
	int epoll_fd, wake_fd; /* -1 before the start */
	struct source *all, *dropped;
} pump = { .lock = PTHREAD_MUTEX_INITIALIZER, .epoll_fd = -1, .wake_fd = -1 };

/* The list makes the sources visible to whoever looks for leaks: epoll alone would hide them. */
static void list_add(struct source *source)
{
	source->previous = NULL;
	source->next = pump.all;
	if (pump.all)
		pump.all->previous = source;
	pump.all = source;
}

static void list_remove(struct source *source)
{
	if (source->previous)
		source->previous->next = source->next;
	else
		pump.all = source->next;
	if (source->next)
		source->next->previous = source->previous;
}

static void forget(struct source *source)
{
	pthread_mutex_lock(&pump.lock);
	list_remove(source);
	pthread_mutex_unlock(&pump.lock);
	epoll_ctl(pump.epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	if (!source->keep)
		close(source->fd);
	source->fd = -1;
	source->done(source);
}

/* A source that ended in this batch by itself is forgotten here as well, after the batch: until
 * then another event of the batch, or a drop, may still name it. */
static void forget_dropped(void)
{
	pthread_mutex_lock(&pump.lock);
	struct source *list = pump.dropped;
	pump.dropped = NULL;
	pthread_mutex_unlock(&pump.lock);
	for (struct source *source = list, *next; source; source = next) {
		next = source->next_dropped;
		forget(source);
	}
}

static void drop(struct source *source, bool wake)
{
	pthread_mutex_lock(&pump.lock);
	bool first = !source->dropped;
	if (first) {
		source->dropped = true;
		source->next_dropped = pump.dropped;
		pump.dropped = source;
	}
	pthread_mutex_unlock(&pump.lock);
	if (first && wake)
		(void)eventfd_write(pump.wake_fd, 1);
}

void pump_drop(struct source *source)
{
	drop(source, true);
}

static void *run(void *arg)
{
	(void)arg;
	for (;;) {
		struct epoll_event events[BATCH];
		int count = epoll_wait(pump.epoll_fd, events, BATCH, LOOK_MS);
		(void)awake_ms();
		if (count < 0 && errno != EINTR)
			log_error("pump: epoll_wait: errno %d", errno);
		for (int i = 0; i < count; i++) {
			struct source *source = events[i].data.ptr;
			eventfd_t ignored;
			if (!source)
				(void)eventfd_read(pump.wake_fd, &ignored);
			else if (!source->ready(source))
				drop(source, false);
		}
		forget_dropped();
	}
	return NULL;
}

/* With the lock. Leaves nothing behind when it fails: the next source tries again. */
static int start(struct err *err)
{
	if (pump.epoll_fd >= 0)
		return 0;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	auto_close int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	auto_close int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (wake < 0 || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) < 0)
		return err_set(err, ERR_LIMIT, "no descriptors for the pump");
	pump.wake_fd = wake;
	pump.epoll_fd = epoll;
	if (thread_start(run, NULL) != 0) {
		pump.wake_fd = pump.epoll_fd = -1;
		return err_set(err, ERR_LIMIT, "no thread for the pump");
	}
	awake_begin(LOOK_MS);
	(void)TAKE_FD(wake);
	(void)TAKE_FD(epoll);
	return 0;
}

int pump_start(struct err *err)
{
	pthread_mutex_lock(&pump.lock);
	int result = start(err);
	pthread_mutex_unlock(&pump.lock);
	return result;
}

int pump_add(struct source *source, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };
	source->dropped = false;
	pthread_mutex_lock(&pump.lock);
	int result = start(err);
	if (result == 0 && epoll_ctl(pump.epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
		result = err_set(err, errno, "no thread or descriptor to watch a process with");
	if (result == 0)
		list_add(source);
	pthread_mutex_unlock(&pump.lock);
	return result;
}
