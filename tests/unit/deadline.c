#include "host/deadline.h"

#include "tap.h"

enum { HOUR = 3600 * 1000 };
static const int64_t noon = 1800000000000;

/* How long there is left of what was noted with `left` to go, at another time. */
static int64_t left_after(int64_t left, int64_t wall, int64_t boot, const char *boot_id)
{
	const struct deadline_now then = { noon, 5 * HOUR, "a" }, now = { wall, boot, boot_id };
	json_t *note = deadline_note(then.boot_ms + left, &then);
	int64_t deadline = deadline_read(note, &now);
	json_decref(note);
	return deadline - boot;
}

/* The host was started again. */
static void steps_of_the_wall_clock(void)
{
	CHECK(left_after(HOUR, noon + 600, 5 * HOUR + 600, "a") == HOUR - 600);
	CHECK(left_after(HOUR, noon + 1000L * HOUR, 5 * HOUR + 600, "a") == HOUR - 600);
	CHECK(left_after(HOUR, noon - 1000L * HOUR, 5 * HOUR + 600, "a") == HOUR - 600);
	CHECK(left_after(HOUR, 0, 6 * HOUR + 1, "a") == -1);
}

/* The machine was. */
static void restarts_of_the_machine(void)
{
	CHECK(left_after(HOUR, noon + 600, 50, "b") == HOUR - 600);
	CHECK(left_after(HOUR, noon + 2 * HOUR, 9 * HOUR, "b") == -HOUR);
	/* A machine without a clock of its own begins in 1970: not a box that never ends. */
	CHECK(left_after(HOUR, 1000, 1000, "b") == HOUR);
	/* Due, though the machine has not run as long as it is overdue. */
	CHECK(left_after(HOUR, noon + 2 * HOUR, 50, "b") < 0);
	/* Where the kernel tells no id of a boot, none is the same. */
	const struct deadline_now then = { noon, 100, "" }, now = { noon + 10, 500000, "" };
	json_t *note = deadline_note(HOUR + 100, &then);
	CHECK(deadline_read(note, &now) == 500000 + HOUR - 10);
	json_decref(note);
}

static void never(void)
{
	const struct deadline_now now = deadline_now();
	json_t *note = deadline_note(0, &now);
	CHECK(deadline_read(note, &now) == 0);
	CHECK(deadline_read(NULL, &now) == 0);
	json_decref(note);
	CHECK(deadline_after(0) == 0);
	CHECK(deadline_wall(0) == 0);
}

static void of_now(void)
{
	struct deadline_now before = deadline_now();
	int64_t deadline = deadline_after(HOUR);
	CHECK(strlen(before.boot_id) == 36);
	CHECK(deadline - before.boot_ms >= HOUR && deadline - before.boot_ms < HOUR + 60000);
	int64_t wall = deadline_wall(deadline) - before.wall_ms;
	CHECK(wall >= HOUR - 1000 && wall < HOUR + 60000);
	CHECK(deadline_wall(deadline) % 1000 == 0);
}

int main(void)
{
	steps_of_the_wall_clock();
	restarts_of_the_machine();
	never();
	of_now();
	return tap_done();
}
