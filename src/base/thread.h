/* thread.h - threads with a small stack. */
#pragma once
#include <pthread.h>

/* 0, or an errno. It is detached. */
int thread_start(void *(*run)(void *), void *arg);

/* The same for one that the caller joins. */
int thread_start_joinable(pthread_t *ret, void *(*run)(void *), void *arg);
