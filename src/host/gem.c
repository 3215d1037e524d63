#include "host/gem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/ground.h"

enum { GEM = 1000, TEXT_MAX = 1 << 20 };

/* The tables of users. A name service gives the first line with a number: who else has 1000 keeps it
 * and his name, but what belongs to 1000 is shown as gem's. */
static const struct gem_table {
	const char *path, *line;
	mode_t mode;
	bool needed; /* else only where there is one */
} tables[] = {
	{ "/etc/passwd", "gem:x:1000:1000:gem:/home/gem:/bin/bash\n", 0644, true },
	{ "/etc/group", "gem:x:1000:\n", 0644, true },
	{ "/etc/shadow", "gem:*:19000:0:99999:7:::\n", 0600, false },
	{ "/etc/gshadow", "gem:*::\n", 0600, false },
};

static int read_text(int fd, struct buf *text)
{
	char piece[4096];
	ssize_t n;
	while ((n = read(fd, piece, sizeof piece)) > 0 && !text->full)
		buf_add(text, piece, (size_t)n);
	return n < 0 || text->full ? -1 : 0;
}

static bool has_gem(const struct buf *text)
{
	const char *end = text->data + text->len;
	for (const char *at = text->data; at && at < end;) {
		if (end - at > 4 && !memcmp(at, "gem:", 4))
			return true;
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	return false;
}

static int write_text(const char *path, mode_t mode, const struct buf *text, struct err *err)
{
	auto_free char *making = xasprintf("%s.aio", path);
	(void)unlink(making);
	auto_close int fd = open(making, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len ||
	    fchmod(fd, mode) < 0 || rename(making, path) < 0)
		return err_set(err, errno ? errno : ENOSPC, "writing the template's '%s'", path);
	return 0;
}

static int add_line(const struct gem_table *table, struct err *err)
{
	auto_buf struct buf old = BUF(TEXT_MAX), text = BUF(TEXT_MAX + 256);
	auto_close int fd = open(table->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st = { .st_mode = table->mode };
	if (fd < 0 && (errno != ENOENT || !table->needed))
		return errno == ENOENT ? 0
				       : err_set(err, ERR_INVALID, "'%s': %s", table->path,
						 strerror(errno));
	if (fd < 0 && !strcmp(table->path, tables[0].path))
		buf_str(&old, "root:x:0:0:root:/root:/bin/sh\n");
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read_text(fd, &old) < 0))
		return err_set(err, ERR_INVALID, "'%s' is not a table of users", table->path);
	if (has_gem(&old))
		return 0;
	buf_str(&text, table->line);
	buf_add(&text, old.data, old.len);
	return write_text(table->path, st.st_mode & 07777, &text, err);
}

static int make_dir(const char *path, mode_t mode, uid_t owner, struct err *err)
{
	if (mkdir(path, mode) == 0 && chown(path, owner, owner) == 0)
		return 0;
	if (errno == EEXIST)
		return 0;
	return err_set(err, ERR_INVALID, "'%s': %s", path, strerror(errno));
}

/* Where each box mounts something: what is missing is made here, and not in every box. */
static void make_points(void)
{
	static const char *const points[] = { "/dev", "/proc",    "/sys",
					      "/usr", "/usr/lib", GROUND_HOME };
	for (size_t i = 0; i < COUNT(points); i++)
		(void)mkdir(points[i], 0755);
}

int gem_add(struct err *err)
{
	auto_buf struct buf rule = BUF(256);
	if (make_dir("/etc", 0755, 0, err) < 0 || make_dir("/home", 0755, 0, err) < 0 ||
	    make_dir("/home/gem", 0755, GEM, err) < 0 || make_dir("/tmp", 01777, 0, err) < 0)
		return -1;
	make_points();
	for (size_t i = 0; i < COUNT(tables); i++)
		if (add_line(&tables[i], err) < 0)
			return -1;
	if (access("/etc/sudoers.d", F_OK) < 0)
		return 0;
	buf_str(&rule, GROUND_SUDOERS);
	return write_text("/etc/sudoers.d/gem", 0440, &rule, err);
}
