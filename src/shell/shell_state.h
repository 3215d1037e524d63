/* shell_state.h - what the parts of a shell share: shell.c its commands and viewers, shell_line.c
 * what is typed into it, shell_stream.c what it shows, shell_process.c its process and the pump. They
 * feed events to shell_machine.c and shell_keys.c, which decide, and do what these say. */
#pragma once
#include <pthread.h>

#include "proc/program.h"
#include "proc/pump.h"
#include "proc/user.h"
#include "session/sessions.h"
#include "shell/shell.h"
#include "shell/shell_keys.h"
#include "shell/shell_machine.h"

enum { NONCE_LEN = 32, MARK_MAX = 64, PROMPT_MAX = 4096, TAIL_MAX = 4 << 20 };

/* A source, and the shell it is of: each holds a reference. */
struct shell_link {
	struct source source;
	struct shell *shell;
	unsigned generation; /* of the shell process */
};

struct shell {
	struct session base;
	char marker[112], dir[64];
	struct user user;
	bool logical;
	char *home, *cwd;
	int no_change_s, cols, rows;
	unsigned size_version, generation;
	int64_t started_ms;
	struct waiter *waiters;

	struct shell_machine machine;
	struct shell_keys keys;

	/* The shell process, while there is one. */
	struct program *bash; /* with a reference; NULL: none */
	int pty, fifo, timer; /* the pump's, who closes them */
	int64_t armed_at;     /* what the timer is set to */
	struct shell_link *pty_link, *fifo_link, *timer_link;
	int exit_code;
	bool fresh; /* one before has ended, and no command was run in this one yet */

	/* Commands. */
	struct shell_command *first, *last, *current;
	size_t remembered, most_remembered, queued;
	char nonce[NONCE_LEN + 1], mark[MARK_MAX];
	size_t mark_len;
	struct buf ahead;    /* typed before the command runs: the line editor would take it */
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
void shell_feed(struct shell *shell, enum shell_event event);
void shell_act(struct shell *shell, unsigned actions); /* what the machine asks for */
void shell_start_next(struct shell *shell);            /* the oldest that waits, when none runs */

/* shell_line.c */
void shell_typed_line(const struct shell *shell, char *to, size_t room);
ssize_t shell_type_bytes(struct shell *shell, const char *data, size_t len);
int shell_type_line(struct shell *shell, struct err *err);
void shell_type_ahead(struct shell *shell);
void shell_clear_line(struct shell *shell);
void shell_set_nonce(struct shell *shell, const char *nonce);
bool shell_is_ready(struct shell *shell);
enum shell_event shell_look(struct shell *shell); /* at a command in flight */
int shell_launch(struct shell *shell, struct shell_command *command, struct err *err);

/* shell_stream.c */
void shell_show_command(struct shell *shell);
void shell_take(struct shell *shell, const char *data, size_t len);
void shell_screen_fit(struct shell *shell); /* to a new size; without the lock */

/* shell_process.c */
void shell_arm(struct shell *shell); /* the timer, for the next deadline */
void shell_signal(struct shell *shell);
void shell_remove_dir(const struct shell *shell);
int shell_write_file(const struct shell *shell, const char *name, const struct buf *text,
		     struct err *err);
