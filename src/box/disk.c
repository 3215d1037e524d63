#include "box/disk.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/files.h"
#include "box/live_copy.h"
#include "box/subvolume.h"
#include "proc/utility.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif
/* QCMD() shifts a signed number too far. */
#define PROJECT(command) ((int)((uint32_t)(command) << 8 | PRJQUOTA))
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

#define READY ".disk-"

enum {
	INODE_BYTES = 16384, /* of a limit, for each file that there may be */
	IMAGE_MIN = 16 << 20,
	TRIES = 16,
	DEPTH_MAX = 200,
	MKFS_MS = 300000,
	LITTLE = 16 << 20, /* bytes of an image that are copied in a moment */
	DEVICE_ROOM = sizeof "/dev/" + NAME_MAX,
};

/* --- project quota --------------------------------------------------------------------------- */

static bool has_project_quota(int fd)
{
	struct if_dqinfo info;
	struct if_dqblk block;
	return syscall(SYS_quotactl_fd, fd, PROJECT(Q_GETINFO), 0, &info) == 0 &&
	       syscall(SYS_quotactl_fd, fd, PROJECT(Q_GETQUOTA), 0, &block) == 0;
}

static int mark(int fd, uint32_t project, int depth, struct err *err);

static int mark_inside(int fd, uint32_t project, int depth, struct err *err)
{
	if (depth > DEPTH_MAX) /* files_copy() makes none */
		return err_set(err, ERR_TOO_LARGE, "directories are nested more than %d deep",
			       DEPTH_MAX);
	DIR *dir = dir_open_at(fd, ".", 0);
	if (!dir)
		return err_set(err, errno, "the project of the box's files");
	int result = 0;
	for (struct dirent *entry; result == 0 && (entry = readdir(dir));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    (entry->d_type != DT_DIR && entry->d_type != DT_REG))
			continue;
		auto_close int below = openat(fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		result = below < 0 ? err_set(err, errno, "the project of the box's files")
				   : mark(below, project, depth + 1, err);
	}
	closedir(dir);
	return result;
}

/* What is made in a directory is counted with it; what was there before, a copy's files, has to be told
 * so one by one. Only files and directories have a project. */
static int mark(int fd, uint32_t project, int depth, struct err *err)
{
	struct fsxattr attr;
	struct stat st;
	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "the project of the box's files");
	if (attr.fsx_projid == project)
		return 0;
	attr.fsx_projid = project;
	if (S_ISDIR(st.st_mode)) {
		attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
		if (mark_inside(fd, project, depth, err) < 0)
			return -1;
	}
	/* The directory last: as long as it is not marked, all of it is tried again. */
	if (ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0)
		return err_set(err, errno, "the project of the box's files");
	return 0;
}

static int set_project(int fd, int64_t limit, uint32_t project, struct err *err)
{
	struct if_dqblk block = {
		.dqb_bhardlimit = (uint64_t)(limit + 1023) / 1024,
		.dqb_bsoftlimit = (uint64_t)(limit + 1023) / 1024,
		.dqb_ihardlimit = (uint64_t)(limit / INODE_BYTES + 1),
		.dqb_isoftlimit = (uint64_t)(limit / INODE_BYTES + 1),
		.dqb_valid = QIF_LIMITS,
	};
	if (mark(fd, project, 0, err) < 0)
		return -1;
	if (syscall(SYS_quotactl_fd, fd, PROJECT(Q_SETQUOTA), project, &block) < 0)
		return err_set(err, errno, "the quota of the box's files");
	return 0;
}

/* --- images ---------------------------------------------------------------------------------- */

static int run_mkfs(const char *path, struct err *err)
{
	const char *const argv[] = {
		"mke2fs", "-q", "-F",     "-t",  "ext4",
		"-m",     "0",  "-I",     "256", "-i",
		"16384",  "-J", "size=4", "-E",  "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
		path,     NULL
	};
	if (utility_run(argv[0], "e2fsprogs", (char *const *)argv, NULL, MKFS_MS, err) == 0)
		return 0;
	if (err)
		err->code = ERR_NOT_IMPLEMENTED;
	return -1;
}

/* A file whose space is all there, with an empty file system in it. */
static int make_image(const char *path, int64_t limit, struct err *err)
{
	auto_free char *making = xasprintf("%s.%d", path, getpid());
	int64_t size = (limit < IMAGE_MIN ? IMAGE_MIN : limit) + 4095;
	auto_close int fd = open(making, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int result = fd < 0 ? err_set(err, errno, "'%s'", making) : 0;
	if (result == 0 && fallocate(fd, 0, 0, size / 4096 * 4096) < 0)
		result = err_set(err, errno, "space for a box's disk");
	if (result == 0)
		result = run_mkfs(making, err);
	if (result == 0 && rename(making, path) < 0)
		result = err_set(err, errno, "'%s'", path);
	if (result < 0)
		(void)unlink(making);
	return result;
}

/* A device that shows the image, and is gone when it is no longer mounted. */
static int attach_loop(const char *image, char *device, size_t room, struct err *err)
{
	struct loop_config config = { .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };
	auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	auto_close int file = open(image, O_RDWR | O_CLOEXEC);
	if (control < 0 || file < 0)
		return err_set(err, errno, control < 0 ? "/dev/loop-control" : "'%s'", image);
	config.fd = (uint32_t)file;
	for (int i = 0; i < TRIES; i++) { /* another may take the free one first */
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		snprintf(device, room, "/dev/loop%d", number);
		int fd = number < 0 ? -1 : open(device, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return fd;
		if (fd >= 0)
			close(fd);
		if (errno != EBUSY)
			break;
	}
	return err_set(err, errno, "a loop device");
}

/* The device that already shows the image, when its box runs. Their numbers may have gaps. */
static int find_loop(const char *image, char *device, size_t room)
{
	struct stat st;
	DIR *dir = stat(image, &st) < 0 ? NULL : opendir("/dev");
	int found = -1;
	for (struct dirent *entry; found < 0 && dir && (entry = readdir(dir));) {
		struct loop_info64 info;
		if (strncmp(entry->d_name, "loop", 4) != 0 ||
		    !isdigit((unsigned char)entry->d_name[4]))
			continue;
		auto_close int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0 ||
		    info.lo_inode != st.st_ino || info.lo_device != st.st_dev)
			continue;
		snprintf(device, room, "/dev/%s", entry->d_name);
		found = TAKE_FD(fd);
	}
	if (dir)
		closedir(dir);
	return found;
}

static int mount_device(const char *device, const char *image, struct err *err)
{
	auto_close int fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(err, errno, "mounting '%s'", image);
	int tree = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
	return tree < 0 ? err_set(err, errno, "mounting '%s'", image) : tree;
}

static int mount_image(const char *image, struct err *err)
{
	char device[DEVICE_ROOM];
	auto_close int loop = find_loop(image, device, sizeof device);
	if (loop < 0)
		loop = attach_loop(image, device, sizeof device, err);
	return loop < 0 ? -1 : mount_device(device, image, err);
}

static char *name_ready(const char *state, int64_t limit)
{
	return xasprintf("%s/" READY "%" PRId64, state, limit);
}

/* Whatever is ready, of any size, or was half made by a process that is no more. */
static void drop_ready(const char *state)
{
	DIR *dir = opendir(state);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (!strncmp(entry->d_name, READY, strlen(READY)))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* Takes a ready image, or makes one. */
static int take_image(const char *state, const char *image, int64_t limit, struct err *err)
{
	auto_free char *ready = name_ready(state, limit);
	return rename(ready, image) == 0 ? 0 : make_image(image, limit, err);
}

/* --- either ---------------------------------------------------------------------------------- */

enum disk_means disk_probe(const char *dir)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && has_project_quota(fd))
		return DISK_PROJECT;
	if (fd >= 0 && subvolume_possible(fd))
		return DISK_SUBVOLUME;
	bool tools = access("/usr/sbin/mke2fs", X_OK) == 0 || access("/sbin/mke2fs", X_OK) == 0;
	return tools && access("/dev/loop-control", R_OK | W_OK) == 0 ? DISK_IMAGE : DISK_NONE;
}

static int open_tree(const char *path, struct err *err)
{
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 ? err_set(err, errno, "'%s'", path) : tree;
}

/* DIR/rw, such that a limit can be set later. -1: errno says why. */
static int make_rw(const char *dir)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0                   ? -1
	       : subvolume_possible(fd) ? subvolume_make(fd, "rw")
					: mkdirat(fd, "rw", 0755);
}

int disk_open(const char *dir, const char *state, int64_t limit, uint32_t project, struct err *err)
{
	auto_free char *image = xasprintf("%s/disk", dir), *rw = xasprintf("%s/rw", dir);
	if (access(image, F_OK) == 0)
		return mount_image(image, err);
	bool is_new = make_rw(dir) == 0;
	if (!is_new && errno != EEXIST)
		return err_set(err, errno, "'%s'", rw);
	enum disk_means means = limit ? disk_probe(dir) : DISK_NONE;
	if (limit && means == DISK_NONE)
		return err_set(
			err, ERR_NOT_IMPLEMENTED,
			"this machine cannot limit a box's disk: '%s' has no quota of projects or subvolumes, and there are no loop devices or no mke2fs",
			dir);
	if (means == DISK_PROJECT || means == DISK_SUBVOLUME) {
		auto_close int fd = open(rw, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, errno, "'%s'", rw);
		if ((means == DISK_PROJECT ? set_project(fd, limit, project, err)
					   : subvolume_limit(fd, limit, err)) < 0)
			return -1;
	}
	if (means == DISK_IMAGE && is_new) {
		(void)rmdir(rw);
		return take_image(state, image, limit, err) < 0 ? -1 : mount_image(image, err);
	}
	return open_tree(rw, err);
}

void disk_restock(const char *state, int64_t limit)
{
	auto_free char *ready = name_ready(state, limit), *lock = xasprintf("%s/.disk", state);
	if (!limit || disk_probe(state) != DISK_IMAGE || access(ready, F_OK) == 0)
		return;
	auto_close int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	drop_ready(state); /* one at a time: each takes all the space that it has */
	(void)make_image(ready, limit, NULL);
}

int64_t disk_used(const char *dir)
{
	auto_free char *image = xasprintf("%s/disk", dir), *rw = xasprintf("%s/rw", dir);
	struct statvfs st;
	char device[DEVICE_ROOM];
	auto_close int loop = find_loop(image, device, sizeof device);
	auto_close int tree = loop < 0 ? -1 : mount_device(device, image, NULL);
	if (tree >= 0 && fstatvfs(tree, &st) == 0)
		return (int64_t)(st.f_blocks - st.f_bfree) * (int64_t)st.f_frsize;
	auto_close int fd = open(rw, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fsxattr attr;
	struct if_dqblk block;
	int64_t used = fd < 0 ? -1 : subvolume_used(fd);
	if (used >= 0)
		return used;
	if (fd >= 0 && ioctl(fd, FS_IOC_FSGETXATTR, &attr) == 0 && attr.fsx_projid &&
	    syscall(SYS_quotactl_fd, fd, PROJECT(Q_GETQUOTA), attr.fsx_projid, &block) == 0)
		return (int64_t)block.dqb_curspace;
	return files_size(fd < 0 ? image : rw);
}

void disk_remove(const char *dir)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)subvolume_remove(fd, "rw");
}

/* Writes to the image what its box has written. */
static int sync_image(const char *image, struct err *err)
{
	char device[DEVICE_ROOM];
	auto_close int loop = find_loop(image, device, sizeof device);
	auto_close int tree = loop < 0 ? -1 : mount_device(device, image, err);
	auto_close int top = tree < 0 ? -1 : openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (loop >= 0 && (top < 0 || syncfs(top) < 0))
		return err_set(err, errno, "'%s'", image);
	return 0;
}

static int copy_tree(const char *from, const char *to, const struct live_copy_users *users,
		     struct err *err)
{
	struct files_copy *copy = files_copy_new(from, to, err);
	int result = copy ? live_copy(&copy, 1, users, err) : -1;
	files_copy_free(copy);
	return result;
}

/* All of the image at one moment. */
static int copy_whole(const char *from, const char *to, const struct live_copy_users *users,
		      struct err *err)
{
	int result = users ? users->stop(users->arg, true, err) : 0;
	if (result == 0)
		result = sync_image(from, err);
	if (result == 0)
		result = files_copy_one(from, to, err);
	if (users)
		(void)users->stop(users->arg, false, NULL);
	return result;
}

/* The files of one image into another, which is new. */
static int copy_mounted(const char *from, const char *to, const struct live_copy_users *users,
			struct err *err)
{
	char source[64], target[64];
	auto_close int from_tree = mount_image(from, err);
	auto_close int to_tree = from_tree < 0 ? -1 : mount_image(to, err);
	auto_close int top = to_tree < 0 ? -1 : openat(to_tree, ".", O_RDONLY | O_CLOEXEC);
	if (top < 0)
		return -1;
	snprintf(source, sizeof source, "/proc/self/fd/%d", from_tree);
	snprintf(target, sizeof target, "/proc/self/fd/%d", to_tree);
	if (copy_tree(source, target, users, err) < 0)
		return -1;
	return syncfs(top) < 0 ? err_set(err, errno, "'%s'", to) : 0;
}

/* Whether copying all of an image takes a moment: it holds little, or the two can share it. */
static bool is_quick(const char *from, const char *to)
{
	auto_close int source = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool shared = target >= 0 && ioctl(target, FICLONE, source) == 0;
	(void)unlink(to);
	int64_t data = 0;
	for (off_t at = 0, end; (at = lseek(source, at, SEEK_DATA)) >= 0; at = end) {
		end = lseek(source, at, SEEK_HOLE);
		data += end - at;
	}
	return shared || data <= LITTLE;
}

static int copy_image(const char *from, const char *to, const struct live_copy_users *users,
		      struct err *err)
{
	struct stat st;
	if (stat(from, &st) < 0)
		return err_set(err, errno, "'%s'", from);
	/* Beforehand, so that what it holds can be seen, and little is left for later. */
	if (users && sync_image(from, err) < 0)
		return -1;
	if (users && !is_quick(from, to)) {
		struct err why = { 0 };
		if (make_image(to, st.st_size, &why) == 0 &&
		    copy_mounted(from, to, users, &why) == 0)
			return 0;
		/* Perhaps it had no room for what was moved meanwhile. */
		log_warn("'%s' is copied as a whole, while its box stands still: %s", from,
			 why.msg);
		(void)unlink(to);
	}
	return copy_whole(from, to, users, err);
}

int disk_copy(const char *from_dir, const char *to_dir, const struct live_copy_users *users,
	      struct err *err)
{
	auto_free char *image = xasprintf("%s/disk", from_dir),
		       *copy = xasprintf("%s/disk", to_dir), *rw = xasprintf("%s/rw", from_dir),
		       *to = xasprintf("%s/rw", to_dir);
	if (access(image, F_OK) == 0)
		return copy_image(image, copy, users, err);
	if (make_rw(to_dir) < 0 && errno != EEXIST)
		return err_set(err, errno, "'%s'", to);
	if (copy_tree(rw, to, users, err) < 0)
		return -1;
	/* What a subvolume shares with another is counted when it is on disk. */
	auto_close int fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return subvolume_used(fd) >= 0 && syncfs(fd) < 0 ? err_set(err, errno, "'%s'", to) : 0;
}
