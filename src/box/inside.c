#include "box/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <net/if.h>
#include <nss.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"
#include "box/ground.h"
#include "box/root.h"
#include "box/seccomp.h"
#include "box/title.h"
#include "net/peer_uid.h"
#include "proc/cradle.h"
#include "proc/limits.h"
#include "proc/usage.h"

/* What root in a box keeps: what a container gets. */
static const int kept[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,      CAP_KILL,
	CAP_SETGID,  CAP_SETUID,       CAP_SETPCAP, CAP_SETFCAP,     CAP_NET_BIND_SERVICE,
	CAP_NET_RAW, CAP_SYS_CHROOT,   CAP_MKNOD,   CAP_AUDIT_WRITE,
};

static const struct {
	int resource;
	rlim_t soft, hard;
} resources[] = {
	/* 1, not 0: then the kernel starts no handler of the machine for a crash either. */
	{ RLIMIT_CORE, 1, 1 },
	{ RLIMIT_NOFILE, 1024, 524288 },
	{ RLIMIT_MEMLOCK, 8 << 20, 8 << 20 },
	{ RLIMIT_MSGQUEUE, 819200, 819200 },
	{ RLIMIT_SIGPENDING, 16384, 16384 },
	{ RLIMIT_NICE, 0, 0 },
	{ RLIMIT_RTPRIO, 0, 0 },
};

static uint64_t kept_set(void)
{
	uint64_t keep = 0;
	for (size_t i = 0; i < COUNT(kept); i++)
		keep |= 1ull << kept[i];
	return keep;
}

/* No program in the box can have others. What this process has itself goes with confine(). */
static int bound_capabilities(struct err *err)
{
	uint64_t keep = kept_set();
	for (int i = 0; i < 64; i++) {
		if (keep >> i & 1 || prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* the kernel knows no further ones */
			return 0;
		return err_set(err, errno, "dropping capability %d", i);
	}
	return 0;
}

static int drop_capabilities(struct err *err)
{
	uint64_t keep = kept_set();
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ (uint32_t)keep, (uint32_t)keep, 0 },
		{ (uint32_t)(keep >> 32), (uint32_t)(keep >> 32), 0 },
	};
	if (syscall(SYS_capset, &head, data) < 0)
		return err_set(err, errno, "capset");
	return 0;
}

/* The last step of each of our processes in the box before it can be reached from inside. All but the
 * one that commands are born of are sealed. */
static int confine(bool seal, struct err *err)
{
	if (seccomp_load(err) < 0 || (seal && seccomp_seal(err) < 0))
		return -1;
	return drop_capabilities(err);
}

static int raise_loopback(struct err *err)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_set(err, errno, "the loopback interface");
	return 0;
}

static int become_root(struct err *err)
{
	/* Not by libc, which would have threads do the same that are none of this process. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
	    syscall(SYS_setresuid, 0, 0, 0) < 0)
		return err_set(err, errno, "becoming the box's root");
	for (size_t i = 0; i < COUNT(resources); i++) {
		struct rlimit limit;
		if (getrlimit((__rlimit_resource_t)resources[i].resource, &limit) < 0)
			return err_set(err, errno, "limit %d", resources[i].resource);
		limit.rlim_max = resources[i].hard < limit.rlim_max ? resources[i].hard
								    : limit.rlim_max;
		limit.rlim_cur = resources[i].soft < limit.rlim_max ? resources[i].soft
								    : limit.rlim_max;
		if (setrlimit((__rlimit_resource_t)resources[i].resource, &limit) < 0)
			return err_set(err, errno, "limit %d", resources[i].resource);
	}
	return 0;
}

/* --- what its processes know ------------------------------------------------------------------ */

static void wipe(const char *text)
{
	if (text)
		explicit_bzero((char *)text, strlen(text));
}

/* Of the machine. */
static void forget_paths(const struct box_spec *spec)
{
	wipe(spec->dir);
	wipe(spec->template);
	wipe(spec->cgroup);
	for (size_t i = 0; i < spec->mount_count; i++) {
		wipe(spec->mounts[i].root);
		wipe(spec->mounts[i].source);
		wipe(spec->mounts[i].target);
	}
}

/* What only the server needs. */
static void forget_environment(const struct box_spec *spec)
{
	for (const char *const *at = spec->env; at && *at; at++)
		wipe(*at);
}

/* --- the server ------------------------------------------------------------------------------ */

static _Noreturn void give_up(int talk, const struct err *err)
{
	(void)!write(talk, err, sizeof *err);
	_exit(125);
}

/* Leaves open only these, as 0, 1, 2 …; -1: /dev/null. */
static int keep_descriptors(const int *fds, int count, struct err *err)
{
	int moved[16];
	for (int i = 0; i < count; i++)
		if ((moved[i] = fds[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC)
					   : fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return err_set(err, errno, "descriptors");
	for (int i = 0; i < count; i++)
		if (dup3(moved[i], i, O_CLOEXEC) < 0 && errno != EINVAL)
			return err_set(err, errno, "descriptors");
	syscall(SYS_close_range, count, ~0u, 0);
	return 0;
}

/* The process that commands are born of. It is made while clone3 can still be called. */
static int make_cradle(const struct box_spec *spec, const struct inside *inside, int *ret,
		       struct err *err)
{
	int pair[2];
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)inside->group.run,
	};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		return err_set(err, errno, "the cgroup of the commands");
	if (pid == 0) {
		int fds[] = { -1, -1, -1, pair[1] };
		if (group_join(inside->group.into, err) < 0 ||
		    keep_descriptors(fds, COUNT(fds), err) < 0 || confine(false, err) < 0)
			_exit(125); /* the first program that is to be started finds it gone */
		forget_environment(spec);
		title_set("cradle");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cradle_run(3);
	}
	close(pair[1]);
	*ret = pair[0];
	return 0;
}

/* What a fork shares with its siblings and an attacker must not learn from one of them. */
static inline __attribute__((always_inline)) void refresh_canary(void)
{
#ifdef __x86_64__
	uint64_t canary;
	if (getrandom(&canary, sizeof canary, 0) == sizeof canary)
		__asm__ volatile("mov %0, %%fs:0x28" ::"r"(canary & ~(uint64_t)0xff));
#endif
}

/* Where names are looked up: in the box's files and by DNS, which libc does itself. Other sources that
 * its configuration may name would have to be loaded, and the server is sealed. */
static void use_files(void)
{
	static const char *const databases[] = { "passwd",   "group",    "initgroups", "shadow",
						 "gshadow",  "services", "protocols",  "networks",
						 "netgroup", "ethers",   "rpc",        "aliases",
						 "publickey" };
	for (size_t i = 0; i < COUNT(databases); i++)
		(void)__nss_configure_lookup(databases[i], "files");
	(void)__nss_configure_lookup("hosts", "files dns");
}

/* /workspace, which clients of AIO Sandbox name, leads to the box's own, where its template has none. */
static void link_workspace(void)
{
	const struct passwd *gem = getpwnam("gem");
	const char *chosen = getenv("WORKSPACE");
	const char *to = chosen && *chosen ? chosen : gem ? gem->pw_dir : NULL;
	if (to && strncmp(to, "/workspace", 10) != 0)
		(void)!symlink(to, "/workspace");
}

__attribute__((noinline)) static _Noreturn void serve(const struct box_spec *spec,
						      const struct inside *inside,
						      inside_serve *run, int talk)
{
	enum { LISTEN = 3, CRADLE, PIDS, OOM, PEERS, TALK, USAGE };
	struct err err;
	int cradle = -1;
	const char *argv[] = { "aio", "--listen", "fd:3", "--user", "gem", NULL };
	if (make_cradle(spec, inside, &cradle, &err) < 0)
		give_up(talk, &err);
	int fds[] = {
		-1,
		spec->log_fd,
		spec->log_fd,
		spec->listen_fd,
		cradle,
		inside->group.pids,
		inside->group.oom,
		peer_uid_open(),
		talk,
		inside->group.usage[USAGE_CPU],
		inside->group.usage[USAGE_THROTTLE],
		inside->group.usage[USAGE_MEMORY],
		inside->group.usage[USAGE_MEMORY_STAT],
	};
	if (keep_descriptors(fds, COUNT(fds), &err) < 0 || confine(true, &err) < 0)
		give_up(talk, &err);
	cradle_use(CRADLE);
	peer_uid_use(PEERS);
	/* Where there is no such file it is /dev/null, which counts nothing. */
	limits_use(&(struct limits){ spec->limits.pids, spec->limits.memory, PIDS, OOM });
	usage_use(&(struct usage_from){
		.files = { USAGE + USAGE_CPU, USAGE + USAGE_THROTTLE, USAGE + USAGE_MEMORY,
			   USAGE + USAGE_MEMORY_STAT },
		.pids = PIDS,
		.oom = OOM,
		.pids_max = spec->limits.pids,
		.memory_max = spec->limits.memory,
		.cpus = spec->limits.cpus,
	});
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("AIO_HOME", GROUND_HOME, 1);
	setenv("AIO_LOCAL_PORT", "8080", 1);
	setenv("AIO_LOCAL_SOCKET", "/run/aiobox.sock", 1);
	for (const char *const *at = spec->env; at && *at; at++)
		putenv((char *)*at);
	title_set("serve");
	close(TALK);
	use_files();
	link_workspace();
	refresh_canary();
	exit(run(COUNT(argv) - 1, (char **)argv));
}

/* --- init ------------------------------------------------------------------------------------ */

/* Reaps all that is orphaned, until the server ends: then the box ends, and all in it. */
static _Noreturn void attend(pid_t server, int status_fd)
{
	char text[32];
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid != server)
			continue;
		int len = snprintf(text, sizeof text, "%d\n", status);
		(void)!write(status_fd, text, (size_t)len);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
}

static int build(const struct box_spec *spec, const struct inside *inside, struct err *err)
{
	/* Not made with the others: its root is where this process is, not its maker. */
	if (group_join(inside->group.own, err) < 0)
		return -1;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_set(err, errno, "a cgroup namespace");
	if (become_root(err) < 0 || root_enter(spec, inside, err) < 0 || raise_loopback(err) < 0)
		return -1;
	if (sethostname(spec->id, strlen(spec->id)) < 0)
		return err_set(err, errno, "the host name");
	return bound_capabilities(err);
}

/* The other end is in the table that this process and its maker share: alone, it would never see its end. */
static bool await(int talk, int maker, struct inside *ret)
{
	struct pollfd pfds[] = { { talk, POLLIN, 0 }, { maker, POLLIN, 0 } };
	while (poll(pfds, COUNT(pfds), -1) < 0 && errno == EINTR)
		;
	return pfds[0].revents && recv(talk, ret, sizeof *ret, MSG_WAITALL) == sizeof *ret;
}

void inside_run(const struct box_spec *spec, inside_serve *run, const int ends[2], int maker)
{
	struct inside inside;
	struct err err;
	int talk = ends[1];
	if (!await(talk, maker, &inside))
		_exit(125);
	/* From here on the descriptors are this process's own. */
	if (syscall(SYS_close_range, ~0u, ~0u, CLOSE_RANGE_UNSHARE) < 0 || close(ends[0]) < 0 ||
	    write(talk, "", 1) != 1)
		_exit(125);
	signal(SIGPIPE, SIG_DFL); /* what its maker has ignored */
	setsid();
	umask(022);
	if (build(spec, &inside, &err) < 0)
		give_up(talk, &err);
	forget_paths(spec);
	pid_t server = fork();
	if (server == 0)
		serve(spec, &inside, run, talk);
	if (server < 0)
		err_set(&err, errno, "fork");
	int fds[] = { -1,          -1, -1, inside.status, inside.hold, [INSIDE_LOG] = spec->log_fd,
		      inside.hides };
	if (server < 0 || confine(true, &err) < 0)
		give_up(talk, &err);
	if (keep_descriptors(fds, COUNT(fds), &err) < 0)
		_exit(125);
	forget_environment(spec);
	title_set("init");
	attend(server, 3);
}
