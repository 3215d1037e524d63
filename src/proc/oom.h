/* oom.h - processes that the kernel killed because the commands had used up their memory. */
#pragma once
#include <stdint.h>

/* Tells where the kernel counts them: memory.events of a cgroup, or memory.oom_control (v1). */
void oom_use(int fd);

/* How many there were so far; 0 where nobody counts. */
int64_t oom_count(void);
