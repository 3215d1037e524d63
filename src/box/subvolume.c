#include "box/subvolume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { TOP_INODE = 256 }; /* of every subvolume */

static bool is_btrfs(int fd)
{
	struct statfs st;
	return fstatfs(fd, &st) == 0 && st.f_type == BTRFS_SUPER_MAGIC;
}

/* A number of the file system's directory qgroups in sysfs; -1 when it is not there. */
static int64_t read_count(int fd, const char *name)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	char path[256], text[32];
	if (!is_btrfs(fd) || ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return -1;
	const uint8_t *id = info.fsid;
	snprintf(
		path, sizeof path,
		"/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
		"/qgroups/%s",
		id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
		id[11], id[12], id[13], id[14], id[15], name);
	auto_close int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	return n > 0 ? strtoll(text, NULL, 10) : -1;
}

static bool is_subvolume(int fd)
{
	struct stat st;
	return is_btrfs(fd) && fstat(fd, &st) == 0 && st.st_ino == TOP_INODE;
}

bool subvolume_possible(int dir)
{
	return read_count(dir, "enabled") == 1;
}

int subvolume_make(int dir, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };
	snprintf(args.name, sizeof args.name, "%s", name);
	if (ioctl(dir, BTRFS_IOC_SUBVOL_CREATE, &args) < 0)
		return -1;
	return fchmodat(dir, name, 0755, 0);
}

int subvolume_remove(int dir, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };
	auto_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !is_subvolume(fd))
		return -1;
	snprintf(args.name, sizeof args.name, "%s", name);
	return ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &args);
}

int subvolume_limit(int fd, int64_t limit, struct err *err)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = (uint64_t)limit },
	};
	if (!is_subvolume(fd))
		return err_set(err, ERR_UNAVAILABLE,
			       "the box's files are not a subvolume of btrfs");
	if (ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
		return err_set(err, errno, "the quota of the box's subvolume");
	return 0;
}

int64_t subvolume_used(int fd)
{
	struct btrfs_ioctl_ino_lookup_args args = { .objectid = TOP_INODE };
	char name[64];
	if (!is_subvolume(fd) || ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return -1;
	snprintf(name, sizeof name, "0_%" PRIu64 "/referenced", (uint64_t)args.treeid);
	return read_count(fd, name);
}
