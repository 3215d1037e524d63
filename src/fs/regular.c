#include "fs/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

enum { READ_SIZE = 65536 };

int regular_check(const char *path, const struct stat *st, struct err *err)
{
	const char *what = "something special";
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		return 0;
	case S_IFDIR:
		return err_set(err, EISDIR, "'%s'", path);
	case S_IFIFO:
		what = "a FIFO";
		break;
	case S_IFSOCK:
		what = "a socket";
		break;
	case S_IFCHR:
	case S_IFBLK:
		what = "a device";
		break;
	}
	return err_set(err, ERR_BAD_REQUEST, "'%.400s' is %s, not a regular file", path, what);
}

/* Looked at before it is opened, because opening a device may do something; and after, because it
 * may have become another one meanwhile, which for the same reason is opened without waiting. */
int regular_open(const char *path, struct stat *ret, struct err *err)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return err_set(err, errno, "'%s'", path);
	if (regular_check(path, &st, err) < 0)
		return -1;
	auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "'%s'", path);
	if (regular_check(path, &st, err) < 0)
		return -1;
	if (ret)
		*ret = st;
	return TAKE_FD(fd);
}

int regular_read(int fd, struct buf *to, struct err *err)
{
	struct stat st;
	size_t known = fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
	buf_add(to, "", 0); /* an empty file has text, too */
	for (;;) {
		/* One byte more than there should be: the end is seen without another large piece. */
		size_t want = known >= to->len ? known - to->len + 1 : READ_SIZE;
		want = want < (16 << 20) ? want : 16 << 20;
		size_t left = to->cap - to->len;
		char beyond, *room = left ? buf_grow(to, want < left ? want : left) : &beyond;
		ssize_t n = read(fd, room, !left ? 1 : want < left ? want : left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || (n < 0 && errno == EAGAIN && to->len))
			return 0;
		if (n < 0)
			return err_set(err, errno, "read");
		if (!left)
			return err_set(err, ERR_TOO_LARGE, "the file is larger than %zu bytes",
				       to->cap);
		to->len += (size_t)n;
		to->data[to->len] = 0;
	}
}

ssize_t regular_read_at(int fd, int64_t at, char *to, size_t room, struct err *err)
{
	size_t done = 0;
	while (done < room) {
		ssize_t n = pread(fd, to + done, room - done, at + (int64_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "read");
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}
