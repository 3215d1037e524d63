/* What a process can still do that was taken over by what it unpacks. */
#include "host/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

#define REFUSED(call) CHECK((call) < 0 && (errno == EPERM || errno == ENOSYS))

static void processes(pid_t outside)
{
	char *const none[] = { NULL };
	struct clone_args args = { .exit_signal = SIGCHLD };
	REFUSED(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	REFUSED(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
	REFUSED(syscall(SYS_clone3, &args, sizeof args));
#ifdef __x86_64__
	REFUSED(syscall(SYS_fork));
	REFUSED(syscall(SYS_vfork));
#endif
	REFUSED(syscall(SYS_execve, "/program", none, none));
	REFUSED(syscall(SYS_execveat, AT_FDCWD, "/program", none, none, 0));
	REFUSED(setsid());
	REFUSED(setpgid(0, 0));
	REFUSED(prctl(PR_SET_PDEATHSIG, 0));
	REFUSED(ptrace(PTRACE_ATTACH, outside, NULL, NULL));
	CHECK(getpid() == 1 && getppid() == 0);
	CHECK(kill(outside, 0) < 0 && errno == ESRCH);
	CHECK(kill(-1, 0) < 0 && errno == ESRCH);
}

static void privileges(void)
{
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(mount("none", "/", "tmpfs", 0, NULL));
	REFUSED(umount2("/", MNT_DETACH));
	REFUSED(mknod("/device", S_IFCHR | 0600, makedev(1, 3)));
	REFUSED(sethostname("other", 5));
	REFUSED(syscall(SYS_keyctl, 0, -4, 0));
	REFUSED(syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE));
	REFUSED(syscall(SYS_reboot, 0, 0, 0, 0));
	CHECK(setpriority(PRIO_PROCESS, 0, -5) < 0);
}

static bool leads_up(int dir)
{
	struct stat here, up;
	auto_close int fd = openat(dir, "..", O_PATH | O_CLOEXEC);
	return fd < 0 || fstat(dir, &here) < 0 || fstat(fd, &up) < 0 || here.st_ino != up.st_ino;
}

static void files(int tree, int other, int lost)
{
	CHECK(fcntl(lost, F_GETFD) < 0 && errno == EBADF);
	auto_close int root = open("/", O_PATH | O_CLOEXEC);
	auto_close int program = open("/program", O_RDONLY | O_CLOEXEC);
	CHECK(!leads_up(root) && !leads_up(tree) && !leads_up(other));
	CHECK(access("/etc/passwd", F_OK) < 0 && access("/proc/self", F_OK) < 0);
	/* No library of an image either, which something might look for. */
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, program, 0) == MAP_FAILED);
	CHECK(chown("/program", 1000, 1000) == 0 && chmod("/program", 04755) == 0);
	CHECK(chown("/program", 65536, 0) < 0 && errno == EINVAL);
	CHECK(confine_move(other, NULL) == 0 && access("/program", F_OK) < 0);
	CHECK(mkdir("/made", 0700) == 0 && chroot("/made") == 0 && chdir("..") == 0);
	CHECK(confine_move(tree, NULL) == 0 && access("/program", F_OK) == 0);
}

static void write_program(const char *dir)
{
	auto_free char *path = xasprintf("%s/program", dir);
	FILE *file = fopen(path, "we");
	fprintf(file, "#!/bin/sh\n");
	fclose(file);
	chmod(path, 0755);
}

int main(void)
{
	char one[] = "/tmp/aio-confine.XXXXXX", two[] = "/tmp/aio-confine.XXXXXX";
	struct err err = { 0 };
	int status = 1;
	if (geteuid() != 0) {
		printf("ok 1 # SKIP needs root\n1..1\n");
		return 0;
	}
	if (!CHECK(mkdtemp(one) && mkdtemp(two)))
		return tap_done();
	write_program(one);
	auto_close int tree = confine_tree(one, &err), other = confine_tree(two, &err);
	int lost = open("/", O_RDONLY | O_CLOEXEC);
	fflush(stdout);
	pid_t outside = getpid(), pid = confine_fork(&err);
	if (pid == 0) {
		const int kept[] = { tree, other };
		if (CHECK(confine_enter(tree, kept, COUNT(kept), &err) == 0)) {
			processes(outside);
			privileges();
			files(tree, other, lost);
		}
		printf("# %s\n", err.msg);
		status = tap_done();
		_exit(status);
	}
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	auto_free char *clean = xasprintf("rm -rf %s %s", one, two);
	(void)!system(clean);
	if (pid < 0 || !WIFEXITED(status)) /* else it has counted */
		printf("not ok - %s, status %d\n", err.msg, status);
	fflush(stdout);
	return status != 0;
}
