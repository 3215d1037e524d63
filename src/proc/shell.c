#include "proc/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/environment.h"
#include "proc/pump.h"
#include "proc/spawn.h"
#include "proc/tree.h"
#include "proc/user.h"
#include "term/plain.h"
#include "term/screen.h"

enum {
	READ_SIZE = 65536,
	TAIL_MAX = 4 << 20,
	PROMPT_MAX = 4096,
	QUEUE_MAX = 256, /* waiting */
	NONCE_LEN = 32,
	MARK_MAX = 64,
	HISTORY_LINE_MAX = 4096,
	GRACE_MS = 30, /* for the last output of a shell whose terminal others still hold */
	MARK_MS = 300, /* for the mark after the exit code, if the terminal is in trouble */
	READY_MS = 2000,
	STOP_STEP_MS = 1000,
	TYPED_MS = 300,   /* for a prompt after what was typed */
	AHEAD_MAX = 4000, /* what a terminal takes at once */
	QUIET_MS = 30,    /* for the line editor to have read all that was typed */
	INTERRUPT_MS = 100,
	INTERRUPTS_MAX = 3,
	AGAIN_MS = 500, /* for a line to be read, at first */
	PROBE_MS = 100, /* for another shell in the place of ours, at first */
	PROBE_MAX_MS = 2000,
	COLS = 120,
	ROWS = 40,
};

#define BASH "/bin/bash"

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
	struct screen *screen;
	int64_t screen_at;
};

/* ---- references and small things ---- */

struct shell *shell_ref(struct shell *shell)
{
	atomic_fetch_add(&shell->refs, 1);
	return shell;
}

static void command_free(struct shell_command *command)
{
	output_done(&command->raw);
	free(command->text);
	free(command->dir);
	free(command->prompt);
	free(command);
}

void shell_command_unref(struct shell_command *command)
{
	if (command && --command->refs == 0 && command->forgotten)
		command_free(command);
}

static void forget(struct shell_command *command)
{
	command->forgotten = true;
	if (!command->refs)
		command_free(command);
}

void shell_unref(struct shell *shell)
{
	if (!shell || atomic_fetch_sub(&shell->refs, 1) > 1)
		return;
	for (struct shell_command *command = shell->first, *newer; command; command = newer) {
		newer = command->newer;
		forget(command);
	}
	buf_done(&shell->prompt);
	buf_done(&shell->fifo_line);
	buf_done(&shell->tail);
	buf_done(&shell->ahead);
	screen_free(shell->screen);
	free(shell->last_prompt);
	free(shell->program);
	free(shell->home);
	free(shell->cwd);
	pthread_mutex_destroy(&shell->lock);
	free(shell);
}

void shell_lock(struct shell *shell)
{
	pthread_mutex_lock(&shell->lock);
}

void shell_unlock(struct shell *shell)
{
	pthread_mutex_unlock(&shell->lock);
}

void shell_join(struct shell *shell, struct waiter *waiter)
{
	waiter_join(&shell->waiters, waiter);
}

void shell_leave(struct shell *shell, const struct waiter *waiter)
{
	waiter_leave(&shell->waiters, waiter);
}

const char *shell_id(const struct shell *shell)
{
	return shell->id;
}

const struct timespec *shell_created(const struct shell *shell)
{
	return &shell->created;
}

const struct timespec *shell_used(const struct shell *shell)
{
	return &shell->used;
}

int64_t shell_used_ms(const struct shell *shell)
{
	return shell->used_ms;
}

void shell_touch(struct shell *shell)
{
	shell->used_ms = clock_ms();
	clock_gettime(CLOCK_REALTIME, &shell->used);
}

bool shell_ended(const struct shell *shell)
{
	return shell->ended;
}

bool shell_running(const struct shell *shell)
{
	return shell->process.pid && !shell->exited;
}

/* A shell whose start-up files undo our hook is believed to be ready after a while. */
bool shell_ready(const struct shell *shell)
{
	return shell_running(shell) &&
	       (shell->prompted || clock_ms() - shell->started_ms >= READY_MS);
}

int *shell_no_change_s(struct shell *shell)
{
	return &shell->no_change_s;
}

int shell_exit_code(const struct shell *shell)
{
	return shell->exit_code;
}

void shell_cwd(struct shell *shell, char *to, size_t room)
{
	char link[40];
	ssize_t n = -1;
	if (shell_running(shell)) {
		snprintf(link, sizeof link, "/proc/%d/cwd", shell->process.pid);
		n = readlink(link, to, room - 1);
	}
	if (n >= 0)
		to[n] = 0;
	else
		snprintf(to, room, "%s", shell->cwd);
}

struct shell_command *shell_first(const struct shell *shell)
{
	return shell->first;
}

struct shell_command *shell_current(const struct shell *shell)
{
	return shell->current;
}

struct shell_command *shell_latest(const struct shell *shell)
{
	return shell->last;
}

/* ---- what the terminal shows ---- */

static void tail_add(struct shell *shell, const char *data, size_t len)
{
	if (shell->tail.len + len > TAIL_MAX) {
		size_t keep = shell->tail.len < TAIL_MAX / 2 ? shell->tail.len : TAIL_MAX / 2;
		if (len >= TAIL_MAX / 2)
			keep = 0;
		memmove(shell->tail.data, shell->tail.data + shell->tail.len - keep, keep);
		shell->tail_start += (int64_t)(shell->tail.len - keep);
		shell->tail.len = keep;
	}
	buf_add(&shell->tail, data, len);
}

struct shell_tail shell_tail(const struct shell *shell)
{
	return (struct shell_tail){ shell->tail.data, shell->tail.len, shell->tail_start };
}

struct screen *shell_screen(struct shell *shell)
{
	int64_t end = shell->tail_start + (int64_t)shell->tail.len;
	if (!shell->screen) {
		shell->screen = screen_new(shell->cols, shell->rows);
		shell->screen_at = shell->tail_start;
	}
	if (shell->screen_at < shell->tail_start)
		shell->screen_at = shell->tail_start;
	screen_feed(shell->screen, shell->tail.data + (shell->screen_at - shell->tail_start),
		    (size_t)(end - shell->screen_at));
	shell->screen_at = end;
	return shell->screen;
}

const char *shell_prompt(const struct shell *shell)
{
	return shell->prompt.data ? shell->prompt.data : "";
}

static void typed_line(const struct shell *shell, char *to, size_t room)
{
	snprintf(to, room, " . %s/c", shell->dir);
}

/* The last line of what was shown since the last command, up to the line that we typed; the prompt
 * before, if that is not to be seen. */
static char *prompt_text(struct shell *shell)
{
	struct plain plain;
	char ours[80];
	auto_buf struct buf text = BUF(PROMPT_MAX * 4);
	plain_init(&plain);
	plain_feed(&plain, shell->prompt.data ? shell->prompt.data : "", shell->prompt.len, &text);
	plain_finish(&plain, &text);
	plain_done(&plain);
	typed_line(shell, ours, sizeof ours);
	char *cut = NULL;
	for (char *at = text.len ? strstr(text.data, ours) : NULL; at; at = strstr(at + 1, ours))
		cut = at;
	if (cut)
		text.len = (size_t)(cut - text.data), *cut = 0;
	const char *line = text.len ? memrchr(text.data, '\n', text.len) : NULL;
	line = line ? line + 1 : text.len ? text.data : "";
	if (*line) {
		free(shell->last_prompt);
		shell->last_prompt = xstrdup(line);
	}
	return xstrdup(shell->last_prompt ? shell->last_prompt : "");
}

static void show(struct shell *shell, const char *data, size_t len)
{
	if (!len)
		return;
	if (shell->phase == RUNNING) {
		output_add(&shell->current->raw, data, len);
		shell->current->changed_ms = clock_ms();
	} else {
		size_t room = PROMPT_MAX - shell->prompt.len;
		if (len > room)
			shell->prompt.len = 0;
		buf_add(&shell->prompt, len > PROMPT_MAX ? data + len - PROMPT_MAX : data,
			len > PROMPT_MAX ? PROMPT_MAX : len);
	}
	if (shell->phase == TYPED) /* the line that sources the command is nobody's business */
		return;
	tail_add(shell, data, len);
	shell->prompt_shown += len;
}

/* Viewers see the command as if it had been typed, after a prompt. */
static void show_command(struct shell *shell)
{
	const char *prompt = shell->current->prompt;
	if (!shell->prompt_shown)
		tail_add(shell, prompt, strlen(prompt));
	for (const char *at = shell->current->text; *at;) {
		size_t n = strcspn(at, "\n");
		tail_add(shell, at, n);
		tail_add(shell, "\r\n", at[n] || n ? 2 : 0);
		at += n + (at[n] == '\n');
	}
}

/* ---- the end of a command ---- */

static void start_next(struct shell *shell);
static void type_ahead(struct shell *shell);
static void type_again(struct shell *shell);
static void arm(struct shell *shell);

static void command_over(struct shell *shell, int code, bool shell_ended_too)
{
	struct shell_command *command = shell->current;
	if (!command)
		return;
	command->exit_code = code;
	command->shell_ended = shell_ended_too;
	command->status = shell->overdue    ? SHELL_HARD_TIMEOUT
			  : shell->stopping ? SHELL_TERMINATED
					    : SHELL_COMPLETED;
	shell->current = NULL;
	if (shell->phase != PROMPT_SHOWN) /* else it may be on the screen already */
		shell->prompt.len = shell->prompt_shown = 0;
	shell->phase = PROMPT_SHOWN;
	shell->prompt_due = true;
	shell->prompt_ms = clock_ms();
	type_ahead(shell);
	shell->stopping = shell->overdue = false;
	shell->hard_at = shell->stop_at = shell->finish_at = shell->probe_at = INT64_MAX;
	waiter_wake(shell->waiters);
}

static void check_over(struct shell *shell)
{
	if (shell->current && shell->code_known && shell->mark_seen) {
		command_over(shell, shell->code, false);
		start_next(shell);
	}
}

/* ---- the terminal's stream ---- */

/* How many bytes at the end of data may be the beginning of a mark. */
static size_t mark_beginning(const struct shell *shell, const char *data, size_t len)
{
	for (size_t n = len < shell->mark_len + 1 ? len : shell->mark_len + 1; n; n--) {
		size_t same = n < shell->mark_len ? n : shell->mark_len;
		if (!memcmp(data + len - n, shell->mark, same))
			return n;
	}
	return 0;
}

/* What a process runs: the path of the program, then its arguments, each ended by NUL, and one more. */
static char *read_program(pid_t pid)
{
	char path[40], link[256];
	auto_buf struct buf text = BUF(4096);
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	ssize_t n = readlink(path, link, sizeof link - 1);
	buf_add(&text, link, n > 0 ? (size_t)n : 0);
	buf_add(&text, "", 1);
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, link, sizeof link - 1);
	buf_add(&text, link, n > 0 ? (size_t)n : 0);
	buf_add(&text, "\0", 2);
	return TAKE(text.data);
}

static bool same_program(const char *a, const char *b)
{
	for (; !strcmp(a, b) && *a; a += strlen(a) + 1, b += strlen(b) + 1)
		;
	return !*a && !*b;
}

static ssize_t type_bytes(struct shell *shell, const char *data, size_t len)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = write(shell->pty, data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno != EAGAIN ? -1 : (ssize_t)done;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Types what had to wait for the command to run. */
static void type_ahead(struct shell *shell)
{
	if (shell->ahead.len)
		(void)type_bytes(shell, shell->ahead.data, shell->ahead.len);
	shell->ahead.len = 0;
}

static void nothing_typed(struct shell *shell)
{
	shell->half_line = shell->fed = false;
	shell->lines = 0;
	shell->interrupts = 0;
}

/* A prompt is about to be shown: one line that was typed has been dealt with. */
static void prompt_met(struct shell *shell, bool after_interrupt)
{
	shell->lines -= shell->lines > 0 && !shell->prompt_due;
	shell->prompt_due = false;
	shell->prompt_ms = clock_ms();
	if (shell->interrupts && after_interrupt)
		nothing_typed(shell);
	if (!shell->prompted)
		waiter_wake(shell->waiters);
	shell->prompted = shell->at_prompt = true;
	if (!shell->current)
		start_next(shell);
}

/* At a whole mark: 'S' starts the output, 'E' ends it; 'P', or 'I' after an interrupt, comes before each
 * prompt, and ends the output of a command that was interrupted. */
static void mark_met(struct shell *shell, char kind)
{
	if (kind == 'S' && shell->phase == TYPED) {
		shell->phase = RUNNING;
		free(shell->current->prompt);
		shell->current->prompt = prompt_text(shell);
		show_command(shell);
		shell->given_up = false;
		shell->probe_ms = PROBE_MS;
		shell->probe_at = clock_ms() + PROBE_MS;
		arm(shell);
		type_ahead(shell);
		shell->current->changed_ms = clock_ms();
	} else if (shell->phase == RUNNING) {
		shell->mark_seen = true;
		shell->phase = PROMPT_SHOWN;
	}
	if (shell->phase == PROMPT_SHOWN)
		shell->prompt.len = shell->prompt_shown = 0;
	if (kind == 'P' || kind == 'I')
		prompt_met(shell, kind == 'I');
}

/* Takes new bytes of the terminal, with the marks of the current command out of them. */
static void take_bytes(struct shell *shell, const char *data, size_t len)
{
	while (shell->mark_len && len) {
		const char *mark = memmem(data, len, shell->mark, shell->mark_len);
		if (!mark) {
			size_t rest = mark_beginning(shell, data, len);
			show(shell, data, len - rest);
			memcpy(shell->held, data + len - rest, rest);
			shell->held_len = rest;
			return;
		}
		size_t before = (size_t)(mark - data), whole = before + shell->mark_len + 2;
		show(shell, data, before);
		if (whole > len) {
			shell->held_len = len - before;
			memcpy(shell->held, mark, shell->held_len);
			return;
		}
		mark_met(shell, mark[shell->mark_len]);
		data += whole;
		len -= whole;
		check_over(shell);
	}
	show(shell, data, len);
}

static void arm(struct shell *shell)
{
	int64_t at = shell->hard_at;
	at = shell->stop_at < at ? shell->stop_at : at;
	at = shell->finish_at < at ? shell->finish_at : at;
	at = shell->probe_at < at ? shell->probe_at : at;
	at = shell->ready_at < at ? shell->ready_at : at;
	struct itimerspec when = { 0 };
	if (at != INT64_MAX) {
		int64_t left = at - clock_ms();
		left = left > 1 ? left : 1;
		when.it_value = (struct timespec){ left / 1000, left % 1000 * 1000000 };
	}
	if (shell->timer_link)
		timerfd_settime(shell->timer, 0, &when, NULL);
}

/* ---- the end of the shell ---- */

static void remove_dir(const struct shell *shell)
{
	char path[128];
	static const char *const names[] = { "rc", "c", "u", "up" };
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(path, sizeof path, "%s/%s", shell->dir, names[i]);
		unlink(path);
	}
	rmdir(shell->dir);
}

/* Everything of the process that has ended is let go; the pump closes the descriptors. */
static void let_go(struct shell *shell)
{
	struct link *links[] = { shell->pty_link, shell->fifo_link, shell->end_link,
				 shell->timer_link };
	command_over(shell, shell->exit_code, true);
	for (size_t i = 0; i < COUNT(links); i++)
		if (links[i])
			pump_drop(&links[i]->source);
	shell->pty_link = shell->fifo_link = shell->end_link = shell->timer_link = NULL;
	shell->process = (struct process){ 0, -1 };
	shell->exited = false;
	shell->ended_before = true;
	shell->held_len = 0;
	shell->generation++;
	shell->pty = -1;
	shell->mark_len = 0;
	nothing_typed(shell);
	shell->given_up = false;
	shell->ahead.len = 0;
	shell->ready_at = INT64_MAX;
	remove_dir(shell);
	waiter_wake(shell->waiters);
}

static void shell_over(struct shell *shell)
{
	let_go(shell);
	start_next(shell);
}

/* ---- what the pump calls ---- */

static struct link *link_of(struct source *source)
{
	return (struct link *)source; /* its first member */
}

/* Locks the shell, unless the source is of a process that was let go. */
static struct shell *enter(struct source *source)
{
	struct link *link = link_of(source);
	pthread_mutex_lock(&link->shell->lock);
	if (link->generation == link->shell->generation)
		return link->shell;
	pthread_mutex_unlock(&link->shell->lock);
	return NULL;
}

static void link_done(struct source *source)
{
	struct link *link = link_of(source);
	shell_unref(link->shell);
	free(link);
}

/* Reads once. 1 something, 0 nothing now, -1 the end. */
static int read_terminal(struct shell *shell)
{
	static char space[MARK_MAX + READ_SIZE]; /* of the pump's thread alone */
	size_t held = shell->held_len;
	ssize_t n = read(shell->pty, space + held, READ_SIZE);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	memcpy(space, shell->held, held);
	shell->held_len = 0;
	take_bytes(shell, space, held + (size_t)n);
	waiter_wake(shell->waiters);
	return 1;
}

static bool pty_ready(struct source *source)
{
	struct shell *shell = enter(source);
	if (!shell)
		return false;
	int got = read_terminal(shell);
	if (got < 0 && shell->exited)
		shell_over(shell);
	if (got < 0) { /* nobody holds the terminal any more, though the process may live on */
		shell->pty_link = NULL;
		shell->pty = -1;
	}
	pthread_mutex_unlock(&shell->lock);
	return got >= 0;
}

/* "E nonce code" from the wrapper, "P nonce code" from the prompt. */
static void take_report(struct shell *shell, const char *line)
{
	char kind, nonce[NONCE_LEN + 1];
	int code;
	if (sscanf(line, "%c %32s %d", &kind, nonce, &code) != 3)
		return;
	if (shell->current && !strcmp(nonce, shell->nonce)) {
		if (!shell->code_known)
			shell->code = code & 255;
		shell->code_known = true;
		if (!shell->mark_seen)
			shell->finish_at = clock_ms() + MARK_MS;
		check_over(shell);
	}
	if (kind == 'P' && !shell->interrupts)
		shell->last_code = code & 255;
	arm(shell);
}

static bool fifo_ready(struct source *source)
{
	char data[512];
	struct shell *shell = enter(source);
	if (!shell)
		return false;
	ssize_t n = read(shell->fifo, data, sizeof data);
	for (ssize_t i = 0; i < n && shell->fifo_link; i++) {
		if (data[i] != '\n' && shell->fifo_line.len < 100) {
			buf_add(&shell->fifo_line, &data[i], 1);
		} else {
			if (shell->fifo_line.len)
				take_report(shell, shell->fifo_line.data);
			shell->fifo_line.len = 0;
		}
	}
	pthread_mutex_unlock(&shell->lock);
	return n > 0 || errno == EAGAIN || errno == EINTR;
}

static bool end_ready(struct source *source)
{
	struct shell *shell = enter(source);
	int number;
	if (!shell)
		return false;
	shell->exit_code = process_reap(&shell->process, &number);
	shell->exited = true;
	shell->end_link = NULL;
	int got = 1;
	for (int i = 0; i < 64 && got > 0 && shell->pty_link; i++)
		got = read_terminal(shell);
	if (got < 0 || !shell->pty_link) {
		shell_over(shell);
	} else { /* others hold the terminal: its end will not come */
		shell->finish_at = clock_ms() + GRACE_MS;
		arm(shell);
	}
	pthread_mutex_unlock(&shell->lock);
	return false;
}

/* One step harder each time: an interrupt as from the keyboard, which ends loops and lists too; the
 * death of what runs in the foreground; the death of the shell. */
static void stop_step(struct shell *shell)
{
	pid_t own = shell->process.pid, front = tcgetpgrp(shell->pty);
	if (shell->stop_step == 0 && front > 0) {
		kill(-front, SIGINT);
		if (front != own)
			kill(-front, SIGTERM);
	} else if (shell->stop_step == 1) {
		if (front > 0 && front != own)
			kill(-front, SIGKILL);
		kill(own, SIGINT);
	} else {
		kill(own, SIGKILL);
	}
	shell->stop_step++;
	shell->stop_at = clock_ms() + STOP_STEP_MS;
}

/* Whether a program is a shell that reads commands from its terminal: without a script, and without
 * -c. */
static bool is_interactive(const char *program)
{
	static const char *const shells[] = { "sh",   "dash", "bash", "zsh",    "ksh",
					      "mksh", "ash",  "yash", "busybox" };
	const char *name = strrchr(program, '/');
	bool found = false;
	for (size_t i = 0; name && i < COUNT(shells); i++)
		found = found || !strcmp(name + 1, shells[i]);
	const char *arg = program + strlen(program) + 1;
	for (arg += strlen(arg) + 1; found && *arg; arg += strlen(arg) + 1) {
		if (!strcmp(arg, "--rcfile") || !strcmp(arg, "--init-file") ||
		    !strcmp(arg + 1, "o") || !strcmp(arg + 1, "O"))
			arg += strlen(arg) + 1;
		else if ((*arg != '-' && *arg != '+') || (arg[1] != '-' && strchr(arg, 'c')))
			found = false;
	}
	return found;
}

/* "exec zsh" never comes back to the wrapper. Another shell in the place of ours can run commands as
 * well, so the command that put it there is over. Looked for less and less often. */
static void probe(struct shell *shell)
{
	auto_free char *program = read_program(shell->process.pid);
	shell->probe_ms = shell->probe_ms < PROBE_MAX_MS ? shell->probe_ms * 2 : PROBE_MAX_MS;
	shell->probe_at = clock_ms() + shell->probe_ms;
	if (same_program(program, shell->program) || !is_interactive(program))
		return;
	command_over(shell, 0, false);
	start_next(shell);
}

static bool timer_ready(struct source *source)
{
	uint64_t ignored;
	struct shell *shell = enter(source);
	if (!shell)
		return false;
	(void)!read(shell->timer, &ignored, sizeof ignored);
	int64_t now = clock_ms();
	if (now >= shell->finish_at && shell->exited) {
		shell_over(shell);
	} else if (now >= shell->finish_at) {
		shell->finish_at = INT64_MAX;
		shell->mark_seen = true;
		check_over(shell);
	}
	if (now >= shell->probe_at && shell->current && !shell->exited)
		(shell->phase == RUNNING ? probe : type_again)(shell);
	if (now >= shell->ready_at && !shell->exited) {
		shell->ready_at = INT64_MAX;
		start_next(shell);
	}
	if (now >= shell->hard_at && shell->current && !shell->stopping) {
		shell->hard_at = INT64_MAX;
		shell->overdue = shell->stopping = true;
		shell->stop_step = 0;
		stop_step(shell);
	} else if (now >= shell->stop_at && shell->stopping && shell->process.pid &&
		   !shell->exited) {
		stop_step(shell);
	}
	arm(shell);
	pthread_mutex_unlock(&shell->lock);
	return true;
}

/* ---- starting the shell ---- */

static int write_file(const struct shell *shell, const char *name, const struct buf *text,
		      struct err *err)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", shell->dir, name);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len)
		return err_set(err, errno, "write '%s'", path);
	if (shell->has_user && shell->user.other &&
	    fchown(fd, shell->user.uid, shell->user.gid) < 0)
		return err_set(err, errno, "chown '%s'", path);
	return 0;
}

static int make_dir(struct shell *shell, struct err *err)
{
	char path[128];
	auto_buf struct buf rc = BUF(4096);
	snprintf(shell->dir, sizeof shell->dir, "/tmp/aio-shell-XXXXXX");
	if (!mkdtemp(shell->dir))
		return err_set(err, errno, "mkdir '%s'", shell->dir);
	snprintf(path, sizeof path, "%s/up", shell->dir);
	if (mkfifo(path, 0600) < 0)
		return err_set(err, errno, "mkfifo '%s'", path);
	/* The folder stays ours: what we write in it, nobody else is to have put there. */
	if (shell->has_user && shell->user.other &&
	    (chown(path, shell->user.uid, shell->user.gid) < 0 || chmod(shell->dir, 0711) < 0))
		return err_set(err, errno, "chown '%s'", path);
	buf_printf(
		&rc,
		"[ -f /etc/bash.bashrc ] && . /etc/bash.bashrc\n"
		"[ -f ~/.bashrc ] && . ~/.bashrc\n"
		"case $- in *i*) [ -n \"$PS1\" ] || PS1='\\u@\\h:\\w\\$ ';; esac\n"
		"case $HISTCONTROL in *ignorespace*|*ignoreboth*) ;; "
		"*) HISTCONTROL=$HISTCONTROL:ignorespace;; esac\n"
		"__aio_n=none\n"
		"__aio_prompt() { local c=$? k=P; [ $c != 130 ] || k=I; "
		"{ command printf 'P %%s %%s\\n' \"$__aio_n\" $c >%s/up; "
		"command printf '\\033]777;aio;%%s;%%s\\a' \"$__aio_n\" $k >/dev/tty; } 2>/dev/null; }\n"
		"PROMPT_COMMAND=\"__aio_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}\"\n",
		shell->dir);
	return write_file(shell, "rc", &rc, err);
}

static void set_nonce(struct shell *shell, const char *nonce)
{
	snprintf(shell->nonce, sizeof shell->nonce, "%s", nonce);
	shell->mark_len =
		(size_t)snprintf(shell->mark, sizeof shell->mark, "\033]777;aio;%s;", nonce);
}

/* A terminal of our size; the slave's end for the shell. */
static int open_terminal(struct shell *shell, int *ret_slave, struct err *err)
{
	char name[64];
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
	    ptsname_r(master, name, sizeof name)) {
		int code = errno;
		if (master >= 0)
			close(master);
		return err_set(err, code, "no terminal");
	}
	*ret_slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize size = { .ws_col = (unsigned short)shell->cols,
				.ws_row = (unsigned short)shell->rows };
	if (*ret_slave < 0) {
		int code = errno;
		close(master);
		return err_set(err, code, "open '%s'", name);
	}
	ioctl(master, TIOCSWINSZ, &size);
	struct termios modes;
	if (tcgetattr(*ret_slave, &modes) == 0) {
		modes.c_iflag |= IUTF8;
		tcsetattr(*ret_slave, TCSANOW, &modes);
	}
	if (shell->has_user && shell->user.other)
		(void)!fchown(*ret_slave, shell->user.uid, (gid_t)-1);
	shell->pty = master;
	return 0;
}

static struct link *pump_link(struct shell *shell, int fd, bool (*ready)(struct source *),
			      struct err *err)
{
	struct link *link = xcalloc(1, sizeof *link);
	*link = (struct link){ { .fd = fd, .ready = ready, .done = link_done },
			       shell_ref(shell),
			       shell->generation };
	if (pump_add(&link->source, err) == 0)
		return link;
	close(fd);
	atomic_fetch_sub(&shell->refs, 1);
	free(link);
	return NULL;
}

static int spawn_in(struct shell *shell, const char *dir, int slave, struct err *err)
{
	struct arena arena = { 0 };
	char rc[128], real[4096];
	const char *cwd = shell->logical || !realpath(dir, real) ? dir : real;
	snprintf(rc, sizeof rc, "%s/rc", shell->dir);
	struct pair extra[] = { { "TERM", "xterm-256color" },
				{ "COLORTERM", "truecolor" },
				{ "HISTCONTROL",
				  "ignorespace" }, /* for a shell that takes its place */
				{ "PWD", cwd },
				{ TREE_MARKER, shell->marker + sizeof TREE_MARKER } };
	char *argv[] = { (char *)"bash", (char *)"--rcfile", rc, (char *)"-i", NULL };
	struct spawn spawn = {
		.path = BASH,
		.argv = argv,
		.env = environment_make(&arena, &shell->user, shell->home,
					&(struct list){ COUNT(extra), extra }),
		.cwd = dir,
		.as = shell->has_user ? &shell->user : NULL,
		.fds = { slave, slave, slave },
		.terminal = true,
		.tag = tree_tag(shell->marker),
	};
	int result = spawn_start(&spawn, &shell->process, err);
	arena_done(&arena);
	auto_buf struct buf program =
		BUF(4096); /* as read_program() will have it, once it has begun */
	buf_str(&program, realpath(BASH, real) ? real : BASH);
	for (size_t i = 0; argv[i]; i++)
		buf_printf(&program, "%c%s", 0, argv[i]);
	buf_add(&program, "\0\0", 3);
	free(shell->program);
	shell->program = TAKE(program.data);
	return result;
}

/* A shell there must be, even if the directory of the session has gone. */
static int spawn_shell(struct shell *shell, int slave, struct err *err)
{
	const char *const dirs[] = { shell->cwd, shell->user.home, "/" };
	for (size_t i = 0; i < COUNT(dirs); i++) {
		if (spawn_in(shell, dirs[i], slave, err) == 0)
			return 0;
		if (err->code != ENOENT && err->code != ENOTDIR && err->code != EACCES)
			break;
	}
	return -1;
}

int shell_start(struct shell *shell, struct err *err)
{
	char path[128];
	int slave = -1;
	if (shell->process.pid)
		return 0;
	if (shell->ended)
		return err_set(err, ERR_CONFLICT, "the session '%s' is closed", shell->id);
	if (make_dir(shell, err) < 0)
		return -1;
	int result = open_terminal(shell, &slave, err);
	if (result == 0 && (result = spawn_shell(shell, slave, err)) < 0)
		close(TAKE_FD(shell->pty));
	if (slave >= 0)
		close(slave);
	if (result < 0) {
		shell->process = (struct process){ 0, -1 };
		remove_dir(shell);
		return -1;
	}
	snprintf(path, sizeof path, "%s/up", shell->dir);
	shell->fifo = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	shell->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int end = fcntl(shell->process.pidfd, F_DUPFD_CLOEXEC, 3);
	if (!(shell->pty_link = pump_link(shell, shell->pty, pty_ready, err)) ||
	    !(shell->fifo_link = pump_link(shell, shell->fifo, fifo_ready, err)) ||
	    !(shell->timer_link = pump_link(shell, shell->timer, timer_ready, err)) ||
	    !(shell->end_link = pump_link(shell, end, end_ready, err))) {
		kill(shell->process.pid, SIGKILL);
		shell->exit_code = process_reap(&shell->process, &result);
		let_go(shell);
		return -1;
	}
	set_nonce(shell, "none");
	shell->prompted = shell->at_prompt = false;
	shell->prompt_due = true;
	shell->fresh = shell->ended_before;
	shell->started_ms = clock_ms();
	shell->prompt.len = shell->prompt_shown = 0;
	return 0;
}

/* ---- running a command ---- */

static void put_quoted(struct buf *to, const char *text)
{
	buf_str(to, "'");
	for (; *text; text++)
		if (*text == '\'')
			buf_str(to, "'\\''");
		else
			buf_add(to, text, 1);
	buf_str(to, "'");
}

/* The wrapper around a command. It runs once only, keeps $? as the command before left it, arms the
 * prompt's hook again, and reports. */
static int write_wrapper(struct shell *shell, const struct shell_command *command, struct err *err)
{
	auto_buf struct buf user = BUF((4 << 20) + 16), text = BUF(1 << 20);
	buf_str(&user, command->text);
	buf_str(&user, "\n");
	if (shell->given_up)
		buf_printf(&text, "__aio_p=%d\n", shell->last_code); /* before we interrupted */
	else
		buf_str(&text, "__aio_p=$?\n");
	buf_printf(&text, "case $__aio_n in %s) return \"$__aio_p\";; esac\n", shell->nonce);
	buf_printf(&text,
		   "__aio_n=%s\n__aio_return() { return \"$1\"; }\n"
		   "case ${PROMPT_COMMAND-} in *__aio_prompt*) ;; "
		   "*) PROMPT_COMMAND=\"__aio_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}\";; esac\n",
		   shell->nonce);
	if (strlen(command->text) < HISTORY_LINE_MAX) {
		buf_str(&text, "history -s -- ");
		put_quoted(&text, command->text);
		buf_str(&text, " 2>/dev/null\n");
	}
	if (command->dir) {
		buf_printf(&text, "command cd %s -- ", command->logical ? "-L" : "-P");
		put_quoted(&text, command->dir);
		buf_str(&text, " 2>/dev/null || :\n");
	}
	buf_printf(
		&text,
		"command printf '\\033]777;aio;%s;S\\a' >/dev/tty\n"
		"__aio_return \"$__aio_p\"\n"
		". %s/u\n"
		"{ __aio_p=$?; command printf 'E %s %%s\\n' \"$__aio_p\" >%s/up; "
		"command printf '\\033]777;aio;%s;E\\a' >/dev/tty; __aio_return \"$__aio_p\"; } 2>/dev/null\n",
		shell->nonce, shell->dir, shell->nonce, shell->dir, shell->nonce);
	if (user.full || text.full)
		return err_set(err, ERR_TOO_LARGE, "the command is too long");
	if (write_file(shell, "u", &user, err) < 0)
		return -1;
	return write_file(shell, "c", &text, err);
}

static void new_nonce(struct shell *shell)
{
	unsigned char random[NONCE_LEN / 2];
	char nonce[NONCE_LEN + 1];
	(void)!getrandom(random, sizeof random, 0);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(nonce + i * 2, 3, "%02x", random[i]);
	set_nonce(shell, nonce);
}

static bool is_busy(const struct shell *shell)
{
	pid_t front = tcgetpgrp(shell->pty);
	auto_free char *program = read_program(shell->process.pid);
	return (front > 0 && front != shell->process.pid) ||
	       (shell->program && !same_program(program, shell->program) &&
		!is_interactive(program));
}

/* Whether a prompt may come soon that says more: after what was typed, after a command. The line
 * editor is given time to read what is there. */
static bool is_moving(const struct shell *shell, int64_t now)
{
	int64_t typed = now - shell->typed_ms, prompt = now - shell->prompt_ms;
	if (typed < QUIET_MS || (shell->at_prompt && prompt < QUIET_MS))
		return true;
	return (shell->lines && typed < TYPED_MS) || (!shell->at_prompt && prompt < TYPED_MS);
}

/* Whether the shell reads what we type. Where others have typed something, it may be busy with that,
 * which is waited for; or a line may be half written, which is given up, as with Ctrl+C: again if
 * need be, because the line editor loses an interrupt that comes while it reads. */
static bool is_ready(struct shell *shell)
{
	int64_t now = clock_ms();
	if (!shell_running(shell) || (!shell->lines && !shell->half_line && !shell->fed))
		return true;
	if (shell->ready_at != INT64_MAX)
		return false; /* it is looked at again then */
	shell->settling = !is_busy(shell);
	if (!shell->settling || (!shell->interrupts && is_moving(shell, now))) {
		shell->ready_at = now + QUIET_MS;
		return false;
	}
	if (shell->interrupts == INTERRUPTS_MAX || (!shell->lines && !shell->half_line)) {
		nothing_typed(shell);
		return true;
	}
	(void)type_bytes(shell, "\003", 1);
	shell->given_up = true;
	shell->interrupts++;
	shell->ready_at = now + INTERRUPT_MS;
	return false;
}

static int type_line(struct shell *shell, struct err *err)
{
	char line[80];
	typed_line(shell, line, sizeof line - 1);
	strcat(line, "\r");
	if (type_bytes(shell, line, strlen(line)) != (ssize_t)strlen(line))
		return err_set(err, ERR_CONFLICT, "the terminal takes no input");
	return 0;
}

/* Whether the shell has read all there is, and waits. */
static bool is_waiting(const struct shell *shell)
{
	char path[40], stat[512];
	int unread = 1;
	auto_close int slave = ioctl(shell->pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, FIONREAD, &unread) < 0 || unread)
		return false;
	snprintf(path, sizeof path, "/proc/%d/stat", shell->process.pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
	stat[n > 0 ? n : 0] = 0;
	const char *state = strrchr(stat, ')');
	return state && !strncmp(state, ") S", 3);
}

/* The line editor loses what it has, and what is on its way, when it is interrupted; and what others
 * type may come between. So a line that the shell has read and not begun is typed again, after an
 * interrupt that clears what is there. */
static void type_again(struct shell *shell)
{
	struct err err;
	int64_t wait = shell->again_ms;
	if (shell->prompted && !is_busy(shell) && is_waiting(shell)) {
		if (shell->cleared) {
			(void)type_line(shell, &err);
			shell->again_ms *= shell->again_ms < PROBE_MAX_MS ? 2 : 1;
		} else {
			shell->given_up = true;
			(void)write_wrapper(shell, shell->current, &err);
			(void)type_bytes(shell, "\003", 1);
			wait = INTERRUPT_MS;
		}
		shell->cleared = !shell->cleared;
	}
	shell->probe_at = clock_ms() + wait;
}

static int launch(struct shell *shell, struct shell_command *command, struct err *err)
{
	if (shell_start(shell, err) < 0)
		return -1;
	if (shell->prompted) {
		free(shell->program);
		shell->program = read_program(shell->process.pid);
	}
	new_nonce(shell);
	if (write_wrapper(shell, command, err) < 0)
		return -1;
	command->fresh = shell->fresh;
	command->status = SHELL_RUNNING;
	command->changed_ms = clock_ms();
	shell->fresh = shell->at_prompt = shell->settling = false;
	shell->code_known = shell->mark_seen = false;
	shell->phase = TYPED;
	shell->current = command;
	shell->hard_at = command->hard_ms == INT64_MAX ? INT64_MAX : clock_ms() + command->hard_ms;
	shell->again_ms = AGAIN_MS;
	shell->probe_at = clock_ms() + AGAIN_MS;
	shell->cleared = false;
	shell->ready_at = INT64_MAX;
	arm(shell);
	return type_line(shell, err);
}

/* Starts the oldest command that waits, when none runs. */
static void start_next(struct shell *shell)
{
	while (!shell->current && !shell->exited && !shell->ended) {
		struct shell_command *command = shell->first;
		struct err err;
		while (command && command->status != SHELL_QUEUED)
			command = command->newer;
		if (!command)
			return;
		if (!is_ready(shell)) {
			arm(shell);
			return;
		}
		shell->queued--;
		if (launch(shell, command, &err) == 0)
			return;
		output_add(&command->raw, err.msg, strlen(err.msg));
		shell->current = command;
		shell->stopping = true;
		command_over(shell, 126, false);
	}
}

static void trim(struct shell *shell)
{
	while (shell->remembered > shell->most_remembered && shell->first->status > SHELL_RUNNING) {
		struct shell_command *oldest = shell->first;
		shell->first = oldest->newer;
		shell->remembered--;
		forget(oldest);
	}
}

struct shell_command *shell_run(struct shell *shell, const char *text, const char *dir,
				bool logical, int64_t hard_ms, struct err *err)
{
	if (shell->ended) {
		err_set(err, ERR_CONFLICT, "the session '%s' is closed", shell->id);
		return NULL;
	}
	if (shell->queued >= QUEUE_MAX) {
		err_set(err, ERR_LIMIT, "%d commands wait already in session '%s'", QUEUE_MAX,
			shell->id);
		return NULL;
	}
	struct shell_command *command = xcalloc(1, sizeof *command);
	command->text = xstrdup(text);
	command->dir = dir ? xstrdup(dir) : NULL;
	command->logical = logical;
	command->hard_ms = hard_ms;
	command->changed_ms = clock_ms();
	command->refs = 1;
	if (shell->last)
		shell->last->newer = command;
	else
		shell->first = command;
	shell->last = command;
	shell->remembered++;
	shell->queued++;
	shell_touch(shell);
	start_next(shell);
	trim(shell);
	if (!shell->first)
		shell->last = NULL;
	return command;
}

bool shell_stop(struct shell *shell)
{
	if (!shell->current)
		return false;
	if (!shell->stopping) {
		shell->stopping = true;
		shell->stop_step = 0;
		stop_step(shell);
		arm(shell);
	}
	return true;
}

/* ---- viewers ---- */

ssize_t shell_type(struct shell *shell, const char *data, size_t len, struct err *err)
{
	if (!shell_running(shell))
		return err_set(err, ERR_CONFLICT, "no shell is running in session '%s'", shell->id);
	shell_touch(shell);
	size_t room = AHEAD_MAX - shell->ahead.len;
	ssize_t n = (ssize_t)(len < room ? len : room);
	if (shell->phase == TYPED || (shell->settling && shell->queued && !shell->current))
		buf_add(&shell->ahead, data, (size_t)n);
	else
		n = type_bytes(shell, data, len);
	for (ssize_t i = 0; i < n; i++) {
		bool end = data[i] == '\r' || data[i] == '\n';
		shell->lines += end && !shell->current;
		shell->fed = shell->fed || (end && shell->current);
		shell->half_line = !end && !strchr("\003\004\032", data[i]);
	}
	shell->typed_ms = clock_ms();
	return n < 0 ? err_set(err, ERR_CONFLICT, "the terminal of session '%s' is gone", shell->id)
		     : n;
}

int shell_input_fd(const struct shell *shell)
{
	return shell_running(shell) ? fcntl(shell->pty, F_DUPFD_CLOEXEC, 3) : -1;
}

int shell_resize(struct shell *shell, int cols, int rows)
{
	cols = cols < 1 ? 1 : cols > 1000 ? 1000 : cols;
	rows = rows < 1 ? 1 : rows > 500 ? 500 : rows;
	if (cols == shell->cols && rows == shell->rows)
		return 0;
	if (shell->screen)
		screen_resize(shell_screen(shell), cols, rows);
	shell->cols = cols;
	shell->rows = rows;
	shell->size_version++;
	struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };
	waiter_wake(shell->waiters);
	return shell_running(shell) ? ioctl(shell->pty, TIOCSWINSZ, &size) : 0;
}

void shell_size(const struct shell *shell, int *ret_cols, int *ret_rows)
{
	*ret_cols = shell->cols;
	*ret_rows = shell->rows;
}

unsigned shell_size_version(const struct shell *shell)
{
	return shell->size_version;
}

/* ---- opening and ending ---- */

struct shell *shell_open(const char *id, const struct shell_settings *settings, struct err *err)
{
	(void)err;
	struct shell *shell = xcalloc(1, sizeof *shell);
	shell->refs = 1;
	pthread_mutex_init(&shell->lock, NULL);
	snprintf(shell->id, sizeof shell->id, "%s", id);
	tree_marker(shell->marker, sizeof shell->marker, id);
	shell->has_user = settings->as != NULL;
	if (settings->as)
		shell->user = *settings->as;
	shell->home = xstrdup(settings->home);
	shell->cwd = xstrdup(settings->cwd);
	shell->logical = settings->logical;
	shell->no_change_s = settings->no_change_s;
	shell->most_remembered = settings->history;
	shell->cols = COLS;
	shell->rows = ROWS;
	shell->process.pidfd = shell->pty = -1;
	shell->hard_at = shell->stop_at = shell->finish_at = shell->probe_at = INT64_MAX;
	shell->ready_at = INT64_MAX;
	shell->prompt = BUF(PROMPT_MAX);
	shell->fifo_line = BUF(256);
	shell->tail = BUF(TAIL_MAX);
	shell->ahead = BUF(AHEAD_MAX);
	shell_touch(shell);
	shell->created = shell->used;
	return shell;
}

void shell_end(struct shell *shell)
{
	pthread_mutex_lock(&shell->lock);
	bool before = shell->ended;
	shell->ended = true;
	shell->stopping = shell->current != NULL;
	bool started = shell->process.pid != 0 || shell->ended_before;
	for (struct shell_command *command = shell->first; command; command = command->newer)
		if (command->status == SHELL_QUEUED)
			command->status = SHELL_TERMINATED;
	shell->queued = 0;
	waiter_wake(shell->waiters);
	pthread_mutex_unlock(&shell->lock);
	if (before || !started)
		return;
	tree_end(shell->marker);
	pthread_mutex_lock(&shell->lock);
	if (shell->process
		    .pid) /* the pump has not come to it yet, and at the server's end never may */
		remove_dir(shell);
	pthread_mutex_unlock(&shell->lock);
}
