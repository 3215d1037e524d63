#include "shell/shell_machine.h"

#include <stddef.h>

#include "base/own.h"

enum {
	MARK_MS = 300, /* for the mark after the exit code, if the terminal is in trouble */
	GRACE_MS = 30, /* for the last output of a shell whose terminal others still hold */
	STOP_STEP_MS = 1000,
	LINE_MS = 500,  /* for a line to be read, at first */
	SOON_MS = 100,  /* after an interrupt */
	PROBE_MS = 100, /* for another shell in the place of ours, at first */
	LOOK_MAX_MS = 2000,
};

/* When to look next: as planned, soon, after the same pause, or after that and longer ones from then on. */
enum pause { KEEP, SOON, AGAIN, LONGER };

struct shell_machine_row {
	enum shell_flight from;
	enum shell_event event;
	enum shell_flight to;
	unsigned actions;
	int look_ms; /* a new kind of look; 0: the same */
	enum pause pause;
};

/* clang-format off */
static const struct shell_machine_row rows[] = {
	{ FLIGHT_NONE,    EVENT_LAUNCH,   FLIGHT_TYPED,   ACTION_TYPE, LINE_MS, AGAIN },

	{ FLIGHT_TYPED,   EVENT_BEGIN,    FLIGHT_RUNNING, ACTION_BEGUN, PROBE_MS, LONGER },
	{ FLIGHT_TYPED,   EVENT_CODE,     FLIGHT_EARLY },
	{ FLIGHT_TYPED,   EVENT_LOST,     FLIGHT_CLEARED, ACTION_CLEAR, 0, SOON },
	{ FLIGHT_TYPED,   EVENT_SAME,     FLIGHT_TYPED,   0, 0, AGAIN },
	{ FLIGHT_TYPED,   EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },

	{ FLIGHT_CLEARED, EVENT_BEGIN,    FLIGHT_RUNNING, ACTION_BEGUN, PROBE_MS, LONGER },
	{ FLIGHT_CLEARED, EVENT_CODE,     FLIGHT_EARLY },
	{ FLIGHT_CLEARED, EVENT_LOST,     FLIGHT_TYPED,   ACTION_TYPE, 0, LONGER },
	{ FLIGHT_CLEARED, EVENT_SAME,     FLIGHT_CLEARED, 0, 0, AGAIN },
	{ FLIGHT_CLEARED, EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },

	{ FLIGHT_EARLY,   EVENT_BEGIN,    FLIGHT_CODED,   ACTION_BEGUN },
	{ FLIGHT_EARLY,   EVENT_CODE,     FLIGHT_EARLY },
	{ FLIGHT_EARLY,   EVENT_FINISH,   FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },
	{ FLIGHT_EARLY,   EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },

	{ FLIGHT_RUNNING, EVENT_MARK,     FLIGHT_MARKED,  0, LINE_MS, AGAIN },
	{ FLIGHT_RUNNING, EVENT_CODE,     FLIGHT_CODED },
	{ FLIGHT_RUNNING, EVENT_SAME,     FLIGHT_RUNNING, 0, 0, LONGER },
	{ FLIGHT_RUNNING, EVENT_REPLACED, FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },
	{ FLIGHT_RUNNING, EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },

	{ FLIGHT_CODED,   EVENT_MARK,     FLIGHT_NONE,    ACTION_OVER },
	{ FLIGHT_CODED,   EVENT_CODE,     FLIGHT_CODED },
	{ FLIGHT_CODED,   EVENT_FINISH,   FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },
	{ FLIGHT_CODED,   EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER | ACTION_BLANK },

	{ FLIGHT_MARKED,  EVENT_CODE,     FLIGHT_NONE,    ACTION_OVER },
	/* Another reader of our FIFO may have the code. After an interrupt the prompt reports one again. */
	{ FLIGHT_MARKED,  EVENT_LOST,     FLIGHT_MARKED,  ACTION_CLEAR, 0, LONGER },
	{ FLIGHT_MARKED,  EVENT_SAME,     FLIGHT_MARKED,  0, 0, AGAIN },
	{ FLIGHT_MARKED,  EVENT_ABANDON,  FLIGHT_NONE,    ACTION_OVER },
};

#define BIT(due) (1U << (due))
#define LIMITS   (BIT(DUE_HARD) | BIT(DUE_STOP))

/* Which deadlines a state has, while the process is alive. */
static const unsigned deadlines[] = {
	[FLIGHT_NONE]    = BIT(DUE_READY),
	[FLIGHT_TYPED]   = BIT(DUE_LOOK) | LIMITS,
	[FLIGHT_CLEARED] = BIT(DUE_LOOK) | LIMITS,
	[FLIGHT_EARLY]   = BIT(DUE_FINISH) | LIMITS,
	[FLIGHT_RUNNING] = BIT(DUE_LOOK) | LIMITS,
	[FLIGHT_CODED]   = BIT(DUE_FINISH) | LIMITS,
	[FLIGHT_MARKED]  = BIT(DUE_LOOK) | LIMITS,
};
/* clang-format on */

/* Unsets those that the state does not have. */
static void drop_deadlines(struct shell_machine *machine)
{
	unsigned live = machine->life == LIFE_NONE     ? 0
			: machine->life == LIFE_EXITED ? BIT(DUE_FINISH)
						       : deadlines[machine->flight];
	for (int i = 0; i < DUE_COUNT; i++)
		if (!(live & BIT(i)))
			machine->at[i] = INT64_MAX;
}

void shell_machine_init(struct shell_machine *machine)
{
	*machine = (struct shell_machine){ 0 };
	drop_deadlines(machine);
}

void shell_machine_started(struct shell_machine *machine)
{
	machine->life = LIFE_ALIVE;
}

void shell_machine_exited(struct shell_machine *machine)
{
	machine->life = LIFE_EXITED;
	drop_deadlines(machine);
}

void shell_machine_drain(struct shell_machine *machine, int64_t now)
{
	machine->at[DUE_FINISH] = now + GRACE_MS;
}

void shell_machine_gone(struct shell_machine *machine)
{
	machine->life = LIFE_NONE;
	drop_deadlines(machine);
}

static const struct shell_machine_row *find_row(enum shell_flight from, enum shell_event event)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].from == from && rows[i].event == event)
			return &rows[i];
	return NULL;
}

static void plan_look(struct shell_machine *machine, const struct shell_machine_row *row,
		      int64_t now)
{
	if (row->look_ms)
		machine->look_ms = row->look_ms;
	if (row->pause != KEEP)
		machine->at[DUE_LOOK] = now + (row->pause == SOON ? SOON_MS : machine->look_ms);
	if (row->pause == LONGER)
		machine->look_ms = machine->look_ms < LOOK_MAX_MS / 2 ? machine->look_ms * 2
								      : LOOK_MAX_MS;
}

unsigned shell_machine_feed(struct shell_machine *machine, enum shell_event event, int64_t now)
{
	const struct shell_machine_row *row = find_row(machine->flight, event);
	if (!row)
		return 0;
	machine->flight = row->to;
	if (event == EVENT_LAUNCH) {
		machine->halt = HALT_NONE;
		machine->code = 0;
	}
	if (event == EVENT_CODE && machine->life == LIFE_ALIVE)
		machine->at[DUE_FINISH] = now + MARK_MS;
	plan_look(machine, row, now);
	drop_deadlines(machine);
	return row->actions;
}

unsigned shell_machine_code(struct shell_machine *machine, int code, int64_t now)
{
	if (machine->flight != FLIGHT_EARLY && machine->flight != FLIGHT_CODED)
		machine->code = code; /* of several, the first counts */
	return shell_machine_feed(machine, EVENT_CODE, now);
}

void shell_machine_limit(struct shell_machine *machine, int64_t hard_ms, int64_t now)
{
	machine->at[DUE_HARD] = hard_ms == INT64_MAX ? INT64_MAX : now + hard_ms;
	drop_deadlines(machine);
}

unsigned shell_machine_stop(struct shell_machine *machine, enum shell_halt why)
{
	if (machine->flight == FLIGHT_NONE || machine->halt != HALT_NONE)
		return 0;
	machine->halt = why;
	machine->step = 0;
	machine->at[DUE_HARD] = INT64_MAX;
	return machine->life == LIFE_ALIVE ? ACTION_SIGNAL : 0;
}

int shell_machine_step(struct shell_machine *machine, int64_t now)
{
	machine->at[DUE_STOP] = now + STOP_STEP_MS;
	return machine->step++;
}

void shell_machine_wait(struct shell_machine *machine, int64_t until)
{
	machine->at[DUE_READY] = until;
	drop_deadlines(machine);
}

int64_t shell_machine_next(const struct shell_machine *machine)
{
	int64_t next = INT64_MAX;
	for (int i = 0; i < DUE_COUNT; i++)
		next = machine->at[i] < next ? machine->at[i] : next;
	return next;
}

enum shell_deadline shell_machine_due(struct shell_machine *machine, int64_t now)
{
	for (int i = 0; i < DUE_COUNT; i++)
		if (machine->at[i] <= now) {
			machine->at[i] = INT64_MAX;
			return (enum shell_deadline)i;
		}
	return DUE_COUNT;
}

bool shell_machine_hides(const struct shell_machine *machine)
{
	return machine->flight == FLIGHT_TYPED || machine->flight == FLIGHT_CLEARED ||
	       machine->flight == FLIGHT_EARLY;
}

bool shell_machine_prints(const struct shell_machine *machine)
{
	return machine->flight == FLIGHT_RUNNING || machine->flight == FLIGHT_CODED;
}
