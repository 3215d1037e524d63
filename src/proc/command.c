#include "proc/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/limits.h"
#include "proc/program.h"
#include "proc/pump.h"

enum { READ_SIZE = 65536, PIPE_SIZE = 1 << 20, GRACE_MS = 2000 };

/* A source and the command it is of; each source holds a reference. */
struct command_link {
	struct source source;
	struct command *command;
	int stream;
};

struct command {
	_Atomic int refs;
	pthread_mutex_t lock;
	struct command_view view;
	struct waiter *waiters;
	pid_t pid;
	struct program *program; /* with a reference; NULL once it has ended */
	struct command_link pipes[2], timer;
	int input_fd;
	bool overdue, signalled;
	bool at_end[2];        /* the pipes that the pump closes */
	int64_t killed_before; /* limits_killed() when it started */
	int64_t began_us;
	struct journal_run *run; /* NULL: not recorded, or over */
};

/* ---- references ---- */

struct command *command_ref(struct command *command)
{
	atomic_fetch_add(&command->refs, 1);
	return command;
}

void command_unref(struct command *command)
{
	if (!command || atomic_fetch_sub(&command->refs, 1) > 1)
		return;
	for (int i = 0; i < 2; i++)
		output_done(&command->view.out[i]);
	if (command->input_fd >= 0)
		close(command->input_fd);
	program_unref(command->program);
	pthread_mutex_destroy(&command->lock);
	free(command->run);
	free(command);
}

const struct command_view *command_lock(struct command *command)
{
	pthread_mutex_lock(&command->lock);
	return &command->view;
}

void command_unlock(struct command *command)
{
	pthread_mutex_unlock(&command->lock);
}

/* With the lock. */
static void changed(struct command *command)
{
	command->view.changes++;
	waiter_wake(command->waiters);
}

enum wake command_wait(struct command *command, const struct wait *wait)
{
	return wait_change(wait, &command->lock, &command->waiters, NULL);
}

enum wake command_wait_next(struct command *command, uint64_t *seen, bool input,
			    const struct wait *wait)
{
	enum wake wake = wait_check(wait); /* one that prints without end is always ready */
	if (wake > WAKE_TIMEOUT)
		return wake;
	wake = WAKE_READY;
	pthread_mutex_lock(&command->lock);
	const struct pollfd room = { .fd = command->input_fd, .events = POLLOUT };
	if (command->view.changes == *seen)
		wake = wait_change(wait, &command->lock, &command->waiters, input ? &room : NULL);
	*seen = command->view.changes;
	pthread_mutex_unlock(&command->lock);
	return wake;
}

void command_join(struct command *command, struct waiter *waiter)
{
	waiter_join(&command->waiters, waiter);
}

void command_leave(struct command *command, const struct waiter *waiter)
{
	waiter_leave(&command->waiters, waiter);
}

size_t command_take(struct command *command, int stream, int64_t *at, char *to, size_t room)
{
	pthread_mutex_lock(&command->lock);
	struct output *output = &command->view.out[stream];
	size_t n = output_read(output, *at, to, room);
	*at += (int64_t)n;
	if (*at == output->size) {
		output_done(output);
		*at = 0;
	}
	pthread_mutex_unlock(&command->lock);
	return n;
}

bool command_pending(struct command *command)
{
	bool pending = false;
	pthread_mutex_lock(&command->lock);
	for (int i = 0; i < 2 && !pending; i++) {
		int waiting = 0;
		pending = command->view.open[i] && !command->at_end[i] &&
			  ioctl(command->pipes[i].source.fd, FIONREAD, &waiting) == 0 && waiting;
	}
	pthread_mutex_unlock(&command->lock);
	return pending;
}

pid_t command_pid(const struct command *command)
{
	return command->pid;
}

bool command_ended(struct command *command)
{
	pthread_mutex_lock(&command->lock);
	bool ended = !command->program || program_ended(command->program);
	pthread_mutex_unlock(&command->lock);
	return ended;
}

/* With the lock. */
static void record_end(struct command *command)
{
	static const char *const names[] = { "running", "completed", "timed_out", "killed" };
	if (command->view.state != COMMAND_RUNNING)
		journal_end(TAKE(command->run), names[command->view.state],
			    command->view.exit_code);
}

void command_record(struct command *command, struct journal_started as)
{
	pthread_mutex_lock(&command->lock);
	as.began_us = command->began_us;
	command->run = journal_begin(JOURNAL_COMMAND_STARTED, &as);
	record_end(command); /* it may be over already */
	pthread_mutex_unlock(&command->lock);
}

/* ---- what the pump calls ---- */

static struct command_link *link_of(struct source *source)
{
	return (struct command_link *)source; /* its first member */
}

static void link_done(struct source *source)
{
	struct command_link *link = link_of(source);
	struct command *command = link->command;
	if (link == &command->pipes[link->stream] && link->stream < 2) {
		pthread_mutex_lock(&command->lock);
		command->view.open[link->stream] = false;
		changed(command);
		pthread_mutex_unlock(&command->lock);
	}
	command_unref(command);
}

/* Takes what a pipe has, once. False at its end. */
static bool take(struct command *command, int stream, size_t *ret_taken)
{
	static char data[READ_SIZE];        /* of the pump's thread alone */
	pthread_mutex_lock(&command->lock); /* before, for command_pending() */
	ssize_t n = read(command->pipes[stream].source.fd, data, sizeof data);
	bool more = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
	*ret_taken = n > 0 ? (size_t)n : 0;
	if (n > 0) {
		output_add(&command->view.out[stream], data, (size_t)n);
		changed(command);
	}
	if (!more) /* the pump closes it next: nobody may look at it any more */
		command->at_end[stream] = true;
	pthread_mutex_unlock(&command->lock);
	return more;
}

static bool pipe_ready(struct source *source)
{
	struct command_link *link = link_of(source);
	size_t taken;
	return take(link->command, link->stream, &taken);
}

/* What it printed is in the pipes, at most as much as they hold. */
static void process_ended(void *arg, struct program *program, const struct program_status *how)
{
	struct command *command = arg;
	for (int i = 0; i < 2; i++) {
		size_t taken = 1, sum = 0;
		while (taken && sum <= PIPE_SIZE && command->view.open[i] &&
		       take(command, i, &taken))
			sum += taken;
	}
	pthread_mutex_lock(&command->lock);
	command->view.exit_code = how->code;
	command->view.starved = limits_killed() > command->killed_before;
	command->view.state = command->overdue                    ? COMMAND_TIMED_OUT
			      : command->signalled && how->signal ? COMMAND_KILLED
								  : COMMAND_COMPLETED;
	if (command->input_fd >= 0)
		close(command->input_fd);
	command->input_fd = -1;
	command->program = NULL; /* with its descriptor: many commands are remembered */
	record_end(command);
	changed(command);
	pthread_mutex_unlock(&command->lock);
	program_unref(program);
	if (command->timer.command)
		pump_drop(&command->timer.source);
	command_unref(command);
}

static void timer_set(int fd, int64_t ms)
{
	struct itimerspec when = { .it_value = { ms / 1000, ms % 1000 * 1000000 } };
	if (!ms)
		when.it_value.tv_nsec = 1;
	timerfd_settime(fd, 0, &when, NULL);
}

/* The hard time-out: first a request to end, then the end. */
static bool timer_ready(struct source *source)
{
	struct command *command = link_of(source)->command;
	uint64_t ignored;
	(void)!read(source->fd, &ignored, sizeof ignored);
	pthread_mutex_lock(&command->lock);
	bool running = command->view.state == COMMAND_RUNNING, again = command->overdue;
	command->overdue = running;
	if (running)
		(again ? program_kill : program_terminate)(command->program);
	pthread_mutex_unlock(&command->lock);
	if (running && !again)
		timer_set(source->fd, GRACE_MS);
	return running && !again;
}

/* ---- starting ---- */

static int pump_link(struct command *command, struct command_link *link, int stream, int fd,
		     bool (*ready)(struct source *), struct err *err)
{
	*link = (struct command_link){ { .fd = fd, .ready = ready, .done = link_done },
				       command_ref(command),
				       stream };
	if (pump_add(&link->source, err) == 0)
		return 0;
	close(fd);
	link->command = NULL;
	atomic_fetch_sub(&command->refs, 1);
	return -1;
}

static int open_pipes(int to_child[3], int to_us[3], int input, struct err *err)
{
	for (int i = 0; i < 3; i++)
		to_child[i] = to_us[i] = -1;
	for (int i = input >= 0; i < 3; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_set(err, ERR_LIMIT, "no pipes for another command: %s",
				       strerror(errno));
		to_child[i] = i == 0 ? ends[0] : ends[1];
		to_us[i] = i == 0 ? ends[1] : ends[0];
		fcntl(to_us[i], F_SETFL, O_NONBLOCK);
	}
	fcntl(to_us[1], F_SETPIPE_SZ, PIPE_SIZE);
	return 0;
}

static void close_all(int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Hands the pipes to the pump. */
static int watch(struct command *command, int fds[3], struct err *err)
{
	for (int i = 0; i < 2; i++) {
		command->view.open[i] = true;
		if (pump_link(command, &command->pipes[i], i, TAKE_FD(fds[i + 1]), pipe_ready,
			      err) < 0)
			return -1;
	}
	return 0;
}

/* Only while it runs: its end is what takes the timer away. */
static int limit_time(struct command *command, int64_t hard_ms, struct err *err)
{
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), result = 0;
	int64_t left = hard_ms - clock_ms();
	if (timer < 0)
		return err_set(err, ERR_LIMIT, "no timer for another command: %s", strerror(errno));
	timer_set(timer, left > 0 ? left : 0);
	pthread_mutex_lock(&command->lock);
	if (command->program)
		result = pump_link(command, &command->timer, 2, TAKE_FD(timer), timer_ready, err);
	pthread_mutex_unlock(&command->lock);
	if (timer >= 0)
		close(timer);
	return result;
}

/* The pump, which may have something of it already, waits for the lock. */
static int start_program(struct command *command, const struct spawn *spawn, struct err *err)
{
	const struct program_spec spec = { .spawn = *spawn,
					   .ended = process_ended,
					   .arg = command_ref(command) };
	command->killed_before = limits_killed();
	pthread_mutex_lock(&command->lock);
	command->program = program_start(&spec, err);
	bool started = command->program;
	if (started) {
		command->pid = program_pid(command->program);
	} else {
		command->view.state = COMMAND_COMPLETED;
		atomic_fetch_sub(&command->refs, 1);
	}
	pthread_mutex_unlock(&command->lock);
	return started ? 0 : -1;
}

static struct command *new_command(int input_fd)
{
	struct command *command = xcalloc(1, sizeof *command);
	command->refs = 1;
	command->input_fd = input_fd;
	command->view.out[0] = command->view.out[1] = OUTPUT;
	command->began_us = clock_us();
	pthread_mutex_init(&command->lock, NULL);
	return command;
}

/* It may be running: then its end lets go of it, too. */
static void give_up(struct command *command)
{
	pthread_mutex_lock(&command->lock);
	if (command->program)
		program_kill(command->program);
	pthread_mutex_unlock(&command->lock);
	command_abandon(command);
	command_unref(command);
}

struct command *command_start(struct spawn *spawn, int64_t hard_ms, struct err *err)
{
	int to_child[3], to_us[3];
	struct command *command = NULL;
	if (open_pipes(to_child, to_us, spawn->fds[0], err) == 0) {
		command = new_command(TAKE_FD(to_us[0]));
		for (int i = 0; i < 3; i++)
			if (to_child[i] >= 0)
				spawn->fds[i] = to_child[i];
	}
	bool started = command && watch(command, to_us, err) == 0 &&
		       start_program(command, spawn, err) == 0;
	close_all(to_child); /* first: the timer may need one of these */
	close_all(to_us);
	if (started && (hard_ms == INT64_MAX || limit_time(command, hard_ms, err) == 0))
		return command;
	if (command)
		give_up(command);
	return NULL;
}

/* ---- acting on it ---- */

void command_condemn(struct command *command)
{
	pthread_mutex_lock(&command->lock);
	command->signalled = true;
	pthread_mutex_unlock(&command->lock);
}

int command_signal(struct command *command, int number, struct err *err)
{
	int result = 0;
	pthread_mutex_lock(&command->lock);
	if (!command->program || program_signal(command->program, number, NULL) < 0)
		result = err_set(err, ESRCH, "the command has ended");
	else
		command->signalled = true;
	pthread_mutex_unlock(&command->lock);
	return result;
}

ssize_t command_input(struct command *command, const char *data, size_t len, struct err *err)
{
	pthread_mutex_lock(&command->lock);
	ssize_t n = command->input_fd < 0 ? -1 : write(command->input_fd, data, len);
	int code = command->input_fd < 0 ? EPIPE : errno;
	pthread_mutex_unlock(&command->lock);
	if (n < 0 && code == EAGAIN)
		return 0;
	return n < 0 ? err_set(err, code, "the command does not read its input any more") : n;
}

void command_input_close(struct command *command)
{
	pthread_mutex_lock(&command->lock);
	if (command->input_fd >= 0) {
		close(TAKE_FD(command->input_fd));
		changed(command); /* not again: who is woken may close it once more */
	}
	pthread_mutex_unlock(&command->lock);
}

void command_abandon(struct command *command)
{
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&command->lock);
		bool open = command->view.open[i] && command->pipes[i].command;
		command->at_end[i] = true;
		pthread_mutex_unlock(&command->lock);
		if (open)
			pump_drop(&command->pipes[i].source);
	}
}
