/* kernel.h - one running kernel: its process, its sockets, and code run in it.
 *
 * A kernel is used by one thread at a time; only its end comes from elsewhere: the pump sees it, and
 * wakes who waits. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/desc.h"
#include "base/wait.h"

enum { KERNEL_TASKS = 10 }; /* processes and threads that one has, about */

struct err;
struct kernel;
struct kernelspec;
struct user;

/* What a kernel is given when it begins to work for a session. */
struct kernel_place {
	const char *cwd;         /* absolute */
	const char *marker;      /* of its session: tree_marker() */
	const char *home;        /* the product's */
	const struct user *user; /* as whom it runs */
};

/* Starts the program of a kernelspec and waits until it answers. NULL with err. */
struct kernel *kernel_spawn(const struct kernelspec *spec, const struct kernel_place *place,
			    const struct wait *wait, struct err *err);

struct kernel *kernel_ref(struct kernel *kernel);
void kernel_unref(struct kernel *kernel); /* NULL is fine; the last one ends it */

/* Kills its process group. Its session may have more: see tree.h. */
void kernel_end(struct kernel *kernel);

/* Whether it is the first to end where the memory of a box runs out: as a ready one is. */
void kernel_set_expendable(struct kernel *kernel, bool expendable);

bool kernel_ended(struct kernel *kernel);
pid_t kernel_pid(const struct kernel *kernel);
const char *kernel_connection_file(const struct kernel *kernel);

/* Clears, of 65536 ports, those that kernels listen on for themselves, not for the code they run. */
void kernel_forget_ports(bool *ports);

/* How it ended, in words: "with exit code 1", "by signal 9 (Killed)". Waits a moment for whoever
 * knows. */
const char *kernel_end_text(struct kernel *kernel, char *to, size_t room);

/* What it may have died of, as one that had just started: EAGAIN where it lacked threads, ENOMEM where
 * it lacked memory; else 0. */
int kernel_end_cause(struct kernel *kernel);

/* ---- running code ---- */

enum kernel_outcome {
	KERNEL_OK,
	KERNEL_ERROR,
	KERNEL_TIMEOUT, /* interrupted; ready for more unless it has ended */
	KERNEL_DIED,
	KERNEL_LEFT,     /* the caller hung up: interrupted */
	KERNEL_STOPPING, /* the server stops */
};

struct kernel_result {
	enum kernel_outcome outcome;
	int64_t count;     /* of executions; INT_ABSENT: it does not say */
	int64_t exit_code; /* of commands that failed; INT_ABSENT: it does not say */
	char id[64];       /* of the request */
	bool killed;       /* it took no interrupt, and was ended */
	bool lost;         /* some of its output did not arrive */
	bool unbegun; /* its time was up before another client's code had ended: it was not run */
};

/* Gets each message that belongs to the execution, as it comes. -1: as if the caller hung up. */
typedef int kernel_sink(void *arg, const char *type, const json_t *content);

struct kernel_job {
	struct text code;
	bool silent; /* it counts as no execution, and shows nothing */
	bool prompt; /* somebody looks at the outputs as they come */
};

/* Runs code to its end. At the time-out it is interrupted, and nothing else: where the kernel is still busy with
 * another client's code, it is not begun. What does not let itself be interrupted is ended. -1 with err
 * only when the kernel cannot be reached. */
int kernel_run(struct kernel *kernel, const struct kernel_job *job, const struct wait *wait,
	       kernel_sink *sink, void *arg, struct kernel_result *ret, struct err *err);

/* Lets outputs of others pass by until the next kernel_run(): where nobody takes them, the kernel would
 * keep them all. */
void kernel_rest(struct kernel *kernel);

/* ---- other clients ---- */

/* A client of its own, beside kernel_run(): what it asks is answered to it, and so are questions for
 * input; it hears all outputs. Used by one thread. It keeps the kernel. */
struct kernel_link;
struct kernel_wire;
enum kernel_channel { CHANNEL_SHELL, CHANNEL_IOPUB, CHANNEL_STDIN, CHANNEL_CONTROL, CHANNEL_HB };
enum { KERNEL_LINK_FDS = 5 };

/* NULL with err. Outputs may be missed until kernel_link_hears(). */
struct kernel_link *kernel_link_open(struct kernel *kernel, struct err *err);
void kernel_link_free(struct kernel_link *link); /* NULL is fine */

/* To be polled: of its channels, and what becomes readable when the kernel ends. False: it has ended. */
struct pollfd;
bool kernel_link_poll(const struct kernel_link *link, struct pollfd fds[KERNEL_LINK_FDS]);

/* Whether it has heard something: from then on it hears all. */
bool kernel_link_hears(const struct kernel_link *link);

/* Sends a message to its channel, shell, control or stdin. */
int kernel_link_send(struct kernel_link *link, const struct kernel_wire *message, struct err *err);

/* Takes a message of a channel; its parts live until the next call. Forged ones are dropped. False:
 * there is none. */
bool kernel_link_recv(struct kernel_link *link, enum kernel_channel channel,
		      struct kernel_wire *ret);

/* Interrupts whatever runs in the kernel. */
int kernel_interrupt_all(struct kernel *kernel, struct err *err);

/* ---- for the pool ---- */

/* A kernel to be forked: its files are chosen, there is no process yet. */
struct kernel *kernel_new_forked(const struct user *user, struct err *err);

/* What the fork server is to be asked for, as JSON; later: when it has nothing else to do. */
char *kernel_request(const struct kernel *kernel, uint64_t id, bool later);
bool kernel_is_born(struct kernel *kernel); /* there is a process */

/* The process is there, forked by that server; the descriptors are taken over. Or it will never be: why.
 * EAGAIN, ENOMEM: there is no room for it now. ERR_NOT_IMPLEMENTED: this fork server cannot make any. */
void kernel_born(struct kernel *kernel, const void *server, pid_t pid, int pidfd, int order_fd);
void kernel_stillborn(struct kernel *kernel, int code, const char *why);

/* Hands it out: waits until it is ready, gives it its place, connects. ESRCH: it has ended. EAGAIN: it
 * may not have the threads it needs; ENOMEM: nor the memory. */
int kernel_hand_out(struct kernel *kernel, const struct kernel_place *place,
		    const struct wait *wait, struct err *err);

/* A fork server tells how one of its kernels ended; or has ended itself, and will not tell. */
void kernel_report(pid_t pid, int code, int signal_number);
void kernel_orphan(const void *server);

/* At the very end: waits for those that were ended, and removes the directory of their files. */
void kernel_end_all(void);
