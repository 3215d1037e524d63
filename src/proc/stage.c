#include "proc/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "proc/cradle.h"
#include "proc/tree.h"

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

/* Links are removed, never followed: sessions may have put them there. */
static void remove_tree(int parent, const char *name)
{
	if (unlinkat(parent, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; entries && (entry = readdir(entries));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_tree(dirfd(entries), entry->d_name);
	if (entries)
		closedir(entries);
	else if (fd >= 0)
		close(fd);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static _Noreturn void leave(int status)
{
	tree_end_children();
	remove_tree(AT_FDCWD, dir);
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
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the ends of children from us */
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
