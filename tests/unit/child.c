#include "proc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/user.h"
#include "tap.h"

enum {
	LONG_MS = 50000
}; /* far from what is asked for, and from the 100 s that programs would take */

static struct buf out = { .cap = 1 << 20 };
static struct program_status end;
static struct err err;

static int run(const char *script, struct child_spec spec)
{
	char *const argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	spec.argv = spec.argv ? spec.argv : argv;
	if (!spec.wait.until_ms)
		spec.wait = (struct wait){ clock_ms() + LONG_MS, -1, -1 };
	out.len = 0;
	err = (struct err){ 0 };
	return child_run(&spec, &out, &end, &err);
}

static bool said(const char *text)
{
	return out.len == strlen(text) && !memcmp(out.data, text, out.len);
}

/* Whether the process whose number the program printed is gone, now or soon. */
static bool is_gone(void)
{
	pid_t pid = (pid_t)strtol(out.data, NULL, 10);
	for (int i = 0; i < 2000 && pid > 0 && kill(pid, 0) == 0; i++)
		usleep(10000);
	return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

static void test_ends(void)
{
	CHECK(run("printf hello; printf oops >&2", (struct child_spec){ 0 }) == 0);
	CHECK(said("hello") && end.code == 0 && end.signal == 0);
	CHECK(run("exit 7", (struct child_spec){ 0 }) == 0 && end.code == 7 && !end.signal);
	CHECK(run("kill -9 $$", (struct child_spec){ 0 }) == 0 && end.signal == SIGKILL);
	CHECK(run("cat", (struct child_spec){ 0 }) == 0 && said(""));
	char *const missing[] = { (char *)"/no/such/program", NULL };
	CHECK(run(NULL, (struct child_spec){ .argv = missing }) < 0 && err.code == ENOENT);
	char *const folder[] = { (char *)"/tmp", NULL };
	CHECK(run(NULL, (struct child_spec){ .argv = folder }) < 0 && err.code == EACCES);
	out.cap = 3;
	CHECK(run("printf hello", (struct child_spec){ 0 }) == 0 && said("hel"));
	out.cap = 1 << 20;
}

static void test_surroundings(void)
{
	char *const env[] = { (char *)"A=b", NULL };
	CHECK(run("printf '%s' \"$A\"", (struct child_spec){ .env = env }) == 0 && said("b"));
	CHECK(run("pwd", (struct child_spec){ .dir = "/usr" }) == 0 && said("/usr\n"));
	CHECK(run("ls /proc/self/fd | wc -l", (struct child_spec){ 0 }) == 0 && said("4\n"));
}

/* Runs it for a short time, which is long enough for so much output, however slow the machine is. */
static int run_shortly(const char *script, size_t enough)
{
	int result = 0;
	out.len = 0;
	for (int64_t ms = 300; ms < LONG_MS / 2 && out.len < enough; ms *= 4)
		result = run(script, (struct child_spec){ .wait = { clock_ms() + ms, -1, -1 } });
	return result;
}

static void test_deadlines(void)
{
	int64_t start = clock_ms();
	CHECK(run_shortly("sleep 100 & echo $!; wait", 1) < 0 && err.code == ERR_SLOW);
	CHECK(clock_ms() - start < LONG_MS && is_gone());
	CHECK(run_shortly("exec yes", out.cap) < 0 && err.code == ERR_SLOW && out.len == out.cap);
	/* Who keeps the pipe does not keep us, and goes with the program. */
	start = clock_ms();
	CHECK(run("sleep 100 & echo $!", (struct child_spec){ 0 }) == 0 && end.code == 0);
	CHECK(clock_ms() - start < LONG_MS && is_gone());

	auto_close int stop = eventfd(1, EFD_CLOEXEC);
	start = clock_ms();
	CHECK(run("sleep 100", (struct child_spec){ .wait = { clock_ms() + LONG_MS, -1, stop } }) <
		      0 &&
	      err.code == ERR_UNAVAILABLE);
	CHECK(clock_ms() - start < LONG_MS);
}

static void test_user(void)
{
	struct user user;
	CHECK(user_find("no such user", &user, &err) < 0 && err.code == ERR_NOT_FOUND);
	CHECK(user_find("nobody", &user, &err) == 0);
	if (geteuid() != 0) {
		printf("# SKIP: only root can become another user\n");
		CHECK(!user.other);
		return;
	}
	CHECK(user.other);
	char expect[64];
	snprintf(expect, sizeof expect, "%d %d\n", (int)user.uid, (int)user.gid);
	CHECK(run("echo $(id -u) $(id -g)", (struct child_spec){ .user = &user }) == 0 &&
	      said(expect));
	CHECK(run("id -G | grep -w 0", (struct child_spec){ .user = &user }) == 0 && end.code == 1);
	CHECK(geteuid() == 0 && getuid() == 0);

	struct user_view view;
	CHECK(user_enter(&user, &view, &err) == 0);
	CHECK(open("/etc/shadow", O_RDONLY | O_CLOEXEC) < 0);
	user_leave(&view);
	auto_close int shadow = open("/etc/shadow", O_RDONLY | O_CLOEXEC);
	CHECK(shadow >= 0 || errno == ENOENT);
	CHECK(user_find("root", &user, &err) == 0 && !user.other);
}

static void *end_soon(void *arg)
{
	siginfo_t info;
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) /* none has begun */
		usleep(1000);
	child_end_all();
	return arg;
}

static void test_end_all(void)
{
	pthread_t thread;
	int64_t start = clock_ms();
	pthread_create(&thread, NULL, end_soon, NULL);
	CHECK(run("sleep 100", (struct child_spec){ 0 }) == 0 && end.signal == SIGKILL);
	CHECK(clock_ms() - start < LONG_MS);
	pthread_join(thread, NULL);
	CHECK(run("true", (struct child_spec){ 0 }) < 0 && err.code == ERR_UNAVAILABLE);
}

int main(void)
{
	test_ends();
	test_surroundings();
	test_deadlines();
	test_user();
	test_end_all();
	buf_done(&out);
	return tap_done();
}
