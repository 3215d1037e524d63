/* limits.h - what the commands of a box may use, as far as its server knows: a server without a box
 * knows nothing. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct limits {
	int64_t pids, memory; /* 0: none */
	int pids_fd;          /* pids.current of their cgroup */
	int oom_fd; /* memory.events, or memory.oom_control (v1): how many the kernel has killed */
};
void limits_use(const struct limits *limits);

/* How many processes the kernel has killed because the memory was used up; 0 where nobody counts. And
 * what to tell who had one of them. */
int64_t limits_killed(void);
const char *limits_starved(char *to, size_t room); /* with the limit; `to` */
#define LIMITS_STARVED      "Out of memory: a process was killed at the sandbox's limit"
#define LIMITS_STARVED_HINT "Use less memory, or a sandbox with a higher limits.memory."

/* Whether so many more processes and threads leave a quarter of what there may be to others. */
bool limits_fit(int64_t tasks);

/* Whether there cannot be so many more at all. */
bool limits_exceed(int64_t tasks);

/* Whether a box can have so many processes and so much memory (0: it does not matter). -1 with err
 * (ERR_LIMIT), which says how much is needed and what there is. */
int limits_need(int64_t tasks, int64_t memory, struct err *err);

/* Whether there is 1 MiB of free disk space at a path. -1 with err (ENOSPC), which says what needs it. */
int limits_need_room(const char *path, const char *what, struct err *err);

/* Says that something cannot be started (-1, ERR_LIMIT), which limit was met, and what to do. code:
 * EAGAIN for processes and threads, ENOMEM for memory. */
int limits_refuse(int code, const char *what, struct err *err);
