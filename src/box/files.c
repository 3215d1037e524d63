#include "box/files.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/xattr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/ids.h"

enum { DEPTH_MAX = 200, PATH_ROOM = 65536, ATTRIBUTE_MAX = 65536, LIST_MAX = 65536 };

/* --- copying --------------------------------------------------------------------------------- */

/* A file that has other names, and the first of them that was copied. */
struct linked {
	dev_t dev;
	ino_t ino;
	char *path; /* below the copy */
};

struct copy {
	int top;        /* of the copy */
	uint32_t shift; /* of its ids */
	bool (*keep)(const char *path, const struct stat *st);
	char path[PATH_ROOM]; /* of the entry, below the top */
	struct linked *linked;
	size_t count, room, *slots; /* slots: twice as many, index + 1 by their hash; 0: free */
	struct err *err;
};

static int fail(const struct copy *copy, const char *what)
{
	return err_set(copy->err, errno, "%s '%.300s'", what, copy->path);
}

/* Capabilities of a file name the root of the namespace they are for. */
static void shift_capabilities(char *value, ssize_t len, uint32_t shift)
{
	struct vfs_ns_cap_data data;
	if (len != sizeof data)
		return;
	memcpy(&data, value, sizeof data);
	data.rootid = htole32(le32toh(data.rootid) + shift);
	memcpy(value, &data, sizeof data);
}

static int copy_attributes(struct copy *copy, int from, int to)
{
	auto_free char *names = xmalloc(LIST_MAX), *value = xmalloc(ATTRIBUTE_MAX);
	ssize_t len = flistxattr(from, names, LIST_MAX);
	for (char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
		ssize_t n = fgetxattr(from, name, value, ATTRIBUTE_MAX);
		if (!strcmp(name, XATTR_NAME_CAPS))
			shift_capabilities(value, n, copy->shift);
		if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) < 0 && errno != ENOTSUP)
			return fail(copy, name);
	}
	return 0;
}

static int copy_content(struct copy *copy, int from, int to, off_t size)
{
	if (size == 0 || ioctl(to, FICLONE, from) == 0)
		return 0;
	auto_free char *block = NULL;
	for (off_t at = 0; at < size;) { /* holes stay holes */
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0)
			break;
		off_t end = lseek(from, data, SEEK_HOLE);
		if (lseek(from, data, SEEK_SET) < 0 || lseek(to, data, SEEK_SET) < 0)
			return fail(copy, "copying");
		for (at = data; at < end;) {
			ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)(end - at), 0);
			if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP)) {
				block = block ? block : xmalloc(1 << 16);
				n = read(from, block, 1 << 16);
				if (n > 0 && write(to, block, (size_t)n) != n)
					n = -1;
			}
			if (n < 0)
				return fail(copy, "copying");
			if (n == 0)
				return 0; /* it became shorter meanwhile */
			at += n;
		}
	}
	return ftruncate(to, size) < 0 ? fail(copy, "copying") : 0;
}

static size_t *find_linked(const struct copy *copy, dev_t dev, ino_t ino)
{
	size_t at = (size_t)((uint64_t)(ino ^ dev) * 0x9e3779b97f4a7c15u >> 20);
	for (;; at++) {
		size_t *slot = &copy->slots[at % (copy->room * 2)];
		if (!*slot ||
		    (copy->linked[*slot - 1].ino == ino && copy->linked[*slot - 1].dev == dev))
			return slot;
	}
}

static void make_room(struct copy *copy)
{
	copy->room = copy->room ? copy->room * 2 : 64;
	copy->linked = xrealloc(copy->linked, copy->room * sizeof *copy->linked);
	free(copy->slots);
	copy->slots = xcalloc(copy->room * 2, sizeof *copy->slots);
	for (size_t i = 0; i < copy->count; i++)
		*find_linked(copy, copy->linked[i].dev, copy->linked[i].ino) = i + 1;
}

/* Whether an earlier name of the same file was copied: then this is made a link to that. */
static int copy_as_link(struct copy *copy, int to, const char *name, const struct stat *st)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return 0;
	if (copy->count == copy->room)
		make_room(copy);
	size_t *slot = find_linked(copy, st->st_dev, st->st_ino);
	if (*slot)
		return linkat(copy->top, copy->linked[*slot - 1].path, to, name, 0) == 0 ? 1 : 0;
	copy->linked[copy->count++] =
		(struct linked){ st->st_dev, st->st_ino, xstrdup(copy->path) };
	*slot = copy->count;
	return 0;
}

static int copy_file(struct copy *copy, int from_dir, int to_dir, const char *name,
		     const struct stat *st)
{
	auto_close int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int to =
		from < 0 ? -1 : openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (from < 0 && errno == ENOENT) /* since it was looked at */
		return 0;
	if (to < 0)
		return fail(copy, "copying");
	if (copy_content(copy, from, to, st->st_size) < 0 ||
	    fchown(to, st->st_uid + copy->shift, st->st_gid + copy->shift) < 0 ||
	    fchmod(to, st->st_mode & 07777) < 0)
		return fail(copy, "copying");
	if (copy_attributes(copy, from, to) < 0)
		return -1;
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	return futimens(to, times) < 0 ? fail(copy, "copying") : 0;
}

static int copy_other(struct copy *copy, int from_dir, int to_dir, const char *name,
		      const struct stat *st)
{
	char target[4096];
	int result = -1;
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		result = n < 0 ? -1 : symlinkat(target, to_dir, name);
	} else if (S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == 0)) {
		result = mknodat(to_dir, name, st->st_mode, 0); /* a FIFO, or an overlay's mark */
	} else {
		return 0;
	}
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	if (result < 0 ||
	    fchownat(to_dir, name, st->st_uid + copy->shift, st->st_gid + copy->shift,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(copy, "copying");
	return 0;
}

static int copy_inside(struct copy *copy, int from, int to, int depth);

static int copy_dir(struct copy *copy, int from_dir, int to_dir, const char *name,
		    const struct stat *st, int depth)
{
	auto_close int from =
		openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 && errno == ENOENT)
		return 0;
	if (from < 0 || (mkdirat(to_dir, name, 0700) < 0 && errno != EEXIST))
		return fail(copy, "copying");
	auto_close int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return fail(copy, "copying");
	if (copy_inside(copy, from, to, depth + 1) < 0 || copy_attributes(copy, from, to) < 0)
		return -1;
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	if (fchown(to, st->st_uid + copy->shift, st->st_gid + copy->shift) < 0 ||
	    fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0)
		return fail(copy, "copying");
	return 0;
}

static int copy_entry(struct copy *copy, int from, int to, const char *name, int depth)
{
	struct stat st;
	size_t len = strlen(copy->path);
	if (len + strlen(name) + 2 > sizeof copy->path)
		return err_set(copy->err, ENAMETOOLONG, "copying");
	snprintf(copy->path + len, sizeof copy->path - len, "%s%s", len ? "/" : "", name);
	int result = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW);
	if (result < 0)
		result = errno == ENOENT ? 0 : fail(copy, "copying");
	else if (!copy->keep || copy->keep(copy->path, &st))
		result = copy_as_link(copy, to, name, &st) ? 0
			 : S_ISDIR(st.st_mode) ? copy_dir(copy, from, to, name, &st, depth)
			 : S_ISREG(st.st_mode) ? copy_file(copy, from, to, name, &st)
					       : copy_other(copy, from, to, name, &st);
	copy->path[len] = 0;
	return result;
}

static int copy_inside(struct copy *copy, int from, int to, int depth)
{
	if (depth > DEPTH_MAX)
		return err_set(copy->err, ERR_TOO_LARGE, "directories are nested more than %d deep",
			       DEPTH_MAX);
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int result = dir ? 0 : fail(copy, "reading");
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = copy_entry(copy, from, to, entry->d_name, depth);
	if (dir)
		closedir(dir);
	return result;
}

int files_copy(const char *from, const char *to,
	       bool (*keep)(const char *path, const struct stat *st), struct err *err)
{
	auto_close int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (source < 0)
		return err_set(err, errno, "'%s'", from);
	auto_close int target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_set(err, errno, "'%s'", to);
	auto_free struct copy *copy = xcalloc(1, sizeof *copy);
	copy->top = target;
	copy->shift = ids_mapped() ? 0 : ids_owner(to) - ids_owner(from);
	copy->keep = keep;
	copy->err = err;
	int result = copy_inside(copy, source, target, 0);
	for (size_t i = 0; i < copy->count; i++)
		free(copy->linked[i].path);
	free(copy->linked);
	free(copy->slots);
	return result;
}

int files_copy_one(const char *from, const char *to, struct err *err)
{
	struct stat st;
	auto_free struct copy *copy = xcalloc(1, sizeof *copy);
	copy->err = err;
	snprintf(copy->path, sizeof copy->path, "%s", from);
	auto_close int source = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (source < 0 || target < 0 || fstat(source, &st) < 0)
		return err_set(err, errno, "copying '%s'", from);
	if (copy_content(copy, source, target, st.st_size) < 0)
		return -1;
	if (st.st_size && fallocate(target, 0, 0, st.st_size) < 0 && errno != EOPNOTSUPP)
		return err_set(err, errno, "copying '%s'", from);
	return 0;
}

/* --- measuring ------------------------------------------------------------------------------- */

static int64_t size_of(int at, const char *name, int depth)
{
	struct stat st;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	int64_t size = (int64_t)st.st_blocks * 512;
	/* A file with several names is counted with its share in each. */
	if (!S_ISDIR(st.st_mode) || depth > DEPTH_MAX)
		return st.st_nlink > 1 ? size / (int64_t)st.st_nlink : size;
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			size += size_of(fd, entry->d_name, depth + 1);
	if (dir)
		closedir(dir);
	return size;
}

int64_t files_size(const char *path)
{
	return size_of(AT_FDCWD, path, 0);
}

/* --- removing -------------------------------------------------------------------------------- */

/* Directories that are too deep to be reached with the descriptors there are come to the top. */
struct removal {
	int top;
	unsigned moved;
	struct err *err;
};

static int empty(struct removal *removal, int fd, int depth);

static int remove_entry(struct removal *removal, int dir, const char *name, int depth)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM && errno != ENOTEMPTY)
		return err_set(removal->err, errno, "removing '%s'", name);
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (depth > DEPTH_MAX) {
		char moved[32];
		snprintf(moved, sizeof moved, ".deep%u", removal->moved++);
		if (renameat(dir, name, removal->top, moved) == 0)
			return 0;
	}
	auto_close int inside = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (inside < 0)
		return err_set(removal->err, errno, "removing '%s'", name);
	if (empty(removal, inside, depth + 1) < 0)
		return -1;
	if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_set(removal->err, errno, "removing '%s'", name);
	return 0;
}

static int empty(struct removal *removal, int fd, int depth)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	int result = dir ? 0 : err_set(removal->err, errno, "removing a directory");
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = remove_entry(removal, fd, entry->d_name, depth);
	if (dir)
		closedir(dir);
	return result;
}

int files_remove(const char *path, struct err *err)
{
	auto_close int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "removing '%s'", path);
	struct removal removal = { .top = top, .err = err };
	unsigned before;
	do { /* once more while something came to the top */
		before = removal.moved;
		if (empty(&removal, top, 0) < 0)
			return -1;
	} while (removal.moved != before);
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_set(err, errno, "removing '%s'", path);
	return 0;
}
