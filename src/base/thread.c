#include "base/thread.h"

#include <pthread.h>

enum { STACK_SIZE = 512 * 1024 }; /* of address space: only what is used takes memory */

int thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	int failed = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return failed;
}
