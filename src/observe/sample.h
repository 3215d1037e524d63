/* sample.h - what the processes of a sandbox use, at one moment: from /proc and the cgroup. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/desc.h"

struct arena;

enum { SAMPLE_PROCESSES_MAX = 20000 };

/* The commands' cgroup. Percent of a CPU are of one processor. */
struct sample_cgroup {
	double cpu_usage_pct, mem_usage_pct;
	int64_t cpu_usage_usec, cpu_nr_periods, cpu_nr_throttled, cpu_throttled_usec;
	int64_t mem_current_bytes, mem_max_bytes, oom, oom_kill;
	int64_t memory_anon_bytes, memory_file_bytes, memory_shmem_bytes, memory_slab_bytes;
};
struct sample_disk {
	const char *path;
	int64_t used_bytes, total_bytes, free_bytes, inode_used, inode_total;
	double usage_pct, inode_usage_pct;
};
struct sample_process {
	int64_t pid, ppid, rss_bytes, threads, fds;
	double rss_mib, cpu_pct, uptime_sec;
	const char *user, *comm, *state;
};
extern const struct schema sample_cgroup_schema, sample_disk_schema, sample_process_schema;

struct sample {
	const char *ts; /* when, as JSON has it */
	int64_t at_ms;  /* of clock_ms() */
	struct sample_cgroup cgroup;
	double cpus;                         /* that the commands may use */
	int64_t processes, threads, zombies; /* that can be seen */
	int64_t tasks, tasks_max;            /* of the cgroup; INT_ABSENT */
	int64_t started; /* processes and threads since the sample before; INT_ABSENT for the first */
	int64_t network_received, network_sent; /* bytes, of all interfaces but lo */
	struct list disk, top;                  /* of struct sample_disk, struct sample_process */
};
extern const struct schema sample_schema; /* without disk and top where those were not taken */

/* What to look at, and what was seen before: for what is said per second. */
struct sampler {
	bool disk;
	size_t top; /* how many processes; 0: none */
	const char *workspace;
	int64_t before_ms, cpu_us, last_pid; /* before_ms 0: there was none before */
	struct sampler_ticks *ticks;         /* of each process, sorted by pid */
	size_t count;
};

/* All in the arena. */
void sampler_take(struct sampler *sampler, struct arena *arena, struct sample *ret);
void sampler_done(struct sampler *sampler);
