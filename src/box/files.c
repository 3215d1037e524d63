#include "box/files.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/xattr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/err.h"
#include "base/own.h"
#include "box/ids.h"

enum {
	DEPTH_MAX = 200,
	PATH_ROOM = 65536,
	ATTRIBUTE_MAX = 65536,
	LIST_MAX = 65536,
	ENTRY_BYTES = 4096, /* that a file takes beside its content, or so */
	ROOM_MIN = 256 << 20,
};

/* --- copying --------------------------------------------------------------------------------- */

static int64_t size_of(int at, const char *name, int64_t each, int depth);

/* Values by numbers, neither of which is 0. */
struct map {
	struct slot {
		uint64_t key, value;
	} * slots;
	size_t count, room;
};

static struct slot *map_slot(const struct map *map, uint64_t key)
{
	for (size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 20);; at++) {
		struct slot *slot = &map->slots[at % map->room];
		if (!slot->key || slot->key == key)
			return slot;
	}
}

static uint64_t map_get(const struct map *map, uint64_t key)
{
	return map->room ? map_slot(map, key)->value : 0;
}

static void map_put(struct map *map, uint64_t key, uint64_t value)
{
	if (map->count * 2 >= map->room) {
		struct map more = { .room = map->room ? map->room * 2 : 256 };
		more.slots = xcalloc(more.room, sizeof *more.slots);
		for (size_t i = 0; i < map->room; i++)
			if (map->slots[i].key)
				*map_slot(&more, map->slots[i].key) = map->slots[i];
		free(map->slots);
		more.count = map->count;
		*map = more;
	}
	struct slot *slot = map_slot(map, key);
	map->count += !slot->key;
	*slot = (struct slot){ key, value };
}

/* The first name that was seen of a file that has several. */
struct linked {
	dev_t dev;
	bool copied; /* in this pass */
	char path[]; /* below the copy */
};

struct files_copy {
	int from, top;  /* the top is that of the copy */
	uint32_t shift; /* of its ids */
	files_keep *keep;
	bool follows;          /* changes of its files can be seen: see files_copy_moving() */
	bool again;            /* there has been a pass before this one */
	bool partial;          /* which left things out */
	bool moving;           /* this pass is of files that are in use */
	struct timespec since; /* this pass copies again what has changed from then on */
	int64_t room;          /* bytes that passes while it moves may still write */
	int64_t wrote;         /* by this pass */
	struct map linked;     /* struct linked by inode */
	struct map origins;    /* the inode that each inode of the copy was made from */
	char path[PATH_ROOM];  /* of the entry, below the top */
	struct err *err;
};

static int fail(const struct files_copy *copy, const char *what)
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

static int copy_attributes(struct files_copy *copy, int from, int to)
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

/* Those that the copy has from before. */
static int remove_attributes(const struct files_copy *copy, int to)
{
	auto_free char *names = xmalloc(LIST_MAX);
	ssize_t len = flistxattr(to, names, LIST_MAX);
	for (char *name = names; len > 0 && name < names + len; name += strlen(name) + 1)
		if (fremovexattr(to, name) < 0 && errno != ENODATA && errno != ENOTSUP)
			return fail(copy, name);
	return 0;
}

static int copy_content(struct files_copy *copy, int from, int to, off_t size)
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

static void note_link(struct files_copy *copy, const struct stat *st, bool copied)
{
	if (st->st_nlink < 2 || map_get(&copy->linked, st->st_ino))
		return;
	size_t len = strlen(copy->path) + 1;
	struct linked *linked = xmalloc(sizeof *linked + len);
	*linked = (struct linked){ st->st_dev, copied };
	memcpy(linked->path, copy->path, len);
	map_put(&copy->linked, st->st_ino, (uintptr_t)linked);
}

/* An earlier name of the same file, or NULL. */
static const struct linked *find_link(const struct files_copy *copy, const struct stat *st)
{
	const struct linked *linked =
		st->st_nlink < 2 ? NULL
				 : (struct linked *)(uintptr_t)map_get(&copy->linked, st->st_ino);
	return linked && linked->dev == st->st_dev ? linked : NULL;
}

static void forget_links(struct files_copy *copy)
{
	for (size_t i = 0; i < copy->linked.room; i++)
		free((void *)(uintptr_t)copy->linked.slots[i].value);
	free(copy->linked.slots);
	copy->linked = (struct map){ 0 };
}

static void note_origin(struct files_copy *copy, const struct stat *made, const struct stat *st)
{
	enum {
		MOST = 4 << 20
	}; /* what is not noted is copied again if its directory has changed */
	if (copy->follows && (copy->origins.count < MOST || map_get(&copy->origins, made->st_ino)))
		map_put(&copy->origins, made->st_ino, st->st_ino);
}

static int copy_file(struct files_copy *copy, int from_dir, int to_dir, const char *name,
		     const struct stat *st)
{
	auto_close int from =
		openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0 && errno == ENOENT) /* since it was looked at */
		return 0;
	struct stat now, made;
	if (from < 0 || fstat(from, &now) < 0)
		return fail(copy, "copying");
	if (!S_ISREG(now.st_mode) || (copy->moving && now.st_ino != st->st_ino))
		return 0; /* its directory has changed: the next pass sees that */
	st = &now;
	auto_close int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0 || fstat(to, &made) < 0)
		return fail(copy, "copying");
	if (copy->moving)
		(void)sync_file_range(from, 0, 0,
				      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
	if (copy_content(copy, from, to, st->st_size) < 0 ||
	    fchown(to, st->st_uid + copy->shift, st->st_gid + copy->shift) < 0 ||
	    fchmod(to, st->st_mode & 07777) < 0)
		return fail(copy, "copying");
	if (copy_attributes(copy, from, to) < 0)
		return -1;
	note_origin(copy, &made, st);
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	return futimens(to, times) < 0 ? fail(copy, "copying") : 0;
}

/* The target is that of the link that was looked at, whatever has its name by now. */
static int copy_symlink(int from_dir, int to_dir, const char *name, const struct stat *st)
{
	char target[4096];
	struct stat now;
	auto_close int from = openat(from_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || fstat(from, &now) < 0)
		return -1;
	if (now.st_ino != st->st_ino) {
		errno = ENOENT;
		return -1;
	}
	ssize_t n = readlinkat(from, "", target, sizeof target - 1);
	target[n < 0 ? 0 : n] = 0;
	return n < 0 ? -1 : symlinkat(target, to_dir, name);
}

static int copy_other(struct files_copy *copy, int from_dir, int to_dir, const char *name,
		      const struct stat *st)
{
	struct stat made;
	int result = -1;
	if (S_ISLNK(st->st_mode))
		result = copy_symlink(from_dir, to_dir, name, st);
	else if (S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == 0))
		result = mknodat(to_dir, name, st->st_mode, 0); /* a FIFO, or an overlay's mark */
	else
		return 0;
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	if (result < 0 ||
	    fchownat(to_dir, name, st->st_uid + copy->shift, st->st_gid + copy->shift,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(to_dir, name, &made, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(copy, "copying");
	note_origin(copy, &made, st);
	return 0;
}

static bool is_changed(const struct files_copy *copy, const struct stat *st)
{
	const struct timespec *at = &st->st_ctim, *since = &copy->since;
	/* Where only seconds are kept, any moment of that second may be meant. */
	return at->tv_sec > since->tv_sec ||
	       (at->tv_sec == since->tv_sec && (!at->tv_nsec || at->tv_nsec >= since->tv_nsec));
}

/* Whether an earlier pass has made that name of the copy from that very file. */
static bool is_made_of(const struct files_copy *copy, int to, const char *name,
		       const struct stat *st)
{
	struct stat made;
	return fstatat(to, name, &made, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (made.st_mode & S_IFMT) == (st->st_mode & S_IFMT) && /* numbers are used again */
	       map_get(&copy->origins, made.st_ino) == st->st_ino;
}

static int copy_inside(struct files_copy *copy, int from, int to, bool listed, int depth);

static int copy_about_dir(struct files_copy *copy, int from, int to, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	if ((copy->again && remove_attributes(copy, to) < 0) || copy_attributes(copy, from, to) < 0)
		return -1;
	if (fchown(to, st->st_uid + copy->shift, st->st_gid + copy->shift) < 0 ||
	    fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0)
		return fail(copy, "copying");
	return 0;
}

/* here: there is a copy from before, which is brought up to date. */
static int copy_dir(struct files_copy *copy, int from_dir, int to_dir, const char *name, bool here,
		    const struct stat *looked, int depth)
{
	struct stat st, made;
	auto_close int from =
		openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 && errno == ENOENT)
		return 0;
	if (from < 0 || fstat(from, &st) < 0)
		return fail(copy, "copying");
	if (copy->moving && st.st_ino != looked->st_ino)
		return 0; /* as in copy_file() */
	if (!here && copy->again && files_remove_at(to_dir, name, copy->err) < 0)
		return -1;
	if (!here && mkdirat(to_dir, name, 0700) < 0 && errno != EEXIST)
		return fail(copy, "copying");
	auto_close int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0 || fstat(to, &made) < 0)
		return fail(copy, "copying");
	bool listed = !here || copy->partial || is_changed(copy, &st);
	int64_t before = copy->wrote;
	copy->wrote += here ? 0 : ENTRY_BYTES;
	if (copy_inside(copy, from, to, listed, depth + 1) < 0)
		return -1;
	note_origin(copy, &made, &st);
	return listed || copy->wrote != before ? copy_about_dir(copy, from, to, &st) : 0;
}

static int copy_thing(struct files_copy *copy, int from, int to, const char *name, bool here,
		      const struct stat *st)
{
	const struct linked *linked = find_link(copy, st);
	if (here && !is_changed(copy, st) && !(linked && linked->copied)) {
		note_link(copy, st, false);
		return 0;
	}
	copy->wrote += ENTRY_BYTES + (linked ? 0 : (int64_t)st->st_blocks * 512);
	if (copy->again && files_remove_at(to, name, copy->err) < 0)
		return -1;
	if (linked && linkat(copy->top, linked->path, to, name, 0) == 0)
		return 0;
	note_link(copy, st, true);
	return S_ISREG(st->st_mode) ? copy_file(copy, from, to, name, st)
				    : copy_other(copy, from, to, name, st);
}

/* What somebody who changes a directory meanwhile can bring about; the next pass sees that. */
static bool is_race(int code)
{
	return code == ENOENT || code == ENOTDIR || code == EISDIR || code == ELOOP ||
	       code == EEXIST || code == ENXIO;
}

/* listed: the directory has changed since the last pass, so that its names may mean other files. */
static int copy_entry(struct files_copy *copy, int from, int to, const char *name, bool listed,
		      int depth)
{
	struct stat st;
	size_t len = strlen(copy->path);
	if (len + strlen(name) + 2 > sizeof copy->path)
		return err_set(copy->err, ENAMETOOLONG, "copying");
	snprintf(copy->path + len, sizeof copy->path - len, "%s%s", len ? "/" : "", name);
	int result = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW);
	if (result < 0) {
		result = errno == ENOENT ? 0 : fail(copy, "copying");
	} else if (!copy->keep || copy->keep(copy->path, &st)) {
		bool here = copy->again && (!listed || is_made_of(copy, to, name, &st));
		result = S_ISDIR(st.st_mode) ? copy_dir(copy, from, to, name, here, &st, depth)
					     : copy_thing(copy, from, to, name, here, &st);
	}
	copy->path[len] = 0;
	return result < 0 && copy->moving && is_race(copy->err->code) ? 0 : result;
}

/* What the copy has and the directory no longer. */
static int remove_gone(struct files_copy *copy, int from, int to)
{
	struct stat st;
	DIR *dir = dir_open_at(to, ".", 0);
	int result = dir ? 0 : fail(copy, "reading");
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));)
		if (fstatat(from, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			result = files_remove_at(to, entry->d_name, copy->err);
	if (dir)
		closedir(dir);
	return result;
}

static int copy_inside(struct files_copy *copy, int from, int to, bool listed, int depth)
{
	if (depth > DEPTH_MAX)
		return err_set(copy->err, ERR_TOO_LARGE, "directories are nested more than %d deep",
			       DEPTH_MAX);
	if (copy->again && listed && remove_gone(copy, from, to) < 0)
		return -1;
	DIR *dir = dir_open_at(from, ".", 0);
	int result = dir ? 0 : fail(copy, "reading");
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));) {
		if (copy->moving && copy->wrote > copy->room) {
			copy->partial = true;
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = copy_entry(copy, from, to, entry->d_name, listed, depth);
	}
	if (dir)
		closedir(dir);
	return result;
}

/* File systems that write the time of a change before it can be seen, also if it is made through memory:
 * a page that has been written to disk must fault before it can be changed again. */
static bool can_follow(int fd)
{
	struct statfs st;
	return fstatfs(fd, &st) == 0 &&
	       (st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC ||
		st.f_type == BTRFS_SUPER_MAGIC);
}

struct files_copy *files_copy_new(const char *from, const char *to, struct err *err)
{
	auto_close int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int target = source < 0 ? -1 : open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (target < 0) {
		err_set(err, errno, "'%s'", source < 0 ? from : to);
		return NULL;
	}
	struct files_copy *copy = xcalloc(1, sizeof *copy);
	copy->follows = can_follow(source);
	copy->from = TAKE_FD(source);
	copy->top = TAKE_FD(target);
	copy->shift = ids_mapped() ? 0 : ids_owner(to) - ids_owner(from);
	return copy;
}

void files_copy_keep(struct files_copy *copy, files_keep *keep)
{
	copy->keep = keep;
}

void files_copy_free(struct files_copy *copy)
{
	if (!copy)
		return;
	forget_links(copy);
	free(copy->origins.slots);
	close(copy->from);
	close(copy->top);
	free(copy);
}

static int pass(struct files_copy *copy, const struct timespec *since, struct err *err)
{
	struct err ignored;
	struct stat st;
	copy->err = err ? err : &ignored;
	copy->since = *since;
	copy->wrote = 0;
	if (fstat(copy->from, &st) < 0)
		return fail(copy, "reading");
	int result = copy_inside(copy, copy->from, copy->top,
				 !copy->again || copy->partial || is_changed(copy, &st), 0);
	forget_links(copy);
	copy->again = true;
	return result;
}

int64_t files_copy_moving(struct files_copy *copy, const struct timespec *since, struct err *err)
{
	if (!copy->follows)
		return 0;
	if (!copy->again)
		copy->room = ROOM_MIN + 2 * size_of(copy->from, ".", ENTRY_BYTES, 0);
	copy->moving = true;
	int result = pass(copy, since, err);
	copy->moving = false;
	copy->room -= copy->wrote;
	return result < 0 ? -1 : copy->wrote;
}

int files_copy_rest(struct files_copy *copy, const struct timespec *since, struct err *err)
{
	return pass(copy, since, err);
}

int files_copy(const char *from, const char *to, files_keep *keep, struct err *err)
{
	struct files_copy *copy = files_copy_new(from, to, err);
	if (!copy)
		return -1;
	copy->follows = false;
	copy->keep = keep;
	int result = pass(copy, &(struct timespec){ 0 }, err);
	files_copy_free(copy);
	return result;
}

int files_copy_one(const char *from, const char *to, struct err *err)
{
	struct stat st;
	auto_free struct files_copy *copy = xcalloc(1, sizeof *copy);
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

static int64_t size_of(int at, const char *name, int64_t each, int depth)
{
	struct stat st;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	int64_t size = (int64_t)st.st_blocks * 512 + each;
	/* A file with several names is counted with its share in each. */
	if (!S_ISDIR(st.st_mode) || depth > DEPTH_MAX)
		return st.st_nlink > 1 ? size / (int64_t)st.st_nlink : size;
	DIR *dir = dir_open_at(at, name, O_NOFOLLOW);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			size += size_of(dirfd(dir), entry->d_name, each, depth + 1);
	if (dir)
		closedir(dir);
	return size;
}

int64_t files_size(const char *path)
{
	return size_of(AT_FDCWD, path, 0, 0);
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
	DIR *dir = dir_open_at(fd, ".", 0);
	int result = dir ? 0 : err_set(removal->err, errno, "removing a directory");
	for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = remove_entry(removal, fd, entry->d_name, depth);
	if (dir)
		closedir(dir);
	return result;
}

int files_remove_at(int dir, const char *name, struct err *err)
{
	return remove_entry(&(struct removal){ .top = dir, .err = err }, dir, name, 0);
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
