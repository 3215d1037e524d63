#include "proc/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Kills all children, and what becomes ours as they die, until none is left. */
static void end_children(void)
{
	char path[64], text[65536];
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		for (char *at = text, *next; *at; at = next) {
			long pid = strtol(at, &next, 10);
			if (next == at)
				break;
			kill((pid_t)pid, SIGKILL);
		}
		if (waitpid(-1, NULL, 0) < 0 && errno != EINTR)
			return;
	}
}

static _Noreturn void leave(int status)
{
	end_children();
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	_exit(128 + WTERMSIG(status));
}

static _Noreturn void attend(pid_t server, const sigset_t *signals)
{
	for (;;) {
		siginfo_t info;
		int number = sigwaitinfo(signals, &info);
		int status;
		if (number == SIGTERM || number == SIGINT)
			kill(server, number);
		for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
			if (pid == server)
				leave(status);
	}
}

void stage_enter(void)
{
	sigset_t signals, before;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		perror("aio: no subreaper, orphans go to init");
	pid_t stage = getpid(), server = fork();
	if (server > 0)
		attend(server, &signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (server < 0) {
		perror("aio: no first stage");
		return;
	}
	/* A group of its own: Ctrl+C reaches the first stage alone, which passes it on once. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != stage)
		raise(SIGTERM);
}
