#include "shell/shell_keys.h"

#include "tap.h"

static void type(struct shell_keys *keys, const char *text, int64_t now)
{
	shell_keys_typed(keys, text, strlen(text), false, now);
}

/* A shell that has shown its first prompt long ago. */
static struct shell_keys at_prompt(void)
{
	struct shell_keys keys = { 0 };
	shell_keys_started(&keys);
	shell_keys_prompt(&keys, false, 0);
	return keys;
}

static enum shell_keys_next look(struct shell_keys *keys, bool busy, bool waiting, int64_t now)
{
	int ms = 0;
	enum shell_keys_next next = shell_keys_look(keys, busy, waiting, now, &ms);
	CHECK(ms == (next == KEYS_READY ? 0 : next == KEYS_WAIT ? 30 : 100));
	return next;
}

static void lines_that_are_run(void)
{
	struct shell_keys keys = at_prompt();
	CHECK(!shell_keys_any(&keys));
	type(&keys, "one\rtwo\n", 1000);
	CHECK(keys.lines == 2 && !keys.half_line);
	CHECK(look(&keys, false, true, 1010) == KEYS_WAIT);
	shell_keys_prompt(&keys, false, 1020);
	CHECK(shell_keys_any(&keys));
	shell_keys_prompt(&keys, false, 1030);
	CHECK(!shell_keys_any(&keys) && !keys.given_up);
}

/* On a busy machine: that is not a line that is half typed, until five seconds have passed. */
static void a_line_that_is_read_late(void)
{
	struct shell_keys keys = at_prompt();
	type(&keys, "line\r", 1000);
	CHECK(look(&keys, false, false, 1400) == KEYS_WAIT);
	CHECK(look(&keys, false, false, 5999) == KEYS_WAIT);
	CHECK(look(&keys, false, false, 6000) == KEYS_INTERRUPT);
}

static void half_a_line(void)
{
	struct shell_keys keys = at_prompt();
	shell_keys_code(&keys, 42);
	type(&keys, "half", 1000);
	CHECK(look(&keys, false, true, 1029) == KEYS_WAIT);
	CHECK(look(&keys, false, true, 1030) == KEYS_INTERRUPT);
	shell_keys_code(&keys, 130); /* of our interrupt, not of a command */
	CHECK(keys.last_code == 42 && keys.given_up);
	shell_keys_prompt(&keys, true, 1040);
	CHECK(!shell_keys_any(&keys) && keys.given_up && !keys.interrupts);
}

/* An open quote: the shell has read the line, and shows another kind of prompt, without our hook. */
static void a_continuation_prompt(void)
{
	struct shell_keys keys = at_prompt();
	type(&keys, "echo 'open\r", 1000);
	CHECK(keys.lines == 1 && !keys.half_line);
	CHECK(look(&keys, false, true, 1299) == KEYS_WAIT);
	CHECK(look(&keys, false, true, 1300) == KEYS_INTERRUPT);
	shell_keys_prompt(&keys, true, 1310);
	CHECK(!shell_keys_any(&keys));
}

/* The line editor loses an interrupt that comes while it reads; a shell without our hook says nothing. */
static void interrupts_that_are_lost(void)
{
	struct shell_keys keys = at_prompt();
	type(&keys, "half", 1000);
	CHECK(look(&keys, false, true, 1100) == KEYS_INTERRUPT);
	CHECK(look(&keys, false, true, 1200) == KEYS_INTERRUPT);
	shell_keys_prompt(&keys, false, 1250); /* of something else */
	CHECK(shell_keys_any(&keys));
	CHECK(look(&keys, false, true, 1300) == KEYS_INTERRUPT);
	CHECK(look(&keys, false, true, 1400) == KEYS_READY && !shell_keys_any(&keys));
}

/* It is neither typed into nor interrupted, and what is typed is for it. */
static void a_program_started_by_hand(void)
{
	struct shell_keys keys = at_prompt();
	type(&keys, "vim\r", 1000);
	for (int64_t now = 1100; now < 1000000; now += 100000)
		CHECK(look(&keys, true, true, now) == KEYS_WAIT && !keys.settling);
	shell_keys_prompt(&keys, false, 1000000);
	CHECK(!shell_keys_any(&keys));
}

/* The prompt after a command says nothing of the lines that were typed for it. */
static void lines_for_a_command(void)
{
	struct shell_keys keys = at_prompt();
	shell_keys_launched(&keys);
	shell_keys_typed(&keys, "answer\r", 7, true, 1000);
	CHECK(keys.fed && !keys.lines);
	shell_keys_over(&keys, 2000);
	CHECK(look(&keys, false, true, 2299) == KEYS_WAIT && keys.settling);
	shell_keys_prompt(&keys, false, 2290);
	CHECK(look(&keys, false, true, 2300) == KEYS_WAIT);
	CHECK(look(&keys, false, true, 2320) == KEYS_READY && !keys.given_up);
}

static void half_a_line_for_a_command(void)
{
	struct shell_keys keys = at_prompt();
	shell_keys_launched(&keys);
	shell_keys_typed(&keys, "no 'x", 5, true, 1000);
	shell_keys_over(&keys, 2000);
	shell_keys_prompt(&keys, false, 2001);
	CHECK(keys.half_line && look(&keys, false, true, 2031) == KEYS_INTERRUPT);
	shell_keys_launched(&keys);
	CHECK(!keys.settling && !keys.at_prompt && keys.given_up);
}

/* What a shell is told before its first prompt is dealt with after that. */
static void lines_before_the_first_prompt(void)
{
	struct shell_keys keys = { 0 };
	shell_keys_started(&keys);
	type(&keys, "early\r", 10);
	shell_keys_prompt(&keys, false, 20);
	CHECK(keys.lines == 1 && keys.prompted);
	shell_keys_prompt(&keys, false, 30);
	CHECK(!shell_keys_any(&keys));
}

static void keys_that_end_a_line(void)
{
	static const char *const ends[] = { "x\003", "x\004", "x\032", "x\r", "x\n" };
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct shell_keys keys = at_prompt();
		type(&keys, ends[i], 1000);
		CHECK(!keys.half_line && keys.lines == (i > 2));
	}
	struct shell_keys keys = at_prompt();
	type(&keys, "\003x", 1000);
	CHECK(keys.half_line);
}

int main(void)
{
	lines_that_are_run();
	a_line_that_is_read_late();
	half_a_line();
	a_continuation_prompt();
	interrupts_that_are_lost();
	a_program_started_by_hand();
	lines_for_a_command();
	half_a_line_for_a_command();
	lines_before_the_first_prompt();
	keys_that_end_a_line();
	return tap_done();
}
