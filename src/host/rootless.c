#include "host/rootless.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/group.h"
#include "box/ids.h"
#include "host/host.h"
#include "proc/utility.h"

enum { SUBIDS_MAX = 100, FILE_MAX = 1 << 20, DEPTH_MAX = 32 };

/* --- what there is --------------------------------------------------------------------------- */

struct me {
	char name[256];
	uint32_t uid, gid;
	struct subids users[SUBIDS_MAX], groups[SUBIDS_MAX];
	size_t user_count, group_count;
};

/* Lines of "name or number:first:count". */
size_t rootless_subids(const char *text, const char *name, uint32_t uid, struct subids *to,
		       size_t room)
{
	char number[16];
	size_t count = 0;
	snprintf(number, sizeof number, "%u", uid);
	for (const char *at = text; *at && count < room;
	     at += strcspn(at, "\n"), at += *at == '\n') {
		char owner[256], rest;
		unsigned long long first, n;
		if (sscanf(at, "%255[^:\n]:%llu:%llu%c", owner, &first, &n, &rest) < 3 ||
		    (strcmp(owner, name) != 0 && strcmp(owner, number) != 0))
			continue;
		if (n && first && first + n <= UINT32_MAX)
			to[count++] = (struct subids){ (uint32_t)first, (uint32_t)n };
	}
	return count;
}

static size_t read_subids(const char *path, const struct me *me, struct subids *to)
{
	auto_buf struct buf text = BUF(FILE_MAX);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[4096];
	for (ssize_t n; fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0;)
		buf_add(&text, piece, (size_t)n);
	return text.len ? rootless_subids(text.data, me->name, me->uid, to, SUBIDS_MAX) : 0;
}

static void find_me(struct me *me)
{
	*me = (struct me){ .uid = getuid(), .gid = getgid() };
	const struct passwd *entry = getpwuid(me->uid);
	snprintf(me->name, sizeof me->name, "%s", entry ? entry->pw_name : "");
	me->user_count = read_subids("/etc/subuid", me, me->users);
	me->group_count = read_subids("/etc/subgid", me, me->groups);
}

static bool has_program(const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "/usr/bin/%s", name);
	return access(path, X_OK) == 0;
}

static bool has_newuidmap(const struct me *me)
{
	(void)me;
	return has_program("newuidmap");
}

static bool has_newgidmap(const struct me *me)
{
	(void)me;
	return has_program("newgidmap");
}

static void print_map(const struct subids *list, size_t count, struct buf *to)
{
	for (size_t i = 0; i < count; i++)
		buf_printf(to, "%u 0 %u\n", list[i].first, list[i].count);
}

static bool has_range(const struct me *me)
{
	uint32_t one;
	auto_buf struct buf users = BUF(FILE_MAX), groups = BUF(FILE_MAX);
	print_map(me->users, me->user_count, &users);
	print_map(me->groups, me->group_count, &groups);
	return users.len && groups.len && ids_ranges_of(users.data, groups.data, &one, 1) > 0;
}

/* Whether a new file system of this kind can be had in new namespaces; NULL: the namespaces. */
static bool can_mount(const char *type)
{
	enum { SPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET };
	int status = 1;
	pid_t pid = fork();
	if (pid == 0) {
		/* Where AppArmor restricts them, they can be made, but nothing can be done in them. */
		if (unshare(SPACES) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(1);
		pid = type ? fork() : 0; /* the new process namespace is its children's */
		if (pid > 0)
			_exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
		int fs = type ? (int)syscall(SYS_fsopen, type, 0) : 0;
		_exit(type &&
		      (fs < 0 ||
		       syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ||
		       syscall(SYS_fsmount, fs, 0,
			       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC) < 0));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool has_namespaces(const struct me *me)
{
	(void)me;
	return can_mount(NULL);
}

static bool has_proc(const struct me *me)
{
	(void)me;
	return can_mount("proc") && can_mount("sysfs");
}

static bool has_cgroup(const struct me *me)
{
	(void)me;
	return group_setup(NULL) == 0;
}

static const struct need {
	const char *name;
	bool (*met)(const struct me *me);
	const char *remedy;
} needs[] = {
	{ "newuidmap", has_newuidmap, "install 'uidmap' (Debian) or 'shadow-utils'" },
	{ "newgidmap", has_newgidmap, "install 'uidmap' (Debian) or 'shadow-utils'" },
	{ "subordinate ids", has_range,
	  "/etc/subuid and /etc/subgid must both give you the same 65536 numbers, as many again for "
	  "each further box: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "
	  "$USER" },
	{ "user namespaces", has_namespaces,
	  "the machine must let users make them: sysctl user.max_user_namespaces, "
	  "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns" },
	{ "/proc and /sys", has_proc,
	  "nothing may be mounted over parts of them, as containers do (podman: --security-opt "
	  "unmask=ALL), or new ones cannot be mounted" },
	{ "cgroup v2", has_cgroup,
	  "you must be in a group that is yours: systemd-run --user --scope -p Delegate=yes aio up …" },
};

/* Tells of each that is missing, not only of the first. */
static int check_needs(const struct me *me, struct err *err)
{
	size_t missing = 0;
	for (size_t i = 0; i < COUNT(needs); i++)
		if (!needs[i].met(me)) {
			fprintf(stderr, "missing: %s: %s\n", needs[i].name, needs[i].remedy);
			missing++;
		}
	return missing ? err_set(err, ERR_UNAVAILABLE,
				 "boxes need root, or, as an ordinary user, what is missing above")
		       : 0;
}

/* --- the namespace --------------------------------------------------------------------------- */

/* newuidmap PID 0 ME 1 FIRST FIRST COUNT … */
static int run_mapper(const char *program, pid_t pid, uint32_t own, const struct subids *list,
		      size_t count)
{
	char numbers[2 + SUBIDS_MAX * 2][16];
	char *argv[6 + SUBIDS_MAX * 3];
	size_t n = 0, argc = 0;
	snprintf(numbers[n++], 16, "%d", pid);
	snprintf(numbers[n++], 16, "%u", own);
	argv[argc++] = (char *)program;
	argv[argc++] = numbers[0];
	argv[argc++] = (char *)"0";
	argv[argc++] = numbers[1];
	argv[argc++] = (char *)"1";
	for (size_t i = 0; i < count; i++) {
		snprintf(numbers[n], 16, "%u", list[i].first);
		argv[argc++] = numbers[n];
		argv[argc++] = numbers[n++];
		snprintf(numbers[n], 16, "%u", list[i].count);
		argv[argc++] = numbers[n++];
	}
	argv[argc] = NULL;
	struct err why;
	int result = utility_run(program, "uidmap", argv, NULL, UTILITY_MS, &why);
	if (result < 0)
		fprintf(stderr, "aio up: %s\n", why.msg);
	return result;
}

/* A child that stays outside gives the ids to the namespace that this process makes meanwhile. */
static int make_namespace(const struct me *me, struct err *err)
{
	int ready[2], status = -1;
	pid_t self = getpid();
	char byte = 0;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	pid_t helper = fork();
	if (helper == 0) {
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			_exit(1);
		_exit(run_mapper("newuidmap", self, me->uid, me->users, me->user_count) < 0 ||
		      run_mapper("newgidmap", self, me->gid, me->groups, me->group_count) < 0);
	}
	int result = helper < 0 || unshare(CLONE_NEWUSER) < 0
			     ? err_set(err, errno, "a user namespace")
			     : 0;
	if (result == 0 && write(ready[1], &byte, 1) != 1)
		result = err_set(err, errno, "a user namespace");
	close(ready[0]);
	close(ready[1]);
	if (helper > 0 && waitpid(helper, &status, 0) == helper && status != 0 && result == 0)
		result = err_set(err, ERR_UNAVAILABLE,
				 "newuidmap or newgidmap refuses what /etc/subuid and /etc/subgid "
				 "give you");
	return result;
}

static bool same_file(int a, int b)
{
	struct stat one, other;
	return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
	       one.st_dev == other.st_dev;
}

/* Two hosts would give the same ids to their boxes, and one that is started in another group than the
 * boxes that still run would not find them. `prefix` is that of the groups of our boxes. */
static int check_others(const char *state, const char *prefix, struct err *err)
{
	char now[PATH_MAX], before[PATH_MAX] = "", path[PATH_MAX];
	if (group_process(prefix, false))
		return err_set(
			err, ERR_CONFLICT,
			"boxes of another of your state directories run, with the ids that "
			"boxes of '%s' would have: end them first ('aio up' there, 'aio down')",
			state);
	snprintf(path, sizeof path, "%s/group", state);
	FILE *note = fopen(path, "re");
	if (note && !fgets(before, sizeof before, note))
		*before = 0;
	if (note)
		(void)fclose(note);
	if (group_path(now, sizeof now) < 0)
		return err_set(err, errno, "the group of the boxes");
	snprintf(path, sizeof path, "%.3000s/%.9s*", before, prefix);
	glob_t found = { 0 };
	bool elsewhere = *before && strcmp(now, before) != 0 && glob(path, 0, NULL, &found) == 0;
	globfree(&found);
	return elsewhere
		       ? err_set(err, ERR_CONFLICT,
				 "boxes of '%s' run in the cgroup '%s': start the host from there",
				 state, before)
		       : 0;
}

/* The namespace that the boxes of a host that has ended run below: ours is its parent. -1: none. */
static int find_namespace(const char *prefix)
{
	char path[64];
	pid_t pid = group_process(prefix, true);
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	auto_close int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	auto_close int at = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	for (int depth = 0; at >= 0 && depth < DEPTH_MAX; depth++) {
		int parent = ioctl(at, NS_GET_PARENT);
		if (parent >= 0 && same_file(parent, own)) {
			close(parent);
			return TAKE_FD(at);
		}
		close(at);
		at = parent;
	}
	return -1;
}

/* --- parts of what the user may have ---------------------------------------------------------
 * What the kernel counts for a user is counted for ours, whichever box has it. So that one cannot have it
 * all, each box may have a part, and one is left to the user. */

/* Limits of this namespace are for each id in it, and all of a box counts for its root's. */
static int share_count(const char *of_user, const char *of_id, int parts, struct err *err)
{
	int64_t all = 0;
	FILE *from = fopen(of_user, "re");
	if (!from) /* this kernel has no such thing */
		return 0;
	if (fscanf(from, "%" SCNd64, &all) != 1)
		all = 0;
	(void)fclose(from);
	auto_close int to = open(of_id, O_WRONLY | O_CLOEXEC);
	if (to < 0 || dprintf(to, "%" PRId64, all / parts) < 0)
		return err_set(err, errno, "'%s'", of_id);
	return 0;
}

/* What who makes a namespace is limited to holds for all that will be in it: here the boxes' makers. */
static int share_limits(int parts, struct err *err)
{
	static const int resources[] = { RLIMIT_NPROC, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE,
					 RLIMIT_MEMLOCK };
	for (size_t i = 0; i < COUNT(resources); i++) {
		struct rlimit limit;
		__rlimit_resource_t resource = (__rlimit_resource_t)resources[i];
		if (getrlimit(resource, &limit) < 0)
			return err_set(err, errno, "limit %d", resources[i]);
		if (limit.rlim_cur == RLIM_INFINITY)
			continue;
		limit.rlim_cur /= (rlim_t)parts;
		if (setrlimit(resource, &limit) < 0)
			return err_set(err, errno, "limit %d", resources[i]);
	}
	return 0;
}

static int share(struct err *err)
{
	enum { PARTS_MAX = 8 }; /* with less than that a box could do little */
	uint32_t bases[PARTS_MAX - 1];
	int boxes = ids_ranges(bases, COUNT(bases)), parts = boxes > 0 ? boxes + 1 : 2;
	if (share_count("/proc/sys/fs/inotify/max_user_instances",
			"/proc/sys/user/max_inotify_instances", parts, err) < 0 ||
	    share_count("/proc/sys/fs/inotify/max_user_watches",
			"/proc/sys/user/max_inotify_watches", parts, err) < 0)
		return -1;
	return share_limits(parts, err);
}

int rootless_enter(const char *state, char **argv, struct err *err)
{
	struct me me;
	char real[PATH_MAX], prefix[16];
	find_me(&me);
	if (check_needs(&me, err) < 0)
		return -1;
	snprintf(prefix, sizeof prefix, "%08x-", host_seed(realpath(state, real) ? real : state));
	if (check_others(state, prefix, err) < 0)
		return -1;
	auto_close int known = find_namespace(prefix);
	if (known >= 0 && setns(known, CLONE_NEWUSER) < 0)
		return err_set(err, errno, "the user namespace of the boxes that run");
	if (known < 0 && make_namespace(&me, err) < 0)
		return -1;
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, errno, "a mount namespace");
	if (geteuid() != 0)
		return err_set(err, ERR_INTERNAL, "the user namespace has no root");
	if (share(err) < 0)
		return -1;
	size_t argc = 0;
	while (argv[argc])
		argc++;
	auto_free char **all = xcalloc(argc + 2, sizeof *all);
	all[0] = (char *)"aio";
	memcpy(all + 1, argv, argc * sizeof *argv);
	execv("/proc/self/exe", all);
	return err_set(err, errno, "/proc/self/exe");
}
