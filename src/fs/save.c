#include "fs/save.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "fs/place.h"
#include "fs/regular.h"
#include "fs/temp.h"

enum { XATTR_NAMES_MAX = 65536, XATTR_VALUE_MAX = 65536 };

/* ---- content ---- */

static int64_t size_of(const struct save *save)
{
	struct stat st;
	if (save->fd < 0)
		return (int64_t)save->len;
	return fstat(save->fd, &st) == 0 ? st.st_size : 0;
}

static int write_all(int fd, const char *data, size_t len, struct err *err)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, data + done, len - done);
		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "write");
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int copy_all(int from, int to, struct err *err)
{
	off_t at = 0;
	bool clone = true; /* or at least inside the kernel */
	for (;;) {
		ssize_t n = clone ? copy_file_range(from, &at, to, NULL, 1 << 30, 0)
				  : sendfile(to, from, &at, 1 << 30);
		if (n == 0)
			return 0;
		if (n > 0 || errno == EINTR)
			continue;
		if (!clone || errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG)
			return err_set(err, errno, "write");
		clone = false;
	}
}

static int fill(const struct save *save, int fd, struct err *err)
{
	return save->fd >= 0 ? copy_all(save->fd, fd, err)
			     : write_all(fd, save->data, save->len, err);
}

/* ---- what a file is, beside its content ---- */

static bool same_owner(const struct stat *a, const struct stat *b)
{
	return a->st_uid == b->st_uid && a->st_gid == b->st_gid;
}

/* Capabilities are of the old content; what checks its integrity is the system's to renew. */
static bool is_of_content(const char *name)
{
	return !strcmp(name, "security.capability") || !strcmp(name, "security.ima") ||
	       !strcmp(name, "security.evm");
}

static bool copy_attributes(const char *from, int to)
{
	auto_free char *names = xmalloc(XATTR_NAMES_MAX);
	/* From the directory's default: an ACL that the old file does not have. */
	(void)fremovexattr(to, "system.posix_acl_access");
	ssize_t len = listxattr(from, names, XATTR_NAMES_MAX);
	if (len <= 0)
		return len == 0 || errno == EOPNOTSUPP;
	auto_free char *value = xmalloc(XATTR_VALUE_MAX);
	for (const char *name = names; name < names + len; name += strlen(name) + 1) {
		if (is_of_content(name))
			continue;
		ssize_t size = getxattr(from, name, value, XATTR_VALUE_MAX);
		if (size < 0 || fsetxattr(to, name, value, (size_t)size, 0) < 0)
			return false;
	}
	return true;
}

/* Makes the new file what the old one was; false where that is not possible. */
static bool keep_nature(const struct place *place, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return false;
	if (!same_owner(&st, &place->st) && fchown(fd, place->st.st_uid, place->st.st_gid) < 0)
		return false;
	return copy_attributes(place->path, fd);
}

static bool is_mount_point(const char *path)
{
	struct statx stx;
	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &stx) == 0 &&
	       stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* Whether the file itself may be written, which a rename would not ask. With the rights of the thread,
 * which are not those that the library's access() looks at. */
static int check_writable(const struct place *place, struct err *err)
{
	if (syscall(SYS_faccessat2, AT_FDCWD, place->path, W_OK, AT_EACCESS) == 0)
		return 0;
	if (errno == ENOSYS) {
		auto_close int fd = open(place->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0)
			return 0;
	}
	return err_set(err, errno, "'%s'", place->path);
}

/* ---- the ways of writing ---- */

enum outcome { SAVED, FAILED, NOT_THIS_WAY };

/* Of something that writing in place would lack as well, when it is too late. */
static bool is_lack(int code)
{
	return code == ENOSPC || code == EDQUOT || code == EMFILE || code == ENFILE ||
	       code == ENOMEM || code == EIO;
}

static bool is_refusal(int code)
{
	return code == EACCES || code == EPERM || code == EBUSY;
}

/* A file that was given away is elsewhere than its place often enough. */
static enum outcome replace_with(const struct save *save, const struct place *place, bool give_away,
				 struct err *err)
{
	auto_temp struct temp temp = { .fd = -1, .dir = -1 };
	int opened = give_away ? temp_adopt(&temp, save->fd, place->path, err)
			       : temp_open(&temp, place->path, err);
	if (opened < 0)
		return is_lack(err->code) ? FAILED : NOT_THIS_WAY;
	if (!keep_nature(place, temp.fd))
		return NOT_THIS_WAY;
	if (!give_away && fill(save, temp.fd, err) < 0)
		return FAILED;
	/* Last, because writing and a new owner take away set-user-ID. */
	if (fchmod(temp.fd, save->mode ? save->mode : place->st.st_mode & 07777) < 0)
		return NOT_THIS_WAY;
	if (fdatasync(temp.fd) < 0) {
		err_set(err, errno, "'%s'", place->path);
		return FAILED;
	}
	if (temp_put(&temp, place->path, true, err) == 0)
		return SAVED;
	bool other_way = give_away ? !is_lack(err->code) : is_refusal(err->code);
	return other_way ? NOT_THIS_WAY : FAILED;
}

static int write_in_place(const struct save *save, const struct place *place, struct err *err)
{
	auto_close int fd = open(place->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "'%s'", place->path);
	if (regular_check(place->path, &st, err) < 0)
		return -1;
	if (save->mode && fchmod(fd, save->mode) < 0)
		return err_set(err, errno, "chmod '%s'", place->path);
	int64_t size = size_of(save);
	if (size && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
		int code = errno;
		(void)!ftruncate(fd, st.st_size); /* what could be reserved */
		return err_set(err, code, "'%s'", place->path);
	}
	if (fill(save, fd, err) < 0)
		return -1;
	if (st.st_size > size && ftruncate(fd, size) < 0)
		return err_set(err, errno, "'%s'", place->path);
	return 0;
}

static int overwrite(const struct save *save, const struct place *place, struct err *err)
{
	if (check_writable(place, err) < 0)
		return -1;
	enum outcome outcome = NOT_THIS_WAY;
	if (place->st.st_nlink == 1 && place->exact && !is_mount_point(place->path)) {
		if (save->give_away)
			outcome = replace_with(save, place, true, err);
		if (outcome == NOT_THIS_WAY)
			outcome = replace_with(save, place, false, err);
	}
	if (outcome == NOT_THIS_WAY)
		return write_in_place(save, place, err);
	return outcome == SAVED ? 0 : -1;
}

/* ---- new files ---- */

/* Removes the directories above path, the last ones first. */
static void remove_parents(const char *path, int count)
{
	char dir[PATH_MAX];
	snprintf(dir, sizeof dir, "%s", path);
	for (char *at; count-- > 0 && (at = strrchr(dir, '/'));) {
		*at = 0;
		rmdir(dir);
	}
}

/* Makes the directories on the way to path. How many of them are new, from the last one up. */
static int make_parents(const char *path, struct err *err)
{
	char dir[PATH_MAX];
	int made = 0;
	snprintf(dir, sizeof dir, "%s", path);
	for (char *at = strchr(dir + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		if (mkdir(dir, 0777) == 0)
			made++;
		else if (errno != EEXIST) {
			err_set(err, errno, "mkdir '%s'", dir);
			remove_parents(dir, made);
			return -1;
		}
		*at = '/';
	}
	return made;
}

static int create_with(const struct save *save, const struct place *place, bool give_away,
		       struct err *err)
{
	auto_temp struct temp temp = { .fd = -1, .dir = -1 };
	if ((give_away ? temp_adopt(&temp, save->fd, place->path, err)
		       : temp_open(&temp, place->path, err)) < 0)
		return -1;
	if (save->mode && fchmod(temp.fd, save->mode) < 0)
		return err_set(err, errno, "chmod '%s'", place->path);
	if (!give_away && fill(save, temp.fd, err) < 0)
		return -1;
	return temp_put(&temp, place->path, false, err);
}

/* Whether files that are made in the directory of path get nothing from it: no group, no ACL. */
static bool is_plain_directory(const char *path)
{
	char dir[PATH_MAX];
	struct stat st;
	snprintf(dir, sizeof dir, "%s", path);
	char *slash = strrchr(dir, '/');
	if (!slash)
		return false;
	slash[1] = 0;
	return stat(dir, &st) == 0 && !(st.st_mode & S_ISGID) &&
	       getxattr(dir, "system.posix_acl_default", NULL, 0) < 0;
}

static int create(const struct save *save, const struct place *place, struct err *err)
{
	if (save->give_away && is_plain_directory(place->path)) {
		if (create_with(save, place, true, err) == 0)
			return 0;
		if (err->code == EEXIST)
			return -1;
	}
	return create_with(save, place, false, err);
}

static int create_all(const struct save *save, const struct place *place, struct err *err)
{
	size_t len = strlen(place->path);
	if (len && place->path[len - 1] == '/')
		return err_set(err, EISDIR, "'%s'", place->path);
	if (create(save, place, err) == 0)
		return 0;
	if (err->code != ENOENT)
		return -1;
	int made = make_parents(place->path, err);
	if (made >= 0 && create(save, place, err) == 0)
		return 0;
	if (made > 0)
		remove_parents(place->path, made);
	return -1;
}

int save_put(const struct save *save, const struct place *place, struct err *err)
{
	if (!place->exists) {
		if (create_all(save, place, err) == 0)
			return 0;
		/* Another program may have been faster. */
		struct place now = *place;
		if (err->code != EEXIST || save->fresh || lstat(now.path, &now.st) < 0 ||
		    !S_ISREG(now.st.st_mode))
			return -1;
		return overwrite(save, &now, err);
	}
	if (save->fresh)
		return err_set(err, EEXIST, "'%s'", place->path);
	if (regular_check(place->path, &place->st, err) < 0)
		return -1;
	return overwrite(save, place, err);
}

int save_append(const struct place *place, const void *data, size_t len, struct err *err)
{
	if (!place->exists)
		return save_put(&(struct save){ .data = data, .len = len, .fd = -1 }, place, err);
	if (regular_check(place->path, &place->st, err) < 0)
		return -1;
	auto_close int fd =
		open(place->path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat before, after;
	if (fd < 0 || fstat(fd, &before) < 0)
		return err_set(err, errno, "'%s'", place->path);
	if (regular_check(place->path, &before, err) < 0)
		return -1;
	if (write_all(fd, data, len, err) == 0)
		return 0;
	/* Only what is ours: somebody else may have appended something. */
	if (fstat(fd, &after) == 0 && after.st_size <= before.st_size + (int64_t)len)
		(void)!ftruncate(fd, before.st_size);
	return -1;
}
