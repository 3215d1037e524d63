#include "box/reserve.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/own.h"

enum { FILES = 8, FILE_BYTES = 32768 }; /* several: files are limited too */

static void name(int number, char *to, size_t room)
{
	snprintf(to, room, "reserve%d", number);
}

void reserve_make(int tree)
{
	for (int i = 0; i < FILES; i++) {
		char path[32];
		name(i, path, sizeof path);
		auto_close int fd = openat(tree, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			(void)!fallocate(fd, 0, 0, FILE_BYTES);
	}
}

bool reserve_release(int tree)
{
	struct statvfs st;
	bool low = fstatvfs(tree, &st) == 0 &&
		   (st.f_bavail * st.f_frsize < (uint64_t)FILES * FILE_BYTES * 2 ||
		    st.f_favail < FILES * 2);
	for (int i = 0; low && i < FILES; i++) {
		char path[32];
		name(i, path, sizeof path);
		(void)unlinkat(tree, path, 0);
	}
	if (!low)
		reserve_make(tree);
	return low;
}
