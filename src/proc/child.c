#include "proc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/spawn.h"

enum { CHILDREN_MAX = 64, DRAIN_TURNS = 256 };

/* The groups that are running, so that the end of the server is theirs too. */
static struct {
	pthread_mutex_t lock;
	pid_t pids[CHILDREN_MAX];
	bool ended;
} running = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Starts the program and notes its group under one lock, so that child_end_all() misses none. */
static int start(const struct child_spec *spec, int out, struct process *ret, struct err *err)
{
	struct spawn spawn = { .path = spec->argv[0],
			       .argv = spec->argv,
			       .env = spec->env ? spec->env : environ,
			       .cwd = spec->dir,
			       .as = spec->user,
			       .fds = { -1, out, -1, spec->extra[0], spec->extra[1] },
			       .extras = spec->extras };
	size_t slot = 0;
	int result = -1;
	pthread_mutex_lock(&running.lock);
	while (slot < CHILDREN_MAX && running.pids[slot])
		slot++;
	if (running.ended)
		wake_err(WAKE_STOPPING, err);
	else if (slot == CHILDREN_MAX)
		err_set(err, ERR_UNAVAILABLE, "too many programs run at once");
	else
		result = spawn_start(&spawn, ret, err);
	if (result == 0)
		running.pids[slot] = ret->pid;
	pthread_mutex_unlock(&running.lock);
	return result;
}

/* Ends what is left of the group and forgets it. Its number stays its own until the program is
 * reaped, which happens under the lock, after it has died. */
static void reap(struct process *process, struct child_end *ret)
{
	siginfo_t info;
	pid_t pid = process->pid;
	kill(-pid, SIGKILL);
	while (waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED | WNOWAIT) < 0 &&
	       errno == EINTR)
		;
	pthread_mutex_lock(&running.lock);
	ret->code = process_reap(process, &ret->signal);
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (running.pids[i] == pid)
			running.pids[i] = 0;
	pthread_mutex_unlock(&running.lock);
}

enum drained { MORE, END, ENOUGH };

/* Reads what there is, though not for ever from a program that never stops writing. */
static enum drained drain(const struct child_spec *spec, int fd, struct buf *out)
{
	for (int turn = 0; turn < DRAIN_TURNS; turn++) {
		char data[16384];
		ssize_t n = read(fd, data, sizeof data);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return END;
		if (n < 0 && errno == EAGAIN)
			return MORE;
		if (n > 0 && spec->take && !spec->take(spec->arg, data, (size_t)n))
			return ENOUGH;
		size_t room = spec->take ? 0 : out->cap - out->len;
		if (n > 0 && room)
			buf_add(out, data, (size_t)n < room ? (size_t)n : room);
	}
	return MORE;
}

/* Collects output until the program itself ends, whoever else may hold the pipe. */
static int collect(const struct child_spec *spec, int fd, int pidfd, struct buf *out,
		   struct err *err)
{
	struct pollfd fds[] = { { .fd = pidfd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	for (;;) {
		enum wake wake = wait_stream(&spec->wait, fds, COUNT(fds));
		if (wake == WAKE_TIMEOUT)
			return err_set(err, ERR_SLOW, "the program took too long");
		if (wake != WAKE_READY)
			return wake_err(wake, err);
		enum drained drained = fds[1].revents ? drain(spec, fd, out) : MORE;
		if (drained == ENOUGH)
			return 0;
		if (drained == END)
			fds[1].fd = -1;
		if (!fds[0].revents)
			continue;
		while (fds[1].fd >= 0 && drained == MORE && poll(&fds[1], 1, 0) > 0)
			drained = drain(spec, fd, out);
		return 0;
	}
}

int child_run(const struct child_spec *spec, struct buf *out, struct child_end *ret,
	      struct err *err)
{
	int pipe_fds[2];
	struct process process;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	auto_close int from = pipe_fds[0];
	auto_close int to = pipe_fds[1];
	fcntl(from, F_SETFL, O_NONBLOCK);
	if (start(spec, to, &process, err) < 0)
		return -1;
	close(TAKE_FD(to));
	int result = collect(spec, from, process.pidfd, out, err);
	reap(&process, ret);
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
