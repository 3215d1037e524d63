#include "proc/listening.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/own.h"

enum { TCP_STATE_LISTEN = 10, PORT_MAX = 65535, SOCKETS_MAX = 1 << 15 };

/* ---- the sockets of a process group ---- */

/* Calls the function with the inode number of each of a process's sockets: links such as
 * "socket:[1234]". */
static void each_socket(int proc, const char *pid, void (*fn)(void *arg, unsigned long inode),
			void *arg)
{
	char path[300], link[64];
	unsigned long inode;
	snprintf(path, sizeof path, "%s/fd", pid);
	DIR *dir = dir_open_at(proc, path, 0);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);
		link[n < 0 ? 0 : n] = 0;
		if (sscanf(link, "socket:[%lu]", &inode) == 1)
			fn(arg, inode);
	}
	closedir(dir);
}

static void add_socket(void *arg, unsigned long inode)
{
	(void)buf_add(arg, &inode, sizeof inode);
}

static void find_sockets(pid_t group, struct buf *inodes)
{
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = proc < 0 ? NULL : dir_open_at(proc, ".", 0);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && getpgid(pid) == group)
			each_socket(proc, entry->d_name, add_socket, inodes);
	}
	closedir(dir);
}

static bool has_socket(const struct buf *inodes, unsigned long inode)
{
	for (size_t at = 0; at < inodes->len; at += sizeof inode)
		if (!memcmp(inodes->data + at, &inode, sizeof inode))
			return true;
	return false;
}

/* ---- those that listen ---- */

/* The address of a line, as words in the byte order of this machine; of IPv6 where there are four. */
static void read_address(const char *hex, char to[INET6_ADDRSTRLEN])
{
	unsigned words[4] = { 0 };
	int n = sscanf(hex, "%8x%8x%8x%8x", &words[0], &words[1], &words[2], &words[3]);
	if (!inet_ntop(n == 4 ? AF_INET6 : AF_INET, words, to, INET6_ADDRSTRLEN))
		*to = 0;
}

/* "sl: local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …" */
static void read_table(const char *path, const struct buf *inodes, listening_fn *fn, void *arg)
{
	char line[512], address[33];
	unsigned state;
	FILE *file = fopen(path, "re");
	if (file)
		setvbuf(file, NULL, _IOFBF, 65536); /* a busy server has many lines here */
	while (file && fgets(line, sizeof line, file)) {
		struct listening it = { 0 };
		if (!strstr(line, " 0A ") ||
		    sscanf(line, " %*d: %32[0-9A-F]:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
			   address, &it.port, &state, &it.inode) != 4 ||
		    state != TCP_STATE_LISTEN || it.port > PORT_MAX ||
		    (inodes && !has_socket(inodes, it.inode)))
			continue;
		read_address(address, it.address);
		fn(arg, &it);
	}
	if (file)
		fclose(file);
}

void listening_each(listening_fn *fn, void *arg)
{
	read_table("/proc/net/tcp", NULL, fn, arg);
	read_table("/proc/net/tcp6", NULL, fn, arg);
}

void listening_each_of(pid_t group, listening_fn *fn, void *arg)
{
	auto_buf struct buf inodes = BUF(SOCKETS_MAX);
	find_sockets(group, &inodes);
	read_table("/proc/net/tcp", &inodes, fn, arg);
	read_table("/proc/net/tcp6", &inodes, fn, arg);
}

/* ---- whose they are ---- */

struct owner_search {
	struct listening *listeners;
	size_t count, left;
	pid_t pid; /* whose sockets are looked at */
	int proc;
};

/* The words of its command line, with a blank between them. */
static void read_command(int proc, pid_t pid, char *to, size_t room)
{
	char path[64];
	snprintf(path, sizeof path, "%d/cmdline", pid);
	auto_close int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);
	to[n < 0 ? 0 : n] = 0;
	for (ssize_t i = 0; i + 1 < n; i++)
		if (!to[i])
			to[i] = ' ';
}

/* Of several processes that have it the one with the lowest number, mostly the parent of the others. */
static void note_owner(void *arg, unsigned long inode)
{
	struct owner_search *search = arg;
	for (size_t i = 0; i < search->count; i++) {
		struct listening *it = &search->listeners[i];
		if (it->inode != inode || it->pid)
			continue;
		it->pid = search->pid;
		read_command(search->proc, it->pid, it->command, sizeof it->command);
		search->left--;
	}
}

void listening_find_owners(struct listening *listeners, size_t count)
{
	struct owner_search search = { .listeners = listeners, .count = count };
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = proc < 0 ? NULL : dir_open_at(proc, ".", 0);
	search.proc = proc;
	for (size_t i = 0; i < count; i++)
		search.left += !listeners[i].pid;
	for (struct dirent *entry; dir && search.left && (entry = readdir(dir));) {
		search.pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (search.pid > 0)
			each_socket(proc, entry->d_name, note_owner, &search);
	}
	if (dir)
		closedir(dir);
}
