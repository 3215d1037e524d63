#include "observe/observe_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "net/server.h"
#include "proc/user.h"

enum { ID_MAX = 60 };

struct observe_dir {
	struct user_view view;
	int fd;
	char path[PATH_MAX + 64];
};

/* Opens a directory below another, made if it is missing; no link. */
static int enter(int at, const char *name)
{
	if (at < 0 || (mkdirat(at, name, 0700) < 0 && errno != EEXIST))
		return -1;
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

struct observe_dir *observe_dir_enter(const struct server *server, const char *sub, struct err *err)
{
	const struct user *user = user_sandbox(server->config->user, err);
	struct observe_dir *dir = xcalloc(1, sizeof *dir);
	dir->fd = -1;
	if (user && user_enter(user, &dir->view, err) == 0) {
		snprintf(dir->path, sizeof dir->path, "%s/.aiobox/observe/%s", user->home, sub);
		auto_close int home = open(user->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		auto_close int ours = enter(home, ".aiobox");
		auto_close int observe = enter(ours, "observe");
		dir->fd = enter(observe, sub);
		if (dir->fd < 0)
			err_set(err, errno, "'%s'", dir->path);
	}
	if (dir->fd >= 0)
		return dir;
	observe_dir_leave(dir);
	return NULL;
}

void observe_dir_leave(struct observe_dir *dir)
{
	if (!dir)
		return;
	own_close(&dir->fd);
	user_leave(&dir->view);
	free(dir);
}

int observe_dir_fd(const struct observe_dir *dir)
{
	return dir->fd;
}

const char *observe_dir_path(const struct observe_dir *dir)
{
	return dir->path;
}

int observe_open(int dir, const char *name, int flags)
{
	struct stat st;
	auto_close int fd =
		openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return TAKE_FD(fd);
}

void observe_id(const char *prefix, char *to, size_t room)
{
	unsigned number = 0;
	struct tm tm;
	struct timespec now;
	char at[32];
	clock_gettime(CLOCK_REALTIME, &now);
	(void)!getrandom(&number, sizeof number, 0);
	strftime(at, sizeof at, "%Y%m%dT%H%M%S", gmtime_r(&now.tv_sec, &tm));
	snprintf(to, room, "%s-%s%06ldZ-%06x", prefix, at, now.tv_nsec / 1000, number & 0xffffff);
}

bool observe_is_id(const char *prefix, const char *text)
{
	size_t len = strlen(prefix);
	return strlen(text) <= ID_MAX && !strncmp(text, prefix, len) && text[len] == '-' &&
	       strspn(text + len, "0123456789abcdefTZ-") == strlen(text + len);
}
