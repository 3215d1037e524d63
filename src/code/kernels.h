/* kernels.h - sessions of kernels, and code run in them: what /v1/jupyter, /v1/code and
 * /api/v1/contexts share. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/desc.h"
#include "kernel/outputs.h"
#include "proc/tools.h"
#include "session/sessions.h"

struct arena;
struct call;
struct config;
struct err;
struct server;

enum { KERNELS_CODE_MAX = 16 << 20 };

/* A session: which kernel, and where. */
struct kernels_wish {
	const char *id;          /* any; NULL or empty: a new one */
	const char *kernel_name; /* NULL or empty: the session's own, or the default */
	const char *language; /* instead of kernel_name: the first kernel that speaks it; or NULL */
	const char *cwd;      /* absolute; NULL or empty: the session's own, or the workspace */
	const char *context;  /* the name of a context; NULL: it is none */
};

/* Finds or makes the session and has its kernel started. Its id and kernel are in the arena. */
struct kernels_opened {
	const char *id, *kernel_name, *language;
	bool made;          /* it is new */
	const char *notice; /* that its kernel stands in for the one that was asked for; or NULL */
	struct timespec created;
};
int kernels_open(struct call *call, const struct kernels_wish *asked, struct kernels_opened *ret,
		 struct err *err);

struct kernels_job {
	struct kernels_wish where;
	struct text code;
	int64_t timeout_ms;
	bool once;   /* the session ends with the execution */
	bool events; /* the call is answered with events; the caller adds nothing */
};

struct kernels_result {
	struct kernels_opened session;
	const char *status; /* "ok", "error", "timeout" */
	const char
		*notice; /* what else the caller should know: a new kernel, lost output; or NULL */
	const char *id;  /* of the message */
	int64_t count;   /* of executions; INT_ABSENT */
	int64_t exit_code;       /* 0; 1, or what commands said; INT_ABSENT after a time-out */
	bool died;               /* with this code; then there is an error among the outputs */
	struct outputs *outputs; /* freed with the call */
};

/* Runs code to its end. What the code does wrong is in *ret; -1 is for what the caller did wrong. */
int kernels_execute(struct call *call, const struct kernels_job *asked, struct kernels_result *ret,
		    struct err *err);

/* What is said of a session. */
struct kernels_info {
	const char *id, *kernel_name, *language, *context, *cwd, *connection_file;
	struct timespec created, used;
	int64_t pid, executions;
	int64_t clients; /* that are connected, of Jupyter */
	bool busy;
};
struct list kernels_list(struct arena *arena); /* of struct kernels_info */
int kernels_look(const char *id, struct arena *arena, struct kernels_info *ret, struct err *err);

/* ---- clients of Jupyter, who speak to the kernel themselves ---- */

/* One that is connected. The session is in use, so it does not expire, until kernels_detach(). */
struct kernels_client {
	struct kernel_session *session;
	struct kernel *kernel;
	bool left, stays;
};

/* Connects to a session that is there, whose kernel is started if it has ended. */
int kernels_attach(struct call *call, const char *id, struct kernels_client *ret, struct err *err);
void kernels_detach(struct kernels_client *client);

/* What it hears of its kernel: that code begins and ends to run in it, and that it was asked to run some. */
void kernels_note_state(const struct kernels_client *client, bool busy);
void kernels_note_request(const struct kernels_client *client);

/* It has left. Where nobody else is connected, and code still runs, somebody has to hear the end of that, so that
 * the session is in use until then: whether that is it. Asked again, whether it still is. */
bool kernels_stays(struct kernels_client *client);

/* Whether the session was ended, and not only its kernel. */
bool kernels_is_closed(const struct kernels_client *client);

/* Interrupts what runs in it; gives it another kernel, without any variables. */
int kernels_interrupt(const char *id, struct err *err);
int kernels_restart(struct call *call, const char *id, struct err *err);

int kernels_close(const char *id, struct err *err);
size_t kernels_close_all(void);
extern struct sessions kernels_sessions;

/* Where kernels and interpreters are looked for. */
int kernels_where(struct server *server, struct tools_where *ret, struct err *err);

/* Sets the table's limits; has a kernel made ready before the first use; ends what sessions leave. */
void kernels_start(struct server *server);
int kernels_warm(struct server *server, struct err *err);
void kernels_end(void);
