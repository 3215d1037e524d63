/* kernel_state.h - the inside of a kernel, for the files that make it up. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "kernel/kernel.h"
#include "proc/program.h"

struct kernel_message_key;
struct zsock;

enum { CHANNELS = 5, OWN_PORTS = 16 };

struct kernel {
	_Atomic int refs;    /* one is its program's until that ends */
	struct kernel *next; /* among all that live */
	const struct user *user;
	char file[96];                 /* the connection file */
	char ip[96];                   /* of TCP; or what the names of its sockets begin with */
	int ports[CHANNELS];           /* changed under the lock, like tcp and own_ports */
	unsigned own_ports[OWN_PORTS]; /* listened on before it ran any code; 0 after the last */
	bool tcp, by_message;
	bool withdraws; /* it takes KERNEL_WITHDRAW: see kernel_run.c */
	char key[65], session[33];
	struct kernel_message_key *signs; /* with the key; used by who uses the kernel */
	uint64_t requests;
	struct zsock *shell, *iopub, *control;
	struct zsock *input; /* stdin, of one that may ask although it was told not to; or NULL */
	bool welcomes;       /* it tells when our subscription to iopub has arrived */
	int order_fd;        /* to a forked one, until it is handed out; -1: none */
	int wake_fd;         /* an eventfd: something of what follows has changed */

	pthread_mutex_t lock;    /* of what follows */
	struct program *program; /* NULL: not born yet */
	pid_t pid;               /* also of one that was never born, by what its server says */
	bool expendable;
	const void *server; /* that forked it */
	bool ended, known;  /* known: how it ended */
	bool orphan;        /* nobody will tell */
	int code, signal;
	struct err why; /* it was never born; code 0: it was, or may be */
};

/* A new one, without a process, with names for its files. */
struct kernel *kernel_new(const struct user *user, struct err *err);

/* For program_spec.ended, with a reference to the kernel as its argument. */
program_ended_fn kernel_program_ended;

/* Waits until the descriptor is readable: 0. */
int kernel_await(int fd, const struct wait *wait, struct err *err);

/* Connects its shell and iopub. */
int kernel_connect(struct kernel *kernel, struct err *err);

/* Sends a request with JSON content (a struct buf, taken over) and says its id. */
struct buf;
int kernel_send(struct kernel *kernel, struct zsock *to, const char *type, struct buf *content,
		char ret_id[64], struct err *err);

/* Our subscription to iopub has arrived when the kernel welcomes us: then no output is missed. */
int kernel_await_welcome(struct kernel *kernel, const struct wait *wait, struct err *err);

/* On control, {"msg_id"}: nobody waits for that request any more. It is not begun; or it is interrupted, and
 * nothing else. The reply says {"begun"}. share/kernel/aio_withdraw.py has the other end. */
#define KERNEL_WITHDRAW "aio_withdraw"

/* A socket to one of its channels, of a peer with that identity. */
struct zsock *kernel_open_channel(const struct kernel *kernel, enum kernel_channel channel,
				  const char *identity, struct err *err);

/* Random hexadecimal digits, an even number of them. */
void kernel_random(char *to, size_t digits);

int kernel_interrupt(struct kernel *kernel, struct err *err);
