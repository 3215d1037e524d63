#include "proc/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/tree.h"
#include "tap.h"

enum { LONG_MS = 50000 };

static struct err err;
static _Atomic int ends;

static void count_end(void *arg, struct program *program, const struct program_status *how)
{
	(void)program;
	(void)how;
	atomic_fetch_add((_Atomic int *)arg, 1);
}

static struct program *start(const char *script, struct program_spec spec)
{
	char *const argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	spec.spawn.path = argv[0];
	spec.spawn.argv = argv;
	if (!spec.spawn.env)
		spec.spawn.env = environ;
	if (!spec.spawn.fds[1])
		memcpy(spec.spawn.fds, (int[]){ -1, -1, -1 }, 3 * sizeof(int));
	spec.ended = count_end;
	spec.arg = &ends;
	return program_start(&spec, &err);
}

static struct wait for_long(void)
{
	return (struct wait){ clock_ms() + LONG_MS, -1, -1 };
}

static struct program_status end_of(struct program *program)
{
	struct program_status end = { 0 };
	struct wait wait = for_long();
	CHECK(program_wait(program, &wait, &end) == WAKE_READY && program_ended(program));
	return end;
}

/* The callback comes after waiters are woken. */
static bool all_ended(int count)
{
	for (struct wait wait = for_long(); atomic_load(&ends) < count;)
		if (clock_ms() > wait.until_ms)
			return false;
		else
			poll(NULL, 0, 5);
	return true;
}

static void test_ends(void)
{
	struct program *program = start("exit 3", (struct program_spec){ 0 });
	struct program_status end = end_of(program);
	CHECK(end.known && end.code == 3 && !end.signal);
	CHECK(program_signal(program, SIGTERM, &err) < 0 && err.code == ESRCH);
	program_kill(program); /* nothing to do */
	program_unref(program);

	program = start("kill -KILL $$", (struct program_spec){ 0 });
	end = end_of(program);
	CHECK(end.known && end.code == 128 + SIGKILL && end.signal == SIGKILL);
	program_unref(program);
	CHECK(all_ended(2));

	struct program_spec missing = { .spawn = { .path = "/nowhere",
						   .argv = (char *[]){ NULL },
						   .env = (char *[]){ NULL },
						   .fds = { -1, -1, -1 } } };
	CHECK(!program_start(&missing, &err) && err.code == ENOENT);
	CHECK(atomic_load(&ends) == 2);
}

static void test_waits(void)
{
	struct program *program = start("exec sleep 100", (struct program_spec){ 0 });
	struct program_status end;
	struct wait soon = { clock_ms() + 20, -1, -1 };
	struct pollfd pfd = { .fd = program_fd(program), .events = POLLIN };
	CHECK(program_wait(program, &soon, &end) == WAKE_TIMEOUT && !end.known);
	CHECK(!program_ended(program) && poll(&pfd, 1, 0) == 0);
	CHECK(kill(program_pid(program), 0) == 0);
	CHECK(program_signal(program, SIGINT, &err) == 0);
	CHECK(end_of(program).signal == SIGINT);
	CHECK(poll(&pfd, 1, 0) == 1);
	program_unref(program);
}

static void test_words(void)
{
	char words[64];
	struct program *program = start("exit 0", (struct program_spec){ .words = true });
	(void)end_of(program);
	program_words(program, words, sizeof words);
	CHECK_STR(words, "");
	program_unref(program);

	program = start("seq 3000 >&2; printf 'one\\nlast words \\n\\n' >&2; exit 1",
			(struct program_spec){ .words = true });
	CHECK(end_of(program).code == 1);
	program_words(program, words, sizeof words);
	CHECK_STR(words, "last words");
	program_unref(program);

	/* Somebody else holds the pipe: the end is not waited for any longer. */
	program = start("sleep 100 & echo $! >&2; exit 2", (struct program_spec){ .words = true });
	CHECK(end_of(program).code == 2);
	program_words(program, words, sizeof words);
	CHECK(kill(atoi(words), SIGKILL) == 0);
	program_unref(program);
}

/* Whether a process ends, which init or somebody else reaps. */
static bool goes(pid_t pid)
{
	char path[64], state[64];
	for (struct wait wait = for_long(); clock_ms() < wait.until_ms; poll(NULL, 0, 5)) {
		snprintf(path, sizeof path, "/proc/%d/stat", pid);
		auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, state, sizeof state - 1);
		if (n <= 0)
			return true;
		state[n] = 0;
		const char *name_end = strrchr(state, ')');
		if (name_end && name_end[2] == 'Z')
			return true;
	}
	return false;
}

static pid_t read_pid(int fd)
{
	char text[32] = "";
	return read(fd, text, sizeof text - 1) > 0 ? atoi(text) : -1;
}

static void test_end(void)
{
	int out[2];
	char marker[112];
	CHECK(pipe2(out, O_CLOEXEC) == 0);
	tree_marker(marker, sizeof marker, "test");
	char *env[] = { marker, (char *)"PATH=/usr/bin:/bin", NULL };
	struct program_spec spec = {
		.marker = marker,
		.spawn = { .env = env, .fds = { -1, out[1], -1 }, .tag = tree_tag(marker) }
	};
	/* One that heeds the request. */
	struct program *program =
		start("trap 'exit 7' TERM; echo $$; while :; do sleep 0.05; done", spec);
	CHECK(read_pid(out[0]) == program_pid(program));
	program_end(program, LONG_MS, NULL);
	CHECK(end_of(program).code == 7);
	program_unref(program);

	/* One that does not, with a child that has left its group. */
	program = start("trap '' TERM; setsid sh -c 'echo $$; exec sleep 100' & wait; sleep 100",
			spec);
	pid_t child = read_pid(out[0]);
	CHECK(child > 0);
	program_end(program, 50, NULL);
	CHECK(end_of(program).signal == SIGKILL && goes(child));
	program_unref(program);

	/* Killed alone: its group lives on. */
	program =
		start("sh -c 'trap \"echo 5; exit\" TERM; echo $$; while :; do sleep 0.05; done' & "
		      "wait",
		      (struct program_spec){ .spawn = spec.spawn });
	child = read_pid(out[0]);
	program_signal_one(program, SIGKILL);
	CHECK(end_of(program).signal == SIGKILL && kill(child, SIGTERM) == 0);
	struct pollfd alive = { .fd = out[0], .events = POLLIN };
	CHECK(poll(&alive, 1, LONG_MS) == 1 && read_pid(out[0]) == 5);
	program_signal_one(program, SIGKILL); /* nothing to do */
	program_unref(program);

	/* Killed: its group goes with it. */
	program = start("sleep 100 & echo $!; wait", (struct program_spec){ .spawn = spec.spawn });
	child = read_pid(out[0]);
	program_kill(program);
	CHECK(end_of(program).signal == SIGKILL && goes(child));
	program_unref(program);

	/* Ended by itself, and its group with it where that was asked for. */
	program = start("sleep 100 & echo $!",
			(struct program_spec){ .spawn = spec.spawn, .group = true });
	child = read_pid(out[0]);
	CHECK(!end_of(program).code && child > 0 && goes(child));
	program_unref(program);
	close(out[0]);
	close(out[1]);
}

static void test_adopted(void)
{
	int before = atomic_load(&ends);
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct program *program = program_adopt(pid, pidfd, count_end, &ends, &err);
	CHECK(program && !program_ended(program));
	program_kill(program);
	struct program_status end = end_of(program);
	CHECK(!end.known && all_ended(before + 1));
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
	program_unref(program);
}

int main(void)
{
	test_ends();
	test_waits();
	test_words();
	test_end();
	test_adopted();
	return tap_done();
}
