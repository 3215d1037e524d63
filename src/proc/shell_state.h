/* shell_state.h - what the parts of a shell share: shell.c its commands and viewers, shell_line.c
 * what is typed into it, shell_stream.c what it shows, shell_process.c its process and the pump. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "proc/pump.h"
#include "proc/shell.h"
#include "proc/spawn.h"
#include "proc/user.h"

enum { NONCE_LEN = 32, MARK_MAX = 64, PROMPT_MAX = 4096, TAIL_MAX = 4 << 20 };

enum phase { PROMPT_SHOWN, TYPED, RUNNING };

/* A source, and the shell it is of: each holds a reference. */
struct link {
	struct source source;
	struct shell *shell;
	unsigned generation; /* of the shell process */
};

struct shell {
	_Atomic int refs;
	pthread_mutex_t lock;
	char id[257], marker[112], dir[64];
	struct user user;
	bool has_user, logical, ended;
	char *home, *cwd;
	int no_change_s, cols, rows;
	unsigned size_version, generation;
	struct timespec created, used;
	int64_t used_ms, started_ms;
	struct waiter *waiters;

	/* The shell process, while there is one. */
	struct process process; /* pid 0: none */
	int pty, fifo, timer;   /* the pump's, who closes them */
	struct link *pty_link, *fifo_link, *end_link, *timer_link;
	bool exited; /* the process is gone, its last output may be on the way */
	int exit_code;
	bool ended_before; /* a shell of this session has ended: the next is a fresh one */
	bool fresh;        /* it is such a one, and no command was run in it yet */

	/* What others typed, as far as it may still be there. */
	unsigned lines; /* at a prompt, or for one: no later prompt has followed them yet */
	bool fed;       /* lines to a command, which has not read all of them perhaps */
	bool half_line;
	bool settling;   /* a command waits for no more than that the shell shows a prompt */
	bool prompt_due; /* one that says nothing of lines: at the start, and after a command */
	bool at_prompt;  /* as far as is known; a shell in the place of ours may not tell */
	int64_t prompt_ms;
	int64_t typed_ms;
	struct buf
		ahead; /* typed after a command was, before it runs: the line editor would take it */
	int interrupts; /* by us, to have a prompt of our own, which has not come yet */
	bool given_up;  /* so a line was, for the command that comes next */
	int last_code;  /* of the last command, as a prompt told it */
	bool prompted;  /* it has shown a prompt, so it reads what is typed */

	/* Commands. */
	struct shell_command *first, *last, *current;
	size_t remembered, most_remembered, queued;
	enum phase phase;
	char nonce[NONCE_LEN + 1], mark[MARK_MAX];
	size_t mark_len;
	bool code_known, mark_seen;
	int code, stop_step;
	int64_t hard_at, stop_at, finish_at, probe_at, probe_ms, again_ms, ready_at;
	bool stopping, overdue;
	bool cleared;        /* the line editor's line, to type ours again */
	char held[MARK_MAX]; /* the beginning of a mark, perhaps */
	size_t held_len;
	struct buf prompt, fifo_line;
	size_t prompt_shown;         /* how much of it viewers have seen */
	char *last_prompt, *program; /* what the shell's process ran when the command began */

	struct buf tail;
	int64_t tail_start;

	pthread_mutex_t screen_lock; /* of what follows; never taken with the other one held */
	struct screen *screen;
	int64_t screen_at;
};

/* shell.c */
void shell_command_over(struct shell *shell, int code, bool shell_ended_too);
void shell_check_over(struct shell *shell);
void shell_start_next(struct shell *shell); /* the oldest that waits, when none runs */

/* shell_line.c */
void shell_typed_line(const struct shell *shell, char *to, size_t room);
ssize_t shell_type_bytes(struct shell *shell, const char *data, size_t len);
void shell_type_ahead(struct shell *shell);
void shell_type_again(struct shell *shell);
void shell_nothing_typed(struct shell *shell);
void shell_set_nonce(struct shell *shell, const char *nonce);
bool shell_is_ready(struct shell *shell);
void shell_probe(struct shell *shell);
int shell_launch(struct shell *shell, struct shell_command *command, struct err *err);

/* shell_stream.c */
void shell_take(struct shell *shell, const char *data, size_t len);
void shell_screen_fit(struct shell *shell); /* to a new size; without the lock */

/* shell_process.c */
void shell_arm(struct shell *shell); /* the timer, for the next time that matters */
void shell_stop_step(struct shell *shell);
void shell_remove_dir(const struct shell *shell);
int shell_write_file(const struct shell *shell, const char *name, const struct buf *text,
		     struct err *err);
