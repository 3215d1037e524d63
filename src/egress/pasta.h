/* pasta.h - network 'full' without root: pasta (package passt) carries what a box sends, and rules in
 * the box's own network, which nobody in it may change, keep it from the machine and from what is not
 * public. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct err;

/* Whether there is pasta, and what it needs. */
bool pasta_can(void);

/* dir: of the box; pid: a process in its network; nets: networks that may be reached though they are
 * not public, or NULL. */
int pasta_open(const char *dir, pid_t pid, const char *nets, struct err *err);

/* The same rules by the addresses that the machine has now. */
int pasta_update(pid_t pid, const char *nets, struct err *err);

bool pasta_runs(const char *dir);

/* Fine when there is none. */
void pasta_close(const char *dir);
