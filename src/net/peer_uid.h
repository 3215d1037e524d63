/* peer_uid.h - whose the other end of a connection on this machine is. */
#pragma once
#include <sys/types.h>

/* The user id that owns the socket at the other end, as this process's user namespace has it: of a Unix
 * socket, or of a TCP connection whose both ends are in this network namespace. -1 where it cannot be known
 * for sure: the socket is closed already, or is no longer this connection's. One thread at a time. */
int peer_uid(int fd, uid_t *ret);

/* TCP needs a descriptor of the kernel's socket statistics, which is opened by peer_uid_ready(). Where a filter
 * of system calls will keep the process from doing so, it is opened before (-1: there is none) and given
 * to it. */
int peer_uid_open(void);
void peer_uid_use(int fd);
void peer_uid_ready(void);
