#include "box/ground.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/group.h"
#include "config/home.h"

/* Nodes of /dev: the only ones there are in a box. */
enum { ROOM = PATH_MAX * 2 };

static const char *const nodes[] = { "null", "zero", "full", "random", "urandom", "tty" };

static const char *const links[][2] = {
	{ "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },
};

/* Directories of the product beside its program, as far as they are there. */
static const char *const parts[] = { "web", "share", "node_modules", ".venv" };

static int bind_at(const char *from, const char *to, bool dir, struct err *err)
{
	auto_close int fd = dir ? -1 : open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (dir ? mkdir(to, 0755) < 0 && errno != EEXIST : fd < 0)
		return err_set(err, errno, "'%s'", to);
	if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		return err_set(err, errno, "mounting '%s'", from);
	return 0;
}

static int make_dev(const char *at, struct err *err)
{
	char from[64], to[ROOM];
	for (size_t i = 0; i < COUNT(nodes); i++) {
		snprintf(from, sizeof from, "/dev/%s", nodes[i]);
		snprintf(to, sizeof to, "%s/%s", at, nodes[i]);
		if (bind_at(from, to, false, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < COUNT(links); i++) {
		snprintf(to, sizeof to, "%s/%s", at, links[i][0]);
		if (symlink(links[i][1], to) < 0)
			return err_set(err, errno, "'%s'", to);
	}
	/* The last are what parts of /sys are hidden behind, see root.c. */
	static const char *const dirs[] = { "pts",
					    "shm",
					    "mqueue",
					    ".none",
					    ".devices",
					    ".devices/system",
					    ".devices/virtual",
					    ".devices/virtual/net" };
	for (size_t i = 0; i < COUNT(dirs); i++) {
		snprintf(to, sizeof to, "%s/%s", at, dirs[i]);
		if (mkdir(to, 0755) < 0)
			return err_set(err, errno, "'%s'", to);
	}
	return 0;
}

/* The program, and our modules beside it. */
static int bind_programs(const char *at, char *exe, struct err *err)
{
	char from[ROOM], to[ROOM];
	snprintf(to, sizeof to, "%s/bin", at);
	if (mkdir(to, 0755) < 0)
		return err_set(err, errno, "'%s'", to);
	snprintf(to, sizeof to, "%s/bin/aio", at);
	snprintf(from, sizeof from, "%s/aio", exe);
	if (bind_at(access(from, X_OK) == 0 ? from : "/proc/self/exe", to, false, err) < 0)
		return -1;
	DIR *dir = opendir(exe);
	int result = 0;
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));) {
		size_t len = strlen(entry->d_name);
		if (len < 4 || strcmp(entry->d_name + len - 3, ".so") != 0)
			continue;
		snprintf(from, sizeof from, "%s/%s", exe, entry->d_name);
		snprintf(to, sizeof to, "%s/bin/%s", at, entry->d_name);
		result = bind_at(from, to, false, err);
	}
	if (dir)
		closedir(dir);
	return result;
}

static int make_product(const char *at, char **ret_python, struct err *err)
{
	char exe[PATH_MAX / 2], home[PATH_MAX - 256], from[ROOM], to[ROOM];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[n < 0 ? 0 : n] = 0;
	if (strrchr(exe, '/'))
		*strrchr(exe, '/') = 0;
	if (bind_programs(at, exe, err) < 0)
		return -1;
	home_find(home, sizeof home);
	for (size_t i = 0; i < COUNT(parts); i++) {
		snprintf(from, sizeof from, "%s/%s", home, parts[i]);
		snprintf(to, sizeof to, "%s/%s", at, parts[i]);
		if (access(from, F_OK) == 0 && bind_at(from, to, true, err) < 0)
			return -1;
		if (!strcmp(parts[i], ".venv"))
			*ret_python = realpath(from, NULL);
	}
	return 0;
}

/* What hangs at a path, as a tree of its own that nobody can write. It is mounted nowhere, or each box
 * would begin with a copy of it and unmount that; but before Linux 6.15 only what is mounted somewhere
 * can be copied. */
static int take(const char *path, uint64_t flags, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | flags };
	enum { COPY = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE };
	if (syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) < 0)
		return err_set(err, errno, "'%s'", path);
	auto_close int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, COPY);
	auto_close int copy = (int)syscall(SYS_open_tree, tree, "", COPY | AT_EMPTY_PATH);
	if (copy >= 0) {
		(void)umount2(path, MNT_DETACH);
		return TAKE_FD(tree);
	}
	int mounted = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return mounted < 0 ? err_set(err, errno, "'%s'", path) : mounted;
}

static int prepare(const char *state, struct ground *ground, struct err *err)
{
	static const char *const dirs[] = { "dev", "product", "layers", "root" };
	char path[PATH_MAX], stage[PATH_MAX - 64];
	if (snprintf(stage, sizeof stage, "%s/stage", state) >= (int)sizeof stage)
		return err_set(err, ENAMETOOLONG, "'%s'", state);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_set(err, errno, "a mount namespace");
	if (mkdir(stage, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "'%s'", stage);
	if (mount("aiobox", stage, "tmpfs", MS_NOSUID, "mode=755,size=1m") < 0)
		return err_set(err, errno, "a tmpfs at '%s'", stage);
	for (size_t i = 0; i < COUNT(dirs); i++) {
		snprintf(path, sizeof path, "%s/%s", stage, dirs[i]);
		if (mkdir(path, 0755) < 0)
			return err_set(err, errno, "'%s'", path);
		/* A mount point is what can be taken with what is below it. */
		if (mount(path, path, NULL, MS_BIND, NULL) < 0)
			return err_set(err, errno, "'%s'", path);
		if (!strcmp(dirs[i], "dev") &&
		    (make_dev(path, err) < 0 ||
		     (ground->dev = take(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err)) < 0))
			return -1;
		if (!strcmp(dirs[i], "product") &&
		    (make_product(path, &ground->python, err) < 0 ||
		     (ground->product = take(path, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, err)) < 0))
			return -1;
	}
	snprintf(path, sizeof path, "%s/groups", stage);
	group_mount(path);
	if (chdir(stage) < 0 || symlink("/proc/self/fd", "fd") < 0)
		return err_set(err, errno, "'%s'", stage);
	return 0;
}

const struct ground *ground_get(const char *state, struct err *err)
{
	static struct ground ground;
	static bool ready;
	ready = ready || prepare(state, &ground, err) == 0;
	return ready ? &ground : NULL;
}
