#include "proc/usage.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/desc.h"
#include "base/own.h"

static struct usage_from box;
static bool given; /* by whom made the box: set before there are threads */

void usage_use(const struct usage_from *from)
{
	box = *from;
	given = true;
}

/* ---- the cgroup of this process, where there is no box ---- */

/* The path after "NUMBER:CONTROLLERS:" in /proc/self/cgroup; "" where there is none. */
static void own_path(const char *controller, char *to, size_t room)
{
	char line[4096];
	FILE *file = fopen("/proc/self/cgroup", "re");
	*to = 0;
	while (file && !*to && fgets(line, sizeof line, file)) {
		char *names = strchr(line, ':');
		char *path = names ? strchr(++names, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		path[strcspn(path, "\n")] = 0;
		if (!strcmp(names, controller))
			snprintf(to, room, "%s", path);
	}
	if (file)
		(void)fclose(file);
}

/* The first of the hierarchy's usual places that has the file. */
static int open_own(const char *controller, const char *const *mounts, const char *name)
{
	char path[4096], file[8192];
	own_path(controller, path, sizeof path);
	for (; *path && *mounts; mounts++) {
		snprintf(file, sizeof file, "%s%s/%s", *mounts, path, name);
		int fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static int64_t read_number(int fd)
{
	char text[64];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	return *text >= '0' && *text <= '9' ? strtoll(text, NULL, 10) : INT_ABSENT;
}

static int64_t own_limit(int fd)
{
	auto_close int file = fd;
	int64_t limit = read_number(file);
	return limit == INT_ABSENT || limit >= INT64_C(1) << 60 ? 0 : limit;
}

static double own_cpus(int fd)
{
	auto_close int file = fd;
	char text[64];
	double quota, period;
	ssize_t n = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	return sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : 0;
}

static void open_all(struct usage_from *from)
{
	static const char *const v2[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL };
	static const char *const memory[] = { "/sys/fs/cgroup/memory", NULL };
	int *files = from->files;
	files[USAGE_CPU] = open_own("", v2, "cpu.stat");
	files[USAGE_THROTTLE] = -1;
	from->pids = open_own("", v2, "pids.current");
	from->pids_max = own_limit(open_own("", v2, "pids.max"));
	from->cpus = own_cpus(open_own("", v2, "cpu.max"));
	files[USAGE_MEMORY] = open_own("", v2, "memory.current");
	if (files[USAGE_MEMORY] >= 0) {
		files[USAGE_MEMORY_STAT] = open_own("", v2, "memory.stat");
		from->oom = open_own("", v2, "memory.events");
		from->memory_max = own_limit(open_own("", v2, "memory.max"));
		return;
	}
	files[USAGE_MEMORY] = open_own("memory", memory, "memory.usage_in_bytes");
	files[USAGE_MEMORY_STAT] = open_own("memory", memory, "memory.stat");
	from->oom = open_own("memory", memory, "memory.oom_control");
	from->memory_max = own_limit(open_own("memory", memory, "memory.limit_in_bytes"));
}

static void close_all(struct usage_from *from)
{
	for (int i = 0; i < USAGE_FILES; i++)
		own_close(&from->files[i]);
	own_close(&from->pids);
	own_close(&from->oom);
}

/* ---- reading ---- */

struct pairs {
	char text[8192];
};

static void read_pairs(int fd, struct pairs *ret)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, ret->text, sizeof ret->text - 1, 0);
	ret->text[n < 0 ? 0 : n] = 0;
}

/* The number after a word that begins a line: the first of several words that is there. */
static int64_t pair(const struct pairs *pairs, const char *const *words)
{
	for (; *words; words++) {
		size_t len = strlen(*words);
		for (const char *at = pairs->text; at && *at;) {
			if (!strncmp(at, *words, len) && at[len] == ' ')
				return strtoll(at + len, NULL, 10);
			at = strchr(at, '\n');
			at += at ? 1 : 0;
		}
	}
	return INT_ABSENT;
}
#define PAIR(pairs, ...) pair(pairs, (const char *const[]){ __VA_ARGS__, NULL })

static void read_cpu(const struct usage_from *from, struct usage *ret)
{
	struct pairs v2, v1;
	read_pairs(from->files[USAGE_CPU], &v2);
	read_pairs(from->files[USAGE_THROTTLE], &v1);
	int64_t throttled_ns = PAIR(&v1, "throttled_time");
	const struct pairs *throttle = throttled_ns != INT_ABSENT ? &v1 : &v2;
	ret->cpu_us = PAIR(&v2, "usage_usec");
	ret->periods = PAIR(throttle, "nr_periods");
	ret->throttled = PAIR(throttle, "nr_throttled");
	ret->throttled_us = throttled_ns != INT_ABSENT ? throttled_ns / 1000
						       : PAIR(&v2, "throttled_usec");
	ret->cpus = from->cpus > 0 ? from->cpus : (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void read_memory(const struct usage_from *from, struct usage *ret)
{
	struct pairs stat, oom;
	read_pairs(from->files[USAGE_MEMORY_STAT], &stat);
	read_pairs(from->oom, &oom);
	ret->memory = read_number(from->files[USAGE_MEMORY]);
	ret->memory_max = from->memory_max ? from->memory_max : INT_ABSENT;
	ret->anon = PAIR(&stat, "anon", "total_rss", "rss");
	ret->file = PAIR(&stat, "file", "total_cache", "cache");
	ret->shmem = PAIR(&stat, "shmem", "total_shmem");
	ret->slab = PAIR(&stat, "slab");
	ret->oom = PAIR(&oom, "oom");
	ret->oom_kill = PAIR(&oom, "oom_kill");
}

void usage_read(struct usage *ret)
{
	struct usage_from own = { 0 };
	const struct usage_from *from = given ? &box : &own;
	if (!given)
		open_all(&own);
	read_cpu(from, ret);
	read_memory(from, ret);
	ret->pids = read_number(from->pids);
	ret->pids_max = from->pids_max ? from->pids_max : INT_ABSENT;
	if (!given)
		close_all(&own);
}
