/* spawn.h - starting a program: the one way in which the server makes processes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct arena;
struct err;
struct list;
struct user;

struct spawn {
	const char *path; /* absolute */
	char *const *argv, *const *env;
	const char *cwd;       /* NULL: the server's */
	const struct user *as; /* NULL: as the server */
	int fds[5];            /* its descriptors: the three standard ones (-1: /dev/null), */
	int extras;            /* and so many of the other two */
	bool terminal;         /* fds[0] is to be its controlling terminal */
	uint64_t tag;          /* of its session, from tree_tag(); 0: none */
	bool with_thread;      /* it is asked to end when the thread that starts it does */
};

/* Has it run as a user of the sandbox: with its rights, its environment (environment_make()) and, of
 * the session that has the marker (NULL: of none), what tree_end() finds it by. */
void spawn_sandboxed(struct spawn *spawn, struct arena *arena, const struct user *user,
		     const char *home, const char *marker, const struct list *env);

/* Lets this process have as many descriptors as it may. What it starts has the limit from before:
 * there are programs that cannot do with more. */
void spawn_raise_limit(void);

struct process {
	pid_t pid; /* also its session and process group */
	int pidfd;
};

/* Starts the program in a session of its own, with clean signals and no other descriptor. Returns
 * when it runs; when it could not be started, err says which step failed: ERR_LIMIT where there may
 * be no more processes, ERR_TOO_LARGE when its arguments or environment are too long. */
int spawn_start(const struct spawn *spawn, struct process *ret, struct err *err);

/* The bare start, by vfork. The pid; -1 with *ret_code, an errno. *ret_step says what a child that
 * was made could not do, and it has to be reaped. As a sibling, it is the caller's parent's child. */
pid_t spawn_clone(const struct spawn *spawn, bool sibling, int *ret_pidfd, int *ret_code,
		  const char **ret_step);

/* Where the memory of a box runs out, the highest ends first. The cradle, which shares the limit of the
 * commands, is the last. Outside a box nothing is done. */
enum spawn_worth { WORTH_SOURCE = 500, WORTH_COMMAND = 600, WORTH_NOTHING = 1000 };
void spawn_rate(pid_t pid, enum spawn_worth worth);

/* Waits for a process to end, and reaps it. The exit status as a shell has it: 128 and the signal's
 * number when one ended it, which *ret_signal then holds. */
int process_status(int pidfd, int *ret_signal);
