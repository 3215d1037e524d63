#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "box/birth.h"
#include "box/disk.h"
#include "box/files.h"
#include "box/group.h"
#include "box/identity.h"
#include "box/ids.h"
#include "box/inside.h"
#include "box/live_copy.h"
#include "box/maker.h"
#include "box/template.h"
#include "config/home.h"

/* --- starting -------------------------------------------------------------------------------- */

/* Making a box is a matter of milliseconds, but its disk, or its copy of a template, may be large. */
enum { ANSWER_MS = 10 * 60 * 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int fd;      /* a socket to them */
	char *state; /* and what they are started with, again if need be */
	int hold;
} makers = { -1, NULL, -1 }; /* under the lock */

/* What is run next has our profile, and so has all that it runs. Without AppArmor, or the profile, there
 * is nothing to do. */
static void take_profile(void)
{
	auto_close int fd = open("/proc/thread-self/attr/apparmor/exec", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "exec " BOX_PROFILE, strlen("exec " BOX_PROFILE));
}

static int start_makers(struct err *err)
{
	int pair[2];
	char number[16], home[4096] = "AIO_HOME=";
	home_find(home + strlen(home), sizeof home - strlen(home));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	pid_t pid = fork();
	if (pid == 0) {
		const char *const argv[] = { "aio", MAKER_COMMAND, makers.state, number, NULL };
		const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", home, NULL };
		int held = makers.hold < 0 ? -1 : fcntl(makers.hold, F_DUPFD, MAKER_HOLD + 1);
		int fd = dup2(pair[1], 3);
		snprintf(number, sizeof number, "%d", fd);
		if (held >= 0)
			dup2(held, MAKER_HOLD);
		syscall(SYS_close_range, held < 0 ? MAKER_HOLD : MAKER_HOLD + 1, ~0u, 0);
		if (fork() != 0) /* nobody's child: what they leave behind is init's */
			_exit(0);
		take_profile();
		execve("/proc/self/exe", (char *const *)argv, (char *const *)env);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(err, errno, "fork");
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	own_close(&makers.fd); /* those of before finish what they have begun */
	makers.fd = pair[0];
	return 0;
}

int box_makers(const char *state_dir, int hold, struct err *err)
{
	char *state = realpath(state_dir, NULL);
	if (!state)
		return err_set(err, errno, "'%s'", state_dir);
	pthread_mutex_lock(&lock);
	free(makers.state);
	makers.state = state;
	makers.hold = hold;
	int result = start_makers(err);
	pthread_mutex_unlock(&lock);
	return result;
}

/* Who is the first to find them gone starts others, and all who wait for the lock then find those. */
static int send_to_makers(const struct box_spec *spec, int reply, struct err *err)
{
	struct err why = { 0 };
	pthread_mutex_lock(&lock);
	int result = maker_send(makers.fd, spec, reply, &why);
	if (result < 0 && why.code == ERR_GONE && start_makers(&why) == 0)
		result = maker_send(makers.fd, spec, reply, &why);
	pthread_mutex_unlock(&lock);
	if (result < 0 && err)
		*err = why;
	return result;
}

int box_ask(const struct box_spec *spec, struct err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	int result = send_to_makers(spec, pair[1], err);
	close(pair[1]);
	if (result == 0)
		return pair[0];
	close(pair[0]);
	return -1;
}

int box_answer(int fd, struct box_proc *ret, struct err *err)
{
	struct box_answer answer;
	bool ready = wait_until(fd, POLLIN, clock_ms() + ANSWER_MS);
	ssize_t n = ready ? recv(fd, &answer, sizeof answer, MSG_WAITALL) : 0;
	close(fd); /* a box that is made later, nobody would know of: its maker ends it */
	if (!ready)
		return err_set(err, ERR_UNAVAILABLE, "the box was not made within %d s",
			       ANSWER_MS / 1000);
	if (n != sizeof answer)
		return err_set(err, ERR_GONE, "the process that makes boxes is gone");
	if (answer.result == 0)
		*ret = answer.proc;
	else if (err)
		*err = answer.err;
	return answer.result;
}

int box_start(const struct box_spec *spec, struct box_proc *ret, struct err *err)
{
	int fd = box_ask(spec, err);
	return fd < 0 ? -1 : box_answer(fd, ret, err);
}

/* --- looking, stopping ----------------------------------------------------------------------- */

int box_open(const struct box_proc *proc, struct err *err)
{
	struct box_proc now;
	auto_close int fd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
	if (fd < 0)
		return err_set(err, errno, "the box does not run");
	if (identity_read(proc->pid, &now, err) < 0)
		return -1;
	if (now.start_time != proc->start_time || now.pid_ns != proc->pid_ns ||
	    strcmp(now.boot_id, proc->boot_id) != 0)
		return err_set(err, ESRCH, "the box does not run");
	return TAKE_FD(fd);
}

int box_log(const struct box_proc *proc)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", proc->pid, INSIDE_LOG);
	auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	/* Whatever has become of the box since, nothing but a pipe is taken for its log. */
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? TAKE_FD(fd) : -1;
}

int box_stop(const char *id, const char *dir, const char *cgroup, const struct box_proc *proc,
	     struct err *err)
{
	(void)id;
	(void)dir;
	(void)proc;
	return group_end(cgroup, err);
}

int box_remove(const char *dir, struct err *err)
{
	disk_remove(dir);
	return files_remove(dir, err);
}

int box_freeze(const char *cgroup, bool frozen, struct err *err)
{
	return group_freeze(cgroup, frozen, err);
}

/* Bytes that went through its interfaces, but lo: "  eth0: 123 … 456 …" */
static void read_traffic(const struct box_proc *proc, struct box_usage *usage)
{
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/net/dev", proc->pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file)) {
		char name[32];
		long long in, out;
		if (sscanf(line, " %31[^:]: %lld %*d %*d %*d %*d %*d %*d %*d %lld", name, &in,
			   &out) != 3 ||
		    !strcmp(name, "lo"))
			continue;
		usage->rx_bytes += in;
		usage->tx_bytes += out;
	}
	if (file)
		(void)fclose(file);
}

int box_usage(const char *dir, const char *cgroup, const struct box_proc *proc,
	      struct box_usage *ret, struct err *err)
{
	struct box_usage usage = { 0 };
	if (group_usage(cgroup, &usage, err) < 0)
		return -1;
	auto_close int fd = box_open(proc, NULL);
	if (fd >= 0)
		read_traffic(proc, &usage);
	usage.disk = disk_used(dir);
	*ret = usage;
	return 0;
}

int64_t box_oom_kills(const char *cgroup)
{
	struct box_usage usage = { 0 };
	return group_usage(cgroup, &usage, NULL) < 0 ? 0 : usage.oom_kills;
}

static int stop_users(const void *cgroup, bool stopped, struct err *err)
{
	return box_freeze(cgroup, stopped, err);
}

int box_copy(const char *from_dir, const char *cgroup, const char *to_dir, uint32_t to_uid_base,
	     struct err *err)
{
	const struct live_copy_users users = { stop_users, cgroup };
	uint32_t owner = ids_on_disk(to_uid_base);
	auto_free char *note = xasprintf("%s/template", from_dir),
		       *copy = xasprintf("%s/template", to_dir);
	auto_free char *rw = xasprintf("%s/rw", to_dir);
	if (owner && (mkdir(rw, 0755) < 0 || chown(rw, owner, owner) < 0))
		return err_set(err, errno, "'%s'", rw);
	if (disk_copy(from_dir, to_dir, cgroup ? &users : NULL, err) < 0)
		return -1;
	return access(note, F_OK) < 0 ? 0 : files_copy_one(note, copy, err);
}

/* The text of a file in a box's directory. */
static int read_text(const char *dir, const char *name, char *to, size_t room, struct err *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);
	to[n < 0 ? 0 : n] = 0;
	return n < 0 ? err_set(err, errno, "'%s'", path) : 0;
}

/* What its files lie over. */
static int read_base(const char *dir, char *to, size_t room, struct err *err)
{
	if (read_text(dir, BIRTH_BASE, to, room, NULL) == 0)
		return 0;
	if (read_text(dir, BIRTH_NOTE, to, room, err) < 0)
		return -1;
	to[strcspn(to, "\n")] = 0;
	return 0;
}

int box_snapshot(const char *dir, const char *cgroup, files_keep *keep, const char *template,
		 struct err *err)
{
	const struct live_copy_users users = { stop_users, cgroup };
	char base[4096], written[64];
	if (read_base(dir, base, sizeof base, err) < 0)
		return -1;
	auto_close int tree = disk_open(dir, dir, 0, 0, err);
	if (tree < 0)
		return -1;
	snprintf(written, sizeof written, "/proc/self/fd/%d", tree);
	return template_snapshot(base, written, cgroup ? &users : NULL, keep, template, err);
}

int box_exit_status(const char *dir)
{
	char text[4096];
	bool old = read_text(dir, BIRTH_EXIT, text, sizeof text, NULL) < 0;
	if (old && read_text(dir, BIRTH_NOTE, text, sizeof text, NULL) < 0)
		return -1;
	char *end, *at = text + (old ? strcspn(text, "\n") : 0);
	long status = strtol(at, &end, 10);
	return end == at || *end != '\n' || status < 0 || status > 0xffff ? -1 : (int)status;
}

static void tell(struct box_means *means, const char *what, const char *how)
{
	size_t len = strlen(means->text);
	snprintf(means->text + len, sizeof means->text - len, "%-12s %s\n", what, how);
}

int box_probe(const char *state_dir, struct box_means *ret, struct err *err)
{
	static const char *const disks[] = { "none: a box with a disk limit is refused",
					     "project quota", "quota of btrfs subvolumes",
					     "ext4 images on loop devices" };
	static const char *const limits[] = { "memory", "cpu", "pids" };
	struct box_means means = { 0 };
	if (access(state_dir, W_OK) < 0)
		return err_set(err, errno, "'%s'", state_dir);
	if (geteuid() != 0)
		return err_set(err, EPERM, "making boxes takes root");
	if (group_setup(err) < 0)
		return -1;
	if (!ids_mapped() && !group_claim()) /* it would give its boxes the same ids */
		return err_set(err, ERR_CONFLICT, "another host of this user runs");
	means.usable = true;
	means.can_freeze = true;
	bool *const can[] = { &means.can_limit_memory, &means.can_limit_cpu,
			      &means.can_limit_pids };
	for (int i = 0; i < (int)COUNT(limits); i++) {
		*can[i] = group_can(i);
		tell(&means, limits[i], group_means(i));
	}
	const char *io = group_io(state_dir);
	means.can_weigh_io = io;
	tell(&means, "io weight", io ? io : "none: a box with one is refused (" GROUP_IO_HELP ")");
	enum disk_means disk = disk_probe(state_dir);
	means.can_limit_disk = disk != DISK_NONE;
	tell(&means, "disk", disks[disk]);
	tell(&means, "freeze, kill", "cgroup v2");
	means.can_machine = means.can_mount = ids_mapped();
	tell(&means, "ids",
	     ids_mapped() ? "id-mapped mounts" : "of files: one copy of a template for each box");
	tell(&means, "mounts", ids_mapped() ? "id-mapped" : "none: a box with mounts is refused");
	tell(&means, "template",
	     ids_mapped() ? "this machine's programs, or imported" : "imported only");
	*ret = means;
	return 0;
}
