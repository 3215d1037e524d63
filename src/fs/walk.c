#include "fs/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

/* File systems whose files are made up as they are read, by name and by number. */
static const struct pseudo {
	const char *name;
	unsigned long magic;
} pseudos[] = {
	{ "proc", PROC_SUPER_MAGIC },
	{ "sysfs", SYSFS_MAGIC },
	{ "devpts", DEVPTS_SUPER_MAGIC },
	{ "cgroup", CGROUP_SUPER_MAGIC },
	{ "cgroup2", CGROUP2_SUPER_MAGIC },
	{ "debugfs", DEBUGFS_MAGIC },
	{ "tracefs", TRACEFS_MAGIC },
	{ "securityfs", SECURITYFS_MAGIC },
	{ "selinuxfs", SELINUX_MAGIC },
	{ "smackfs", SMACK_MAGIC },
	{ "pstore", PSTOREFS_MAGIC },
	{ "bpf", BPF_FS_MAGIC },
	{ "configfs", 0x62656570 },
	{ "efivarfs", EFIVARFS_MAGIC },
	{ "mqueue", 0x19800202 },
	{ "binfmt_misc", BINFMTFS_MAGIC },
	{ "rpc_pipefs", 0x67596969 },
	{ "fusectl", 0x65735543 },
	{ "nsfs", NSFS_MAGIC },
	{ "hugetlbfs", HUGETLBFS_MAGIC },
	{ "autofs", AUTOFS_SUPER_MAGIC },
};

static bool is_pseudo(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < COUNT(pseudos); i++)
		if (pseudos[i].magic == (unsigned long)fs.f_type)
			return true;
	return false;
}

struct walk_pending {
	struct walk_pending *next;
	size_t depth;
	char path[];
};

struct fs_walk {
	int root_fd;
	dev_t device;
	bool pseudo; /* may be gone into */
	struct walk_pending *pending;
	enum walk_next (*fn)(const struct walk_entry *entry, void *arg);
	void *arg;
};

static void push(struct fs_walk *walk, const char *path, size_t depth)
{
	size_t len = strlen(path) + 1;
	struct walk_pending *pending = xmalloc(sizeof *pending + len);
	pending->next = walk->pending;
	pending->depth = depth;
	memcpy(pending->path, path, len);
	walk->pending = pending;
}

static unsigned char type_of(int dir_fd, const struct dirent *entry)
{
	struct stat st;
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	return fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? IFTODT(st.st_mode)
									     : DT_UNKNOWN;
}

/* Reads one directory. False when the walk is to end. */
static bool visit(struct fs_walk *walk, DIR *dir, const char *at, size_t depth)
{
	char path[PATH_MAX];
	size_t base = strlen(at);
	memcpy(path, at, base);
	if (base)
		path[base++] = '/';
	for (const struct dirent *entry; (entry = readdir(dir));) {
		size_t len = strlen(entry->d_name);
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    base + len >= sizeof path - 1)
			continue;
		memcpy(path + base, entry->d_name, len + 1);
		struct walk_entry one = { path, path + base, dirfd(dir), type_of(dirfd(dir), entry),
					  depth + 1 };
		enum walk_next next = walk->fn(&one, walk->arg);
		if (next == WALK_STOP)
			return false;
		if (next == WALK_INTO && (one.type == DT_DIR || one.type == DT_LNK))
			push(walk, path, depth + 1);
	}
	return true;
}

static DIR *open_below(const struct fs_walk *walk, const char *path)
{
	struct stat st;
	auto_close int fd = openat(walk->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (st.st_dev != walk->device && !walk->pseudo && is_pseudo(fd))
		return NULL;
	DIR *dir = fdopendir(fd);
	if (dir)
		(void)TAKE_FD(fd);
	return dir;
}

int walk_tree(const char *root, bool everywhere,
	      enum walk_next (*fn)(const struct walk_entry *entry, void *arg), void *arg,
	      struct err *err)
{
	struct stat st;
	auto_close int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "'%.300s'", root);
	struct fs_walk walk = { .root_fd = fd,
				.device = st.st_dev,
				.pseudo = everywhere || is_pseudo(fd),
				.fn = fn,
				.arg = arg };
	push(&walk, "", 0);
	for (bool more = true; walk.pending;) {
		struct walk_pending *next = walk.pending;
		walk.pending = next->next;
		DIR *dir = more ? open_below(&walk, *next->path ? next->path : ".") : NULL;
		if (dir) {
			more = visit(&walk, dir, next->path, next->depth);
			closedir(dir);
		}
		free(next);
	}
	return 0;
}

/* ---- mount points ---- */

/* Mount points are written with \ooo for white space and backslashes. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from;) {
		unsigned value;
		if (from[0] == '\\' && sscanf(from + 1, "%3o", &value) == 1) {
			*to++ = (char)value;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
}

void walk_passed_over(const char *root, struct buf *to)
{
	auto_free char *line = NULL;
	auto_free char *real = realpath(root, NULL);
	size_t room = 0, len = real ? strlen(real) : 0;
	FILE *mounts = real ? fopen("/proc/self/mounts", "re") : NULL;
	if (real && !strcmp(real, "/"))
		len = 0;
	while (mounts && getline(&line, &room, mounts) > 0) {
		char *rest = line;
		(void)strsep(&rest, " ");
		char *point = strsep(&rest, " "), *type = strsep(&rest, " ");
		if (!point || !type)
			continue;
		unescape(point);
		if (strncmp(point, real, len) != 0 || point[len] != '/' || !point[len + 1])
			continue;
		for (size_t i = 0; i < COUNT(pseudos); i++)
			if (!strcmp(pseudos[i].name, type))
				buf_add(to, point + len + 1, strlen(point + len + 1) + 1);
	}
	if (mounts)
		fclose(mounts);
	buf_add(to, "", 1);
}
