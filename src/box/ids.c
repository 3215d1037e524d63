#include "box/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { MAP_MAX = 16384 };

/* --- which there are ------------------------------------------------------------------------- */

static const char *read_map(const char *path, char *to)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, MAP_MAX - 1);
	to[n < 0 ? 0 : n] = 0;
	return to;
}

/* Of a line "inside outside count", and where the next begins; NULL: no more. */
static const char *read_extent(const char *at, uint64_t *ret_first, uint64_t *ret_count)
{
	int len = 0;
	if (sscanf(at, "%" SCNu64 " %*u %" SCNu64 "%n", ret_first, ret_count, &len) != 2)
		return NULL;
	at += len;
	return at + strspn(at, " \n");
}

static bool has_range(const char *map, uint64_t base)
{
	uint64_t first, count;
	while ((map = read_extent(map, &first, &count)))
		if (base >= first && base + IDS_COUNT <= first + count)
			return true;
	return false;
}

int ids_ranges_of(const char *users, const char *groups, uint32_t *to, size_t room)
{
	uint64_t first, count;
	size_t found = 0;
	const char *at = read_extent(users, &first, &count);
	if (at && first == 0 && count == UINT32_MAX)
		return -1;
	for (; at; at = read_extent(at, &first, &count))
		for (uint64_t base = first; base + IDS_COUNT <= first + count; base += IDS_COUNT)
			if (base && found < room && has_range(groups, base))
				to[found++] = (uint32_t)base;
	return (int)found;
}

int ids_ranges(uint32_t *to, size_t room)
{
	auto_free char *users = xmalloc(MAP_MAX), *groups = xmalloc(MAP_MAX);
	return ids_ranges_of(read_map("/proc/self/uid_map", users),
			     read_map("/proc/self/gid_map", groups), to, room);
}

/* --- which files carry ----------------------------------------------------------------------- */

/* The first range, or 0 for root: looked at once, since a namespace's ids never change. */
static uint32_t first_range(void)
{
	static _Atomic bool known;
	static _Atomic uint32_t first;
	if (!known) {
		uint32_t base = 0;
		first = ids_ranges(&base, 1) < 0 ? 0 : base ? base : UINT32_MAX;
		known = true;
	}
	return first;
}

bool ids_mapped(void)
{
	return first_range() == 0;
}

uint32_t ids_on_disk(uint32_t base)
{
	return ids_mapped() ? 0 : base;
}

uint32_t ids_of_templates(void)
{
	return first_range();
}

uint32_t ids_owner(const char *dir)
{
	struct stat st;
	return stat(dir, &st) < 0 ? 0 : st.st_uid;
}

/* --- giving them ----------------------------------------------------------------------------- */

static int write_map(pid_t pid, const char *name, const char *text, struct err *err)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_set(err, errno, "%s", name);
	return 0;
}

int ids_write_maps(pid_t pid, uint32_t base, struct err *err)
{
	char text[64];
	snprintf(text, sizeof text, "0 %" PRIu32 " %d\n", base, IDS_COUNT);
	return write_map(pid, "uid_map", text, err) < 0 ? -1 : write_map(pid, "gid_map", text, err);
}

int ids_show(int tree, int user_ns, uint64_t flags, const char *path, struct err *err)
{
	struct mount_attr attr = { .attr_set = flags };
	if (ids_mapped()) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)user_ns;
	}
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		return err_set(err, errno, "'%s' cannot be id-mapped", path);
	return 0;
}

/* A map is one to one, so who owns the files is gem alone. Root is nobody in a box, and who has one of
 * its own ids stays that. */
static void share_map(uint32_t base, uint32_t owner, char *to, size_t room)
{
	uint32_t gem = base + IDS_GEM;
	if (owner == 0 || (owner >= base && owner - base < IDS_COUNT))
		snprintf(to, room, "%" PRIu32 " %" PRIu32 " %d\n", base, base, IDS_COUNT);
	else
		snprintf(to, room,
			 "%" PRIu32 " %" PRIu32 " %d\n%" PRIu32 " %" PRIu32 " 1\n%" PRIu32
			 " %" PRIu32 " %d\n",
			 base, base, IDS_GEM, owner, gem, gem + 1, gem + 1,
			 IDS_COUNT - IDS_GEM - 1);
}

int ids_open_shared(uint32_t base, uint32_t uid, uint32_t gid, struct err *err)
{
	int talk[2], fd = -1;
	char path[64], users[128], groups[128], byte;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0)
		return err_set(err, errno, "socketpair");
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) { /* there is a namespace as long as something is in it, or has it open */
		close(talk[0]);
		(void)!recv(talk[1], &byte, 1, 0);
		_exit(0);
	}
	close(talk[1]);
	share_map(base, uid, users, sizeof users);
	share_map(base, gid, groups, sizeof groups);
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	int result = pid < 0 ? err_set(err, errno, "a user namespace") : 0;
	if (result == 0)
		result = write_map(pid, "uid_map", users, err);
	if (result == 0)
		result = write_map(pid, "gid_map", groups, err);
	if (result == 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		result = err_set(err, errno, "'%s'", path);
	close(talk[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return result < 0 ? -1 : fd;
}

/* Waits until its ids are given, and takes the first of them. */
static void enter(int talk)
{
	char byte = 0;
	if (recv(talk, &byte, 1, 0) != 1 || syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		_exit(125);
}

pid_t ids_fork(uint32_t base, int spaces, struct err *err)
{
	int talk[2];
	char byte = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0)
		return err_set(err, errno, "socketpair");
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER | spaces, 0, 0, 0, 0);
	if (pid == 0) {
		close(talk[0]);
		enter(talk[1]);
		close(talk[1]);
		return 0;
	}
	close(talk[1]);
	int result = pid < 0 ? err_set(err, errno, "namespaces") : ids_write_maps(pid, base, err);
	if (result == 0 && send(talk[0], &byte, 1, MSG_NOSIGNAL) != 1)
		result = err_set(err, errno, "a user namespace");
	close(talk[0]);
	if (result < 0 && pid > 0)
		(void)waitpid(pid, NULL, 0);
	return result < 0 ? -1 : pid;
}
