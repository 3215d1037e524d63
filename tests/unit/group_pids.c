/* The files of a hierarchy are imitated. */
#include "../../src/box/group.c"

#include "tap.h"

enum { FIRST = 10000, LAST = 14999 };

int main(void)
{
	char top[] = "/tmp/aio-group-XXXXXX", last[32];
	CHECK(mkdtemp(top));
	auto_close int root = open_dir(AT_FDCWD, top);
	CHECK(mkdirat(root, "aiobox-outside", 0755) == 0);
	static const char *const files[] = { "cgroup.type", "cgroup.procs",
					     "aiobox-outside/cgroup.procs" };
	for (size_t i = 0; i < COUNT(files); i++)
		close(openat(root, files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	FILE *procs = fdopen(openat(root, "cgroup.procs", O_WRONLY | O_CLOEXEC), "w");
	for (int pid = FIRST; pid <= LAST; pid++)
		fprintf(procs, "%d\n", pid);
	CHECK(fclose(procs) == 0);

	empty_root(root); /* each overwrites the one before */
	read_at(root, "aiobox-outside/cgroup.procs", last, sizeof last);
	CHECK(atoi(last) == LAST);

	for (size_t i = 0; i < COUNT(files); i++)
		(void)unlinkat(root, files[i], 0);
	(void)unlinkat(root, "aiobox-outside", AT_REMOVEDIR);
	CHECK(rmdir(top) == 0);
	return tap_done();
}
