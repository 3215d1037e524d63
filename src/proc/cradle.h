/* cradle.h - a process whose children are born where the limits of a box are.
 *
 * In a box the server is in one cgroup and what it starts in another. Moving each program there would
 * be slow, above all under a fork bomb, and being born there takes clone3, which nothing in a box may
 * call. So one small process, made before that is forbidden, is there already: what it clones is
 * there too, and is the server's own child (CLONE_PARENT). */
#pragma once
#include <sys/types.h>

struct err;
struct spawn;

/* Tells this process that its first child is a cradle, with a socket to it. */
void cradle_use(int fd);

/* Whether there is one: then the process is the server of a box. */
int cradle_is_used(void);

/* Starts a program in the cradle. The pid; -1 and *ret_code, *ret_step as a failed child says it. */
pid_t cradle_start(const struct spawn *spawn, int *ret_code, const char **ret_step);

/* What the cradle itself does, until the server is gone. */
_Noreturn void cradle_run(int fd);
