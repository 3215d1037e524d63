#include "host/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/ids.h"
#include "box/seccomp.h"

enum { FILES_MAX = 64 };

int confine_tree(const char *dir, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					       MOUNT_ATTR_NOEXEC };
	auto_close int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, dir,
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		return err_set(err, errno, "a tree of '%s'", dir);
	return TAKE_FD(tree);
}

pid_t confine_fork(struct err *err)
{
	return ids_fork(ids_of_templates(),
			CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
				CLONE_NEWCGROUP,
			err);
}

static void close_others(const int *kept, size_t count)
{
	for (int fd = STDERR_FILENO + 1; fd < FILES_MAX; fd++) {
		bool keep = false;
		for (size_t i = 0; i < count; i++)
			keep |= kept[i] == fd;
		if (!keep)
			close(fd);
	}
	(void)syscall(SYS_close_range, FILES_MAX, ~0u, 0);
}

static int set_limits(struct err *err)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_NOFILE, FILES_MAX },
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they take terabytes */
		{ RLIMIT_AS, 1 << 30 },
#endif
	};
	for (size_t i = 0; i < COUNT(limits); i++) {
		const struct rlimit limit = { limits[i].most, limits[i].most };
		if (setrlimit(limits[i].what, &limit) < 0)
			return err_set(err, errno, "limiting the process that unpacks");
	}
	return 0;
}

/* Everything but what giving files their owners, modes and capabilities needs, and confine_move(). */
static int drop_privileges(struct err *err)
{
	static const int kept[] = { CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,
				    CAP_FSETID, CAP_SETFCAP,      CAP_SYS_CHROOT };
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { 0 };
	for (size_t i = 0; i < COUNT(kept); i++)
		data[kept[i] / 32].effective |= 1u << kept[i] % 32;
	data[0].permitted = data[0].effective;
	data[1].permitted = data[1].effective;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, data) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) /* which a change of ids would undo */
		return err_set(err, errno, "dropping privileges");
	return 0;
}

int confine_enter(int tree, const int *kept, size_t count, struct err *err)
{
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    fchdir(tree) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_set(err, errno, "pivot_root");
	close_others(kept, count);
	if (set_limits(err) < 0 || drop_privileges(err) < 0 || seccomp_load(err) < 0)
		return -1;
	return seccomp_load_alone(err);
}

int confine_move(int tree, struct err *err)
{
	if (fchdir(tree) < 0 || chroot(".") < 0)
		return err_set(err, errno, "chroot");
	return 0;
}
