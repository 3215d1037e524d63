#include "proc/utility.h"

#include <signal.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

enum { LONG_MS = 50000 };

static char *const *script(const char *text)
{
	static char *argv[4] = { (char *)"sh", (char *)"-c" };
	argv[2] = (char *)text;
	return argv;
}

static void test_ends(void)
{
	struct err err = { 0 };
	auto_buf struct buf said = BUF(4096);
	CHECK(utility_run("sh", "dash", script("read line && [ $line = yes ]"), "yes\n", LONG_MS,
			  &err) == 0);
	CHECK(utility_run("sh", "dash", script("echo wrong >&2; exit 3"), NULL, LONG_MS, &err) < 0);
	CHECK(err.code == ERR_UNAVAILABLE);
	CHECK_STR(err.msg, "sh failed: wrong");
	CHECK(utility_run("no-such-program", "nowhere", script(""), NULL, LONG_MS, &err) < 0);
	CHECK(err.code == ERR_NOT_IMPLEMENTED);
	CHECK(utility_read("sh", script("echo one; echo two >&2"), &said, LONG_MS, &err) == 0);
	CHECK_STR(said.data, "one\ntwo\n");
}

/* What it leaves behind in the background goes on: pasta does that. */
static void test_background(void)
{
	struct err err = { 0 };
	auto_buf struct buf said = BUF(4096);
	int64_t begin = clock_ms();
	CHECK(utility_read("sh", script("sleep 100 & echo $!"), &said, LONG_MS, &err) == 0);
	CHECK(clock_ms() - begin < LONG_MS);
	CHECK(kill(atoi(said.data), SIGKILL) == 0);
}

static void test_hangs(void)
{
	struct err err = { 0 };
	int64_t begin = clock_ms();
	CHECK(utility_run("sh", "dash", script("trap '' TERM; sleep 100; sleep 100"), NULL, 200,
			  &err) < 0);
	CHECK(clock_ms() - begin < LONG_MS && err.code == ERR_UNAVAILABLE);
	CHECK_STR(err.msg, "sh did not end within 0 s and was killed");
	CHECK(utility_read("sh", script("sleep 100"), &(struct buf){ 0 }, 200, &err) < 0);
	CHECK(clock_ms() - begin < LONG_MS);
}

int main(void)
{
	test_ends();
	test_background();
	test_hangs();
	return tap_done();
}
