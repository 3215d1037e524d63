#include "base/dir.h"

#include <fcntl.h>

#include "base/own.h"

DIR *dir_open_at(int at, const char *path, int flags)
{
	auto_close int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir)
		(void)TAKE_FD(fd);
	return dir;
}
