/* listening.h - the TCP sockets that listen, as /proc lists them. */
#pragma once
#include <sys/types.h>

typedef void listening_fn(void *arg, unsigned port);

/* Calls the function for each in this network namespace; a port may come more than once. */
void listening_each(listening_fn *fn, void *arg);

/* Only for those that a process of this process group has open, as far as we may look into it. */
void listening_each_of(pid_t group, listening_fn *fn, void *arg);
