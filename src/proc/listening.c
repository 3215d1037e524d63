#include "proc/listening.h"

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

/* Adds the inode numbers of a process's sockets: links such as "socket:[1234]". */
static void add_sockets(int proc, const char *pid, struct buf *inodes)
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
			(void)buf_add(inodes, &inode, sizeof inode);
	}
	closedir(dir);
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
			add_sockets(proc, entry->d_name, inodes);
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

/* "sl: local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …" */
static void read_table(const char *path, const struct buf *inodes, listening_fn *fn, void *arg)
{
	char line[512];
	unsigned port, state;
	unsigned long inode;
	FILE *file = fopen(path, "re");
	if (file)
		setvbuf(file, NULL, _IOFBF, 65536); /* a busy server has many lines here */
	while (file && fgets(line, sizeof line, file))
		if (strstr(line, " 0A ") &&
		    sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &port,
			   &state, &inode) == 3 &&
		    state == TCP_STATE_LISTEN && port <= PORT_MAX &&
		    (!inodes || has_socket(inodes, inode)))
			fn(arg, port);
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
