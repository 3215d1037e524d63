#include "shell/shell_machine.h"

#include <stdlib.h>

#include "base/own.h"
#include "tap.h"

enum { NEVER = -1 };

/* What a trace has besides the machine's own events. */
enum {
	STARTED = 100,
	LIMIT, /* of 5,000 ms */
	CODE_7,
	CODE_9,
	STOP,
	DUE, /* what is due is in place of the actions */
	STEP,
	EXITED,
	DRAIN,
	GONE,
};

struct step {
	int64_t at;
	int what;
	enum shell_flight flight; /* from then on */
	unsigned actions;
	int64_t next; /* the next deadline */
};

static unsigned take(struct shell_machine *m, int what, int64_t now)
{
	switch (what) {
	case STARTED:
		shell_machine_started(m);
		return 0;
	case LIMIT:
		shell_machine_limit(m, 5000, now);
		return 0;
	case CODE_7:
	case CODE_9:
		return shell_machine_code(m, what == CODE_7 ? 7 : 9, now);
	case STOP:
		return shell_machine_stop(m, HALT_STOPPED);
	case DUE:
		return shell_machine_due(m, now);
	case STEP:
		return (unsigned)shell_machine_step(m, now);
	case EXITED:
		shell_machine_exited(m);
		return 0;
	case DRAIN:
		shell_machine_drain(m, now);
		return 0;
	case GONE:
		shell_machine_gone(m);
		return 0;
	default:
		return shell_machine_feed(m, (enum shell_event)what, now);
	}
}

static void replay(const char *name, struct shell_machine *m, const struct step *steps,
		   size_t count)
{
	for (const struct step *step = steps; step < steps + count; step++) {
		unsigned actions = take(m, step->what, step->at);
		int64_t next = shell_machine_next(m);
		next = next == INT64_MAX ? NEVER : next;
		if (!CHECK(actions == step->actions && m->flight == step->flight &&
			   next == step->next))
			printf("# %s, step %d: actions %u, flight %d, next %ld\n", name,
			       (int)(step - steps), actions, (int)m->flight, (long)next);
	}
}

/* Runs a trace in a shell that has just been started, and leaves the machine in m. */
#define REPLAY(...)                                  \
	struct shell_machine machine, *m = &machine; \
	const struct step steps[] = { __VA_ARGS__ }; \
	shell_machine_init(m);                       \
	shell_machine_started(m);                    \
	CHECK(m->life == LIFE_ALIVE && !m->flight);  \
	replay(__func__, m, steps, COUNT(steps))

enum { OVER = ACTION_OVER, BLANK = ACTION_OVER | ACTION_BLANK };

/* clang-format off */
static void a_command(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 0, LIMIT, FLIGHT_TYPED, 0, 500 },
	       { 5, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 105 },
	       { 50, CODE_7, FLIGHT_CODED, 0, 350 },
	       { 51, EVENT_MARK, FLIGHT_NONE, OVER, NEVER });
	CHECK(m->code == 7 && m->halt == HALT_NONE);
}

/* The exit code and the marks come by different ways. */
static void code_before_the_beginning(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, CODE_7, FLIGHT_EARLY, 0, 301 },
	       { 2, EVENT_BEGIN, FLIGHT_CODED, ACTION_BEGUN, 301 },
	       { 3, EVENT_MARK, FLIGHT_NONE, OVER, NEVER });
	CHECK(m->code == 7);
}

static void mark_before_the_code(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, EVENT_MARK, FLIGHT_MARKED, 0, 502 },
	       { 3, EVENT_MARK, FLIGHT_MARKED, 0, 502 }, /* a prompt's, after the command's own */
	       { 4, CODE_7, FLIGHT_NONE, OVER, NEVER },
	       { 5, EVENT_MARK, FLIGHT_NONE, 0, NEVER },
	       { 6, CODE_9, FLIGHT_NONE, 0, NEVER });
}

/* The wrapper's report, then the prompt's: the first counts, and more time is given with each. */
static void several_codes(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, CODE_7, FLIGHT_EARLY, 0, 301 },
	       { 100, CODE_9, FLIGHT_EARLY, 0, 400 },
	       { 101, EVENT_BEGIN, FLIGHT_CODED, ACTION_BEGUN, 400 },
	       { 200, CODE_9, FLIGHT_CODED, 0, 500 },
	       { 201, EVENT_MARK, FLIGHT_NONE, OVER, NEVER });
	CHECK(m->code == 7);
}

/* A command may close its terminal. */
static void mark_that_does_not_come(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, CODE_7, FLIGHT_CODED, 0, 302 },
	       { 301, DUE, FLIGHT_CODED, DUE_COUNT, 302 },
	       { 302, DUE, FLIGHT_CODED, DUE_FINISH, NEVER },
	       { 302, EVENT_FINISH, FLIGHT_NONE, BLANK, NEVER },
	       { 400, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 900 },
	       { 401, CODE_9, FLIGHT_EARLY, 0, 701 },
	       { 701, DUE, FLIGHT_EARLY, DUE_FINISH, NEVER },
	       { 701, EVENT_FINISH, FLIGHT_NONE, BLANK, NEVER });
	CHECK(m->code == 9);
}

/* The mark was read when the time had just passed, and the next command is on its way. */
static void mark_at_the_last_moment(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, CODE_7, FLIGHT_CODED, 0, 302 },
	       { 310, DUE, FLIGHT_CODED, DUE_FINISH, NEVER },
	       { 310, EVENT_MARK, FLIGHT_NONE, OVER, NEVER },
	       { 310, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 810 },
	       { 310, EVENT_FINISH, FLIGHT_TYPED, 0, 810 });
	CHECK(m->code == 0);
}

/* The line editor drops what it has read when it is interrupted. */
static void line_that_is_lost(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 500, DUE, FLIGHT_TYPED, DUE_LOOK, NEVER },
	       { 500, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 600 },
	       { 600, EVENT_LOST, FLIGHT_TYPED, ACTION_TYPE, 1100 },
	       { 1100, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 1200 },
	       { 1200, EVENT_LOST, FLIGHT_TYPED, ACTION_TYPE, 2200 },
	       { 2200, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 2300 },
	       { 2300, EVENT_LOST, FLIGHT_TYPED, ACTION_TYPE, 4300 },
	       { 4300, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 4400 },
	       { 4400, EVENT_LOST, FLIGHT_TYPED, ACTION_TYPE, 6400 }, /* no longer than that */
	       { 4401, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 4501 });
}

/* A shell that is stopped, or still reads its start-up files, has not lost it. */
static void line_that_is_read_late(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 500, EVENT_SAME, FLIGHT_TYPED, 0, 1000 },
	       { 1000, EVENT_SAME, FLIGHT_TYPED, 0, 1500 },
	       { 1100, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 1200 });
}

static void line_that_was_read_after_all(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 500, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 600 },
	       { 600, EVENT_SAME, FLIGHT_CLEARED, 0, 1100 },
	       { 601, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 701 },
	       { 602, EVENT_MARK, FLIGHT_MARKED, 0, 1102 },
	       { 603, CODE_7, FLIGHT_NONE, OVER, NEVER });
}

/* Interrupted between its nonce and its first mark: the prompt reports, and nothing ever begins. */
static void line_that_is_interrupted(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 500, EVENT_LOST, FLIGHT_CLEARED, ACTION_CLEAR, 600 },
	       { 501, CODE_7, FLIGHT_EARLY, 0, 801 },
	       { 502, EVENT_MARK, FLIGHT_EARLY, 0, 801 },
	       { 801, EVENT_FINISH, FLIGHT_NONE, BLANK, NEVER });
}

/* By a process that reads our FIFO. */
static void code_that_is_stolen(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, EVENT_MARK, FLIGHT_MARKED, 0, 502 },
	       { 502, EVENT_SAME, FLIGHT_MARKED, 0, 1002 },
	       { 1002, EVENT_LOST, FLIGHT_MARKED, ACTION_CLEAR, 1502 },
	       { 1003, CODE_7, FLIGHT_NONE, OVER, NEVER });
}

/* exec zsh: looked for less and less often. Its code is 0, whatever the command before had. */
static void another_shell_in_its_place(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, CODE_7, FLIGHT_CODED, 0, 302 },
	       { 3, EVENT_MARK, FLIGHT_NONE, OVER, NEVER },
	       { 4, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 504 },
	       { 5, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 105 },
	       { 105, DUE, FLIGHT_RUNNING, DUE_LOOK, NEVER },
	       { 105, EVENT_SAME, FLIGHT_RUNNING, 0, 305 },
	       { 305, EVENT_SAME, FLIGHT_RUNNING, 0, 705 },
	       { 705, EVENT_SAME, FLIGHT_RUNNING, 0, 1505 },
	       { 1505, EVENT_SAME, FLIGHT_RUNNING, 0, 3105 },
	       { 3105, EVENT_SAME, FLIGHT_RUNNING, 0, 5105 },
	       { 5105, EVENT_SAME, FLIGHT_RUNNING, 0, 7105 },
	       { 7105, EVENT_REPLACED, FLIGHT_NONE, BLANK, NEVER });
	CHECK(m->code == 0);
}

static void stop(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 0, LIMIT, FLIGHT_TYPED, 0, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 2, EVENT_SAME, FLIGHT_RUNNING, 0, 202 },
	       { 3, EVENT_SAME, FLIGHT_RUNNING, 0, 403 },
	       { 4, EVENT_SAME, FLIGHT_RUNNING, 0, 804 },
	       { 5, EVENT_SAME, FLIGHT_RUNNING, 0, 1605 },
	       { 10, STOP, FLIGHT_RUNNING, ACTION_SIGNAL, 1605 },
	       { 10, STEP, FLIGHT_RUNNING, 0, 1010 },
	       { 11, STOP, FLIGHT_RUNNING, 0, 1010 }, /* that is under way */
	       { 1010, DUE, FLIGHT_RUNNING, DUE_STOP, 1605 },
	       { 1010, STEP, FLIGHT_RUNNING, 1, 1605 },
	       { 2010, DUE, FLIGHT_RUNNING, DUE_LOOK, 2010 },
	       { 2010, DUE, FLIGHT_RUNNING, DUE_STOP, NEVER }, /* the limit does not count any more */
	       { 2010, STEP, FLIGHT_RUNNING, 2, 3010 },
	       { 2011, CODE_7, FLIGHT_CODED, 0, 2311 },
	       { 2012, EVENT_MARK, FLIGHT_NONE, OVER, NEVER });
	CHECK(m->halt == HALT_STOPPED);
	shell_machine_feed(m, EVENT_LAUNCH, 3000);
	CHECK(m->halt == HALT_NONE); /* of the next one */
}

static void time_that_is_over(void)
{
	REPLAY({ 0, STOP, FLIGHT_NONE, 0, NEVER }, /* nothing to be stopped */
	       { 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 0, LIMIT, FLIGHT_TYPED, 0, 500 },
	       { 1, CODE_7, FLIGHT_EARLY, 0, 301 },
	       { 2, EVENT_BEGIN, FLIGHT_CODED, ACTION_BEGUN, 301 },
	       { 6000, DUE, FLIGHT_CODED, DUE_FINISH, 5000 },
	       { 6000, DUE, FLIGHT_CODED, DUE_HARD, NEVER });
	CHECK(shell_machine_stop(m, HALT_OVERDUE) == ACTION_SIGNAL && m->halt == HALT_OVERDUE);
	CHECK(!shell_machine_stop(m, HALT_STOPPED) && m->halt == HALT_OVERDUE);
}

static void stop_of_a_line_that_nobody_reads(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, STOP, FLIGHT_TYPED, ACTION_SIGNAL, 500 },
	       { 1, STEP, FLIGHT_TYPED, 0, 500 },
	       { 2, EVENT_ABANDON, FLIGHT_NONE, BLANK, NEVER });
}

/* "exit 3": its output and its marks are read after its end. */
static void exit_of_the_shell(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 0, LIMIT, FLIGHT_TYPED, 0, 500 },
	       { 5, EXITED, FLIGHT_TYPED, 0, NEVER },
	       { 5, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, NEVER },
	       { 5, EVENT_ABANDON, FLIGHT_NONE, BLANK, NEVER },
	       { 5, GONE, FLIGHT_NONE, 0, NEVER });
	CHECK(m->life == LIFE_NONE);
}

/* "sleep 1000 & exit 3": the end of the terminal does not come. */
static void exit_with_others_on_the_terminal(void)
{
	REPLAY({ 0, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 500 },
	       { 1, EVENT_BEGIN, FLIGHT_RUNNING, ACTION_BEGUN, 101 },
	       { 5, EXITED, FLIGHT_RUNNING, 0, NEVER },
	       { 6, DRAIN, FLIGHT_RUNNING, 0, 36 },
	       { 7, STOP, FLIGHT_RUNNING, 0, 36 }, /* nobody is there to be signalled */
	       { 8, CODE_7, FLIGHT_CODED, 0, 36 },
	       { 36, DUE, FLIGHT_CODED, DUE_FINISH, NEVER },
	       { 36, EVENT_ABANDON, FLIGHT_NONE, BLANK, NEVER },
	       { 36, GONE, FLIGHT_NONE, 0, NEVER });
}

/* A viewer's shell, or one whose command is over. */
static void exit_without_a_command(void)
{
	REPLAY({ 5, EXITED, FLIGHT_NONE, 0, NEVER },
	       { 5, DRAIN, FLIGHT_NONE, 0, 35 },
	       { 35, DUE, FLIGHT_NONE, DUE_FINISH, NEVER },
	       { 35, EVENT_ABANDON, FLIGHT_NONE, 0, NEVER },
	       { 35, GONE, FLIGHT_NONE, 0, NEVER },
	       { 36, STARTED, FLIGHT_NONE, 0, NEVER },
	       { 36, EVENT_LAUNCH, FLIGHT_TYPED, ACTION_TYPE, 536 });
}
/* clang-format on */

static void waiting_for_what_others_typed(void)
{
	struct shell_machine m;
	shell_machine_init(&m);
	shell_machine_wait(&m, 30);
	CHECK(shell_machine_next(&m) == INT64_MAX); /* a new shell has nothing of that */
	shell_machine_started(&m);
	shell_machine_wait(&m, 30);
	CHECK(shell_machine_next(&m) == 30 && shell_machine_due(&m, 29) == DUE_COUNT);
	CHECK(shell_machine_due(&m, 30) == DUE_READY && shell_machine_next(&m) == INT64_MAX);
	shell_machine_wait(&m, 60);
	shell_machine_feed(&m, EVENT_LAUNCH, 40);
	CHECK(shell_machine_next(&m) == 540);
}

/* In whatever state a command is, it ends with its shell. A mark has begun the next prompt already. */
static void end_in_any_state(void)
{
	for (int flight = FLIGHT_TYPED; flight <= FLIGHT_MARKED; flight++) {
		struct shell_machine m;
		shell_machine_init(&m);
		shell_machine_started(&m);
		m.flight = (enum shell_flight)flight;
		unsigned want = flight == FLIGHT_MARKED ? OVER : BLANK;
		CHECK(shell_machine_feed(&m, EVENT_ABANDON, 0) == want && !m.flight);
	}
}

/* Whatever comes, in whatever order: what begins was hidden, what is over was in flight, and a shell
 * without a command, or without a process, has no deadline of one. */
static void any_order(void)
{
	struct shell_machine m;
	bool fine = true;
	srand(1);
	shell_machine_init(&m);
	shell_machine_started(&m);
	for (int64_t now = 0; now < 200000; now++) {
		bool hid = shell_machine_hides(&m), flew = m.flight != FLIGHT_NONE;
		int what = rand() % (GONE - STARTED + 1 + EVENT_ABANDON + 1);
		what = what > EVENT_ABANDON ? STARTED + what - EVENT_ABANDON - 1 : what;
		if (what == STEP || (what == DRAIN && m.life != LIFE_EXITED) ||
		    (what == GONE && flew))
			continue;
		unsigned actions = take(&m, what, now) * (what != DUE);
		bool begun = actions & ACTION_BEGUN, over = actions & ACTION_OVER;
		fine = fine && (!begun || (hid && shell_machine_prints(&m)));
		fine = fine && over == (flew && m.flight == FLIGHT_NONE);
		fine = fine && (m.flight != FLIGHT_NONE ||
				(m.at[DUE_LOOK] == INT64_MAX && m.at[DUE_HARD] == INT64_MAX &&
				 m.at[DUE_STOP] == INT64_MAX));
		fine = fine && (m.life != LIFE_NONE || shell_machine_next(&m) == INT64_MAX);
	}
	CHECK(fine);
}

int main(void)
{
	a_command();
	code_before_the_beginning();
	mark_before_the_code();
	several_codes();
	mark_that_does_not_come();
	mark_at_the_last_moment();
	line_that_is_lost();
	line_that_is_read_late();
	line_that_was_read_after_all();
	line_that_is_interrupted();
	code_that_is_stolen();
	another_shell_in_its_place();
	stop();
	time_that_is_over();
	stop_of_a_line_that_nobody_reads();
	exit_of_the_shell();
	exit_with_others_on_the_terminal();
	exit_without_a_command();
	waiting_for_what_others_typed();
	end_in_any_state();
	any_order();
	return tap_done();
}
