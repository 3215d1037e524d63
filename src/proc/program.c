#include "proc/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/pump.h"
#include "proc/tree.h"

enum { READS_AT_END = 16, END_MS = 30000, KILLED_MS = 5000 };

/* A descriptor of a program in the pump; each holds a reference. */
struct program_watched {
	struct source source; /* first: see program_of() */
	struct program *program;
};

struct program {
	_Atomic int refs;
	struct program_watched end, errors;
	char *marker;
	pid_t pid;
	int pidfd;
	bool adopted;
	program_ended_fn *ended;
	void *arg;

	pthread_mutex_t lock; /* of what follows */
	struct waiter *waiters;
	bool over, group; /* group: it ends with it */
	bool errors_open;
	struct program_status how;
	size_t words_len;
	char words[PROGRAM_WORDS + 1];
};

/* ---- references ---- */

struct program *program_ref(struct program *program)
{
	atomic_fetch_add(&program->refs, 1);
	return program;
}

void program_unref(struct program *program)
{
	if (!program || atomic_fetch_sub(&program->refs, 1) > 1)
		return;
	close(program->pidfd);
	pthread_mutex_destroy(&program->lock);
	free(program->marker);
	free(program);
}

pid_t program_pid(const struct program *program)
{
	return program->pid;
}

int program_fd(const struct program *program)
{
	return program->pidfd;
}

/* ---- what the pump calls ---- */

static struct program *program_of(struct source *source)
{
	return ((struct program_watched *)source)->program;
}

static void end_done(struct source *source)
{
	program_unref(program_of(source));
}

static void errors_done(struct source *source)
{
	struct program *program = program_of(source);
	pthread_mutex_lock(&program->lock);
	program->errors_open = false;
	pthread_mutex_unlock(&program->lock);
	program_unref(program);
}

/* Keeps the end of it, which often says why a program ends. */
static bool errors_ready(struct source *source)
{
	struct program *program = program_of(source);
	char data[4096];
	ssize_t n = read(source->fd, data, sizeof data);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	size_t len = (size_t)n, keep = len < PROGRAM_WORDS ? len : PROGRAM_WORDS;
	pthread_mutex_lock(&program->lock);
	size_t old = program->words_len + keep > PROGRAM_WORDS ? PROGRAM_WORDS - keep
							       : program->words_len;
	memmove(program->words, program->words + program->words_len - old, old);
	memcpy(program->words + old, data + len - keep, keep);
	program->words_len = old + keep;
	program->words[program->words_len] = 0;
	pthread_mutex_unlock(&program->lock);
	return true;
}

static bool end_ready(struct source *source)
{
	struct program *program = program_of(source);
	bool open = program->errors_open; /* changed by this thread alone */
	for (int i = 0; open && i < READS_AT_END && errors_ready(&program->errors.source); i++)
		;
	pthread_mutex_lock(&program->lock);
	if (program->group && !program->adopted) /* once reaped, its number may be another's */
		kill(-program->pid, SIGKILL);
	program->over = true;
	program->how.known = !program->adopted;
	if (!program->adopted)
		program->how.code = process_status(program->pidfd, &program->how.signal);
	waiter_wake(program->waiters);
	pthread_mutex_unlock(&program->lock);
	if (open)
		pump_drop(&program->errors.source);
	if (program->ended)
		program->ended(program->arg, program, &program->how);
	return false;
}

/* ---- starting ---- */

static int watch(struct program *program, struct program_watched *watched, struct source source,
		 struct err *err)
{
	*watched = (struct program_watched){ source, program_ref(program) };
	if (pump_add(&watched->source, err) == 0)
		return 0;
	if (!source.keep)
		close(source.fd);
	atomic_fetch_sub(&program->refs, 1); /* never the last */
	return -1;
}

/* Takes over a pipe that its standard error comes through; -1: none. */
static int watch_all(struct program *program, int errors, struct err *err)
{
	const struct source pipe = { errors, .ready = errors_ready, .done = errors_done };
	const struct source end = { program->pidfd, .keep = true, .ready = end_ready,
				    .done = end_done };
	program->errors_open = errors >= 0;
	if (errors >= 0 && watch(program, &program->errors, pipe, err) < 0)
		return -1;
	if (watch(program, &program->end, end, err) == 0)
		return 0;
	if (errors >= 0)
		pump_drop(&program->errors.source);
	return -1;
}

static struct program *new_program(pid_t pid, int pidfd)
{
	struct program *program = xcalloc(1, sizeof *program);
	program->refs = 1;
	program->pid = pid;
	program->pidfd = pidfd;
	pthread_mutex_init(&program->lock, NULL);
	return program;
}

struct program *program_start(const struct program_spec *spec, struct err *err)
{
	int ends[2] = { -1, -1 };
	struct spawn spawn = spec->spawn;
	struct process process;
	if (spec->words && pipe2(ends, O_CLOEXEC) < 0) {
		err_set(err, ERR_LIMIT, "no pipe for another process: %s", strerror(errno));
		return NULL;
	}
	auto_close int ours = ends[0], theirs = ends[1];
	if (spec->words) {
		fcntl(ours, F_SETFL, O_NONBLOCK);
		spawn.fds[2] = theirs;
	}
	if (spawn_start(&spawn, &process, err) < 0)
		return NULL;
	if (spec->worth)
		spawn_rate(process.pid, spec->worth);
	struct program *program = new_program(process.pid, process.pidfd);
	program->marker = spec->marker ? xstrdup(spec->marker) : NULL;
	program->group = spec->group;
	program->ended = spec->ended;
	program->arg = spec->arg;
	if (watch_all(program, TAKE_FD(ours), err) == 0)
		return program;
	kill(-process.pid, SIGKILL);
	(void)process_status(process.pidfd, &(int){ 0 });
	program_unref(program);
	return NULL;
}

struct program *program_adopt(pid_t pid, int pidfd, program_ended_fn *ended, void *arg,
			      struct err *err)
{
	struct program *program = new_program(pid, pidfd);
	program->adopted = true;
	program->ended = ended;
	program->arg = arg;
	if (watch_all(program, -1, err) == 0)
		return program;
	program_kill(program);
	program_unref(program);
	return NULL;
}

/* ---- one that is run to its end ---- */

static bool ends_within(const struct process *process, int64_t ms)
{
	const struct wait wait = { clock_ms() + ms, -1, -1 };
	return wait_fd(&wait, process->pidfd, POLLIN) == WAKE_READY;
}

int program_run(const struct spawn *spawn, int64_t timeout_ms, struct program_status *ret,
		struct err *err)
{
	struct process process;
	*ret = (struct program_status){ 0 };
	if (spawn_start(spawn, &process, err) < 0)
		return -1;
	auto_close int pidfd = process.pidfd;
	if (ends_within(&process, timeout_ms)) {
		ret->code = process_status(pidfd, &ret->signal);
		ret->known = true;
		return 0;
	}
	kill(-process.pid, SIGKILL);
	if (ends_within(&process,
			KILLED_MS)) /* one that waits in the kernel cannot be waited for */
		(void)process_status(pidfd, &(int){ 0 });
	return 0;
}

/* ---- waiting ---- */

bool program_ended(struct program *program)
{
	struct pollfd pfd = { .fd = program->pidfd, .events = POLLIN };
	return poll(&pfd, 1, 0) > 0;
}

enum wake program_wait(struct program *program, const struct wait *wait, struct program_status *ret)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&program->lock);
	while (!program->over && wake == WAKE_READY)
		wake = wait_change(wait, &program->lock, &program->waiters, NULL);
	if (ret)
		*ret = program->how;
	pthread_mutex_unlock(&program->lock);
	return wake;
}

void program_words(struct program *program, char *to, size_t room)
{
	pthread_mutex_lock(&program->lock);
	size_t end = program->words_len, start;
	while (end && strchr("\r\n \t", program->words[end - 1]))
		end--;
	for (start = end; start && program->words[start - 1] != '\n';)
		start--;
	snprintf(to, room, "%.*s", (int)(end - start), program->words + start);
	pthread_mutex_unlock(&program->lock);
}

/* ---- ending ---- */

int program_signal(struct program *program, int number, struct err *err)
{
	pthread_mutex_lock(&program->lock);
	bool sent = !program->over && kill(-program->pid, number) == 0;
	pthread_mutex_unlock(&program->lock);
	return sent ? 0 : err_set(err, ESRCH, "the program has ended");
}

void program_signal_one(const struct program *program, int number)
{
	(void)syscall(SYS_pidfd_send_signal, program->pidfd, number, NULL, 0);
}

void program_terminate(struct program *program)
{
	pthread_mutex_lock(&program->lock);
	program->group = true;
	if (!program->over)
		kill(-program->pid, SIGTERM);
	pthread_mutex_unlock(&program->lock);
}

void program_kill(struct program *program)
{
	pthread_mutex_lock(&program->lock);
	program->group = true;
	/* One that somebody else has started may not have a group of its own yet, and may be reaped. */
	if (!program->over && syscall(SYS_pidfd_send_signal, program->pidfd, SIGKILL, NULL, 0) == 0)
		kill(-program->pid, SIGKILL);
	pthread_mutex_unlock(&program->lock);
}

void program_end(struct program *program, int64_t grace_ms, struct program_status *ret)
{
	if (grace_ms) {
		program_terminate(program);
		(void)program_wait(program, &(struct wait){ clock_ms() + grace_ms, -1, -1 }, NULL);
	}
	if (program->marker)
		tree_end(program->marker);
	program_kill(program);
	(void)program_wait(program, &(struct wait){ clock_ms() + END_MS, -1, -1 }, ret);
}
