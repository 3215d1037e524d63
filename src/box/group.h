/* group.h - the cgroups of boxes: v2 where a controller is there, v1 where it is not.
 *
 *   HIERARCHY/aiobox/NAME           the whole box
 *   HIERARCHY/aiobox/NAME/server    its init and its server (v2 only: in v1 they are in NAME itself)
 *   HIERARCHY/aiobox/NAME/run       its commands, which the limits are for */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/limit.h"
#include "proc/usage.h"

struct box_limits;
struct box_usage;
struct err;

/* Where nobody has mounted the v2 hierarchy, as in containers of machines with v1: mounts it at a new
 * directory. Boxes are born in groups of it, and only what is mounted can be shown to one in part. */
void group_mount(const char *at);

/* Finds the hierarchies, once in the life of a process. */
int group_setup(struct err *err);

/* Which limits there can be. */
bool group_can(int controller);
const char *group_means(int controller);

/* A process of one of the boxes whose groups' names begin so, or do not; 0: there is none. */
pid_t group_process(const char *prefix, bool begin);

/* Where the groups of boxes are. */
int group_path(char *to, size_t room);

/* Their directory in v2, opened; and the number of the group of a box's commands there, 0: it has none. */
int group_open(void);
uint64_t group_number(const char *name);

/* Takes all of them for this process, until it ends; false: another has done so. */
bool group_claim(void);

/* How a weight of io is kept for what is in a directory; NULL: it is not. */
const char *group_io(const char *dir);
#define GROUP_IO_HELP "neither the scheduler bfq nor io.cost is on"

/* Descriptors of one box's groups; -1: none. */
struct cgroup {
	int birth; /* v2 directory that the first process is born in */
	int run;   /* v2: a mount of the directory of commands, for CLONE_INTO_CGROUP */
	int own[GROUP_CONTROLLERS]; /* v1 cgroup.procs, to be joined before the first process is made */
	int into[GROUP_CONTROLLERS]; /* v1 cgroup.procs of the commands */
	int pids; /* how many processes and threads the commands have, where that is limited */
	int oom;  /* where the kernel counts the commands that it killed */
	int usage[USAGE_FILES]; /* what they use */
};

/* Makes the groups of a box, whose files are in dir and whose root is this user. */
int group_make(const char *name, const struct box_limits *limits, const char *dir, uint32_t uid,
	       struct cgroup *ret, struct err *err);
void group_close(struct cgroup *group);

/* Moves this process to what has to be joined. */
int group_join(const int procs[GROUP_CONTROLLERS], struct err *err);

int group_freeze(const char *name, bool frozen, struct err *err);

/* Kills all that is in it, waits until they are gone, and removes it; fine when it is not there. */
int group_end(const char *name, struct err *err);

int group_usage(const char *name, struct box_usage *ret, struct err *err);
