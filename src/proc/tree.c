#include "proc/tree.h"

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
#include "base/dir.h"
#include "base/own.h"

enum { FILE_MAX = 4 << 20, STOP_MS = 1000, END_MS = 5000, PAUSE_MS = 2 };

void tree_marker(char *to, size_t room, const char *id)
{
	unsigned long long nonce = 0;
	(void)!getrandom(&nonce, sizeof nonce, 0);
	snprintf(to, room, TREE_MARKER "=%.60s.%016llx", id, nonce);
}

uint64_t tree_tag(const char *marker)
{
	const char *nonce = strrchr(marker, '.');
	return (uint64_t)1 << 61 | (nonce ? strtoull(nonce + 1, NULL, 16) >> 4 : 0);
}

struct member {
	pid_t pid, parent;
	bool in, dead, stopped;
};

/* All processes there are. */
struct crowd {
	struct member *all; /* sorted by pid */
	size_t count, room;
	int proc;
	const char *marker; /* NULL: the descendants of this process are looked for */
	char tag[64];
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

/* The whole marker, as one of the environment's strings. */
static bool has_marker(const struct buf *environment, const char *marker)
{
	size_t len = strlen(marker) + 1;
	const char *found =
		environment->len ? memmem(environment->data, environment->len, marker, len) : NULL;
	return found && (found == environment->data || found[-1] == 0);
}

/* "Max realtime timeout      2305…      2305…      us" */
static bool has_tag(const struct buf *limits, const char *tag)
{
	return limits->len && memmem(limits->data, limits->len, tag, strlen(tag));
}

static bool is_in(const struct crowd *crowd, const struct member *member, struct buf *text)
{
	if (!crowd->marker)
		return member->parent == getpid();
	if (read_file(crowd->proc, member->pid, "environ", text) == 0 &&
	    has_marker(text, crowd->marker))
		return true;
	return read_file(crowd->proc, member->pid, "limits", text) == 0 &&
	       has_tag(text, crowd->tag);
}

#define SKIP_15 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"

/* "pid (name) state parent …"; the name may hold anything. A process that has lost its first thread says
 * that it is dead, and goes on with the others, also as a parent. */
static bool parse_stat(const struct buf *stat, struct member *ret)
{
	char *end = stat->len ? memrchr(stat->data, ')', stat->len) : NULL;
	char state;
	int threads;
	if (!end || sscanf(end + 1, " %c %d" SKIP_15 " %d", &state, &ret->parent, &threads) != 3)
		return false;
	ret->dead = (state == 'Z' || state == 'X') && threads <= 1;
	ret->stopped = state == 'T' || state == 't';
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool parent_is_in(const struct crowd *crowd, const struct member *member)
{
	const struct member *parent = bsearch(&(struct member){ .pid = member->parent }, crowd->all,
					      crowd->count, sizeof *crowd->all, by_pid);
	return parent && parent->in;
}

/* Children of members are members, whatever they carry. */
static void spread(struct crowd *crowd)
{
	if (crowd->count)
		qsort(crowd->all, crowd->count, sizeof *crowd->all, by_pid);
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < crowd->count; i++)
			if (!crowd->all[i].in && parent_is_in(crowd, &crowd->all[i]))
				crowd->all[i].in = more = true;
	}
}

static void look(struct crowd *crowd)
{
	auto_buf struct buf text = BUF(FILE_MAX);
	DIR *dir = dir_open_at(crowd->proc, ".", 0);
	crowd->count = 0;
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct member member = { .pid = (pid_t)strtol(entry->d_name, NULL, 10) };
		if (member.pid <= 1 || member.pid == getpid() ||
		    read_file(crowd->proc, member.pid, "stat", &text) < 0 ||
		    !parse_stat(&text, &member) || member.dead)
			continue;
		member.in = is_in(crowd, &member, &text);
		if (crowd->count == crowd->room) {
			crowd->room = crowd->room ? crowd->room * 2 : 256;
			crowd->all = xrealloc(crowd->all, crowd->room * sizeof *crowd->all);
		}
		crowd->all[crowd->count++] = member;
	}
	closedir(dir);
	spread(crowd);
}

/* How many members could be sent it; those that are stopped already are not stopped again. */
static size_t send_all(const struct crowd *crowd, int number)
{
	size_t sent = 0;
	for (size_t i = 0; i < crowd->count; i++)
		if (crowd->all[i].in && !(number == SIGSTOP && crowd->all[i].stopped))
			sent += kill(crowd->all[i].pid, number) == 0;
	return sent;
}

static void end(struct crowd *crowd)
{
	int64_t start = clock_ms();
	crowd->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (crowd->proc < 0)
		return;
	do /* until all are stopped: then nobody is left who could start another */
		look(crowd);
	while (send_all(crowd, SIGSTOP) && clock_ms() < start + STOP_MS);
	while (send_all(crowd, SIGKILL) && clock_ms() < start + END_MS) {
		poll(NULL, 0, PAUSE_MS);
		look(crowd);
	}
	free(crowd->all);
	close(crowd->proc);
}

void tree_end(const char *marker)
{
	struct crowd crowd = { .marker = marker };
	snprintf(crowd.tag, sizeof crowd.tag, " %llu ", (unsigned long long)tree_tag(marker));
	end(&crowd);
}

/* Orphans become children of the first stage, our parent, whose only other child we are. */
static bool has_orphans(void)
{
	char path[64], text[64];
	int others = 1;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n >= 0) {
		char *end;
		text[n] = 0;
		others = strtol(text, &end, 10) != getpid() || end[strspn(end, " \n")];
	}
	return others;
}

void tree_end_orphans(const char *marker)
{
	if (has_orphans())
		tree_end(marker);
}

void tree_end_children(void)
{
	end(&(struct crowd){ 0 });
}
