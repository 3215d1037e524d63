/* The files of cgroup v2 and v1 and of sysfs are imitated: a machine has one or the other. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/own.h"
#include "box/box.h"
#include "box/limit.h"
#include "tap.h"

static char top[] = "/tmp/aio-limit-XXXXXX";

static const struct box_limits limits = {
	.memory = 128 << 20, .cpus = 0.25, .pids = 100, .io_weight = 5000
};
static const struct box_limits none = { 0 };

/* An empty file, with the directories above it. */
static void put(const char *path, const char *text)
{
	char whole[256];
	snprintf(whole, sizeof whole, "%s/%s", top, path);
	for (char *slash = whole + sizeof top; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		(void)mkdir(whole, 0755);
		*slash = '/';
	}
	auto_close int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static const char *get(int dir, const char *name)
{
	static char text[64];
	auto_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	return n < 0 ? NULL : text;
}

static int group(const char *name, const char *const *files, size_t count)
{
	char path[128];
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/%s", name, files[i]);
		put(path, "");
	}
	snprintf(path, sizeof path, "%s/%s", top, name);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int write_all(int dir, const struct box_limits *what, bool whole, bool v2)
{
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		if (limit_write(dir, i, what, whole, v2) < 0)
			return -1;
	return 0;
}

static void check_v2(void)
{
	static const char *const files[] = { "memory.max", "memory.swap.max", "cpu.max",
					     "pids.max",   "io.weight",       "io.bfq.weight" };
	auto_close int run = group("v2/run", files, COUNT(files));
	auto_close int whole = group("v2", files, COUNT(files));
	CHECK(write_all(run, &none, false, true) == 0 && write_all(whole, &none, true, true) == 0);
	for (size_t i = 0; i < COUNT(files); i++)
		CHECK_STR(get(run, files[i]), "");
	CHECK(write_all(run, &limits, false, true) == 0);
	CHECK_STR(get(run, "memory.max"), "134217728");
	CHECK_STR(get(run, "memory.swap.max"), "0");
	CHECK_STR(get(run, "cpu.max"), "25000 100000");
	CHECK_STR(get(run, "pids.max"), "100");
	CHECK_STR(get(run, "io.weight"), "");
	/* With room for the server. */
	CHECK(write_all(whole, &limits, true, true) == 0);
	CHECK_STR(get(whole, "memory.max"), "402653184");
	CHECK_STR(get(whole, "pids.max"), "1124");
	CHECK_STR(get(whole, "cpu.max"), "35000 100000");
	CHECK(limit_write_io(whole, LIMIT_IO_COST, 5000, true) == 0);
	CHECK_STR(get(whole, "io.weight"), "5000");
	CHECK(limit_write_io(whole, LIMIT_IO_BFQ, 10000, true) == 0);
	CHECK_STR(get(whole, "io.bfq.weight"), "1000");
	/* A machine that does not count swap. */
	CHECK(unlinkat(run, "memory.swap.max", 0) == 0 &&
	      write_all(run, &limits, false, true) == 0);
	CHECK(unlinkat(run, "memory.max", 0) == 0 && write_all(run, &limits, false, true) < 0);
}

static void check_v1(void)
{
	static const char *const files[] = { "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
					     "cpu.cfs_quota_us",      "pids.max",
					     "blkio.bfq.weight",      LIMIT_SOCKETS };
	auto_close int run = group("v1/run", files, COUNT(files));
	auto_close int whole = group("v1", files, COUNT(files));
	CHECK(write_all(run, &limits, false, false) == 0);
	CHECK_STR(get(run, "memory.limit_in_bytes"), "134217728");
	CHECK_STR(get(run, "memory.memsw.limit_in_bytes"), "134217728");
	CHECK_STR(get(run, "cpu.cfs_quota_us"), "25000");
	CHECK_STR(get(run, "pids.max"), "100");
	/* An eighth of the memory, or what a box may have of the machine's where that is less. */
	long long sockets = strtoll(get(run, LIMIT_SOCKETS), NULL, 10);
	CHECK(sockets > 0 && sockets <= 16 << 20);
	CHECK(write_all(whole, &limits, true, false) == 0);
	CHECK_STR(get(whole, "cpu.cfs_quota_us"), "35000");
	CHECK(strtoll(get(whole, LIMIT_SOCKETS), NULL, 10) >= sockets);
	CHECK(write_all(run, &none, false, false) == 0);
	CHECK(strtoll(get(run, LIMIT_SOCKETS), NULL, 10) > 0);
	/* A machine that does not count them. */
	CHECK(unlinkat(run, LIMIT_SOCKETS, 0) == 0 && write_all(run, &limits, false, false) == 0);
	CHECK(limit_write_io(run, LIMIT_IO_BFQ, 1, false) == 0);
	CHECK_STR(get(run, "blkio.bfq.weight"), "1");
	CHECK(limit_write_io(run, LIMIT_IO_BFQ, 100, false) == 0);
	CHECK_STR(get(run, "blkio.bfq.weight"), "100");
}

/* Without a limit of its own, a box has one for all of it. */
static void check_most(void)
{
	static const char *const files[] = { "memory.max", "memory.limit_in_bytes" };
	const struct box_limits most = { .most = 64 << 20 },
				both = { .memory = 1 << 20, .most = 64 << 20 };
	auto_close int whole = group("most", files, COUNT(files));
	auto_close int run = group("most/run", files, COUNT(files));
	auto_close int other = group("both", files, COUNT(files));
	CHECK(write_all(run, &most, false, true) == 0 && write_all(whole, &most, true, true) == 0);
	CHECK_STR(get(whole, "memory.max"), "67108864");
	CHECK_STR(get(run, "memory.max"), "");
	CHECK(write_all(whole, &most, true, false) == 0);
	CHECK_STR(get(whole, "memory.limit_in_bytes"), "67108864");
	CHECK(write_all(other, &both, true, true) == 0);
	CHECK_STR(get(other, "memory.max"), "269484032");
}

/* All boxes together: what an operator has set lower stays. */
static void check_together(void)
{
	CHECK(limit_machine_memory() > 1 << 20);
	put("all/memory.max", "max\n");
	put("all/memory.limit_in_bytes", "9223372036854771712\n");
	put("all/" LIMIT_SOCKETS, "9223372036854771712\n");
	put("less/memory.max", "4096\n");
	char path[128];
	snprintf(path, sizeof path, "%s/all", top);
	auto_close int all = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof path, "%s/less", top);
	auto_close int less = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	limit_together(all, 1000000, true);
	limit_together(all, 1000000, false);
	limit_together(less, 1000000, true);
	CHECK(!strncmp(get(all, "memory.max"), "1000000", 7));
	CHECK(!strncmp(get(all, "memory.limit_in_bytes"), "1000000", 7));
	CHECK(strncmp(get(all, LIMIT_SOCKETS), "9223", 4) != 0);
	CHECK_STR(get(less, "memory.max"), "4096\n");
}

static void check_io(void)
{
	dev_t disk = makedev(8, 0), part = makedev(8, 1);
	put("sys/block/sda/queue/scheduler", "mq-deadline kyber [bfq] none\n");
	put("sys/block/sda/dev", "8:0\n");
	put("sys/block/sda/sda1/dev", "8:1\n");
	put("sys/dev/block/x", "");
	char link[128];
	for (int i = 0; i < 2; i++) {
		snprintf(link, sizeof link, "%s/sys/dev/block/8:%d", top, i);
		CHECK(symlink(i ? "../../block/sda/sda1" : "../../block/sda", link) == 0);
	}
	snprintf(link, sizeof link, "%s/sys", top);
	CHECK(limit_io_of(link, disk, "") == LIMIT_IO_BFQ);
	CHECK(limit_io_of(link, part, "") == LIMIT_IO_BFQ);
	CHECK(limit_io_of(link, makedev(0, 50), "") == LIMIT_IO_NONE);
	put("sys/block/sda/queue/scheduler", "[mq-deadline] kyber bfq none\n");
	CHECK(limit_io_of(link, disk, "") == LIMIT_IO_NONE);
	CHECK(limit_io_of(link, part, "8:16 enable=1 ctrl=auto\n8:0 enable=1 ctrl=auto\n") ==
	      LIMIT_IO_COST);
	CHECK(limit_io_of(link, disk, "8:0 enable=0 ctrl=auto\n18:0 enable=1\n") == LIMIT_IO_NONE);
}

int main(void)
{
	if (!mkdtemp(top))
		return 1;
	check_v2();
	check_v1();
	check_most();
	check_together();
	check_io();
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command) || tap_done(); /* NOLINT(cert-env33-c) */
}
