#include "proc/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"

static struct limits all = { .pids_fd = -1, .oom_fd = -1 };

void limits_use(const struct limits *limits)
{
	all = *limits;
}

static const char *read_all(int fd, char *to, size_t room)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, to, room - 1, 0);
	to[n < 0 ? 0 : n] = 0;
	return to;
}

int64_t limits_killed(void)
{
	static const char word[] = "\noom_kill ";
	char text[1024];
	const char *at = strstr(read_all(all.oom_fd, text, sizeof text), word);
	return at ? strtoll(at + sizeof word - 1, NULL, 10) : 0;
}

const char *limits_starved(char *to, size_t room)
{
	if (all.memory)
		snprintf(to, room, LIMITS_STARVED " of %lld MiB. " LIMITS_STARVED_HINT,
			 (long long)(all.memory >> 20));
	else
		snprintf(to, room,
			 "Out of memory: the machine has none left, and killed a process");
	return to;
}

static int64_t tasks_now(void)
{
	char text[32];
	return strtoll(read_all(all.pids_fd, text, sizeof text), NULL, 10);
}

bool limits_fit(int64_t tasks)
{
	return !all.pids || tasks_now() + tasks <= all.pids - all.pids / 4;
}

bool limits_exceed(int64_t tasks)
{
	return all.pids && tasks_now() + tasks > all.pids;
}

int limits_need(int64_t tasks, int64_t memory, struct err *err)
{
	if (all.pids && tasks > all.pids)
		return err_set(
			err, ERR_LIMIT,
			"it needs %lld processes and threads, and this sandbox may have %lld: "
			"use one with a higher limits.pids",
			(long long)tasks, (long long)all.pids);
	if (all.memory && memory > all.memory)
		return err_set(err, ERR_LIMIT,
			       "it needs %lld MiB of memory, and this sandbox has %lld MiB: "
			       "use one with a higher limits.memory",
			       (long long)(memory >> 20), (long long)(all.memory >> 20));
	if (tasks && limits_exceed(tasks))
		return err_set(
			err, ERR_LIMIT,
			"it needs %lld processes and threads, and of the %lld of this sandbox %lld "
			"are in use: end sessions or commands, or use one with a higher limits.pids",
			(long long)tasks, (long long)all.pids, (long long)tasks_now());
	return 0;
}

int limits_need_room(const char *path, const char *what, struct err *err)
{
	enum { ROOM = 1 << 20 };
	struct statvfs st;
	if (statvfs(path, &st) < 0 || !st.f_blocks || (uint64_t)st.f_bavail * st.f_frsize >= ROOM)
		return 0;
	return err_set(err, ENOSPC, "%s '%s' needs 1 MiB of free disk space", what, path);
}

int limits_refuse(int code, const char *what, struct err *err)
{
	static const char more[] = "end sessions or commands, or use a sandbox with a higher";
	char known[64] = "";
	if (code == EAGAIN && all.pids)
		snprintf(known, sizeof known, "sandbox's limit of %lld ", (long long)all.pids);
	if (code == ENOMEM && all.memory)
		snprintf(known, sizeof known, "sandbox's %lld MiB of ",
			 (long long)(all.memory >> 20));
	if (!*known)
		return err_set(err, ERR_LIMIT, "%s: the system has no more %s for it", what,
			       code == EAGAIN ? "processes and threads" : "memory");
	return err_set(err, ERR_LIMIT, "%s: the %s%s; %s limits.%s", what, known,
		       code == EAGAIN ? "processes and threads is reached" : "memory are used up",
		       more, code == EAGAIN ? "pids" : "memory");
}
