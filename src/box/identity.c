#include "box/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"

static int read_ns(pid_t pid, const char *name, uint64_t *ret)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
	if (stat(path, &st) < 0)
		return -1;
	*ret = st.st_ino;
	return 0;
}

static int read_start_time(pid_t pid, uint64_t *ret)
{
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	const char *at = strrchr(text, ')');
	for (int i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -1;
	*ret = strtoull(at + 1, NULL, 10);
	return 0;
}

static char boot_id[40];

static void read_boot_id(void)
{
	auto_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot_id, 36);
	boot_id[n == 36 ? 36 : 0] = 0;
}

const char *identity_boot(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_boot_id);
	return boot_id;
}

int identity_read(pid_t pid, struct box_proc *ret, struct err *err)
{
	struct box_proc proc = { .pid = pid };
	snprintf(proc.boot_id, sizeof proc.boot_id, "%s", identity_boot());
	if (!*proc.boot_id || read_start_time(pid, &proc.start_time) < 0 ||
	    read_ns(pid, "pid", &proc.pid_ns) < 0 || read_ns(pid, "net", &proc.net_ns) < 0)
		return err_set(err, errno, "the box's first process");
	*ret = proc;
	return 0;
}
