/* ward.h - keeps descriptors that a box sends away from the shared loops.
 *
 * A box can attach descriptors to what it writes. Whoever receives or drops those bytes closes them,
 * and closing can take as long as their owner wants (a TCP socket that lingers). Linux 6.16 and later
 * refuse them on request. Elsewhere each box has a thread of its own, which alone reads the box's
 * sockets and passes the bytes on through a pair of sockets: only that box can keep it waiting. */
#pragma once
#include <stdbool.h>

struct err;

/* Whether the kernel refuses descriptors on this socket from now on. */
bool ward_refuse_rights(int fd);

/* Connects to a box's server for anybody but the gateway's loops: a descriptor that is safe to read and to
 * close. -1 with errno. */
struct sockaddr_un;
int ward_dial(const struct sockaddr_un *to, const char *id);

/* Takes over a connected socket to a box where it does not, and returns one that is safe to read. */
int ward_open(const char *id, int fd, struct err *err);
