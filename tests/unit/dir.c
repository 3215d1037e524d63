#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "tap.h"

/* A descriptor would be taken by one that stays open. */
static int next_fd(void)
{
	auto_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd;
}

int main(void)
{
	int before = next_fd();
	CHECK(!dir_open_at(AT_FDCWD, "/dev/null", 0) && errno == ENOTDIR);
	CHECK(!dir_open_at(AT_FDCWD, "/no such directory", 0) && errno == ENOENT);
	CHECK(!dir_open_at(AT_FDCWD, "/proc/self/cwd", O_NOFOLLOW) && errno == ENOTDIR);
	CHECK(next_fd() == before);
	DIR *dir = dir_open_at(AT_FDCWD, "/dev", 0);
	CHECK(dir && fcntl(dirfd(dir), F_GETFD) == FD_CLOEXEC);
	DIR *same = dir_open_at(dirfd(dir), ".", 0);
	CHECK(same && readdir(same) && readdir(dir)); /* each from its beginning */
	closedir(same);
	closedir(dir);
	CHECK(next_fd() == before);
	return tap_done();
}
