/* listening.h - the TCP sockets that listen, as /proc lists them. */
#pragma once
#include <netinet/in.h>
#include <stddef.h>
#include <sys/types.h>

struct listening {
	unsigned port;
	unsigned long inode; /* of the socket */
	char address[INET6_ADDRSTRLEN];
	pid_t pid;         /* as listening_find_owners() found it; 0: not known */
	char command[200]; /* how its command line begins; likewise */
};

typedef void listening_fn(void *arg, const struct listening *listener);

/* Calls the function for each in this network namespace; a port may come more than once. */
void listening_each(listening_fn *fn, void *arg);

/* Only for those that a process of this process group has open, as far as we may look into it. */
void listening_each_of(pid_t group, listening_fn *fn, void *arg);

/* Fills in pid and command of those that have none, as far as we may look into the processes. */
void listening_find_owners(struct listening *listeners, size_t count);
