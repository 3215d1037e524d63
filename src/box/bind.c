#include "box/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"
#include "box/ids.h"

int bind_check(const struct stat *st, bool writable, const char *path, struct err *err)
{
	if (!writable || (st->st_uid && st->st_gid))
		return 0;
	return err_set(
		err, ERR_INVALID,
		"mount '%.100s' cannot be writable, as it belongs to %s: chown it to the user "
		"and group that what boxes make there is to belong to",
		path, st->st_uid ? "the group root" : "root");
}

/* A tree of what is below a root, whatever others do to it meanwhile: the path is walked once, from the
 * root on, over no link, and what is found is what is mounted. */
static int open_below(const struct box_mount *mount, struct err *err)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						 RESOLVE_NO_MAGICLINKS };
	auto_close int root = open(mount->root, O_PATH | O_CLOEXEC);
	auto_close int source =
		root < 0 || !*mount->source
			? fcntl(root, F_DUPFD_CLOEXEC, 0)
			: (int)syscall(SYS_openat2, root, mount->source, &how, sizeof how);
	int tree = source < 0 ? -1
			      : (int)syscall(SYS_open_tree, source, "",
					     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	bool changed = errno == ENOENT || errno == ELOOP || errno == EXDEV || errno == ENOTDIR;
	return tree < 0 ? err_set(err, changed ? ERR_INVALID : errno,
				  "mount '%s/%s' is not there, or leads elsewhere", mount->root,
				  mount->source)
			: tree;
}

static bool leads_back(const char *path)
{
	for (const char *at = path; (at = strstr(at, "/..")); at += 3)
		if (at[3] == '/' || !at[3])
			return true;
	return false;
}

int bind_open(const struct box_mount *mount, uint32_t uid_base, struct err *err)
{
	uint64_t flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	struct stat st;
	if (*mount->target != '/' || leads_back(mount->target) || !mount->target[1])
		return err_set(err, ERR_INVALID, "'%s' is not a place to mount at", mount->target);
	auto_close int tree = open_below(mount, err);
	if (tree < 0)
		return -1;
	if (fstatat(tree, "", &st, AT_EMPTY_PATH) < 0)
		return err_set(err, errno, "'%s'", mount->root);
	if (bind_check(&st, mount->writable, *mount->source ? mount->source : mount->root, err) < 0)
		return -1;
	auto_close int ids = ids_open_shared(uid_base, st.st_uid, st.st_gid, err);
	flags |= mount->writable ? 0 : MOUNT_ATTR_RDONLY;
	if (ids < 0 || ids_show(tree, ids, flags, mount->root, err) < 0)
		return -1;
	return TAKE_FD(tree);
}
