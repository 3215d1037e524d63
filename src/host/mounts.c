#include "host/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/own.h"
#include "box/bind.h"
#include "box/box.h"

/* The root that a path without links is below, or that it is: a copy. *ret_rest is the rest of the path,
 * in the path. */
static char *find_root(const char *roots, const char *path, const char **ret_rest)
{
	for (const char *at = roots; at && *at;) {
		size_t len = strcspn(at, ":");
		auto_free char *given = xstrndup(at, len);
		auto_free char *root = len ? realpath(given, NULL) : NULL;
		at += len + (at[len] == ':');
		size_t n = root ? strlen(root) : 0;
		n -= n == 1; /* of "/", which ends with its slash */
		if (!root || strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
			continue;
		*ret_rest = path + n + strspn(path + n, "/");
		return TAKE(root);
	}
	return NULL;
}

/* Looked at once more when it is mounted. */
static int check_owner(const json_t *mount, const char *real, struct err *err)
{
	struct stat st;
	if (stat(real, &st) < 0)
		return 0; /* which is said when it is mounted */
	return bind_check(&st, json_is_true(json_object_get(mount, "writable")), real, err);
}

int mounts_check(const char *roots, json_t *mount, struct err *err)
{
	const char *source = json_string_value(json_object_get(mount, "source")), *rest;
	auto_free char *real = realpath(source, NULL);
	if (!real)
		return err_set(err, ERR_INVALID, "mount '%s': %s", source, strerror(errno));
	auto_free char *root = find_root(roots, real, &rest);
	if (!root)
		return err_set(err, ERR_INVALID,
			       "mount '%s' is not below one of the host's --mount-roots", source);
	if (check_owner(mount, real, err) < 0)
		return -1;
	json_object_set_new(mount, "real", json_string(real));
	return 0;
}

int mounts_open(const char *roots, const char *option, const char *path, struct err *err)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	const char *rest;
	auto_free char *real = realpath(path, NULL);
	auto_free char *root = real ? find_root(roots, real, &rest) : NULL;
	if (!root) /* whether it is there is not told */
		return err_set(err, ERR_INVALID,
			       "'%s' is not there, or not below one of the host's %s", path,
			       option);
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, real, &how, sizeof how);
	return fd < 0 ? err_set(err, ERR_INVALID, "'%s': %s", path, strerror(errno)) : fd;
}

struct box_mount *mounts_of(const char *roots, const json_t *list, size_t *ret_count, json_t *left,
			    struct err *err)
{
	size_t count = 0;
	struct box_mount *mounts = xcalloc(json_array_size(list) + 1, sizeof *mounts);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *mount = json_array_get(list, i);
		const char *real = json_string_value(json_object_get(mount, "real"));
		struct box_mount *to = &mounts[count];
		struct err why;
		to->root = real ? find_root(roots, real, &to->source) : NULL;
		to->target = json_string_value(json_object_get(mount, "target"));
		to->writable = json_is_true(json_object_get(mount, "writable"));
		if (!to->root) {
			err_set(err, ERR_INVALID,
				"mount '%s' is not below one of the host's --mount-roots",
				real ? real : "");
			mounts_free(mounts, count);
			return NULL;
		}
		if (check_owner(mount, real, &why) == 0) {
			count++;
			continue;
		}
		json_array_append_new(left,
				      json_pack("{ss ss}", "target", to->target, "why", why.msg));
		free((char *)to->root);
	}
	*ret_count = count;
	return mounts;
}

void mounts_free(struct box_mount *mounts, size_t count)
{
	for (size_t i = 0; mounts && i < count; i++)
		free((char *)mounts[i].root);
	free(mounts);
}
