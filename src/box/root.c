#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"
#include "box/ground.h"
#include "box/inside.h"

/* Parts of /proc and /sys that tell about the machine or reach into it: hidden behind nothing. */
static const char *const masked_dirs[] = {
	"/proc/acpi", "/proc/asound",     "/proc/scsi",     "/sys/firmware",
	"/sys/fs",    "/sys/kernel",      "/sys/module",    "/sys/power",
	"/sys/block", "/sys/class/block", "/sys/dev/block",
};
/* Of /sys/devices, to which all other directories only have links: the processors, and the interfaces of
 * the box's own network. The rest, such as disks, tells about the machine and its other boxes. */
static const char *const shown_devices[] = { "/sys/devices/system", "/sys/devices/virtual/net" };
static const char *const masked_files[] = {
	"/proc/cmdline",     "/proc/kcore",         "/proc/keys",          "/proc/key-users",
	"/proc/kallsyms",    "/proc/kmsg",          "/proc/latency_stats", "/proc/sched_debug",
	"/proc/slabinfo",    "/proc/sysrq-trigger", "/proc/timer_list",    "/proc/timer_stats",
	"/proc/vmallocinfo",
};
static const char *const read_only[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys" };

/* Namespaces and watches that all of a box together may have; those at 0 it may not make at all. */
static const struct {
	const char *name, *value;
} counts[] = {
	{ "max_user_namespaces", "1024" },   { "max_pid_namespaces", "1024" },
	{ "max_net_namespaces", "256" },     { "max_mnt_namespaces", "0" },
	{ "max_uts_namespaces", "0" },       { "max_ipc_namespaces", "0" },
	{ "max_cgroup_namespaces", "0" },    { "max_time_namespaces", "0" },
	{ "max_inotify_instances", "1024" }, { "max_inotify_watches", "65536" },
	{ "max_fanotify_groups", "0" },      { "max_fanotify_marks", "0" },
};

static int attach(int tree, int at, const char *path, struct err *err)
{
	if (syscall(SYS_move_mount, tree, "", at, path,
		    MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH)) < 0)
		return err_set(err, errno, "attaching a tree at '%s'", path);
	return 0;
}

static int set_path(int fs, const char *key, int fd, const char *below)
{
	char path[128];
	snprintf(path, sizeof path, "/proc/self/fd/%d%s", fd, below);
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, path, 0);
}

static int set_flag(int fs, const char *key)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, key, NULL, 0);
}

static int set_text(int fs, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
}

static int create(int fs, unsigned flags)
{
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, flags);
}

/* The overlay of one place. Mounted in the box's user namespace, it heeds no device nodes. */
static int make_overlay(const struct inside *inside, int index, struct err *err)
{
	/* Short names (see ground.c): the kernel takes 255 characters. */
	char below[64], lower[14 * TEMPLATE_LAYERS] = "";
	auto_close int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
	for (int i = 0; i < inside->places[index].count; i++)
		snprintf(lower + strlen(lower), 14, "%sfd/%d", i ? ":" : "",
			 inside->places[index].layers[i]);
	int result = fs < 0 ? -1 : set_text(fs, "source", "box");
	if (result == 0)
		result = set_text(fs, "lowerdir", lower);
	snprintf(below, sizeof below, "/upper%d", index);
	if (result == 0)
		result = set_path(fs, "upperdir", inside->writable, below);
	snprintf(below, sizeof below, "/work%d", index);
	if (result == 0)
		result = set_path(fs, "workdir", inside->writable, below);
	if (result == 0)
		result = set_flag(fs, "userxattr");
	int mount = result < 0 ? -1 : create(fs, MOUNT_ATTR_NODEV);
	if (mount < 0)
		return err_set(err, errno, "the overlay of '%s'", inside->places[index].at);
	return mount;
}

/* What a path leads to from here, if that is a directory (or a file) and no link is on the way; else -1. */
static int open_kind(int at, const char *path, bool dir)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	struct stat st;
	auto_close int fd = (int)syscall(SYS_openat2, at, path, &how, sizeof how);
	bool right = fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode) &&
		     dir == (bool)S_ISDIR(st.st_mode);
	return right ? TAKE_FD(fd) : -1;
}

/* The same for one name in a directory, put there in the place of anything else but a directory. */
static int make_kind(int parent, const char *name, bool dir)
{
	int fd = open_kind(parent, name, dir);
	if (fd >= 0)
		return fd;
	(void)unlinkat(parent, name, 0);
	int made = dir ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
	return made < 0 ? -1 : open_kind(parent, name, dir);
}

/* Opens the directory (or file) to mount at, made when it is missing. Each step is taken from the
 * directory that the last one led to, so no link leads elsewhere: not what the box left there, nor what
 * another puts into a mount that they share meanwhile. */
static int open_point(int root, const char *path, bool dir, struct err *err)
{
	char copy[4096], *rest = copy;
	int whole = open_kind(root, path + 1, dir);
	if (whole >= 0)
		return whole; /* as nearly always */
	snprintf(copy, sizeof copy, "%s", path);
	auto_close int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
	for (const char *name; at >= 0 && (name = strsep(&rest, "/"));) {
		if (!*name)
			continue;
		int next = make_kind(at, name, dir || (rest && *rest));
		close(at);
		at = next;
	}
	return at < 0 ? err_set(err, errno, "a place to mount at: '%s'", path) : TAKE_FD(at);
}

static int attach_at(int tree, int root, const char *path, bool dir, struct err *err)
{
	auto_close int point = open_point(root, path, dir, err);
	return point < 0 ? -1 : attach(tree, point, "", err);
}

static int make_at(const char *type, int root, const char *path, unsigned flags,
		   const char *const options[][2], struct err *err)
{
	auto_close int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	int result = fs < 0 ? -1 : 0;
	for (size_t i = 0; result == 0 && options && options[i][0]; i++)
		result = options[i][1] ? set_text(fs, options[i][0], options[i][1])
				       : set_flag(fs, options[i][0]);
	auto_close int mount = result < 0 ? -1 : create(fs, flags);
	if (mount < 0)
		return err_set(err, errno, "mounting %s", type);
	return attach_at(mount, root, path, true, err);
}

static int make_kernel_mounts(const struct box_spec *spec, int root, struct err *err)
{
	/* What is in /dev/shm is memory that only its removal gives back: it cannot be all there is. */
	char half[32] = "50%";
	if (spec->limits.memory)
		snprintf(half, sizeof half, "%lld", (long long)spec->limits.memory / 2);
	enum {
		NODEV = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		NOEXEC = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC
	};
	static const char *const terminals[][2] = {
		{ "newinstance", NULL }, { "ptmxmode", "0666" }, { "mode", "0620" },
		{ "gid", "5" },          { "max", "256" },       { NULL, NULL },
	};
	const char *const shared[][2] = { { "mode", "1777" }, { "size", half }, { NULL, NULL } };
	return make_at("proc", root, "/proc", NODEV | NOEXEC, NULL, err) < 0 ||
			       make_at("sysfs", root, "/sys", NODEV | NOEXEC | MOUNT_ATTR_RDONLY,
				       NULL, err) < 0 ||
			       make_at("devpts", root, "/dev/pts", NOEXEC, terminals, err) < 0 ||
			       make_at("tmpfs", root, "/dev/shm", NODEV, shared, err) < 0 ||
			       make_at("mqueue", root, "/dev/mqueue", NODEV | NOEXEC, NULL, err) < 0
		       ? -1
		       : 0;
}

static int write_file(const char *path, const char *text)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* Hides each of these, as far as the machine has them, behind something else of its kind. */
static int hide(const char *const *paths, size_t count, const char *nothing, struct err *err)
{
	if (access(nothing, F_OK) < 0)
		return err_set(err, errno, "'%s'", nothing);
	for (size_t i = 0; i < count; i++)
		if (mount(nothing, paths[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
			return err_set(err, errno, "masking '%s'", paths[i]);
	return 0;
}

/* Hides all devices but some, behind a directory with places for these (see ground.c). */
static int mask_devices(struct err *err)
{
	int trees[COUNT(shown_devices)], result = 0;
	for (size_t i = 0; i < COUNT(trees); i++) {
		trees[i] = (int)syscall(SYS_open_tree, AT_FDCWD, shown_devices[i],
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (trees[i] < 0)
			result = err_set(err, errno, "'%s'", shown_devices[i]);
	}
	if (result == 0 && mount("/dev/.devices", "/sys/devices", NULL, MS_BIND, NULL) < 0)
		result = err_set(err, errno, "masking '/sys/devices'");
	for (size_t i = 0; i < COUNT(trees); i++) {
		if (result == 0)
			result = attach(trees[i], AT_FDCWD, shown_devices[i], err);
		own_close(&trees[i]);
	}
	return result;
}

/* A file is hidden behind /dev/null, a directory behind one that is empty and, like all of /dev,
 * read-only. */
static int mask(struct err *err)
{
	if (hide(masked_dirs, COUNT(masked_dirs), "/dev/.none", err) < 0 ||
	    hide(masked_files, COUNT(masked_files), "/dev/null", err) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(read_only); i++) {
		if (mount(read_only[i], read_only[i], NULL, MS_BIND, NULL) < 0 ||
		    mount(NULL, read_only[i], NULL,
			  MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			  NULL) < 0)
			return err_set(err, errno, "making '%s' read-only", read_only[i]);
	}
	return 0;
}

static int set_counts(struct err *err)
{
	char path[128];
	for (size_t i = 0; i < COUNT(counts); i++) {
		snprintf(path, sizeof path, "/proc/sys/user/%s", counts[i].name);
		if (write_file(path, counts[i].value) < 0 && errno != ENOENT)
			return err_set(err, errno, "'%s'", path);
	}
	/* As in every container: ports below 1024 and ping are not the machine's. */
	(void)write_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	(void)write_file("/proc/sys/net/ipv4/ping_group_range", "0 65535");
	return 0;
}

static int enter(int root, struct err *err)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_set(err, errno, "pivot_root");
	return 0;
}

int root_enter(const struct box_spec *spec, const struct inside *inside, struct err *err)
{
	/* An overlay takes only layers that are mounted in its own namespace. This is the stage. */
	if (attach(inside->writable, AT_FDCWD, "layers", err) < 0)
		return -1;
	auto_close int root = -1;
	for (int i = 0; i < inside->place_count; i++) {
		for (int n = 0; n < inside->places[i].count; n++)
			if (attach(inside->places[i].layers[n], AT_FDCWD, "layers", err) < 0)
				return -1;
		int overlay = make_overlay(inside, i, err);
		if (overlay < 0)
			return -1;
		int result = i == 0 ? attach(overlay, AT_FDCWD, "root", err)
				    : attach_at(overlay, root, inside->places[i].at, true, err);
		if (i == 0)
			root = overlay;
		else
			close(overlay);
		if (result < 0)
			return -1;
	}
	if (attach_at(inside->dev, root, "/dev", true, err) < 0 ||
	    attach_at(inside->product, root, GROUND_HOME, true, err) < 0)
		return -1;
	for (size_t i = 0; i < spec->mount_count; i++) {
		struct stat st;
		if (fstatat(inside->mounts[i], "", &st, AT_EMPTY_PATH) < 0)
			return err_set(err, errno, "'%s'", spec->mounts[i].target);
		if (attach_at(inside->mounts[i], root, spec->mounts[i].target, S_ISDIR(st.st_mode),
			      err) < 0)
			return -1;
	}
	/* Devices first: a tree counts as a mount namespace, of which there can be none from set_counts() on. */
	if (make_kernel_mounts(spec, root, err) < 0 || enter(root, err) < 0 ||
	    mask_devices(err) < 0 || set_counts(err) < 0)
		return -1;
	return mask(err);
}
