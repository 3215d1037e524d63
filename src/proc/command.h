/* command.h - a program that runs on pipes, with all it printed, until nobody asks for it any more.
 *
 * The command is over when its process ends, whoever may still hold its pipes; what they print
 * later is kept all the same. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "journal/journal.h"
#include "proc/output.h"
#include "proc/spawn.h"

struct command;
struct err;

enum command_state { COMMAND_RUNNING, COMMAND_COMPLETED, COMMAND_TIMED_OUT, COMMAND_KILLED };
enum { COMMAND_STDOUT, COMMAND_STDERR };

/* What a reader may look at between command_lock() and command_unlock(). */
struct command_view {
	enum command_state state;
	int exit_code;    /* once it has ended */
	bool starved;     /* while it ran, the kernel killed something for want of memory */
	bool open[2];     /* more may still be printed */
	uint64_t changes; /* of all this; see command_wait_next() */
	struct output out[2];
};

/* Starts the program. Its standard descriptors are made here, but for the input where fds[0] is not
 * -1. hard_ms: the moment (of clock_ms(); INT64_MAX for none) at which its process group is told to
 * end, and two seconds later is killed. */
struct command *command_start(struct spawn *spawn, int64_t hard_ms, struct err *err);

/* Has it in the journal: that it began, and once it has ended, how. */
void command_record(struct command *command, struct journal_started as);

struct command *command_ref(struct command *command);
void command_unref(struct command *command); /* NULL is fine; the program runs on */

const struct command_view *command_lock(struct command *command);
void command_unlock(struct command *command);

/* With the lock: waits for new output, for the end and for that of its input. See wait_change(). */
enum wake command_wait(struct command *command, const struct wait *wait);

/* The same without the lock, for what has changed since view->changes was *seen, which it then is;
 * with `input`, also until it takes more input. */
enum wake command_wait_next(struct command *command, uint64_t *seen, bool input,
			    const struct wait *wait);

/* For a waiter that is in other lists as well; with the lock. */
void command_join(struct command *command, struct waiter *waiter);
void command_leave(struct command *command, const struct waiter *waiter);

/* Takes out what a stream has, from *at on (0 at first): how much went to `to`. What was taken is not
 * kept, so the streams of who takes it all never grow large. */
size_t command_take(struct command *command, int stream, int64_t *at, char *to, size_t room);

/* Whether something was printed that the pump has not read yet. */
bool command_pending(struct command *command);

pid_t command_pid(const struct command *command);

/* Whether its process has ended; the pump may not have come to it yet. */
bool command_ended(struct command *command);

/* Says that its end, when it comes by a signal, is our doing: "killed". */
void command_condemn(struct command *command);

/* Sends a signal to the process group. -1 with ESRCH once it has ended. */
int command_signal(struct command *command, int number, struct err *err);

/* Gives input, as much as fits at once: how much, 0 when the pipe is full (see command_wait_next()),
 * -1 when the program does not read any more. */
ssize_t command_input(struct command *command, const char *data, size_t len, struct err *err);
void command_input_close(struct command *command);

/* Stops listening to pipes that outlived the program. */
void command_abandon(struct command *command);
