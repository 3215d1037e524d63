#include "observe/sample.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "proc/usage.h"

enum { STAT_MAX = 1024, FDS_MAX = 65536, USER_ENTRY_MAX = 4096 };

/* ---- as JSON ---- */

static const struct field cgroup_fields[] = {
	NUM(sample_cgroup, cpu_usage_pct, NULLABLE,
	    "CPU in percent of one processor; null where it is not counted."),
	INT(sample_cgroup, cpu_usage_usec, 0,
	    "CPU time so far, in microseconds; 0 where it is not "
	    "counted."),
	INT(sample_cgroup, cpu_nr_periods, NULLABLE, "Periods of the CPU limit."),
	INT(sample_cgroup, cpu_nr_throttled, NULLABLE, "How many of them met the limit."),
	INT(sample_cgroup, cpu_throttled_usec, NULLABLE, "For how long, in microseconds."),
	INT(sample_cgroup, mem_current_bytes, 0, "Memory in use; 0 where it is not counted."),
	INT(sample_cgroup, mem_max_bytes, NULLABLE, "The limit of memory."),
	NUM(sample_cgroup, mem_usage_pct, NULLABLE, "Percent of the limit."),
	INT(sample_cgroup, oom, NULLABLE, "How often the memory was used up."),
	INT(sample_cgroup, oom_kill, NULLABLE, "Processes that were killed for that."),
	INT(sample_cgroup, memory_anon_bytes, NULLABLE, "Memory of processes."),
	INT(sample_cgroup, memory_file_bytes, NULLABLE, "Cached files."),
	INT(sample_cgroup, memory_shmem_bytes, NULLABLE, "Shared memory and tmpfs."),
	INT(sample_cgroup, memory_slab_bytes, NULLABLE, "Memory of the kernel's objects."),
};
const struct schema sample_cgroup_schema =
	SCHEMA(sample_cgroup, "ObservationCgroupSnapshot", cgroup_fields);

static const struct field disk_fields[] = {
	STR(sample_disk, path, REQUIRED, "A directory on it."),
	INT(sample_disk, used_bytes, REQUIRED, "In use."),
	INT(sample_disk, total_bytes, REQUIRED, "All of it."),
	INT(sample_disk, free_bytes, REQUIRED, "What programs can still use."),
	NUM(sample_disk, usage_pct, REQUIRED, "Percent in use, of what programs can use."),
	INT(sample_disk, inode_used, NULLABLE, "Files and directories."),
	INT(sample_disk, inode_total, NULLABLE, "How many there can be."),
	NUM(sample_disk, inode_usage_pct, NULLABLE, "Percent of them."),
};
const struct schema sample_disk_schema =
	SCHEMA(sample_disk, "ObservationDiskSnapshot", disk_fields);

static const struct field process_fields[] = {
	INT(sample_process, pid, REQUIRED, "Its number."),
	STR(sample_process, user, REQUIRED, "Whose it is."),
	STR(sample_process, comm, REQUIRED, "Its name."),
	INT(sample_process, rss_bytes, REQUIRED, "Resident memory."),
	NUM(sample_process, rss_mib, REQUIRED, "The same in MiB."),
	NUM(sample_process, cpu_pct, NULLABLE, "CPU in percent of one processor."),
	INT(sample_process, threads, NULLABLE, "Its threads."),
	INT(sample_process, fds, NULLABLE, "Its open files; null where they cannot be seen."),
	STR(sample_process, state, NULLABLE, "R, S, D, Z, T …, as ps has it."),
	NUM(sample_process, uptime_sec, NULLABLE, "Seconds since its start."),
	INT(sample_process, ppid, NULLABLE, "Its parent."),
};
const struct schema sample_process_schema =
	SCHEMA(sample_process, "ObservationProcessSnapshot", process_fields);

static const struct field sample_fields[] = {
	STR(sample, ts, 0, "When."),
	INT(sample, processes, 0, "Processes that can be seen."),
	INT(sample, threads, 0, "Their threads."),
	INT(sample, zombies, 0, "Those that have ended and wait for their parent."),
	INT(sample, tasks, NULLABLE, "Processes and threads of the cgroup."),
	INT(sample, tasks_max, NULLABLE, "How many there may be."),
	INT(sample, started, NULLABLE, "Processes and threads started since the sample before."),
	INT(sample, network_received, 0, "Bytes, of all interfaces but lo."),
	INT(sample, network_sent, 0, "The same, sent."),
	LIST(sample, disk, OMIT, "Disks.", .item = T_OBJ, .of = &sample_disk_schema),
};
const struct schema sample_schema = SCHEMA(sample, "ObservationSample", sample_fields);

/* To hundredths. */
static double rounded(double value)
{
	return round(value * 100) / 100;
}

static double percent(double part, double whole)
{
	return whole > 0 ? rounded(100 * part / whole) : 0;
}

/* ---- processes ---- */

struct sampler_ticks {
	int pid;
	uint64_t started, ticks;
};

struct seen {
	struct sampler_ticks now;
	int ppid, threads;
	int64_t rss;
	char state, comm[64];
	double cpu_pct, weight;
};

/* "pid (name) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime
 * cstime priority nice threads 0 starttime vsize rss …"; the name may hold anything. */
static bool read_stat(int proc, int pid, struct seen *ret)
{
	char path[32], text[STAT_MAX];
	unsigned long long user, system, started;
	long rss;
	snprintf(path, sizeof path, "%d/stat", pid);
	auto_close int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	char *name = strchr(text, '('), *end = strrchr(text, ')');
	if (!name || !end || end < name ||
	    sscanf(end + 1,
		   " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s %d %*s %llu "
		   "%*s %ld",
		   &ret->state, &ret->ppid, &user, &system, &ret->threads, &started, &rss) != 7)
		return false;
	*end = 0;
	snprintf(ret->comm, sizeof ret->comm, "%s", name + 1);
	ret->now = (struct sampler_ticks){ pid, started, user + system };
	ret->rss = rss * sysconf(_SC_PAGESIZE);
	return true;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct sampler_ticks *)a)->pid - ((const struct sampler_ticks *)b)->pid;
}

/* Of what it has used since the sample before; of one that was not there then, since its start. */
static double cpu_of(const struct sampler *sampler, const struct seen *seen, int64_t now_ms)
{
	const struct sampler_ticks *old = sampler->count ? bsearch(&seen->now, sampler->ticks,
								   sampler->count,
								   sizeof *sampler->ticks, by_pid)
							 : NULL;
	int64_t ms = now_ms - sampler->before_ms;
	if (!sampler->before_ms || ms <= 0)
		return NAN;
	uint64_t used = seen->now.ticks;
	if (old && old->started == seen->now.started && old->ticks <= used)
		used -= old->ticks;
	return rounded((double)used * 100000.0 / (double)sysconf(_SC_CLK_TCK) / (double)ms);
}

/* All that there are, into *ret. */
static size_t look(int proc, struct seen **ret)
{
	DIR *dir = proc < 0 ? NULL : dir_open_at(proc, ".", 0);
	size_t count = 0, room = 0;
	for (struct dirent *entry; dir && count < SAMPLE_PROCESSES_MAX && (entry = readdir(dir));) {
		int pid = (int)strtol(entry->d_name, NULL, 10);
		if (pid <= 0)
			continue;
		if (count == room) {
			room = room ? room * 2 : 128;
			*ret = xrealloc(*ret, room * sizeof **ret);
		}
		(*ret)[count] = (struct seen){ 0 };
		count += read_stat(proc, pid, &(*ret)[count]);
	}
	if (dir)
		closedir(dir);
	return count;
}

static int by_weight(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
				      : by_pid(&x->now, &y->now);
}

static const char *user_name(struct arena *arena, uid_t uid)
{
	char text[USER_ENTRY_MAX];
	struct passwd entry, *found = NULL;
	if (getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found)
		return arena_strdup(arena, entry.pw_name);
	return arena_printf(arena, "%u", uid);
}

static int64_t count_fds(int proc, int pid)
{
	char path[32];
	int64_t count = 0;
	snprintf(path, sizeof path, "%d/fd", pid);
	DIR *dir = dir_open_at(proc, path, 0);
	if (!dir)
		return INT_ABSENT;
	for (struct dirent *entry; count < FDS_MAX && (entry = readdir(dir));)
		count += *entry->d_name != '.';
	closedir(dir);
	return count;
}

static struct sample_process describe(int proc, const struct seen *seen, struct arena *arena)
{
	char path[16];
	struct stat st;
	struct timespec up;
	clock_gettime(CLOCK_BOOTTIME, &up);
	snprintf(path, sizeof path, "%d", seen->now.pid);
	bool there = fstatat(proc, path, &st, 0) == 0;
	double age = (double)up.tv_sec + (double)up.tv_nsec / 1e9 -
		     (double)seen->now.started / (double)sysconf(_SC_CLK_TCK);
	return (struct sample_process){
		.pid = seen->now.pid,
		.ppid = seen->ppid,
		.rss_bytes = seen->rss,
		.threads = seen->threads,
		.fds = count_fds(proc, seen->now.pid),
		.rss_mib = rounded((double)seen->rss / (1 << 20)),
		.cpu_pct = seen->cpu_pct,
		.uptime_sec = age > 0 ? rounded(age) : 0,
		.user = there ? user_name(arena, st.st_uid) : "?",
		.comm = arena_strdup(arena, seen->comm),
		.state = arena_printf(arena, "%c", seen->state),
	};
}

/* Those that use most, of CPU and memory together. */
static void pick_top(const struct sampler *sampler, int proc, struct seen *all, size_t count,
		     struct arena *arena, struct sample *ret)
{
	double memory = ret->cgroup.mem_max_bytes > 0
				? (double)ret->cgroup.mem_max_bytes
				: (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < count; i++)
		all[i].weight = (isnan(all[i].cpu_pct) ? 0 : all[i].cpu_pct / 100 / ret->cpus) +
				(double)all[i].rss / memory;
	if (count)
		qsort(all, count, sizeof *all, by_weight);
	size_t most = count < sampler->top ? count : sampler->top;
	struct sample_process *top = arena_alloc(arena, (most + 1) * sizeof *top);
	for (size_t i = 0; i < most; i++)
		top[i] = describe(proc, &all[i], arena);
	ret->top = (struct list){ most, top };
}

static void take_processes(struct sampler *sampler, struct arena *arena, struct sample *ret)
{
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free struct seen *all = NULL;
	size_t count = look(proc, &all);
	ret->processes = (int64_t)count;
	for (size_t i = 0; i < count; i++) {
		ret->threads += all[i].threads;
		ret->zombies += all[i].state == 'Z' && all[i].threads <= 1;
		all[i].cpu_pct = cpu_of(sampler, &all[i], ret->at_ms);
	}
	sampler->ticks = xrealloc(sampler->ticks, (count + 1) * sizeof *sampler->ticks);
	sampler->count = count;
	for (size_t i = 0; i < count; i++)
		sampler->ticks[i] = all[i].now;
	if (count)
		qsort(sampler->ticks, count, sizeof *sampler->ticks, by_pid);
	if (sampler->top)
		pick_top(sampler, proc, all, count, arena, ret);
}

/* ---- the rest ---- */

static void take_cgroup(struct sampler *sampler, struct sample *ret)
{
	struct usage usage;
	usage_read(&usage);
	struct sample_cgroup *c = &ret->cgroup;
	bool counted = usage.cpu_us != INT_ABSENT, limited = usage.memory_max != INT_ABSENT;
	*c = (struct sample_cgroup){
		.cpu_usage_pct = NAN,
		.mem_usage_pct = NAN,
		.cpu_usage_usec = counted ? usage.cpu_us : 0,
		.cpu_nr_periods = usage.periods,
		.cpu_nr_throttled = usage.throttled,
		.cpu_throttled_usec = usage.throttled_us,
		.mem_current_bytes = usage.memory != INT_ABSENT ? usage.memory : 0,
		.mem_max_bytes = usage.memory_max,
		.oom = usage.oom,
		.oom_kill = usage.oom_kill,
		.memory_anon_bytes = usage.anon,
		.memory_file_bytes = usage.file,
		.memory_shmem_bytes = usage.shmem,
		.memory_slab_bytes = usage.slab,
	};
	if (limited && usage.memory != INT_ABSENT)
		c->mem_usage_pct = percent((double)usage.memory, (double)usage.memory_max);
	int64_t ms = ret->at_ms - sampler->before_ms;
	if (counted && sampler->before_ms && ms > 0 && usage.cpu_us >= sampler->cpu_us)
		c->cpu_usage_pct =
			rounded((double)(usage.cpu_us - sampler->cpu_us) / 10.0 / (double)ms);
	sampler->cpu_us = c->cpu_usage_usec;
	ret->cpus = usage.cpus;
	ret->tasks = usage.pids;
	ret->tasks_max = usage.pids_max;
}

/* The last number in a file of one line. */
static int64_t last_number(const char *path)
{
	char line[128] = "";
	FILE *file = fopen(path, "re");
	char *got = file ? fgets(line, sizeof line, file) : NULL;
	if (file)
		(void)fclose(file);
	char *space = got ? strrchr(line, ' ') : NULL;
	return got ? strtoll(space ? space : line, NULL, 10) : INT_ABSENT;
}

/* By the number that the newest process or thread got: those are given in turn, up to pid_max. */
static void take_started(struct sampler *sampler, struct sample *ret)
{
	int64_t last = last_number("/proc/loadavg");
	int64_t max = last_number("/proc/sys/kernel/pid_max");
	bool known = sampler->before_ms && last != INT_ABSENT && sampler->last_pid != INT_ABSENT;
	ret->started = !known                      ? INT_ABSENT
		       : last >= sampler->last_pid ? last - sampler->last_pid
		       : max > 0                   ? last + max - sampler->last_pid
						   : INT_ABSENT;
	sampler->last_pid = last;
}

/* "  eth0: received … sent …" */
static void take_network(struct sample *ret)
{
	char line[512], name[32];
	long long in, out;
	FILE *file = fopen("/proc/net/dev", "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, " %31[^:]: %lld %*d %*d %*d %*d %*d %*d %*d %lld", name, &in,
			   &out) == 3 &&
		    strcmp(name, "lo") != 0) {
			ret->network_received += in;
			ret->network_sent += out;
		}
	if (file)
		(void)fclose(file);
}

static struct sample_disk disk_of(const char *path, const struct statvfs *st)
{
	int64_t unit = (int64_t)st->f_frsize;
	int64_t used = (int64_t)(st->f_blocks - st->f_bfree), free = (int64_t)st->f_bavail;
	bool inodes = st->f_files > 0;
	int64_t nodes = (int64_t)(st->f_files - st->f_ffree);
	return (struct sample_disk){
		.path = path,
		.used_bytes = used * unit,
		.total_bytes = (int64_t)st->f_blocks * unit,
		.free_bytes = free * unit,
		.usage_pct = percent((double)used, (double)(used + free)),
		.inode_used = inodes ? nodes : INT_ABSENT,
		.inode_total = inodes ? (int64_t)st->f_files : INT_ABSENT,
		.inode_usage_pct = inodes ? percent((double)nodes, (double)st->f_files) : NAN,
	};
}

/* Each file system once. */
static void take_disks(const struct sampler *sampler, struct arena *arena, struct sample *ret)
{
	const char *const places[] = { "/", sampler->workspace, "/tmp", "/dev/shm" };
	struct sample_disk *list = arena_alloc(arena, COUNT(places) * sizeof *list);
	unsigned long known[COUNT(places)];
	size_t count = 0;
	for (size_t i = 0; i < COUNT(places); i++) {
		struct statvfs vfs;
		struct stat st;
		size_t k = 0;
		if (!places[i] || stat(places[i], &st) < 0)
			continue;
		while (k < count && known[k] != st.st_dev)
			k++;
		if (k < count || statvfs(places[i], &vfs) < 0 || !vfs.f_blocks)
			continue;
		known[count] = st.st_dev;
		list[count++] = disk_of(arena_strdup(arena, places[i]), &vfs);
	}
	ret->disk = (struct list){ count, list };
}

void sampler_take(struct sampler *sampler, struct arena *arena, struct sample *ret)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	*ret = (struct sample){ .ts = timestamp_text(arena, &now), .at_ms = clock_ms() };
	take_cgroup(sampler, ret);
	take_started(sampler, ret);
	take_processes(sampler, arena, ret);
	take_network(ret);
	if (sampler->disk)
		take_disks(sampler, arena, ret);
	sampler->before_ms = ret->at_ms;
}

void sampler_done(struct sampler *sampler)
{
	free(sampler->ticks);
	sampler->ticks = NULL;
	sampler->count = 0;
}
