/* usage.h - what the commands of a sandbox use, as their cgroup counts it: that of the box, or else the one
 * that this server is in. */
#pragma once
#include <stdint.h>

/* Files of the cgroup, open for reading; -1: there is none. */
enum usage_file {
	USAGE_CPU,      /* v2 cpu.stat */
	USAGE_THROTTLE, /* v1 cpu.stat, where that controller is there */
	USAGE_MEMORY,   /* v2 memory.current, v1 memory.usage_in_bytes */
	USAGE_MEMORY_STAT,
	USAGE_FILES
};

struct usage_from {
	int files[USAGE_FILES];
	int pids, oom;                /* as struct limits has them */
	int64_t pids_max, memory_max; /* 0: none */
	double cpus;                  /* 0: no limit */
};
void usage_use(const struct usage_from *from);

/* Microseconds, bytes and counts; INT_ABSENT where nobody counts, or there is no limit. */
struct usage {
	int64_t cpu_us, periods, throttled, throttled_us;
	int64_t memory, memory_max, anon, file, shmem, slab;
	int64_t oom, oom_kill, pids, pids_max;
	double cpus; /* the limit, or how many processors there are */
};
void usage_read(struct usage *ret);
