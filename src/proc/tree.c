#include "proc/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"

enum { ENVIRONMENT_MAX = 4 << 20, STAT_MAX = 4096, END_MS = 5000, PAUSE_MS = 2 };

void tree_marker(char *to, size_t room, const char *id)
{
	unsigned long long nonce = 0;
	(void)!getrandom(&nonce, sizeof nonce, 0);
	snprintf(to, room, TREE_MARKER "=%.60s.%016llx", id, nonce);
}

struct member {
	pid_t pid, parent;
	bool in, dead;
};

struct crowd {
	struct member *all;
	size_t count, room;
};

static int read_file(int proc, pid_t pid, const char *name, struct buf *to)
{
	char path[64];
	snprintf(path, sizeof path, "%d/%s", pid, name);
	auto_close int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	to->len = 0;
	to->full = false;
	for (;;) {
		char *room = fd < 0 ? NULL : buf_grow(to, 4096);
		ssize_t n = room ? read(fd, room, 4096) : -1;
		if (n <= 0)
			return fd < 0 ? -1 : 0;
		to->len += (size_t)n;
	}
}

static bool carries(const struct buf *environment, const char *marker)
{
	size_t len = strlen(marker) + 1;
	const char *found = environment->len ? memmem(environment->data, environment->len, marker, len) : NULL;
	return found && (found == environment->data || found[-1] == 0);
}

/* "pid (name) state parent …"; the name may hold anything. */
static bool parse_stat(struct buf *stat, struct member *ret)
{
	char *end = stat->len ? memrchr(stat->data, ')', stat->len) : NULL;
	char state;
	if (!end || sscanf(end + 1, " %c %d", &state, &ret->parent) != 2)
		return false;
	ret->dead = state == 'Z' || state == 'X';
	return true;
}

static void look(int proc, const char *marker, struct crowd *crowd)
{
	auto_buf struct buf text = BUF(ENVIRONMENT_MAX);
	DIR *dir = fdopendir(dup(proc));
	crowd->count = 0;
	if (!dir)
		return;
	rewinddir(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct member member = { .pid = (pid_t)strtol(entry->d_name, NULL, 10) };
		if (member.pid <= 1 || member.pid == getpid() ||
		    read_file(proc, member.pid, "stat", &text) < 0 || !parse_stat(&text, &member) ||
		    member.dead)
			continue;
		member.in = read_file(proc, member.pid, "environ", &text) == 0 && carries(&text, marker);
		if (crowd->count == crowd->room) {
			crowd->room = crowd->room ? crowd->room * 2 : 256;
			crowd->all = xrealloc(crowd->all, crowd->room * sizeof *crowd->all);
		}
		crowd->all[crowd->count++] = member;
	}
	closedir(dir);
}

static bool parent_is_in(const struct crowd *crowd, pid_t pid)
{
	for (size_t i = 0; i < crowd->count; i++)
		if (crowd->all[i].pid == pid)
			return crowd->all[i].in;
	return false;
}

/* Children of members are members, even if they hide their environment. */
static void spread(struct crowd *crowd)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < crowd->count; i++)
			if (!crowd->all[i].in && parent_is_in(crowd, crowd->all[i].parent))
				crowd->all[i].in = more = true;
	}
}

static size_t send_all(const struct crowd *crowd, int number)
{
	size_t sent = 0;
	for (size_t i = 0; i < crowd->count; i++)
		if (crowd->all[i].in)
			sent += kill(crowd->all[i].pid, number) == 0;
	return sent;
}

void tree_end(const char *marker)
{
	struct crowd crowd = { 0 };
	int64_t until = clock_ms() + END_MS;
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return;
	size_t before = 0, found = 0;
	do { /* until no new one appears: then nobody is left who could start another */
		before = found;
		look(proc, marker, &crowd);
		spread(&crowd);
		found = send_all(&crowd, SIGSTOP);
	} while (found > before && clock_ms() < until);
	while (found && clock_ms() < until) {
		send_all(&crowd, SIGKILL);
		poll(NULL, 0, PAUSE_MS);
		look(proc, marker, &crowd);
		spread(&crowd);
		found = send_all(&crowd, 0);
	}
	free(crowd.all);
}
