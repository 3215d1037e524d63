#include "host/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/thread.h"
#include "egress/egress.h"

static void *make(void *arg)
{
	int *fd = arg;
	if (unshare(CLONE_NEWNET) == 0)
		*fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		*fd = -errno;
	return NULL;
}

int netns_open(struct err *err)
{
	pthread_t thread;
	int fd = -1, code = thread_start_joinable(&thread, make, &fd);
	if (code)
		return err_set(err, code, "no thread for an empty network namespace");
	pthread_join(thread, NULL);
	return fd < 0 ? err_set(err, -fd, "cannot make an empty network namespace") : fd;
}

int netns_call(int netns, int (*fn)(void *arg, struct err *err), void *arg, struct err *err)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", netns);
	return egress_visit(path, fn, arg, err);
}

static int make_socket(void *arg, struct err *err)
{
	int *fd = arg;
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return *fd < 0 ? err_set(err, errno, "no socket") : 0;
}

int netns_socket(int netns, struct err *err)
{
	int fd;
	return netns_call(netns, make_socket, &fd, err) < 0 ? -1 : fd;
}
