/* shell_machine.h - the life of a shell process and of the command in flight, as states and events.
 *
 * Pure: no system calls, the time is a parameter. The shell feeds events and carries out the actions
 * that come back. The lives of the two overlap in every way: the mark that begins a command may be
 * read after its exit code, and both after the end of the process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum shell_life {
	LIFE_NONE,   /* no process */
	LIFE_ALIVE,  /* a process, as far as is known */
	LIFE_EXITED, /* it has ended, and its last output may be on the way */
};

enum shell_flight {
	FLIGHT_NONE,    /* no command: what is shown is a prompt, or what others run */
	FLIGHT_TYPED,   /* its line was typed; the line's echo is not shown */
	FLIGHT_CLEARED, /* the shell lost the line: interrupted, to type it again */
	FLIGHT_EARLY,   /* its exit code is here, the mark that it began is not */
	FLIGHT_RUNNING, /* what is shown is its output */
	FLIGHT_CODED,   /* its exit code is here, the mark after its output is not */
	FLIGHT_MARKED,  /* the other way round */
};

enum shell_event {
	EVENT_LAUNCH,   /* a command's line is about to be typed */
	EVENT_BEGIN,    /* mark: its output begins */
	EVENT_MARK,     /* mark: its output has ended */
	EVENT_CODE,     /* its exit code, by shell_machine_code() */
	EVENT_FINISH,   /* the mark after the exit code has not come in time */
	EVENT_LOST,     /* looked: the shell waits for input, so the line is lost */
	EVENT_SAME,     /* looked: it does not, or runs the same program as before */
	EVENT_REPLACED, /* looked: another interactive shell is in its place */
	EVENT_ABANDON, /* the command, by the shell: its line cannot be typed, or its process is gone */
};

enum shell_action {
	ACTION_TYPE = 1,   /* type the line */
	ACTION_CLEAR = 2,  /* interrupt, so that the line can be typed again */
	ACTION_BEGUN = 4,  /* show the command, then type what was kept for it */
	ACTION_OVER = 8,   /* the command is over */
	ACTION_BLANK = 16, /* what is shown from here on is a new prompt */
	ACTION_SIGNAL = 32 /* signal what runs, by shell_machine_step() */
};

/* What is waited for, in the order in which it is dealt with. */
enum shell_deadline {
	DUE_FINISH, /* the mark after an exit code; after an exit, the rest of the output */
	DUE_LOOK,   /* to look whether a line was lost, or the shell replaced */
	DUE_READY,  /* to look whether what others typed is dealt with, for a command that waits */
	DUE_HARD,   /* the end of a command's time */
	DUE_STOP,   /* the next step to stop it */
	DUE_COUNT   /* nothing is due */
};

enum shell_halt { HALT_NONE, HALT_STOPPED, HALT_OVERDUE };

struct shell_machine {
	enum shell_life life;
	enum shell_flight flight;
	enum shell_halt halt; /* of the command in flight, then of the one that was */
	int code;             /* its exit code */
	int step;             /* of stopping it */
	int look_ms;
	int64_t at[DUE_COUNT]; /* INT64_MAX: not set */
};

void shell_machine_init(struct shell_machine *machine);

/* The process. After its exit, others may hold its terminal, and its last output is waited for a
 * moment; with EVENT_ABANDON before it, all is gone. */
void shell_machine_started(struct shell_machine *machine);
void shell_machine_exited(struct shell_machine *machine);
void shell_machine_drain(struct shell_machine *machine, int64_t now);
void shell_machine_gone(struct shell_machine *machine);

/* Both return the actions, as bits. An event that means nothing in the present state is ignored. */
unsigned shell_machine_feed(struct shell_machine *machine, enum shell_event event, int64_t now);
unsigned shell_machine_code(struct shell_machine *machine, int code, int64_t now);

/* For the command that was launched; INT64_MAX: for ever. */
void shell_machine_limit(struct shell_machine *machine, int64_t hard_ms, int64_t now);

/* Stops the command in flight, unless that has begun already. */
unsigned shell_machine_stop(struct shell_machine *machine, enum shell_halt why);
/* For ACTION_SIGNAL, and when DUE_STOP is due: which step it is, from 0 on. Plans the next one. */
int shell_machine_step(struct shell_machine *machine, int64_t now);

/* A command waits until others' typing is looked at again. */
void shell_machine_wait(struct shell_machine *machine, int64_t until);

/* The time of the next deadline; INT64_MAX: none. */
int64_t shell_machine_next(const struct shell_machine *machine);
/* The first deadline that has passed, which is then no longer set; DUE_COUNT: none. */
enum shell_deadline shell_machine_due(struct shell_machine *machine, int64_t now);

/* Whether what the terminal shows is the echo of our line, or the output of the command. */
bool shell_machine_hides(const struct shell_machine *machine);
bool shell_machine_prints(const struct shell_machine *machine);
