#include "proc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { CHILDREN_MAX = 64, DRAIN_TURNS = 256 };

/* Those that are running, so that the end of the server is theirs too. */
static struct {
	pthread_mutex_t lock;
	struct program *programs[CHILDREN_MAX];
	bool ended;
} running = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Starts the program and notes it under one lock, so that child_end_all() misses none. */
static struct program *start(const struct child_spec *spec, int out, struct err *err)
{
	const struct program_spec it = {
		.spawn = { .path = spec->argv[0],
			   .argv = spec->argv,
			   .env = spec->env ? spec->env : environ,
			   .cwd = spec->dir,
			   .as = spec->user,
			   .fds = { -1, out, -1, spec->extra[0], spec->extra[1] },
			   .extras = spec->extras },
		.group = true,
	};
	size_t slot = 0;
	struct program *program = NULL;
	pthread_mutex_lock(&running.lock);
	while (slot < CHILDREN_MAX && running.programs[slot])
		slot++;
	if (running.ended)
		wake_err(WAKE_STOPPING, err);
	else if (slot == CHILDREN_MAX)
		err_set(err, ERR_UNAVAILABLE, "too many programs run at once");
	else
		program = running.programs[slot] = program_start(&it, err);
	pthread_mutex_unlock(&running.lock);
	return program;
}

static void finish(struct program *program, struct program_status *ret)
{
	program_end(program, 0, ret);
	pthread_mutex_lock(&running.lock);
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (running.programs[i] == program)
			running.programs[i] = NULL;
	pthread_mutex_unlock(&running.lock);
	program_unref(program);
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

int child_run(const struct child_spec *spec, struct buf *out, struct program_status *ret,
	      struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	auto_close int from = ends[0], to = ends[1];
	fcntl(from, F_SETFL, O_NONBLOCK);
	struct program *program = start(spec, to, err);
	if (!program)
		return -1;
	close(TAKE_FD(to));
	int result = collect(spec, from, program_fd(program), out, err);
	finish(program, ret);
	return result;
}

void child_end_all(void)
{
	pthread_mutex_lock(&running.lock);
	running.ended = true;
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (running.programs[i])
			program_kill(running.programs[i]);
	pthread_mutex_unlock(&running.lock);
}
