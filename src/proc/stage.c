#include "proc/stage.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "proc/cradle.h"
#include "proc/tree.h"
#include "proc/user.h"

static char dir[48]; /* named before the fork, so that both sides know it */

static void name_dir(void)
{
	unsigned long long number = 0;
	(void)!getrandom(&number, sizeof number, 0);
	snprintf(dir, sizeof dir, "/tmp/aio-%016llx", number);
}

const char *stage_dir(struct err *err)
{
	if (mkdir(dir, 0711) < 0 && errno != EEXIST) {
		err_set(err, errno, "mkdir '%s'", dir);
		return NULL;
	}
	return dir;
}

int stage_make_dir(const struct user *owner, const char *name, char *to, size_t room,
		   struct err *err)
{
	if (!stage_dir(err))
		return -1;
	snprintf(to, room, "%s/%s-XXXXXX", dir, name);
	if (!mkdtemp(to))
		return err_set(err, errno, "mkdir '%s'", to);
	if (owner && owner->other && chown(to, owner->uid, owner->gid) < 0) {
		int code = errno;
		rmdir(to);
		return err_set(err, code, "chown '%s'", to);
	}
	return 0;
}

/* By a program that is up to whatever sessions have put there. */
static void remove_dir(void)
{
	if (access(dir, F_OK) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", "--", dir, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static _Noreturn void leave(int status)
{
	tree_end_children();
	remove_dir();
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
	name_dir();
	if (cradle_is_used()) /* the init of its box does all this */
		return;
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
	if (server < 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		perror("aio: no first stage");
		return;
	}
	/* One that asks it to end waits until the server looks for it. */
	sigdelset(&signals, SIGTERM);
	sigdelset(&signals, SIGINT);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	/* A group of its own: Ctrl+C reaches the first stage alone, which passes it on once. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != stage)
		raise(SIGTERM);
}
