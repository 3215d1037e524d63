/* local.h - a server's listeners for the programs of its own sandbox: a Unix socket and, where a port is
 * configured, that port of the loopback interface.
 *
 * Only the sandbox user and root may call there, whom the kernel names; they need no other credential.
 * A browser is one of their programs, so these listeners have all guards of a server without
 * authentication, whatever the server's other listener has. They give nothing that a
 * program of the sandbox user does not have: no tickets, no sudo, no previews. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "net/guard.h"

enum { LOCAL_LISTENERS = 3 };

struct local {
	int fds[LOCAL_LISTENERS]; /* or -1 */
	int port;                 /* 0: none */
	char *path;               /* of the Unix socket */
	bool has_user;            /* it was opened: the next is known */
	uid_t user;               /* the sandbox's */
	struct guard guard;       /* of them all */
	size_t conns;             /* that came in by them; under the server's lock */
};

#define LOCAL_NONE                    \
	{                             \
		.fds = { -1, -1, -1 } \
	}

/* Opens them, the port if it is not 0. What cannot be opened is logged and left out. */
void local_open(struct local *local, const char *path, int port, uid_t user, gid_t group);
/* A listener at that port of 127.0.0.1, non-blocking; -1 with errno. */
int local_listen(int port);
void local_close(struct local *local);

/* Whether a connection that one of them accepted may call. */
bool local_admits(const struct local *local, int fd);
