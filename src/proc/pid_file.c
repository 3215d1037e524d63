#include "proc/pid_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/wait.h"

enum { END_MS = 10000 };

static pid_t read_number(const char *path)
{
	int pid = 0;
	FILE *file = fopen(path, "re");
	if (file && fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		(void)fclose(file);
	return pid;
}

static bool has_argument(pid_t pid, const char *named)
{
	char path[40], text[8192];
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
	return n > 0 && memmem(text, (size_t)n, named, strlen(named));
}

/* A pidfd, or -1. It is opened before the arguments are read: whatever has the number later is not
 * what it stands for. */
static int open_process(const char *path, const char *named)
{
	pid_t pid = read_number(path);
	auto_close int fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	return fd >= 0 && has_argument(pid, named) ? TAKE_FD(fd) : -1;
}

bool pid_file_runs(const char *path, const char *named)
{
	auto_close int fd = open_process(path, named);
	return fd >= 0;
}

void pid_file_kill(const char *path, const char *named)
{
	auto_close int fd = open_process(path, named);
	if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
		return;
	(void)wait_until(fd, POLLIN, clock_ms() + END_MS);
}
