/* program.h - one supervised process: started, waited for, ended, and heard of when it ends.
 *
 * The pump sees its end, whoever waits for it. What outlives a request (kernels, the document worker,
 * MCP servers, services) holds one of these. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/wait.h"
#include "proc/spawn.h"

struct err;
struct program;

enum { PROGRAM_WORDS = 2000 }; /* bytes kept of what it wrote last to standard error */

struct program_status {
	bool known; /* that it has ended, and how */
	int code;   /* exit status; 128 and the signal's number when one ended it */
	int signal; /* or 0 */
};

/* Called once by the pump when a program has ended, without a lock. */
typedef void program_ended_fn(void *arg, struct program *program, const struct program_status *how);

struct program_spec {
	struct spawn spawn;      /* see also spawn_sandboxed() */
	const char *marker;      /* of its session, which ends with it: tree.h; NULL: of none */
	enum spawn_worth worth;  /* where memory runs out; 0: that of a command */
	bool words;              /* its last words are kept: fds[2] is made here */
	bool group;              /* what is left of its process group is killed when it ends */
	program_ended_fn *ended; /* NULL: nobody */
	void *arg;
};

/* NULL with err: see spawn_start(). */
struct program *program_start(const struct program_spec *spec, struct err *err);

/* Runs a program to its end in the calling thread, without the pump: for processes that have none, and
 * threads that are in another network. One that takes longer is killed with its group; ret->known is
 * then false. What it leaves in the background goes on. -1 with err: it could not be started. */
int program_run(const struct spawn *spawn, int64_t timeout_ms, struct program_status *ret,
		struct err *err);

/* A process that somebody else has started, and reaps: its end is seen, but not how it came. The
 * descriptor is taken over, also on failure. */
struct program *program_adopt(pid_t pid, int pidfd, program_ended_fn *ended, void *arg,
			      struct err *err);

struct program *program_ref(struct program *program);
void program_unref(struct program *program); /* NULL is fine; the process runs on */

pid_t program_pid(const struct program *program);

/* Becomes readable when it ends: for who waits for other descriptors as well. */
int program_fd(const struct program *program);

/* Whether it has ended; the pump may not have come to it yet. */
bool program_ended(struct program *program);

/* Waits until the pump has seen its end. ret may be NULL. */
enum wake program_wait(struct program *program, const struct wait *wait,
		       struct program_status *ret);

/* The last line that it wrote to standard error; "" where there is none. */
void program_words(struct program *program, char *to, size_t room);

/* Sends a signal to its process group. -1 with ESRCH once it has ended. */
int program_signal(struct program *program, int number, struct err *err);

/* Sends a signal to the process alone, if it has not ended. Takes no lock. */
void program_signal_one(const struct program *program, int number);

/* Asks its group to end. When it has, what is left of that is killed. */
void program_terminate(struct program *program);

/* Kills it and its group, at once; ended() follows. */
void program_kill(struct program *program);

/* Ends it: asks its group to, and after grace_ms (0: at once) kills that and all of its session.
 * Returns when it has ended; where it cannot be, as while it waits for a disk, after half a minute.
 * Never call it in the pump's thread. ret may be NULL. */
void program_end(struct program *program, int64_t grace_ms, struct program_status *ret);
