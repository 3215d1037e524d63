#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/files.h"
#include "box/group.h"
#include "box/identity.h"
#include "box/maker.h"

/* --- starting -------------------------------------------------------------------------------- */

static int makers = -1; /* a socket to them */

int box_makers(const char *state_dir, struct err *err)
{
	int pair[2];
	char state[4096], number[16];
	if (!realpath(state_dir, state))
		return err_set(err, errno, "'%s'", state_dir);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	pid_t pid = fork();
	if (pid == 0) {
		const char *const argv[] = { "aio", MAKER_COMMAND, state, number, NULL };
		const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
		int fd = dup2(pair[1], 3);
		snprintf(number, sizeof number, "%d", fd);
		syscall(SYS_close_range, 4, ~0u, 0);
		if (fork() == 0) /* nobody's child: what they leave behind is init's */
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
	own_close(&makers);
	makers = pair[0];
	return 0;
}

int box_ask(const struct box_spec *spec, struct err *err)
{
	int pair[2];
	if (makers < 0)
		return err_set(err, ERR_INTERNAL, "box_makers() was not called");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	int result = maker_send(makers, spec, pair[1], err);
	close(pair[1]);
	if (result == 0)
		return pair[0];
	close(pair[0]);
	return -1;
}

int box_answer(int fd, struct box_proc *ret, struct err *err)
{
	struct box_answer answer;
	ssize_t n = recv(fd, &answer, sizeof answer, MSG_WAITALL);
	close(fd);
	if (n != sizeof answer)
		return err_set(err, EIO, "the process that makes boxes is gone");
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
	return files_remove(dir, err);
}

int box_freeze(const char *cgroup, bool frozen, struct err *err)
{
	return group_freeze(cgroup, frozen, err);
}

int box_usage(const char *dir, const char *cgroup, const struct box_proc *proc,
	      struct box_usage *ret, struct err *err)
{
	(void)dir;
	(void)proc;
	*ret = (struct box_usage){ 0 };
	return group_usage(cgroup, ret, err);
}

int box_copy(const char *from_dir, const char *to_dir, struct err *err)
{
	(void)from_dir;
	(void)to_dir;
	return err_set(err, ERR_NOT_IMPLEMENTED, "copying a box");
}

int box_exit_status(const char *dir)
{
	char text[32];
	auto_free char *path = xasprintf("%s/exit", dir);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	char *end;
	long status = strtol(text, &end, 10);
	return end == text || *end != '\n' || status < 0 || status > 0xffff ? -1 : (int)status;
}

int box_probe(const char *state_dir, struct box_means *ret, struct err *err)
{
	*ret = (struct box_means){ 0 };
	if (access(state_dir, W_OK) < 0)
		return err_set(err, errno, "'%s'", state_dir);
	if (group_setup(err) < 0)
		return -1;
	ret->usable = true;
	ret->can_freeze = true;
	ret->can_limit_memory = group_can(GROUP_MEMORY);
	ret->can_limit_cpu = group_can(GROUP_CPU);
	ret->can_limit_pids = group_can(GROUP_PIDS);
	return 0;
}
