/* service.h - what is started when it is first used, shared by all who use it, and stopped when idle.
 *
 * A service is one row. A run is one life of it, with a thread of its own: that starts what the row
 * needs and then its program, waits until that is ready, watches it, and ends it. Callers wait for a
 * run and hold a lease of it while they use it:
 *
 *	struct service_run *run = service_use(service, &wait, err);
 *	… run->program, run->in, run->value …
 *	service_release(run);
 *
 * Every change of state is an event of the journal and a line in the log. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"
#include "base/wait.h"
#include "proc/program.h"
#include "service/ready.h"

struct arena;
struct err;
struct service;

enum service_state { SERVICE_IDLE, SERVICE_STARTING, SERVICE_READY, SERVICE_FAILED };
extern const char *const service_state_names[]; /* ends with NULL */

/* One life of a service. Those who hold it read its members; open() and close() may set them. */
struct service_run {
	struct service *service;
	void *arg;               /* as service_add() got it */
	struct program *program; /* NULL: the service has none */
	int in, out;             /* our ends of what prepare() gave to the program; -1: none */
	void *value;             /* what open() made */
	int end_fd;              /* readable once the run is ending */
	_Atomic bool ending;     /* no lease of it is given any more, */
	_Atomic bool unwanted;   /* because it is to end: that is not a failure */
};

/* What prepare() fills in. spawn.path is set already, and so are spawn.fds, to -1: those that are
 * opened there are closed once the program runs. What it points to lives in the arena. */
struct service_start {
	struct arena *arena;
	struct program_spec program;
	struct ready ready;
};

/* None of the functions runs under a lock. */
struct service_row {
	const char *name;  /* in events, metrics and the log */
	const char *title; /* in errors: "the document worker" */
	const char *const
		*needs;      /* names of services that run while this one does; ends with NULL */
	size_t beside;       /* so many of the last ones start while the program does */
	const char *refused; /* why it cannot be used at all; NULL: it can */

	/* The program, in the arena; NULL with err, which says what is missing. NULL: no program. */
	const char *(*find)(void *arg, struct arena *arena, struct err *err);
	const char *install; /* what to do when it is missing; NULL: that is not known */
	int (*prepare)(struct service_run *run, struct service_start *start, struct err *err);
	enum spawn_worth worth; /* where memory runs out; 0: that of a command */
	int64_t pids, memory;   /* that a box must have for it */

	/* Once the program is ready, what is still to be done before the service is: within `wait`. */
	int (*open)(struct service_run *run, const struct wait *wait, struct err *err);
	void (*close)(struct service_run *run);        /* asks the program to end; NULL: SIGTERM */
	void (*free)(struct service_run *run);         /* frees value, when nobody holds the run */
	void (*failed)(void *arg, const char *reason); /* a start has; NULL: nobody is told */
	void (*done)(void *arg);                       /* with the service's last reference */

	int64_t start_ms; /* how long a start may take */
	int64_t grace_ms; /* how long the program has to end before it is killed */
	int64_t idle_ms;  /* without a lease for so long, it is stopped; 0: never */
	bool (*busy)(struct service_run *run); /* must go on, although nobody holds a lease */
	int64_t retry_ms;    /* between a failure and the next start, doubled each time; 0: 2 s */
	struct list gives;   /* of struct pair: variables of every command */
	void (*given)(void); /* before the first command has them; NULL: nothing is to be done */
};

/* The variable that disables a service of this name (service_names.h), if it is true; else NULL. */
const char *service_disabled(const char *name);

/* Adds a service; row and arg must live until done(). Services are added in the order of their needs.
 * Those that give variables are added before the first command is started. */
struct service *service_add(const struct service_row *row, void *arg);

/* Ends its run, if there is one, and refuses every further use; drops the reference of service_add(). */
void service_remove(struct service *service, const char *why);

struct service *service_ref(struct service *service);
void service_unref(struct service *service); /* NULL is fine */

/* A lease of the run that is ready. Without one, a run is started, or whichever is being started is
 * waited for; a caller that leaves does not end that. NULL with err: the caller's wait was over, the
 * service may not be started, or failed to, less than retry_ms ago (at most a minute). */
struct service_run *service_use(struct service *service, const struct wait *wait, struct err *err);
void service_release(struct service_run *run); /* NULL is fine */

/* A lease of the run that is ready now, or NULL: nothing is started, and nobody waits. */
struct service_run *service_current(struct service *service);

/* Has a run started if there is none; whether one is being started now. */
bool service_begin(struct service *service);

/* The state, and the reason where it is FAILED (a program that is missing is one, too); else "". */
enum service_state service_look(struct service *service, char *ret_reason, size_t room);

/* Whether it can be used at all: it is not disabled, and its program is installed. */
bool service_is_usable(struct service *service);

/* A user has found that the run is of no use any more: it is ended, and the next use starts another.
 * why may be NULL where the program has ended. */
void service_lost(struct service_run *run, const char *why);

/* Why a run is ending, or how its program has ended. */
void service_why(struct service_run *run, char *to, size_t room);

/* Keeps the struct of a run, without a lease. */
struct service_run *service_run_ref(struct service_run *run);
void service_run_unref(struct service_run *run);

/* For metrics: all services that may be used, in the arena. */
struct service_info {
	const char *name;
	enum service_state state;
	uint64_t starts, failures;
};
size_t service_list(struct arena *arena, struct service_info **ret);

/* The end of the server: refuses further use and has all runs end; and waits until they have. */
void service_stop_all(void);
void service_end_all(void);
