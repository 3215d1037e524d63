#include "fs/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { HASH_DIGITS = 16 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int open_dir(const char *path, struct err *err)
{
	char dir[PATH_MAX];
	size_t len = (size_t)(base_name(path) - path);
	if (len >= sizeof dir)
		return err_set(err, ENAMETOOLONG, "'%s'", path);
	memcpy(dir, path, len);
	dir[len] = 0;
	int fd = open(len ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "'%s'", dir) : fd;
}

/* FNV-1a of the target's name. */
static void set_name(struct temp *temp, const char *target)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (const char *at = target; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
	snprintf(temp->name, sizeof temp->name, TEMP_PREFIX "%0*llx", HASH_DIGITS,
		 (unsigned long long)hash);
}

int temp_adopt(struct temp *temp, int fd, const char *path, struct err *err)
{
	*temp = (struct temp){ .fd = -1, .dir = open_dir(path, err), .borrowed = true };
	if (temp->dir < 0)
		return -1;
	temp->fd = fd;
	set_name(temp, base_name(path));
	return 0;
}

static int open_named(struct temp *temp)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(temp->dir, temp->name, flags, 0666);
	if (fd < 0 && errno == EEXIST && unlinkat(temp->dir, temp->name, 0) == 0)
		fd = openat(temp->dir, temp->name, flags, 0666);
	temp->named = fd >= 0;
	return fd;
}

bool temp_is_name(const char *name)
{
	static const char prefix[] = TEMP_PREFIX;
	size_t len = strlen(name), start = sizeof prefix - 1;
	return len == start + HASH_DIGITS && !strncmp(name, prefix, start) &&
	       strspn(name + start, "0123456789abcdef") == HASH_DIGITS;
}

bool temp_is_nameless(const char *name)
{
	size_t len = strlen(name);
	return len > 1 && *name == '#' && strspn(name + 1, "0123456789") == len - 1;
}

int temp_open(struct temp *temp, const char *path, struct err *err)
{
	if (temp_adopt(temp, -1, path, err) < 0)
		return -1;
	temp->borrowed = false;
	temp->fd = openat(temp->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (temp->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		temp->fd = open_named(temp);
	if (temp->fd >= 0)
		return 0;
	err_set(err, errno, "'%s'", path);
	temp_done(temp);
	return -1;
}

static int link_as(const struct temp *temp, const char *name)
{
	char self[40];
	snprintf(self, sizeof self, "/proc/self/fd/%d", temp->fd);
	return linkat(AT_FDCWD, self, temp->dir, name, AT_SYMLINK_FOLLOW);
}

/* Not every file system can do the one, and not every one the other. A link first: watchers then see that
 * the file is new. */
static int name_new(struct temp *temp, const char *name)
{
	if (linkat(temp->dir, temp->name, temp->dir, name, 0) == 0)
		return 0;
	if (errno == EEXIST)
		return -1;
	if (renameat2(temp->dir, temp->name, temp->dir, name, RENAME_NOREPLACE) < 0)
		return -1;
	temp->named = false;
	return 0;
}

int temp_put(struct temp *temp, const char *path, bool replace, struct err *err)
{
	const char *name = base_name(path);
	if (!replace) {
		int result = temp->named ? name_new(temp, name) : link_as(temp, name);
		return result < 0 ? err_set(err, errno, "'%s'", path) : 0;
	}
	if (!temp->named) {
		int result = link_as(temp, temp->name);
		if (result < 0 && errno == EEXIST && unlinkat(temp->dir, temp->name, 0) == 0)
			result = link_as(temp, temp->name);
		if (result < 0)
			return err_set(err, errno, "'%s'", path);
		temp->named = true;
	}
	if (renameat(temp->dir, temp->name, temp->dir, name) < 0)
		return err_set(err, errno, "'%s'", path);
	temp->named = false;
	return 0;
}

void temp_done(struct temp *temp)
{
	if (temp->named)
		unlinkat(temp->dir, temp->name, 0);
	if (temp->fd >= 0 && !temp->borrowed)
		close(temp->fd);
	if (temp->dir >= 0)
		close(temp->dir);
	*temp = (struct temp){ .fd = -1, .dir = -1 };
}
