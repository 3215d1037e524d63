/* Trees that are changed at random while they are copied, and compared in the end. */
#include "box/live_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/files.h"
#include "tap.h"

enum { NAMES = 8, MAKES = 60, CHANGES = 25, ROUNDS = 150, TEXT_MAX = 1 << 20 };

static char top[] = "/var/tmp/aio-copy-XXXXXX";

/* ---- what a tree is ---- */

static void describe_content(struct buf *to, const char *path, const struct stat *st)
{
	char text[256], names[256];
	ssize_t n = S_ISLNK(st->st_mode) ? readlink(path, text, sizeof text) : -1;
	auto_close int fd = S_ISREG(st->st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0)
		n = pread(fd, text, sizeof text, 0);
	buf_printf(to, " %.*s", n < 0 ? 0 : (int)n, text);
	ssize_t len = llistxattr(path, names, sizeof names);
	for (char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
		n = lgetxattr(path, name, text, sizeof text);
		buf_printf(to, " %s=%.*s", name, n < 0 ? 0 : (int)n, text);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The first path of a file stands for it, so that names of the same file can be told from names of two. */
static void describe(struct buf *to, const char *root, const char *below, char **inodes)
{
	char *names[256];
	size_t count = 0;
	auto_free char *dir_path = xasprintf("%s%s", root, below);
	DIR *dir = opendir(dir_path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			names[count++] = xasprintf("%s/%s", below, entry->d_name);
	if (dir)
		closedir(dir);
	qsort(names, count, sizeof *names, by_name);
	for (size_t i = 0; i < count; i++) {
		struct stat st;
		auto_free char *path = xasprintf("%s%s", root, names[i]);
		CHECK(lstat(path, &st) == 0);
		auto_free char *inode =
			xasprintf("%llu %s", (unsigned long long)st.st_ino, names[i]);
		size_t n = strcspn(inode, " ") + 1, at = 0;
		while (inodes[at] && strncmp(inodes[at], inode, n) != 0)
			at++;
		if (!inodes[at])
			inodes[at] = xstrdup(inode);
		buf_printf(to, "%s is %s %o %lld", names[i], inodes[at] + n, st.st_mode,
			   S_ISLNK(st.st_mode) ? 0 : (long long)st.st_mtim.tv_nsec);
		describe_content(to, path, &st);
		buf_str(to, "\n");
		if (S_ISDIR(st.st_mode))
			describe(to, root, names[i], inodes);
		free(names[i]);
	}
}

static char *describe_tree(const char *root)
{
	char *inodes[4096] = { 0 };
	struct buf text = BUF(TEXT_MAX);
	buf_str(&text, "");
	describe(&text, root, "", inodes);
	for (size_t i = 0; inodes[i]; i++)
		free(inodes[i]);
	return text.data;
}

/* ---- what can happen to one ---- */

static unsigned seed;

static unsigned pick(unsigned count)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % count;
}

/* Any path, up to three deep. */
static char *any(void)
{
	static char paths[4][256];
	static unsigned turn;
	char *path = paths[turn++ % 4];
	snprintf(path, 256, "%s/from", top);
	for (unsigned depth = 1 + pick(3); depth; depth--)
		snprintf(path + strlen(path), 256 - strlen(path), "/%c", 'a' + pick(NAMES));
	return path;
}

/* As many bytes as before, and as of the same time. */
static void write_secretly(const char *path)
{
	struct stat st;
	auto_close int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	auto_free char *text = xasprintf("%08u", pick(1 << 24));
	(void)!pwrite(fd, text, 8, 0);
	(void)futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim });
}

static void make_file(const char *path)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	(void)!pwrite(fd, "12345678", 8, 0);
	/* All of one time, so that it tells nothing. */
	(void)futimens(fd, (struct timespec[]){ { .tv_sec = 7 }, { .tv_sec = 7 } });
}

static void change(void)
{
	const char *a = any(), *b = any();
	switch (pick(16)) {
	case 0:
	case 1:
		make_file(a);
		break;
	case 2:
	case 3:
		(void)mkdir(a, 0755);
		break;
	case 4:
		(void)rename(a, b);
		break;
	case 5:
	case 6:
		(void)renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
		break;
	case 7:
		(void)remove(a);
		break;
	case 8:
		(void)!link(a, b);
		break;
	case 9:
		(void)!symlink(b, a);
		break;
	case 10:
		(void)chmod(a, pick(2) ? 0755 : 0700);
		break;
	case 11:
		(void)setxattr(a, "user.a", pick(2) ? "y" : "n", 1, 0);
		break;
	case 12:
		(void)removexattr(a, "user.a");
		break;
	case 13:
		(void)!truncate(a, 1 << pick(20));
		break;
	case 14:
		(void)mknod(a, pick(2) ? S_IFIFO | 0600 : S_IFCHR,
			    0); /* or the mark of an overlay */
		break;
	default:
		write_secretly(a);
	}
}

/* What happened before is certainly of an earlier tick of the clock than what happens next. */
static void wait_tick(void)
{
	struct timespec before, now;
	clock_gettime(CLOCK_REALTIME_COARSE, &before);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_nsec == before.tv_nsec);
}

/* Users that change things after the moment from which on changes are looked for, and again just before they are
 * stopped for the last time. */
static int stop(const void *arg, bool stopped, struct err *err)
{
	int *calls = *(int *const *)arg;
	(void)stopped, (void)err;
	if (++*calls == 2 || *calls == 3)
		for (int i = 0; i < CHANGES; i++)
			change();
	return 0;
}

static void test_round(unsigned round)
{
	struct err err = { 0 };
	auto_free char *from = xasprintf("%s/from", top), *to = xasprintf("%s/to", top);
	CHECK(mkdir(from, 0755) == 0 && mkdir(to, 0755) == 0);
	seed = round;
	for (int i = 0; i < MAKES; i++)
		change();
	wait_tick();
	int calls = 0, *counted = &calls;
	const struct live_copy_users users = { stop, &counted };
	struct files_copy *copy = files_copy_new(from, to, &err);
	CHECK(copy && live_copy(&copy, 1, &users, &err) == 0 && calls == 4);
	files_copy_free(copy);
	auto_free char *want = describe_tree(from), *got = describe_tree(to);
	if (!CHECK_STR(got, want))
		printf("# round %u: %s\n", round, err.msg);
	CHECK(files_remove(from, &err) == 0 && files_remove(to, &err) == 0);
}

/* ---- names of one file ---- */

enum { PAIRS = 30 };

/* Moves one of the two directories: its file gets no new time, and its other name is elsewhere. */
static int move_half(const void *arg, bool stopped, struct err *err)
{
	int *calls = *(int *const *)arg;
	(void)stopped, (void)err;
	++*calls;
	for (int i = 0; *calls == 3 && i < PAIRS; i++) {
		auto_free char *old = xasprintf("%s/from/moves%d", top, i),
			       *new = xasprintf("%s/from/moved%d", top, i);
		CHECK(rename(old, new) == 0);
	}
	return 0;
}

static void make_pair(int i)
{
	auto_free char *stays = xasprintf("%s/from/stays%d", top, i),
		       *moves = xasprintf("%s/from/moves%d", top, i),
		       *one = xasprintf("%s/one", stays), *two = xasprintf("%s/two", moves);
	CHECK(mkdir(stays, 0755) == 0 && mkdir(moves, 0755) == 0);
	make_file(one);
	CHECK(link(one, two) == 0);
}

static void test_links(void)
{
	struct err err = { 0 };
	auto_free char *from = xasprintf("%s/from", top), *to = xasprintf("%s/to", top);
	CHECK(mkdir(from, 0755) == 0 && mkdir(to, 0755) == 0);
	for (int i = 0; i < PAIRS; i++)
		make_pair(i);
	wait_tick();
	int calls = 0, *counted = &calls;
	const struct live_copy_users users = { move_half, &counted };
	struct files_copy *copy = files_copy_new(from, to, &err);
	CHECK(copy && live_copy(&copy, 1, &users, &err) == 0);
	files_copy_free(copy);
	auto_free char *want = describe_tree(from), *got = describe_tree(to);
	CHECK_STR(got, want);
	CHECK(files_remove(from, &err) == 0 && files_remove(to, &err) == 0);
}

/* ---- through memory ---- */

static int write_mapped(const void *arg, bool stopped, struct err *err)
{
	char *page = *(char *const *)arg;
	(void)err;
	page[0] += stopped; /* the second time after the file was copied */
	return 0;
}

/* A page that can be written without a call: nothing that the kernel does not see must be missed. */
static void test_mapped(void)
{
	char text[2] = "";
	struct err err = { 0 };
	auto_free char *from = xasprintf("%s/from", top), *to = xasprintf("%s/to", top),
		       *file = xasprintf("%s/from/f", top), *made = xasprintf("%s/to/f", top);
	CHECK(mkdir(from, 0755) == 0 && mkdir(to, 0755) == 0);
	auto_close int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	CHECK(ftruncate(fd, 4096) == 0);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	page[0] = 'a';
	wait_tick();
	const struct live_copy_users users = { write_mapped, &page };
	struct files_copy *copy = files_copy_new(from, to, &err);
	CHECK(copy && live_copy(&copy, 1, &users, &err) == 0);
	files_copy_free(copy);
	auto_close int result = open(made, O_RDONLY | O_CLOEXEC);
	CHECK(pread(result, text, 1, 0) == 1);
	CHECK_STR(text, "c");
	munmap(page, 4096);
	CHECK(files_remove(from, &err) == 0 && files_remove(to, &err) == 0);
}

int main(void)
{
	CHECK(mkdtemp(top));
	for (unsigned round = 0; round < ROUNDS; round++)
		test_round(round);
	test_links();
	test_mapped();
	CHECK(rmdir(top) == 0);
	return tap_done();
}
