#include "box/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/own.h"
#include "box/box.h"

enum {
	PERIOD_US = 100000,
	/* What init and the server may use beside the limits of the commands: they are the box's too. */
	SERVER_MEMORY = 256 << 20,
	SERVER_PIDS = 1024,
	SERVER_CPU_PERCENT = 10,
	WEIGHT_DEFAULT = 100,
	WEIGHT_MAX = 10000,
	BFQ_MAX = 1000,
};

static int write_at(int dir, const char *path, const char *text)
{
	auto_close int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int write_number(int dir, const char *path, int64_t number)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, number);
	return write_at(dir, path, text);
}

static int write_cpu(int dir, double cpus, bool whole, bool v2)
{
	char text[64];
	int64_t quota = (int64_t)(cpus * PERIOD_US);
	if (whole)
		quota += PERIOD_US / 100 * SERVER_CPU_PERCENT;
	snprintf(text, sizeof text, "%" PRId64 " %d", quota, PERIOD_US);
	return v2 ? write_at(dir, "cpu.max", text) : write_number(dir, "cpu.cfs_quota_us", quota);
}

/* What sockets of all boxes may hold: half of what the machine's may before it takes care with them. */
static int64_t sockets_together(void)
{
	char text[64] = "";
	auto_close int fd = open("/proc/sys/net/ipv4/tcp_mem", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	int64_t pages = n < 0 ? 0 : strtoll(text, NULL, 10);
	return pages > 0 ? pages * sysconf(_SC_PAGESIZE) / 2 : limit_machine_memory() / 32;
}

/* What is in the buffers of TCP and UDP is no part of the memory of v1, and counts only where it is
 * limited. Nothing fails for want of it: senders wait, or datagrams are lost. */
static int write_sockets(int dir, int64_t memory)
{
	int64_t most = sockets_together() / 4, part = memory ? memory / 8 : most;
	int result = write_number(dir, LIMIT_SOCKETS, part < most ? part : most);
	return result < 0 && errno == ENOENT ? 0 : result; /* box_probe() says so */
}

static int write_memory(int dir, int64_t memory, bool v2)
{
	if (write_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", memory) < 0)
		return -1;
	/* Swap would only hide the limit. Not every machine counts it. */
	(void)write_number(dir, v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
			   v2 ? 0 : memory);
	return 0;
}

int64_t limit_machine_memory(void)
{
	return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static void lower(int dir, const char *path, int64_t most)
{
	char now[32] = "";
	auto_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, now, sizeof now - 1);
	if (n > 0 && (!strncmp(now, "max", 3) || strtoll(now, NULL, 10) > most))
		(void)write_number(dir, path, most);
}

void limit_together(int dir, int64_t memory, bool v2)
{
	lower(dir, v2 ? "memory.max" : "memory.limit_in_bytes", memory);
	if (!v2)
		lower(dir, LIMIT_SOCKETS, sockets_together());
}

static int write_memory_limits(int dir, const struct box_limits *limits, bool whole, bool v2)
{
	/* One for all of the box: it costs no group of its own, and commands end before the server. */
	int64_t memory = limits->memory ? limits->memory + (whole ? SERVER_MEMORY : 0)
			 : whole        ? limits->most
					: 0;
	if (memory && write_memory(dir, memory, v2) < 0)
		return -1;
	return v2 ? 0 : write_sockets(dir, memory);
}

int limit_write(int dir, int controller, const struct box_limits *limits, bool whole, bool v2)
{
	if (controller == GROUP_PIDS && limits->pids)
		return write_number(dir, "pids.max", limits->pids + (whole ? SERVER_PIDS : 0));
	if (controller == GROUP_MEMORY)
		return write_memory_limits(dir, limits, whole, v2);
	/* The server answers while the commands are throttled: a little is left to it alone. */
	if (controller == GROUP_CPU && limits->cpus > 0)
		return write_cpu(dir, limits->cpus, whole, v2);
	return 0;
}

/* --- io -------------------------------------------------------------------------------------- */

static const char *read_path(const char *path, char *to, size_t room)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);
	to[n < 0 ? 0 : n] = 0;
	return to;
}

/* Whether io.cost is on for a disk, "8:0" of a line "8:0 enable=1 …". */
static bool counts_cost(const char *cost, const char *disk)
{
	size_t len = strlen(disk);
	for (const char *line = cost; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, disk, len) && !strncmp(line + len, " enable=1", 9))
			return true;
	}
	return false;
}

enum limit_io limit_io_of(const char *sys, dev_t device, const char *cost)
{
	/* A partition has no queue of its own: its disk, the directory above, has it. */
	static const char *const places[] = { "", "/.." };
	for (size_t i = 0; i < COUNT(places); i++) {
		char path[256], text[256], disk[32];
		snprintf(path, sizeof path, "%s/dev/block/%u:%u%s/queue/scheduler", sys,
			 major(device), minor(device), places[i]);
		if (!*read_path(path, text, sizeof text))
			continue;
		if (strstr(text, "[bfq]"))
			return LIMIT_IO_BFQ;
		snprintf(path, sizeof path, "%s/dev/block/%u:%u%s/dev", sys, major(device),
			 minor(device), places[i]);
		read_path(path, disk, sizeof disk);
		disk[strcspn(disk, "\n")] = 0;
		return *disk && counts_cost(cost, disk) ? LIMIT_IO_COST : LIMIT_IO_NONE;
	}
	return LIMIT_IO_NONE;
}

/* BFQ's weights end at 1000; what is more than the default is spread over what there is. */
static int64_t bfq_weight(int64_t weight)
{
	return weight <= WEIGHT_DEFAULT
		       ? weight
		       : WEIGHT_DEFAULT + (weight - WEIGHT_DEFAULT) * (BFQ_MAX - WEIGHT_DEFAULT) /
						  (WEIGHT_MAX - WEIGHT_DEFAULT);
}

int limit_write_io(int dir, enum limit_io io, int64_t weight, bool v2)
{
	if (io == LIMIT_IO_BFQ)
		return write_number(dir, v2 ? "io.bfq.weight" : "blkio.bfq.weight",
				    bfq_weight(weight));
	return write_number(dir, "io.weight", weight);
}
