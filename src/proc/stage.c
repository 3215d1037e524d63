#include "proc/stage.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/tree.h"

static _Noreturn void leave(int status)
{
	tree_end_children();
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
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
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the ends of children from us */
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
