#include "node/node_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "proc/child.h"
#include "proc/stage.h"
#include "proc/user.h"

enum { REMOVE_MS = 30000 };

int node_files_dir(const struct user *user, char *to, size_t room, struct err *err)
{
	*to = 0;
	return stage_make_dir(user, "node", to, room, err);
}

static int check_path(const char *path, struct err *err)
{
	if (!*path || *path == '/' || path[strlen(path) - 1] == '/')
		return err_set(err, ERR_BAD_REQUEST, "files: '%.200s' is not a relative path",
			       path);
	for (const char *at = path; *at; at += *at == '/') {
		size_t len = strcspn(at, "/");
		if (len == 2 && !strncmp(at, "..", 2))
			return err_set(err, ERR_BAD_REQUEST,
				       "files: '%.200s' leads out of the directory", path);
		at += len;
	}
	return 0;
}

static int write_file(const char *dir, const struct pair *file, struct err *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, file->name);
	for (char *at = path + strlen(dir) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		int made = mkdir(path, 0777);
		*at = '/';
		if (made < 0 && errno != EEXIST)
			return err_set(err, errno, "files: '%.200s'", file->name);
	}
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
	if (fd < 0)
		return err_set(err, errno, "files: '%.200s'", file->name);
	for (size_t done = 0, len = strlen(file->value); done < len;) {
		ssize_t n = write(fd, file->value + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? errno : EIO, "files: '%.200s'", file->name);
		done += (size_t)n;
	}
	return 0;
}

int node_files_write(const struct user *user, const char *dir, const struct list *files,
		     struct err *err)
{
	const struct pair *pairs = files->items;
	struct user_view view;
	int result = 0;
	for (size_t i = 0; i < files->count; i++)
		if (check_path(pairs[i].name, err) < 0)
			return -1;
	if (!files->count)
		return 0;
	if (user_enter(user, &view, err) < 0)
		return -1;
	for (size_t i = 0; i < files->count && result == 0; i++)
		result = write_file(dir, &pairs[i], err);
	user_leave(&view);
	return result;
}

void node_files_forget(const struct user *user, const char *dir, pid_t pid)
{
	struct user_view view;
	auto_free char *path = xasprintf("%s/.aio-%d.mjs", dir, (int)pid);
	if (user_enter(user, &view, NULL) < 0)
		return;
	(void)unlink(path);
	user_leave(&view);
}

/* Most are empty. For the others there is a program that is up to whatever was made in them. */
void node_files_remove(const struct user *user, const char *dir)
{
	if (rmdir(dir) == 0 || errno == ENOENT)
		return;
	char *argv[] = { (char *)"/bin/rm", (char *)"-rf", (char *)"--", (char *)dir, NULL };
	auto_buf struct buf out = BUF(4096);
	struct program_status end = { 0 };
	struct err err;
	struct child_spec spec = {
		.argv = argv, .dir = "/", .user = user, .wait = { clock_ms() + REMOVE_MS, -1, -1 }
	};
	/* The user may empty it; only the server may remove it from its parent. */
	if (child_run(&spec, &out, &end, &err) < 0 || (rmdir(dir) < 0 && errno != ENOENT))
		log_warn("'%s' could not be removed", dir);
}
