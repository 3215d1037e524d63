/* stage.h - a parent for the server that inherits and buries all its orphans.
 *
 * A command's grandchildren lose their parents and would become the system's, or, where the server
 * is process 1, its zombies. This first stage adopts them (it is a subreaper), reaps them, and when
 * the server ends, however it ends, it ends them too, and removes the files they needed. */
#pragma once
#include <stddef.h>

struct err;
struct user;

/* Forks. Returns in the child, which goes on as the server; the first stage itself never returns: it
 * passes SIGTERM and SIGINT on and exits as its child did. */
void stage_enter(void);

/* The directory for what the server and its sessions need on disk while they run; made when first
 * asked for, passable but not writable by others, and removed by the first stage. NULL with err. */
const char *stage_dir(struct err *err);

/* A new directory in it, NAME-XXXXXX, that belongs to a user (NULL: to the server) alone. */
int stage_make_dir(const struct user *owner, const char *name, char *to, size_t room,
		   struct err *err);
