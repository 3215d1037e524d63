#include "skill/skills_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { DEPTH_MAX = 100, STEP = 65536 };

int skills_files_make(const char *path, struct err *err)
{
	auto_free char *text = xstrdup(path);
	for (char *at = text + 1;; at++) {
		char was = *at;
		if (was != '/' && was)
			continue;
		*at = 0;
		if (mkdir(text, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "mkdir '%s'", text);
		*at = was;
		if (!was)
			return 0;
	}
}

int skills_files_read(int dir, const char *name, struct buf *ret, struct err *err)
{
	struct stat st;
	auto_close int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "%s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_BAD_REQUEST, "%s is not a regular file", name);
	for (;;) {
		size_t room = ret->cap - ret->len < STEP ? ret->cap - ret->len : STEP;
		char *to = room ? buf_grow(ret, room) : NULL;
		ssize_t n = to ? read(fd, to, room) : 0;
		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "%s", name);
		if (!to)
			return err_set(err, ERR_BAD_REQUEST, "%s is larger than %zu KiB", name,
				       ret->cap >> 10);
		if (n == 0)
			return 0;
		ret->len += n > 0 ? (size_t)n : 0;
	}
}

static int empty(int dir, int depth);

static int remove_at(int dir, const char *name, int depth)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || depth == DEPTH_MAX)
		return -1;
	int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0 || empty(below, depth) < 0)
		return -1;
	return unlinkat(dir, name, AT_REMOVEDIR);
}

/* Takes the descriptor. */
static int empty(int dir, int depth)
{
	int result = 0;
	DIR *list = fdopendir(dir);
	if (!list) {
		close(dir);
		return -1;
	}
	for (const struct dirent *entry; result == 0 && (entry = readdir(list));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = remove_at(dir, entry->d_name, depth + 1);
	int code = errno;
	closedir(list);
	errno = code;
	return result;
}

int skills_files_remove(int dir, const char *name, struct err *err)
{
	return remove_at(dir, name, 0) < 0 ? err_set(err, errno, "cannot remove '%s'", name) : 0;
}

int skills_files_stage(int dir, char *ret, size_t room, struct err *err)
{
	unsigned long long nonce;
	do {
		(void)!getrandom(&nonce, sizeof nonce, 0);
		snprintf(ret, room, ".aiobox-%016llx", nonce);
		if (mkdirat(dir, ret, 0755) == 0)
			return 0;
	} while (errno == EEXIST);
	return err_set(err, errno, "no directory can be made there");
}
