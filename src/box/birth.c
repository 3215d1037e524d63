#include "box/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/bind.h"
#include "box/box.h"
#include "box/disk.h"
#include "box/ground.h"
#include "box/group.h"
#include "box/identity.h"
#include "box/ids.h"
#include "box/inside.h"
#include "box/reserve.h"
#include "box/template.h"

static int map_tree(const char *path, int user_ns, uint64_t flags, struct err *err)
{
	auto_close int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(err, errno, "'%s'", path);
	return ids_show(tree, user_ns, flags, path, err) < 0 ? -1 : TAKE_FD(tree);
}

static int copy_tree(int tree, struct err *err)
{
	int copy = (int)syscall(SYS_open_tree, tree, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	return copy < 0 ? err_set(err, errno, "a copy of a tree") : copy;
}

static int write_new(int dir, const char *path, const char *text, struct err *err)
{
	auto_close int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_set(err, errno, "'%s'", path);
	return 0;
}

/* The directories that a box writes to, and the files that name it. */
static int fill_writable(int tree, const struct box_spec *spec, size_t places, struct err *err)
{
	static const char *const names[] = { "upper", "work" };
	char path[64], text[256];
	for (size_t i = 0; i < places; i++)
		for (size_t n = 0; n < COUNT(names); n++) {
			snprintf(path, sizeof path, "%s%zu", names[n], i);
			if (mkdirat(tree, path, 0755) == 0 || (errno == EEXIST && (i || n)))
				continue;
			/* The first is the sign that all was made before. */
			return errno == EEXIST ? 0 : err_set(err, errno, "'%s'", path);
		}
	if (mkdirat(tree, "upper0/etc", 0755) < 0)
		return err_set(err, errno, "its /etc");
	snprintf(text, sizeof text, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", spec->id);
	if (write_new(tree, "upper0/etc/hosts", text, err) < 0)
		return -1;
	/* The way out answers there, see egress/names.h; without one, the box's server at 127.0.0.1, where
	 * libc asks when no other is named (net/offline.h). */
	const char *servers = spec->network == BOX_NETWORK_NONE ? "" : "nameserver 198.18.0.1\n";
	if (write_new(tree, "upper0/etc/resolv.conf", servers, err) < 0)
		return -1;
	snprintf(text, sizeof text, "%s\n", spec->id);
	return write_new(tree, "upper0/etc/hostname", text, err);
}

static int make_writable(int tree, const struct box_spec *spec, size_t places, struct err *err)
{
	uint32_t owner = ids_on_disk(spec->uid_base);
	if (owner && fchownat(tree, "", owner, owner, AT_EMPTY_PATH) < 0)
		return err_set(err, errno, "the ids of '%s'", spec->dir);
	setfsgid(owner);
	setfsuid(owner);
	int result = fill_writable(tree, spec, places, err);
	setfsuid(0);
	setfsgid(0);
	return result;
}

/* Which template a box is of: said when it is first started, and kept. Nothing is kept for one of the
 * machine's own directories, which is of today's. */
static char *find_template(const struct box_spec *spec, const struct ground *ground,
			   const char *state, struct err *err)
{
	auto_free char *note = xasprintf("%s/template", spec->dir), *path = NULL;
	char text[4096];
	auto_close int known = open(note, O_RDONLY | O_CLOEXEC);
	ssize_t n = known < 0 ? 0 : read(known, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	if (*text)
		return xstrdup(text);
	if (!spec->template)
		return template_machine(state, ground->python, &path, err) < 0 ? NULL : TAKE(path);
	auto_close int fd = open(note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, spec->template, strlen(spec->template)) < 0) {
		err_set(err, errno, "'%s'", note);
		return NULL;
	}
	return xstrdup(spec->template);
}

static int open_empty(const char *path, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd < 0 ? err_set(err, errno, "'%s'", path) : fd;
}

/* What the box's files lie over just now, for a snapshot. */
static int note_base(const char *dir, const char *template, struct err *err)
{
	auto_free char *path = xasprintf("%s/" BIRTH_BASE, dir);
	auto_close int fd = open_empty(path, err);
	if (fd >= 0 && write(fd, template, strlen(template)) < 0)
		return err_set(err, errno, "'%s'", path);
	return fd < 0 ? -1 : 0;
}

/* The file that init writes how the box ended to. Nothing else may be read from it. */
static int open_exit(const char *dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/" BIRTH_EXIT, dir);
	return open_empty(path, err);
}

static int gather_mounts(const struct box_spec *spec, struct inside *inside, struct err *err)
{
	if (spec->mount_count > COUNT(inside->mounts))
		return err_set(err, ERR_INVALID, "more than %zu mounts", COUNT(inside->mounts));
	for (size_t i = 0; i < spec->mount_count; i++)
		if ((inside->mounts[i] = bind_open(&spec->mounts[i], spec->uid_base, err)) < 0)
			return -1;
	return 0;
}

/* Opens all that the box is made of. What is opened is closed with this process. */
static int gather(const struct box_spec *spec, const struct ground *ground,
		  const struct template *template, pid_t pid, struct inside *inside,
		  struct err *err)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	auto_close int user_ns = open(path, O_RDONLY | O_CLOEXEC);
	if (user_ns < 0)
		return err_set(err, errno, "'%s'", path);
	for (size_t i = 0; i < template->count; i++) {
		const struct template_place *place = &template->places[i];
		memcpy(inside->places[i].at, place->at, sizeof place->at);
		inside->places[i].count = (int)place->count;
		for (size_t n = 0; n < place->count; n++)
			if ((inside->places[i].layers[n] = map_tree(place->layers[n], user_ns,
								    MOUNT_ATTR_RDONLY, err)) < 0)
				return -1;
	}
	inside->place_count = (int)template->count;
	if (ids_show(inside->writable, user_ns, MOUNT_ATTR_NODEV, spec->dir, err) < 0)
		return -1;
	inside->dev = copy_tree(ground->dev, err);
	inside->product = inside->dev < 0 ? -1 : copy_tree(ground->product, err);
	if (inside->product < 0)
		return -1;
	return gather_mounts(spec, inside, err);
}

static void close_all(struct inside *inside, size_t mounts)
{
	for (int i = 0; i < TEMPLATE_PLACES; i++)
		for (int n = 0; n < inside->places[i].count; n++)
			own_close(&inside->places[i].layers[n]);
	own_close(&inside->dev);
	own_close(&inside->product);
	for (size_t i = 0; i < mounts; i++)
		own_close(&inside->mounts[i]);
}

/* The first process of the box waits; this gives it what it needs, and hears how it went. */
static int equip(const struct box_spec *spec, const struct ground *ground,
		 const struct template *template, struct inside *inside, pid_t pid, int talk,
		 int theirs, struct err *err)
{
	struct err said;
	int result = ids_write_maps(pid, spec->uid_base, err);
	if (result == 0)
		result = gather(spec, ground, template, pid, inside, err);
	if (result == 0 && send(talk, inside, sizeof *inside, MSG_NOSIGNAL) != sizeof *inside)
		result = err_set(err, errno, "the box's first process is gone");
	/* It then has descriptors of its own, and what we have of them is no longer needed. */
	if (result == 0 && recv(talk, &said, 1, 0) != 1)
		result = err_set(err, EIO, "the box's first process is gone");
	close_all(inside, spec->mount_count);
	close(theirs);
	if (result < 0)
		return -1;
	ssize_t n = recv(talk, &said, sizeof said, MSG_WAITALL);
	if (n == 0)
		return 0;
	said.msg[sizeof said.msg - 1] = 0;
	if (n == sizeof said && err)
		*err = said;
	return n == sizeof said ? -1 : err_set(err, EIO, "the box's first process");
}

/* What a box has of namespaces, inotify and the like, the kernel counts for whoever made its user namespace
 * too: for its own root, or what one box has would be missed by root of the machine and by all others. All
 * capabilities are kept meanwhile. */
static pid_t clone_as(uint32_t owner, struct clone_args *args)
{
	int bits = prctl(PR_GET_SECUREBITS);
	if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0)
		return -1;
	pid_t pid = -1;
	if (syscall(SYS_setresuid, -1, owner, -1) == 0)
		pid = (pid_t)syscall(SYS_clone3, args, sizeof *args);
	if (pid == 0)
		return 0;
	int code = errno;
	if (syscall(SYS_setresuid, -1, 0, -1) < 0 || prctl(PR_SET_SECUREBITS, bits) < 0)
		_exit(1);                /* others are started in its place */
	(void)prctl(PR_SET_DUMPABLE, 1); /* as it was */
	errno = code;
	return pid;
}

static int conceive(const struct box_spec *spec, const struct ground *ground,
		    const struct template *template, struct inside *inside, inside_serve *serve,
		    struct box_proc *ret, struct err *err)
{
	int talk[2];
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_FILES | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)inside->group.birth,
	};
	auto_close int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (self < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0)
		return err_set(err, errno, self < 0 ? "pidfd_open" : "socketpair");
	pid_t pid = clone_as(spec->uid_base, &args);
	if (pid == 0)
		inside_run(spec, serve, talk, self);
	int result = pid < 0 ? err_set(err, errno, "the namespaces of a box") : 0;
	if (pid < 0)
		close(talk[1]);
	if (result == 0)
		result = equip(spec, ground, template, inside, pid, talk[0], talk[1], err);
	if (result == 0)
		result = identity_read(pid, ret, err);
	close(talk[0]);
	return result;
}

int birth_give(const struct box_spec *spec, const char *state, inside_serve *serve,
	       struct box_proc *ret, struct err *err)
{
	struct template template = { 0 };
	struct inside inside;
	memset(&inside, -1, sizeof inside);
	inside.place_count = 0;
	const struct ground *ground = ground_get(state, err);
	auto_free char *original = ground ? find_template(spec, ground, state, err) : NULL;
	auto_free char *path = original ? template_of(original, ids_on_disk(spec->uid_base), err)
					: NULL;
	auto_close int hold = path ? template_hold(path, err) : -1;
	auto_close int hides = -1;
	auto_close int status =
		path && note_base(spec->dir, path, err) == 0 ? open_exit(spec->dir, err) : -1;
	if (status < 0 || template_read(path, &template, err) < 0)
		return -1;
	if (template_hide(&template, state, ground->python, &hides, err) < 0) {
		template_done(&template);
		return -1;
	}
	auto_close int writable =
		disk_open(spec->dir, state, spec->limits.disk, spec->uid_base, err);
	inside.hold = hold;
	inside.hides = hides;
	inside.status = status;
	inside.writable = writable;
	bool full = writable >= 0 && spec->limits.disk && reserve_release(writable);
	int result = writable < 0 ? -1 : make_writable(writable, spec, template.count, err);
	if (result == 0)
		result = group_make(spec->cgroup, &spec->limits, spec->dir, spec->uid_base,
				    &inside.group, err);
	if (result == 0) {
		result = conceive(spec, ground, &template, &inside, serve, ret, err);
		group_close(&inside.group);
		if (result < 0)
			(void)group_end(spec->cgroup, NULL);
	}
	if (full) { /* by another mount: what it writes to is id-mapped by now */
		auto_close int again = disk_open(spec->dir, state, 0, 0, NULL);
		if (again >= 0)
			reserve_make(again);
	}
	template_done(&template);
	return result;
}
