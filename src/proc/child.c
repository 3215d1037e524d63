#include "proc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"

enum { CHILDREN_MAX = 64 };

/* The groups that are running, so that the end of the server is theirs too. */
static struct {
	pthread_mutex_t lock;
	pid_t pids[CHILDREN_MAX];
	bool ended;
} running = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int spawn_files(posix_spawn_file_actions_t *files, int out)
{
	posix_spawn_file_actions_init(files);
	posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(files, out, 1);
	return posix_spawn_file_actions_addopen(files, 2, "/dev/null", O_WRONLY, 0);
}

static void spawn_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(attr);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
					       POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(attr, 0);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &all);
}

/* Starts the program and notes its group under one lock, so that child_end_all() misses none. */
static int start(char *const argv[], char *const env[], int out, pid_t *ret, struct err *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	size_t slot = 0;
	int code = 0;
	pthread_mutex_lock(&running.lock);
	while (slot < CHILDREN_MAX && running.pids[slot])
		slot++;
	if (running.ended || slot == CHILDREN_MAX) {
		bool ended = running.ended;
		pthread_mutex_unlock(&running.lock);
		return err_set(err, ERR_UNAVAILABLE, ended ? "the server is stopping"
							   : "too many programs run at once");
	}
	spawn_files(&files, out);
	spawn_attributes(&attr);
	code = posix_spawnp(ret, argv[0], &files, &attr, argv, env ? env : environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	if (!code)
		running.pids[slot] = *ret;
	pthread_mutex_unlock(&running.lock);
	return code ? err_set(err, code, "cannot start '%s'", argv[0]) : 0;
}

/* Ends what is left of the group and forgets it. Its number stays its own until the program is
 * reaped, which happens under the lock, after it has died. */
static void reap(pid_t pid, struct child_end *ret)
{
	siginfo_t info;
	int status = 0;
	kill(-pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&running.lock);
	waitpid(pid, &status, 0);
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (running.pids[i] == pid)
			running.pids[i] = 0;
	pthread_mutex_unlock(&running.lock);
	ret->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Reads what there is. False at the end of the pipe. */
static bool drain(int fd, struct buf *out)
{
	for (;;) {
		char data[4096];
		ssize_t n = read(fd, data, sizeof data);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n < 0 && errno == EAGAIN)
			return true;
		size_t room = out->cap - out->len;
		if (n > 0)
			buf_add(out, data, (size_t)n < room ? (size_t)n : room);
	}
}

/* Collects output until the program itself ends, whoever else may hold the pipe. */
static int collect(int fd, int pidfd, int64_t until_ms, struct buf *out, struct err *err)
{
	struct pollfd pfds[] = { { .fd = pidfd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	for (;;) {
		int64_t left = until_ms - clock_ms();
		if (left <= 0)
			return err_set(err, ERR_SLOW, "the program took too long");
		int n = poll(pfds, COUNT(pfds), left < 1000 ? (int)left : 1000);
		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "poll");
		if (n <= 0)
			continue;
		if (pfds[1].revents && !drain(fd, out))
			pfds[1].fd = -1;
		if (pfds[0].revents) {
			if (pfds[1].fd >= 0)
				drain(fd, out);
			return 0;
		}
	}
}

int child_run(char *const argv[], char *const env[], int64_t until_ms, struct buf *out,
	      struct child_end *ret, struct err *err)
{
	int pipe_fds[2];
	pid_t pid;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	auto_close int from = pipe_fds[0];
	auto_close int to = pipe_fds[1];
	fcntl(from, F_SETFL, O_NONBLOCK);
	if (start(argv, env, to, &pid, err) < 0)
		return -1;
	close(TAKE_FD(to));
	auto_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int result = pidfd < 0 ? err_set(err, errno, "pidfd_open")
			       : collect(from, pidfd, until_ms, out, err);
	reap(pid, ret);
	return result;
}

void child_end_all(void)
{
	pthread_mutex_lock(&running.lock);
	running.ended = true;
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (running.pids[i])
			kill(-running.pids[i], SIGKILL);
	pthread_mutex_unlock(&running.lock);
}
