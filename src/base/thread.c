#include "base/thread.h"

enum { STACK_SIZE = 512 * 1024 }; /* of address space: only what is used takes memory */

static int start(pthread_t *ret, int detach_state, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, detach_state);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	int failed = pthread_create(ret, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return failed;
}

int thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	return start(&thread, PTHREAD_CREATE_DETACHED, run, arg);
}

int thread_start_joinable(pthread_t *ret, void *(*run)(void *), void *arg)
{
	return start(ret, PTHREAD_CREATE_JOINABLE, run, arg);
}
