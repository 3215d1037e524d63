#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/cradle.h"
#include "proc/environment.h"
#include "proc/limits.h"
#include "proc/tree.h"
#include "proc/user.h"

/* clone() by its other name, which ThreadSanitizer does not take over: it would treat the child,
 * which shares our memory, as a copy of the process, and lose track of our locks. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

enum { CHILD_STACK = 32768, STATUS_UNKNOWN = 255 };

/* The soft limit of descriptors for what is started; 0: as it is. Set before there are threads. */
static struct rlimit files;

void spawn_raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	files = limit;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		files = (struct rlimit){ 0 };
}

/* What the child tells its parent, whose memory it shares until it runs the program. */
struct spawn_start {
	const struct spawn *spawn;
	int code;
	const char *step;
};

/* Runs in the child, on memory of a parent with other threads: system calls only, and those without
 * the library, whose place a sanitizer may have taken: it would take our descriptors for the
 * parent's. */
#if defined(__has_attribute) && __has_attribute(no_sanitize)
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
static int
child(void *arg)
{
	struct spawn_start *start = arg;
	const struct spawn *s = start->spawn;
	static const uint64_t none, usual[8]; /* no signal; the kernel's struct for SIG_DFL */
#define STEP(what, call)                              \
	do {                                          \
		if ((call) < 0) {                     \
			start->code = errno;          \
			start->step = (what);         \
			syscall(SYS_exit_group, 127); \
		}                                     \
	} while (0)
	STEP("setsid", syscall(SYS_setsid));
	if (s->terminal)
		STEP("controlling terminal", syscall(SYS_ioctl, s->fds[0], TIOCSCTTY, 0));
	for (int i = 0; i < 3; i++) {
		int fd = s->fds[i];
		if (fd < 0)
			STEP("/dev/null", fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null",
							    O_RDWR | O_CLOEXEC));
		STEP("dup3", fd == i ? fcntl(fd, F_SETFD, 0) : (int)syscall(SYS_dup3, fd, i, 0));
	}
	int extra[2] = { s->fds[3], s->fds[4] };
	int extras = s->extras < (int)COUNT(extra) ? s->extras : (int)COUNT(extra);
	for (int i = 0; i < extras; i++) /* out of the way of each other */
		if (extra[i] < 5)
			STEP("dup", extra[i] = fcntl(extra[i], F_DUPFD_CLOEXEC, 5));
	for (int i = 0; i < extras; i++)
		STEP("dup3", (int)syscall(SYS_dup3, extra[i], 3 + i, 0));
	syscall(SYS_close_range, 3 + extras, ~0u, 0); /* a belt: all are close-on-exec */
	if (files.rlim_max)
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, NULL);
	const struct rlimit tag = { s->tag, s->tag };
	if (s->tag) /* for a real-time program it is as good as no limit */
		syscall(SYS_prlimit64, 0, RLIMIT_RTTIME, &tag, NULL);
	if (s->as)
		STEP("becoming the sandbox user", user_become(s->as));
	if (s->with_thread) /* a change of users would undo it */
		syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (s->cwd)
		STEP("chdir", syscall(SYS_chdir, s->cwd));
	for (int i = 1; i < NSIG; i++) /* who started the server may have had some ignored */
		syscall(SYS_rt_sigaction, i, usual, NULL, sizeof none);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
	STEP("exec", syscall(SYS_execve, s->path, s->argv, s->env));
	return 127;
}

void spawn_sandboxed(struct spawn *spawn, struct arena *arena, const struct user *user,
		     const char *home, const char *marker, const struct list *env)
{
	size_t count = env ? env->count : 0;
	struct pair *all = arena_alloc(arena, (count + 1) * sizeof *all);
	if (count)
		memcpy(all, env->items, count * sizeof *all);
	if (marker)
		all[count++] = (struct pair){ TREE_MARKER, marker + sizeof TREE_MARKER };
	spawn->as = user;
	spawn->env = environment_make(arena, user, home, &(struct list){ count, all });
	spawn->tag = marker ? tree_tag(marker) : 0;
}

static int refuse(const struct spawn *spawn, int code, const char *step, struct err *err)
{
	if (code == E2BIG)
		return err_set(err, ERR_TOO_LARGE,
			       "the system does not take a command, or an environment, that long");
	if (code == EAGAIN)
		return limits_refuse(code, "no more processes can be started", err);
	if (code == ENOMEM)
		return limits_refuse(code, "no more programs can be started", err);
	if (code == EMFILE || code == ENFILE)
		return err_set(err, ERR_LIMIT, "no descriptor for another process");
	if (step && !strcmp(step, "chdir"))
		return err_set(err, code, "working directory '%s'", spawn->cwd);
	return err_set(err, code, "cannot start '%s'%s%s", spawn->path, step ? ": " : "",
		       step ? step : "");
}

pid_t spawn_clone(const struct spawn *spawn, bool sibling, int *ret_pidfd, int *ret_code,
		  const char **ret_step)
{
	_Alignas(16) char stack[CHILD_STACK];
	struct spawn_start start = { .spawn = spawn };
	int flags = CLONE_VM | CLONE_VFORK | (sibling ? CLONE_PARENT : CLONE_PIDFD) | SIGCHLD;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler may run on shared memory */
	pid_t pid = __clone(child, stack + sizeof stack, flags, &start, ret_pidfd);
	*ret_code = pid < 0 ? errno : start.code;
	*ret_step = start.step;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

void spawn_rate(pid_t pid, enum spawn_worth worth)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
	auto_close int fd = cradle_is_used() ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	if (fd >= 0)
		(void)!dprintf(fd, "%d", (int)worth);
}

int spawn_start(const struct spawn *spawn, struct process *ret, struct err *err)
{
	int code, pidfd = -1;
	const char *step;
	pid_t pid = cradle_is_used() ? cradle_start(spawn, &code, &step)
				     : spawn_clone(spawn, false, &pidfd, &code, &step);
	if (pid < 0)
		return refuse(spawn, code, NULL, err);
	if (cradle_is_used()) { /* our own child, not waited for yet: the number is still its own */
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0) {
			code = errno;
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
			return refuse(spawn, code, "pidfd", err);
		}
		if (!step) /* now it is a program of its own: what the cradle clones may not */
			spawn_rate(pid, WORTH_COMMAND);
	}
	*ret = (struct process){ pid, pidfd };
	if (!step)
		return 0;
	(void)process_status(pidfd, &(int){ 0 });
	close(TAKE_FD(ret->pidfd));
	return refuse(spawn, code, step, err);
}

int process_status(int pidfd, int *ret_signal)
{
	siginfo_t info = { 0 };
	*ret_signal = 0;
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
		if (errno != EINTR)
			return STATUS_UNKNOWN;
	*ret_signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
	return *ret_signal ? 128 + *ret_signal : info.si_status;
}
