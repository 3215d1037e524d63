#include "box/group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/own.h"
#include "box/box.h"

enum {
	END_MS = 10000,
	LOOK_MS = 20,
};

static const char *const names[GROUP_CONTROLLERS] = { "memory", "cpu", "pids", "io" };
static const char *const v1_names[GROUP_CONTROLLERS] = { "memory", "cpu", "pids", "blkio" };

/* Directories "aiobox" of the hierarchies; -1: no such. */
static struct {
	bool ready;
	int v2, v1[GROUP_CONTROLLERS];
	bool in_v2[GROUP_CONTROLLERS];
	char cost
		[1024]; /* what io.cost.qos of the v2 root says: of which disks it counts the cost */
} all = { .v2 = -1, .v1 = { -1, -1, -1, -1 } };

static int write_at(int dir, const char *path, const char *text)
{
	auto_close int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* What a small file says; "" when it cannot be read. */
static const char *read_at(int dir, const char *path, char *to, size_t room)
{
	auto_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);
	to[n < 0 ? 0 : n] = 0;
	return to;
}

static bool has_word(const char *text, const char *word, const char *separators)
{
	size_t len = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || strchr(separators, at[-1])) &&
		    (!at[len] || strchr(separators, at[len])))
			return true;
	return false;
}

/* --- the hierarchies ------------------------------------------------------------------------- */

static int open_dir(int at, const char *path)
{
	return openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool is_ours(int dir)
{
	return faccessat(dir, ".", W_OK, AT_EACCESS) == 0 &&
	       faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

/* Our directory in a hierarchy, made when missing. */
static int open_ours(int root)
{
	if (mkdirat(root, "aiobox", 0755) < 0 && errno != EEXIST)
		return -1;
	auto_close int dir = open_dir(root, "aiobox");
	return dir >= 0 && is_ours(dir) ? TAKE_FD(dir) : -1;
}

/* The highest group that we may write: for root the hierarchy's own, for others what is delegated to
 * them of those they are in. -1: none. */
static int find_highest(int root)
{
	char text[8192], path[4096] = ".";
	const char *own = strstr(read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text), "0::/");
	if (own)
		snprintf(path, sizeof path, "./%.*s", (int)strcspn(own + 4, "\n"), own + 4);
	for (char *slash = path + 1;; slash = strchr(slash + 1, '/')) {
		char after = slash ? *slash : 0;
		if (slash)
			*slash = 0;
		auto_close int dir = open_dir(root, path);
		if (dir >= 0 && is_ours(dir))
			return TAKE_FD(dir);
		if (!after)
			return -1;
		*slash = after;
	}
}

/* In a container the hierarchy's root may hold processes, and then can give no controller away: they
 * go to a group of their own, as each that runs boxes in a container has to do. */
static void empty_root(int root)
{
	char pid[32];
	if (faccessat(root, "cgroup.type", F_OK, 0) < 0) /* the machine's own root: exempt */
		return;
	if (mkdirat(root, "aiobox-outside", 0755) < 0 && errno != EEXIST)
		return;
	int fd = openat(root, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *procs = fd < 0 ? NULL : fdopen(fd, "r");
	while (procs && fgets(pid, sizeof pid, procs)) /* there may be thousands */
		(void)write_at(root, "aiobox-outside/cgroup.procs", pid);
	if (procs)
		(void)fclose(procs);
}

static void setup_v2(int root)
{
	char text[512], enable[32];
	all.v2 = open_ours(root);
	read_at(root, "io.cost.qos", all.cost, sizeof all.cost);
	for (int i = 0; i < GROUP_CONTROLLERS && all.v2 >= 0; i++) {
		if (!has_word(read_at(root, "cgroup.controllers", text, sizeof text), names[i],
			      " \n"))
			continue;
		snprintf(enable, sizeof enable, "+%s", names[i]);
		if (write_at(root, "cgroup.subtree_control", enable) < 0 && errno == EBUSY) {
			empty_root(root);
			(void)write_at(root, "cgroup.subtree_control", enable);
		}
		all.in_v2[i] = write_at(all.v2, "cgroup.subtree_control", enable) == 0;
	}
}

/* A line of mountinfo: "36 35 98:0 /root /mount/point options … - type source options". */
static void look_at_mount(char *line)
{
	char *rest = strstr(line, " - "), point[4096], type[64], options[512];
	if (!rest || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
	    sscanf(rest, " - %63s %*s %511s", type, options) != 2)
		return;
	bool v2 = !strcmp(type, "cgroup2");
	if (!v2 && strcmp(type, "cgroup") != 0)
		return;
	auto_close int root = open_dir(AT_FDCWD, point);
	auto_close int highest = root >= 0 && v2 && all.v2 < 0 ? find_highest(root) : -1;
	if (highest >= 0)
		setup_v2(highest);
	for (int i = 0; i < GROUP_CONTROLLERS && root >= 0 && !v2; i++)
		if (all.v1[i] < 0 && has_word(options, v1_names[i], ","))
			all.v1[i] = open_ours(root);
}

void group_mount(const char *at)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char line[8192];
	bool there = false;
	while (mounts && !there && fgets(line, sizeof line, mounts))
		there = strstr(line, " - cgroup2 ");
	if (mounts)
		(void)fclose(mounts);
	/* What fails here is said by group_setup(). */
	if (!there && mkdir(at, 0700) == 0)
		(void)mount("cgroup2", at, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Not mounted anywhere: we need not be the only ones who see it. */
static int mount_v2(void)
{
	auto_close int fs = (int)syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC);
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	auto_close int root =
		(int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
			     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (root >= 0)
		setup_v2(root);
	return all.v2 < 0 ? -1 : 0;
}

int group_setup(struct err *err)
{
	if (all.ready)
		return 0;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char line[8192];
	while (mounts && fgets(line, sizeof line, mounts))
		look_at_mount(line);
	if (mounts)
		(void)fclose(mounts);
	if (all.v2 < 0 && mount_v2() < 0)
		return err_set(err, errno, "no group of cgroup v2 is ours to use");
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		if (all.in_v2[i] && all.v1[i] >= 0) {
			close(all.v1[i]);
			all.v1[i] = -1;
		}
	if (group_can(GROUP_MEMORY))
		limit_together(all.in_v2[GROUP_MEMORY] ? all.v2 : all.v1[GROUP_MEMORY],
			       limit_machine_memory() / 8 * 7, all.in_v2[GROUP_MEMORY]);
	all.ready = true;
	return 0;
}

bool group_can(int controller)
{
	return all.in_v2[controller] || all.v1[controller] >= 0;
}

const char *group_means(int controller)
{
	if (!all.in_v2[controller] && controller == GROUP_MEMORY && group_can(controller) &&
	    faccessat(all.v1[controller], LIMIT_SOCKETS, W_OK, AT_EACCESS) < 0)
		return "cgroup v1, which does not count buffers of sockets on this machine";
	return all.in_v2[controller]   ? "cgroup v2"
	       : group_can(controller) ? "cgroup v1"
				       : "none: a box with this limit is refused";
}

int group_path(char *to, size_t room)
{
	char link[32];
	snprintf(link, sizeof link, "/proc/self/fd/%d", all.v2);
	ssize_t n = readlink(link, to, room - 1);
	to[n < 0 ? 0 : n] = 0;
	return n < 0 ? -1 : 0;
}

int group_open(void)
{
	return openat(all.v2, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

uint64_t group_number(const char *name)
{
	char path[256];
	struct stat st;
	snprintf(path, sizeof path, "%s/run", name);
	return fstatat(all.v2, path, &st, 0) < 0 ? 0 : st.st_ino;
}

bool group_claim(void)
{
	int fd = group_open(); /* from now on */
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

pid_t group_process(const char *prefix, bool begin)
{
	pid_t pid = 0;
	DIR *dir = all.v2 < 0 ? NULL : dir_open_at(all.v2, ".", 0);
	for (struct dirent *entry; dir && !pid && (entry = readdir(dir));) {
		char path[300], text[64];
		if ((strncmp(entry->d_name, prefix, strlen(prefix)) == 0) != begin)
			continue;
		snprintf(path, sizeof path, "%.255s/server/cgroup.procs", entry->d_name);
		pid = (pid_t)strtol(read_at(all.v2, path, text, sizeof text), NULL, 10);
	}
	if (dir)
		closedir(dir);
	return pid;
}

/* How the disk of a directory heeds weights. */
static enum limit_io io_of(const char *dir)
{
	struct stat st;
	enum limit_io io = group_can(GROUP_IO) && stat(dir, &st) == 0
				   ? limit_io_of("/sys", st.st_dev, all.cost)
				   : LIMIT_IO_NONE;
	return io == LIMIT_IO_COST && !all.in_v2[GROUP_IO] ? LIMIT_IO_NONE : io;
}

const char *group_io(const char *dir)
{
	static const char *const how[][2] = { { NULL, NULL },
					      { NULL, "cgroup v2 (io.cost)" },
					      { "cgroup v1 (BFQ)", "cgroup v2 (BFQ)" } };
	return how[io_of(dir)][all.in_v2[GROUP_IO]];
}

/* --- one box --------------------------------------------------------------------------------- */

/* Opens HIERARCHY/aiobox/NAME/SUB, made first. */
static int make_dir(int ours, const char *name, const char *sub)
{
	char path[256];
	snprintf(path, sizeof path, "%s%s%s", name, *sub ? "/" : "", sub);
	if (mkdirat(ours, path, 0755) < 0 && errno != EEXIST)
		return -1;
	return open_dir(ours, path);
}

/* The commands have a group of their own below the box's where there is a limit to set for them. */
static int make_v1(int controller, const char *name, const struct box_limits *limits,
		   enum limit_io io, bool limited, struct cgroup *group)
{
	auto_close int own = make_dir(all.v1[controller], name, "");
	auto_close int run = own < 0 || !limited ? -1 : make_dir(all.v1[controller], name, "run");
	if (own < 0 || limit_write(own, controller, limits, true, false) < 0 ||
	    (limited && (run < 0 || limit_write(run, controller, limits, false, false) < 0)))
		return -1;
	if (controller == GROUP_IO && limit_write_io(own, io, limits->io_weight, false) < 0)
		return -1;
	group->own[controller] = openat(own, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (limited)
		group->into[controller] = openat(run, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (controller == GROUP_PIDS && limited)
		group->pids = openat(run, "pids.current", O_RDONLY | O_CLOEXEC);
	int counts = limited ? run : own;
	if (controller == GROUP_MEMORY) {
		group->oom = openat(counts, "memory.oom_control", O_RDONLY | O_CLOEXEC);
		group->usage[USAGE_MEMORY] =
			openat(counts, "memory.usage_in_bytes", O_RDONLY | O_CLOEXEC);
		group->usage[USAGE_MEMORY_STAT] =
			openat(counts, "memory.stat", O_RDONLY | O_CLOEXEC);
	}
	if (controller == GROUP_CPU)
		group->usage[USAGE_THROTTLE] = openat(counts, "cpu.stat", O_RDONLY | O_CLOEXEC);
	return group->own[controller] < 0 || (limited && group->into[controller] < 0) ? -1 : 0;
}

static int make_v2(const char *name, const struct box_limits *limits, enum limit_io io,
		   uint32_t uid, struct cgroup *group)
{
	auto_close int whole = make_dir(all.v2, name, "");
	for (int i = 0; i < GROUP_CONTROLLERS; i++) {
		char enable[32];
		snprintf(enable, sizeof enable, "+%s", names[i]);
		if (all.in_v2[i] && (i != GROUP_IO || io) &&
		    (write_at(whole, "cgroup.subtree_control", enable) < 0 ||
		     limit_write(whole, i, limits, true, true) < 0))
			return -1;
	}
	if (all.in_v2[GROUP_IO] && io && limit_write_io(whole, io, limits->io_weight, true) < 0)
		return -1;
	group->birth = whole < 0 ? -1 : make_dir(all.v2, name, "server");
	auto_close int run = group->birth < 0 ? -1 : make_dir(all.v2, name, "run");
	if (run < 0)
		return -1;
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		if (all.in_v2[i] && limit_write(run, i, limits, false, true) < 0)
			return -1;
	/* A process that is born in another group needs to be allowed to write both groups' list, and
	 * that of what they have in common. */
	if (fchownat(whole, "cgroup.procs", uid, (gid_t)-1, 0) < 0 ||
	    fchownat(run, "cgroup.procs", uid, (gid_t)-1, 0) < 0)
		return -1;
	if (all.in_v2[GROUP_PIDS])
		group->pids = openat(run, "pids.current", O_RDONLY | O_CLOEXEC);
	group->usage[USAGE_CPU] = openat(run, "cpu.stat", O_RDONLY | O_CLOEXEC);
	if (all.in_v2[GROUP_MEMORY]) {
		group->oom = openat(run, "memory.events", O_RDONLY | O_CLOEXEC);
		group->usage[USAGE_MEMORY] = openat(run, "memory.current", O_RDONLY | O_CLOEXEC);
		group->usage[USAGE_MEMORY_STAT] = openat(run, "memory.stat", O_RDONLY | O_CLOEXEC);
	}
	/* A mount of this directory alone: nothing above it can be reached through the descriptor. */
	group->run = (int)syscall(SYS_open_tree, run, "",
				  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	return group->run < 0 ? -1 : 0;
}

int group_make(const char *name, const struct box_limits *limits, const char *dir, uint32_t uid,
	       struct cgroup *ret, struct err *err)
{
	static const struct cgroup none = { -1, -1, { -1, -1, -1, -1 }, { -1, -1, -1, -1 },
					    -1, -1, { -1, -1, -1, -1 } };
	const bool wanted[GROUP_CONTROLLERS] = { limits->memory > 0, limits->cpus > 0,
						 limits->pids > 0, limits->io_weight > 0 };
	*ret = none;
	if (!*name || strlen(name) > 100 || strchr(name, '/') || *name == '.')
		return err_set(err, ERR_INVALID, "'%s' is not a valid name of a cgroup", name);
	if (group_setup(err) < 0)
		return -1;
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		if (wanted[i] && !group_can(i))
			return err_set(err, ERR_NOT_IMPLEMENTED,
				       "this machine has no cgroup controller '%s'", names[i]);
	enum limit_io io = limits->io_weight ? io_of(dir) : LIMIT_IO_NONE;
	if (limits->io_weight && !io)
		return err_set(err, ERR_NOT_IMPLEMENTED,
			       "io_weight: the disk of '%s' heeds no weights (" GROUP_IO_HELP ")",
			       dir);
	struct cgroup group = none;
	int result = make_v2(name, limits, io, uid, &group);
	for (int i = 0; i < GROUP_CONTROLLERS && result == 0; i++)
		if (all.v1[i] >= 0 && (wanted[i] || i == GROUP_MEMORY))
			result = make_v1(i, name, limits, io, wanted[i], &group);
	if (result == 0) {
		*ret = group;
		return 0;
	}
	err_set(err, errno, "the cgroup '%s'", name);
	group_close(&group);
	(void)group_end(name, NULL);
	return -1;
}

void group_close(struct cgroup *group)
{
	own_close(&group->birth);
	own_close(&group->run);
	own_close(&group->pids);
	own_close(&group->oom);
	for (int i = 0; i < USAGE_FILES; i++)
		own_close(&group->usage[i]);
	for (int i = 0; i < GROUP_CONTROLLERS; i++) {
		own_close(&group->own[i]);
		own_close(&group->into[i]);
	}
}

int group_join(const int procs[GROUP_CONTROLLERS], struct err *err)
{
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		if (procs[i] >= 0 && write(procs[i], "0", 1) < 0)
			return err_set(err, errno, "joining the %s cgroup", names[i]);
	return 0;
}

/* Waits until a file of the group says this, which the kernel tells by an event. */
static int await(int dir, const char *path, const char *line, struct err *err)
{
	char text[512];
	int64_t until = clock_ms() + END_MS;
	auto_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0) {
		ssize_t n = pread(fd, text, sizeof text - 1, 0);
		text[n < 0 ? 0 : n] = 0;
		if (n < 0 || has_word(text, line, "\n"))
			return 0;
		int64_t left = until - clock_ms();
		struct pollfd event = { .fd = fd, .events = POLLPRI };
		if (left <= 0)
			return err_set(err, ETIMEDOUT, "the cgroup is not yet '%s'", line);
		/* The kernel may keep an event back when there were many, so this looks by itself too. */
		poll(&event, 1, left < LOOK_MS ? (int)left : LOOK_MS);
	}
	return err_set(err, errno, "%s of the cgroup", path);
}

int group_freeze(const char *name, bool frozen, struct err *err)
{
	if (group_setup(err) < 0)
		return -1;
	auto_close int dir = open_dir(all.v2, name);
	if (dir < 0 || write_at(dir, "cgroup.freeze", frozen ? "1" : "0") < 0)
		return err_set(err, errno, "freezing '%s'", name);
	return await(dir, "cgroup.events", frozen ? "frozen 1" : "frozen 0", err);
}

/* Removes NAME/SUB; one that is still being emptied by the kernel is tried again. */
static int remove_dir(int ours, const char *name, const char *sub, struct err *err)
{
	char path[256];
	int64_t until = clock_ms() + END_MS;
	snprintf(path, sizeof path, "%s%s%s", name, *sub ? "/" : "", sub);
	while (unlinkat(ours, path, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		if (errno != EBUSY || clock_ms() > until)
			return err_set(err, errno, "removing the cgroup '%s'", path);
		poll(NULL, 0, 1);
	}
	return 0;
}

int group_end(const char *name, struct err *err)
{
	static const char *const subs[] = { "run", "server", "" };
	if (group_setup(err) < 0)
		return -1;
	auto_close int dir = open_dir(all.v2, name);
	if (dir >= 0 && write_at(dir, "cgroup.kill", "1") < 0)
		return err_set(err, errno, "killing what is in '%s'", name);
	if (dir >= 0 && await(dir, "cgroup.events", "populated 0", err) < 0)
		return -1;
	int result = 0;
	for (size_t i = 0; i < COUNT(subs); i++) {
		result |= remove_dir(all.v2, name, subs[i], err);
		for (int c = 0; c < GROUP_CONTROLLERS; c++)
			if (all.v1[c] >= 0)
				result |= remove_dir(all.v1[c], name, subs[i], err);
	}
	return result;
}

/* --- what it uses ---------------------------------------------------------------------------- */

/* The number after a word, or the first when there is none. 0 when the file is not there. */
static int64_t number_at(int dir, const char *path, const char *word)
{
	char text[8192];
	const char *at = dir < 0 ? "" : read_at(dir, path, text, sizeof text);
	size_t len = word ? strlen(word) : 0;
	while (word && at && *at && (strncmp(at, word, len) != 0 || at[len] != ' ')) {
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	return at && *at ? strtoll(at + len, NULL, 10) : 0;
}

static int64_t count_lines(int dir, const char *path)
{
	char text[65536];
	int64_t count = 0;
	auto_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	for (ssize_t n; fd >= 0 && (n = read(fd, text, sizeof text)) > 0;)
		for (ssize_t i = 0; i < n; i++)
			count += text[i] == '\n';
	return count;
}

int group_usage(const char *name, struct box_usage *ret, struct err *err)
{
	if (group_setup(err) < 0)
		return -1;
	auto_close int dir = open_dir(all.v2, name);
	if (dir < 0)
		return err_set(err, errno, "the cgroup '%s'", name);
	ret->cpu_us = number_at(dir, "cpu.stat", "usage_usec");
	if (all.in_v2[GROUP_PIDS])
		ret->pids = number_at(dir, "pids.current", NULL);
	else
		ret->pids = count_lines(dir, "server/cgroup.procs") +
			    count_lines(dir, "run/cgroup.procs");
	if (all.in_v2[GROUP_MEMORY]) {
		ret->memory = number_at(dir, "memory.current", NULL);
		ret->memory_peak = number_at(dir, "memory.peak", NULL);
		ret->oom_kills = number_at(dir, "memory.events", "oom_kill");
	} else if (all.v1[GROUP_MEMORY] >= 0) {
		auto_close int memory = open_dir(all.v1[GROUP_MEMORY], name);
		ret->memory = number_at(memory, "memory.usage_in_bytes", NULL);
		ret->memory_peak = number_at(memory, "memory.max_usage_in_bytes", NULL);
		ret->oom_kills = number_at(memory, "memory.oom_control", "oom_kill") +
				 number_at(memory, "run/memory.oom_control", "oom_kill");
	}
	return 0;
}
