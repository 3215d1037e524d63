/* A file system that counts by project is imitated: most machines have none. */
#include <ftw.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tap.h"

static struct {
	ino_t file;
	uint32_t project;
} known[1024];

static int imitated(int fd, unsigned long what, ...)
{
	va_list args;
	va_start(args, what);
	struct fsxattr *attr = va_arg(args, struct fsxattr *);
	va_end(args);
	struct stat st;
	size_t i = 0;
	if (fstat(fd, &st) < 0)
		return -1;
	while (known[i].file && known[i].file != st.st_ino)
		i++;
	known[i].file = st.st_ino;
	if (what == FS_IOC_FSGETXATTR)
		*attr = (struct fsxattr){ .fsx_projid = known[i].project };
	else
		known[i].project = attr->fsx_projid;
	return 0;
}

#define ioctl imitated
#include "../../src/box/disk.c"

static char top[] = "/tmp/aio-disk-XXXXXX";

/* Makes directories one in the other, and opens the last. */
static int nest(int depth)
{
	int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		(void)mkdirat(fd, "d", 0755);
		int below = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = below;
	}
	return fd;
}

static uint32_t project_of(int fd)
{
	struct fsxattr attr = { 0 };
	CHECK(imitated(fd, FS_IOC_FSGETXATTR, &attr) == 0);
	return attr.fsx_projid;
}

/* Whatever files_copy() copies. */
static void test_depth(int root)
{
	struct err err = { 0 };
	auto_close int deepest = nest(DEPTH_MAX);
	auto_close int file = openat(deepest, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(mark(root, 7, 0, &err) == 0);
	CHECK(project_of(root) == 7 && project_of(deepest) == 7 && project_of(file) == 7);
	auto_close int deeper = nest(DEPTH_MAX + 1);
	CHECK(deeper >= 0 && mark(root, 8, 0, &err) < 0);
	CHECK(strstr(err.msg, "nested more than 200 deep"));
	CHECK(project_of(root) == 7);
}

/* A directory that cannot be read is not one that is empty. */
static void test_no_descriptors(int root)
{
	struct err err = { 0 };
	struct rlimit before;
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	for (rlim_t more = 1; more < 8; more++) { /* whichever of its steps has none */
		struct rlimit few = { (rlim_t)root + more, before.rlim_max };
		CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
		CHECK(mark(root, 9, 0, &err) < 0);
		CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	}
	CHECK(project_of(root) == 7);
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

int main(void)
{
	CHECK(mkdtemp(top));
	int root = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_depth(root);
	test_no_descriptors(root);
	close(root);
	CHECK(nftw(top, drop, 16, FTW_DEPTH | FTW_PHYS) == 0);
	return tap_done();
}
