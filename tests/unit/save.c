/* Saving files, on file systems that can make files without a name and on those that cannot. */
#include "fs/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "fs/place.h"
#include "tap.h"

static char folder[] = "/tmp/aio-unit-XXXXXX";

static int put(const char *path, const char *text, bool fresh, struct err *err)
{
	auto_release struct place place = { 0 };
	struct save save = { .data = text, .len = strlen(text), .fd = -1, .fresh = fresh };
	return place_hold(path, &place, err) < 0 ? -1 : save_put(&save, &place, err);
}

static int put_file(const char *path, int fd, struct err *err)
{
	auto_release struct place place = { 0 };
	struct save save = { .fd = fd, .give_away = true };
	return place_hold(path, &place, err) < 0 ? -1 : save_put(&save, &place, err);
}

static bool holds(const char *path, const char *text)
{
	char got[256] = "";
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(got, 1, sizeof got - 1, file) : 0;
	if (file)
		fclose(file);
	return file && len == strlen(text) && !strcmp(got, text);
}

static int entries(void)
{
	int count = 0;
	DIR *dir = opendir(".");
	while (dir && readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void data(void)
{
	struct err err = { 0 };
	struct stat before, after;
	CHECK(put("file", "one", true, &err) == 0 && holds("file", "one") && entries() == 1);
	CHECK(put("file", "two", true, &err) < 0 && err.code == EEXIST && holds("file", "one"));
	CHECK(chmod("file", 0750) == 0 && stat("file", &before) == 0);
	CHECK(put("file", "three", false, &err) == 0 && holds("file", "three") && entries() == 1);
	CHECK(stat("file", &after) == 0 && after.st_mode == before.st_mode);
	CHECK(after.st_ino != before.st_ino);
	CHECK(link("file", "other") == 0);
	CHECK(put("file", "4", false, &err) == 0 && holds("other", "4") && entries() == 2);
	CHECK(put("a/b/c", "deep", false, &err) == 0 && holds("a/b/c", "deep"));
	CHECK(unlink("a/b/c") == 0 && rmdir("a/b") == 0 && rmdir("a") == 0);
	CHECK(unlink("other") == 0 && unlink("file") == 0 && entries() == 0);
}

/* What a server left behind that was killed between two system calls goes with the next write. */
static void left_behind(void)
{
	struct err err = { 0 };
	CHECK(put("file", "one", false, &err) == 0);
	int fd = open(".aio-aad01178f02a6a23", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && close(fd) == 0 && entries() == 2);
	CHECK(put("file", "two", false, &err) == 0 && holds("file", "two"));
	if (!CHECK(entries() == 1))
		printf("# the name is not what this test takes it for\n");
	CHECK(unlink("file") == 0);
}

static void files(bool named)
{
	struct err err = { 0 };
	char name[] = "spool-XXXXXX";
	for (int round = 0; round < 2; round++) {
		int fd = named ? mkstemp(name) : open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
		if (fd < 0 && !named)
			return;
		CHECK(!named || unlink(name) == 0);
		CHECK(write(fd, "spooled", 7) == 7);
		CHECK(put_file("file", fd, &err) == 0 && holds("file", "spooled") &&
		      entries() == 1);
		close(fd);
		memcpy(name, "spool-XXXXXX", sizeof name);
	}
	CHECK(unlink("file") == 0);
}

/* From now on no file without a name can be made here. */
static bool forbid_tmpfile(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof code / sizeof *code, code };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void all(void)
{
	data();
	left_behind();
	files(true);
	files(false);
}

int main(void)
{
	if (!CHECK(mkdtemp(folder) && chdir(folder) == 0))
		return tap_done();
	all();
	if (forbid_tmpfile()) {
		CHECK(open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) < 0 && errno == EOPNOTSUPP);
		all();
	} else {
		printf("# NOT TESTED: no system call can be forbidden here\n");
	}
	CHECK(rmdir(folder) == 0);
	return tap_done();
}
