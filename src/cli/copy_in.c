#include "cli/copy_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/copy_notes.h"
#include "cli/tar.h"

enum { PIECE = 1 << 16, NAME_MAX_LEN = 4000, DIRS_MAX = 1000000, TEMP_LEN = 32 };

/* ---- names ---- */

bool copy_in_stays(const char *link, int depth)
{
	if (*link == '/' || !*link)
		return false;
	while (!strncmp(link, "../", 3) || !strcmp(link, "..")) {
		if (depth-- == 0)
			return false;
		link += link[2] ? 3 : 2;
		while (*link == '/')
			link++;
	}
	for (const char *at = link; (at = strstr(at, "..")); at += 2)
		if ((at == link || at[-1] == '/') && (!at[2] || at[2] == '/'))
			return false;
	return true;
}

char *copy_in_name(char *name, int *ret_depth)
{
	while (!strncmp(name, "./", 2))
		for (name++; *name == '/';)
			name++;
	if (!strcmp(name, "."))
		name++;
	size_t len = strlen(name);
	if (*name == '/' || len > NAME_MAX_LEN)
		return NULL;
	while (len && name[len - 1] == '/')
		name[--len] = 0;
	*ret_depth = 0;
	for (const char *at = name; *at;) {
		size_t n = strcspn(at, "/");
		bool dots = n <= 2 && !strncmp(at, "..", n);
		if (!n || dots)
			return NULL;
		*ret_depth += at[n] == '/';
		at += n + (at[n] == '/');
	}
	return name;
}

/* ---- one file ---- */

static void temporary_name(char to[TEMP_LEN])
{
	unsigned long long random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		abort();
	snprintf(to, TEMP_LEN, ".aio-cp-%016llx", random);
}

static bool is_zero(const char *data, size_t len)
{
	return len && !*data && !memcmp(data, data + 1, len - 1);
}

static int write_at(int fd, const char *data, size_t len, off_t at, struct err *err)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(fd, data + done, len - done, at + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "writing");
		done += (size_t)n;
	}
	return 0;
}

/* Blocks of zeros become holes. */
static int write_content(struct tar_in *in, int fd, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	off_t at = 0;
	ssize_t n;
	while ((n = tar_read(in, piece, PIECE, err)) > 0) {
		if (!is_zero(piece, (size_t)n) && write_at(fd, piece, (size_t)n, at, err) < 0)
			return -1;
		at += n;
	}
	if (n == 0 && ftruncate(fd, at) < 0)
		return err_set(err, errno, "writing");
	return (int)n;
}

static mode_t our_umask(void)
{
	mode_t mask = umask(0);
	umask(mask);
	return mask;
}

static int finish_file(int fd, const struct tar_entry *entry, struct err *err)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = entry->mtime } };
	if (fchmod(fd, entry->mode & 0777 & ~our_umask()) < 0)
		return err_set(err, errno, "its mode");
	(void)futimens(fd, times);
	return 0;
}

/* *ret_broken: the stream is, not only this file. */
static int put_file(struct tar_in *in, const struct tar_entry *entry, int dir, const char *name,
		    bool *ret_broken, struct err *err)
{
	char temp[TEMP_LEN];
	temporary_name(temp);
	auto_close int fd =
		openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	*ret_broken = false;
	if (fd < 0)
		return err_set(err, errno, "making a file");
	int result = write_content(in, fd, err);
	*ret_broken = result < 0 &&
		      (err->code == ERR_BAD_REQUEST || err->code == ENOSPC || err->code == EDQUOT);
	if (result == 0)
		result = finish_file(fd, entry, err);
	if (result == 0 && renameat(dir, temp, dir, name) < 0)
		result = err_set(err, errno, "giving it its name");
	if (result < 0)
		(void)unlinkat(dir, temp, 0);
	return result;
}

int copy_in_file(struct tar_in *in, const char *target, struct err *err)
{
	auto_free struct tar_entry *entry = xcalloc(1, sizeof *entry);
	const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
	auto_free char *folder = slash ? xstrndup(target, (size_t)(slash + 1 - target))
				       : xstrdup(".");
	bool broken;
	int got = tar_next(in, entry, err);
	if (got < 0)
		return -1;
	if (got == 0 || entry->type != TAR_FILE)
		return err_set(err, ERR_BAD_REQUEST, "the sandbox did not send a file");
	auto_close int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(err, errno, "'%s'", folder);
	return put_file(in, entry, dir, name, &broken, err);
}

/* ---- a tree ---- */

struct copy_in_dir {
	char *name;
	unsigned mode;
	int64_t mtime;
};

struct copy_in {
	struct tar_in *in;
	struct tar_entry *entry;
	struct copy_notes *notes;
	int root, parent; /* of the latest entry */
	char *parent_name;
	struct copy_in_dir *dirs; /* their modes and times come last */
	size_t count, room;
	bool contents, broken;
};

static int open_inside(int root, const char *name)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, root, *name ? name : ".", &how, sizeof how);
}

/* The directory that an entry stands in, kept for the next one; *ret_base is its own name. */
static int enter_parent(struct copy_in *c, const char *name, const char **ret_base, struct err *err)
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : 0;
	*ret_base = slash ? slash + 1 : name;
	if (c->parent_name && strlen(c->parent_name) == len && !memcmp(c->parent_name, name, len))
		return 0;
	own_close(&c->parent);
	free(c->parent_name);
	c->parent_name = xstrndup(name, len);
	c->parent = open_inside(c->root, c->parent_name);
	if (c->parent >= 0)
		return 0;
	int code = errno;
	free(TAKE(c->parent_name));
	return err_set(err, code, "its directory");
}

static int add_dir(struct copy_in *c, const char *name, struct err *err)
{
	if (c->count == DIRS_MAX) {
		c->broken = true;
		return err_set(err, ERR_LIMIT, "more than %d directories", DIRS_MAX);
	}
	if (c->count == c->room) {
		c->room = c->room * 2 + 64;
		c->dirs = xrealloc(c->dirs, c->room * sizeof *c->dirs);
	}
	c->dirs[c->count++] =
		(struct copy_in_dir){ xstrdup(name), c->entry->mode, c->entry->mtime };
	return 0;
}

static int put_dir(struct copy_in *c, const char *name, const char *base, struct err *err)
{
	struct stat st;
	if (mkdirat(c->parent, base, 0700) < 0 &&
	    (errno != EEXIST || fstatat(c->parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0))
		return err_set(err, errno, "making a directory");
	else if (fstatat(c->parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, EEXIST, "it is not a directory here");
	return add_dir(c, name, err);
}

/* What is there already, and no directory, makes room. */
static int put_symlink(const struct copy_in *c, const char *base, int depth, struct err *err)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  { .tv_sec = c->entry->mtime } };
	char temp[TEMP_LEN];
	if (!copy_in_stays(c->entry->link, depth))
		return err_set(err, ERR_INVALID,
			       "a symbolic link that leads out of the directory is not copied");
	temporary_name(temp);
	if (symlinkat(c->entry->link, c->parent, temp) < 0)
		return err_set(err, errno, "making a symbolic link");
	(void)utimensat(c->parent, temp, times, AT_SYMLINK_NOFOLLOW);
	if (renameat(c->parent, temp, c->parent, base) == 0)
		return 0;
	int code = errno;
	(void)unlinkat(c->parent, temp, 0);
	return err_set(err, code, "making a symbolic link");
}

/* Another name of a file that is there. */
static int put_link(const struct copy_in *c, const char *base, struct err *err)
{
	char temp[TEMP_LEN];
	struct stat st;
	int depth;
	char *name = copy_in_name(c->entry->link, &depth);
	if (!name || !*name)
		return err_set(err, ERR_INVALID, "a link to a bad name");
	char *slash = strrchr(name, '/');
	if (slash)
		*slash = 0;
	auto_close int dir = open_inside(c->root, slash ? name : "");
	const char *of = slash ? slash + 1 : name;
	temporary_name(temp);
	if (dir < 0 || fstatat(dir, of, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "a link to what is not a file here");
	if (linkat(dir, of, c->parent, temp, 0) < 0)
		return err_set(err, errno, "making a link");
	int result = renameat(c->parent, temp, c->parent, base), code = errno;
	(void)unlinkat(c->parent, temp, 0); /* it stays where both are the same file */
	return result < 0 ? err_set(err, code, "making a link") : 0;
}

static int put_entry(struct copy_in *c, const char *name, int depth, struct err *err)
{
	const char *base;
	if (!*name)
		return c->entry->type != TAR_DIR || c->contents ? 0 : add_dir(c, name, err);
	if (enter_parent(c, name, &base, err) < 0)
		return -1;
	switch (c->entry->type) {
	case TAR_DIR:
		return put_dir(c, name, base, err);
	case TAR_FILE:
		return put_file(c->in, c->entry, c->parent, base, &c->broken, err);
	case TAR_SYMLINK:
		return put_symlink(c, base, depth, err);
	case TAR_LINK:
		return put_link(c, base, err);
	case TAR_OTHER:
		break;
	}
	return err_set(err, ERR_INVALID, "neither a file nor a directory: not copied");
}

static int put_next(struct copy_in *c, struct err *err)
{
	int depth = 0, got = tar_next(c->in, c->entry, err);
	if (got <= 0)
		return got;
	char *name = copy_in_name(c->entry->name, &depth);
	struct err why = { 0 };
	if (!name)
		copy_note(c->notes, c->entry->name, "a name that leads elsewhere is not copied");
	else if (put_entry(c, name, depth, &why) < 0 && !c->broken)
		copy_note(c->notes, *name ? name : ".", why.msg);
	if (c->broken)
		*err = why;
	return c->broken ? -1 : 1;
}

/* The deepest first: one that may not be entered keeps no other from it. */
static void finish_dirs(struct copy_in *c)
{
	mode_t mask = our_umask();
	for (size_t i = c->count; i-- > 0;) {
		const struct copy_in_dir *d = &c->dirs[i];
		const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
						  { .tv_sec = d->mtime } };
		auto_close int path = open_inside(c->root, d->name);
		auto_close int fd =
			path < 0 ? -1 : openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || fchmod(fd, d->mode & 0777 & ~mask) < 0)
			copy_note(c->notes, d->name, "its mode cannot be set");
		if (fd >= 0)
			(void)futimens(fd, times);
	}
}

int copy_in_tree(struct tar_in *in, const char *target, bool contents, struct copy_notes *notes,
		 struct err *err)
{
	struct copy_in c = {
		.in = in,
		.notes = notes,
		.parent = -1,
		.contents = contents,
	};
	int got;
	if (mkdir(target, 0777) < 0 && errno != EEXIST)
		return err_set(err, errno, "making '%s'", target);
	auto_close int root = c.root = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_set(err, errno, "'%s'", target);
	c.entry = xcalloc(1, sizeof *c.entry);
	while ((got = put_next(&c, err)) > 0)
		;
	finish_dirs(&c);
	own_close(&c.parent);
	for (size_t i = 0; i < c.count; i++)
		free(c.dirs[i].name);
	free(c.dirs);
	free(c.entry);
	free(c.parent_name);
	return got;
}
