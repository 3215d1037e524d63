#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/pty.h"
#include "proc/stage.h"
#include "shell/shell_state.h"

enum { READ_SIZE = 65536 };

#define BASH "/bin/bash"

void shell_arm(struct shell *shell)
{
	int64_t at = shell_machine_next(&shell->machine);
	if (!shell->timer_link || at == shell->armed_at)
		return;
	shell->armed_at = at;
	struct itimerspec when = { 0 };
	if (at != INT64_MAX) {
		int64_t left = at - clock_ms();
		left = left > 1 ? left : 1;
		when.it_value = (struct timespec){ left / 1000, left % 1000 * 1000000 };
	}
	timerfd_settime(shell->timer, 0, &when, NULL);
}

int shell_write_file(const struct shell *shell, const char *name, const struct buf *text,
		     struct err *err)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", shell->dir, name);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len)
		return err_set(err, errno, "write '%s'", path);
	if (shell->user.other && fchown(fd, shell->user.uid, shell->user.gid) < 0)
		return err_set(err, errno, "chown '%s'", path);
	return 0;
}

static int make_dir(struct shell *shell, struct err *err)
{
	char path[128];
	auto_buf struct buf rc = BUF(4096);
	if (stage_make_dir(NULL, "shell", shell->dir, sizeof shell->dir, err) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/up", shell->dir);
	if (mkfifo(path, 0600) < 0)
		return err_set(err, errno, "mkfifo '%s'", path);
	/* The folder stays ours: what we write in it, nobody else is to have put there. */
	if (shell->user.other &&
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
		"PROMPT_COMMAND=\"__aio_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}\"\n"
		"if declare -F command_not_found_handle >/dev/null; then "
		"__aio_f=$(declare -f command_not_found_handle); "
		"eval \"__aio_not_found${__aio_f#command_not_found_handle}\"; unset __aio_f; "
		"else __aio_not_found() { command printf 'bash: %%s: command not found\\n' \"$1\" >&2; "
		"return 127; }; fi\n"
		"command_not_found_handle() { local p; "
		"case $1 in codex) p=@openai/codex;; opencode) p=opencode-ai;; "
		"*) __aio_not_found \"$@\"; return;; esac; "
		"command printf '%%s is not installed here. With a network: "
		"npm install -g --prefix ~/.local %%s\\n' \"$1\" \"$p\" >&2; return 127; }\n",
		shell->dir);
	return shell_write_file(shell, "rc", &rc, err);
}

void shell_remove_dir(const struct shell *shell)
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
	struct shell_link *links[] = { shell->pty_link, shell->fifo_link, shell->timer_link };
	unsigned actions = shell_machine_feed(&shell->machine, EVENT_ABANDON, clock_ms());
	shell_act(shell, actions & ACTION_BLANK);
	if (actions & ACTION_OVER)
		shell_command_over(shell, shell->exit_code, true);
	shell_machine_gone(&shell->machine);
	for (size_t i = 0; i < COUNT(links); i++)
		if (links[i])
			pump_drop(&links[i]->source);
	shell->pty_link = shell->fifo_link = shell->timer_link = NULL;
	program_unref(TAKE(shell->bash));
	shell->held_len = 0;
	shell->generation++;
	shell->pty = -1;
	shell->mark_len = 0;
	shell_keys_forget(&shell->keys);
	shell->keys.given_up = false;
	shell->ahead.len = 0;
	shell_remove_dir(shell);
	waiter_wake(shell->waiters);
}

static void shell_over(struct shell *shell)
{
	let_go(shell);
	shell_start_next(shell);
}

static struct shell_link *link_of(struct source *source)
{
	return (struct shell_link *)source; /* its first member */
}

/* Locks the shell, unless the source is of a process that was let go. */
static struct shell *enter(struct source *source)
{
	struct shell_link *link = link_of(source);
	pthread_mutex_lock(&link->shell->base.lock);
	if (link->generation == link->shell->generation)
		return link->shell;
	pthread_mutex_unlock(&link->shell->base.lock);
	return NULL;
}

static void leave(struct shell *shell)
{
	shell_arm(shell);
	pthread_mutex_unlock(&shell->base.lock);
}

static void link_done(struct source *source)
{
	struct shell_link *link = link_of(source);
	sessions_unref(&link->shell->base);
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
	shell_take(shell, space, held + (size_t)n);
	waiter_wake(shell->waiters);
	return 1;
}

/* Reads all there is now, however much the end of a process or of our patience has overtaken. */
static int read_rest(struct shell *shell)
{
	int got = 1;
	for (int i = 0; i < 64 && got > 0 && shell->pty_link; i++)
		got = read_terminal(shell);
	return got;
}

static bool pty_ready(struct source *source)
{
	struct shell *shell = enter(source);
	if (!shell)
		return false;
	int got = read_terminal(shell);
	if (got < 0) { /* nobody holds the terminal any more, though the process may live on */
		shell->pty_link = NULL;
		shell->pty = -1;
	}
	if (got < 0 && shell->machine.life == LIFE_EXITED)
		shell_over(shell); /* the next command may have a new one from here on */
	leave(shell);
	return got >= 0;
}

/* "E nonce code" from the wrapper, "P nonce code" from the prompt. */
static void take_report(struct shell *shell, const char *line)
{
	char kind, nonce[NONCE_LEN + 1];
	int code;
	if (sscanf(line, "%c %32s %d", &kind, nonce, &code) != 3)
		return;
	if (!strcmp(nonce, shell->nonce))
		shell_act(shell, shell_machine_code(&shell->machine, code & 255, clock_ms()));
	if (kind == 'P')
		shell_keys_code(&shell->keys, code & 255);
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
	leave(shell);
	return n > 0 || errno == EAGAIN || errno == EINTR;
}

/* With the lock. */
static void exited(struct shell *shell, int code)
{
	shell->exit_code = code;
	shell_machine_exited(&shell->machine);
	int got = read_rest(shell);
	if (got < 0 || !shell->pty_link)
		shell_over(shell);
	else /* others hold the terminal: its end will not come */
		shell_machine_drain(&shell->machine, clock_ms());
}

static void bash_ended(void *arg, struct program *bash, const struct program_status *how)
{
	struct shell *shell = arg;
	pthread_mutex_lock(&shell->base.lock);
	if (shell->bash == bash) /* it was not let go */
		exited(shell, how->code);
	leave(shell);
	sessions_unref(&shell->base);
}

/* One step harder each time: an interrupt as from the keyboard, which ends loops and lists too; the
 * death of what runs in the foreground; the death of the shell. */
void shell_signal(struct shell *shell)
{
	pid_t own = program_pid(shell->bash), front = tcgetpgrp(shell->pty);
	int step = shell_machine_step(&shell->machine, clock_ms());
	if (step == 0 && front > 0) {
		kill(-front, SIGINT);
		if (front != own)
			kill(-front, SIGTERM);
	} else if (step == 1) {
		if (front > 0 && front != own)
			kill(-front, SIGKILL);
		/* To bash alone: what it runs in the background is not meant. */
		program_signal_one(shell->bash, SIGINT);
	} else {
		program_signal_one(shell->bash, SIGKILL);
	}
}

static void deal_with(struct shell *shell, enum shell_deadline due)
{
	switch (due) {
	case DUE_FINISH:
		(void)read_rest(shell);
		if (shell->machine.life == LIFE_EXITED)
			shell_over(shell);
		else
			shell_feed(shell, EVENT_FINISH);
		break;
	case DUE_LOOK:
		shell_feed(shell, shell_look(shell));
		break;
	case DUE_READY:
		shell_start_next(shell);
		break;
	case DUE_HARD:
		shell_act(shell, shell_machine_stop(&shell->machine, HALT_OVERDUE));
		break;
	default:
		shell_signal(shell);
	}
}

static bool timer_ready(struct source *source)
{
	uint64_t ignored;
	struct shell *shell = enter(source);
	if (!shell)
		return false;
	(void)!read(shell->timer, &ignored, sizeof ignored);
	shell->armed_at = INT64_MAX;
	int64_t now = clock_ms();
	for (enum shell_deadline due; (due = shell_machine_due(&shell->machine, now)) < DUE_COUNT;)
		deal_with(shell, due);
	leave(shell);
	return true;
}

static struct shell_link *pump_link(struct shell *shell, int fd, bool (*ready)(struct source *),
				    struct err *err)
{
	if (fd < 0) {
		err_set(err, errno, "no descriptor for another shell");
		return NULL;
	}
	struct shell_link *link = xcalloc(1, sizeof *link);
	sessions_ref(&shell->base);
	*link = (struct shell_link){ { .fd = fd, .ready = ready, .done = link_done },
				     shell,
				     shell->generation };
	if (pump_add(&link->source, err) == 0)
		return link;
	close(fd);
	sessions_unref(&shell->base); /* never the last */
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
				{ "PWD", cwd } };
	char *argv[] = { (char *)"bash", (char *)"--rcfile", rc, (char *)"-i", NULL };
	struct program_spec spec = {
		.spawn = { .path = BASH,
			   .argv = argv,
			   .cwd = dir,
			   .fds = { slave, slave, slave },
			   .terminal = true },
		.marker = shell->marker,
		.ended = bash_ended,
		.arg = shell,
	};
	spawn_sandboxed(&spec.spawn, &arena, &shell->user, shell->home, shell->marker,
			&(struct list){ COUNT(extra), extra });
	sessions_ref(&shell->base);
	shell->bash = program_start(&spec, err);
	if (!shell->bash)
		sessions_unref(&shell->base); /* never the last */
	arena_done(&arena);
	auto_buf struct buf program =
		BUF(4096); /* as read_program() will have it, once it has begun */
	buf_str(&program, realpath(BASH, real) ? real : BASH);
	for (size_t i = 0; argv[i]; i++)
		buf_printf(&program, "%c%s", 0, argv[i]);
	buf_add(&program, "\0\0", 3);
	free(shell->program);
	shell->program = TAKE(program.data);
	return shell->bash ? 0 : -1;
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

/* Gives the pump what it looks at. Each descriptor is made when the one before is the pump's. */
static int hand_over(struct shell *shell, struct err *err)
{
	char path[128];
	snprintf(path, sizeof path, "%s/up", shell->dir);
	shell->pty_link = pump_link(shell, shell->pty, pty_ready, err);
	if (!shell->pty_link)
		return -1;
	shell->fifo = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	shell->fifo_link = pump_link(shell, shell->fifo, fifo_ready, err);
	if (!shell->fifo_link)
		return -1;
	shell->armed_at = INT64_MAX;
	shell->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	shell->timer_link = pump_link(shell, shell->timer, timer_ready, err);
	return shell->timer_link ? 0 : -1;
}

int shell_start(struct shell *shell, struct err *err)
{
	int slave = -1;
	if (shell->bash)
		return 0;
	if (shell->base.closed)
		return err_set(err, ERR_CONFLICT, "the session '%s' is closed", shell->base.id);
	int result = make_dir(shell, err);
	if (result == 0)
		result = pty_open(&shell->user, &shell->pty, &slave, err);
	if (result == 0)
		(void)pty_resize(shell->pty, shell->cols, shell->rows);
	if (result == 0 && (result = spawn_shell(shell, slave, err)) < 0)
		close(TAKE_FD(shell->pty));
	if (slave >= 0)
		close(slave);
	if (result < 0) {
		shell_remove_dir(shell);
		return -1;
	}
	if (hand_over(shell, err) < 0) {
		program_kill(shell->bash);
		shell->exit_code = 128 + SIGKILL;
		let_go(shell);
		return -1;
	}
	shell_machine_started(&shell->machine);
	shell_keys_started(&shell->keys);
	shell_set_nonce(shell, "none");
	shell->fresh = shell->generation;
	shell->started_ms = clock_ms();
	shell->prompt.len = shell->prompt_shown = 0;
	return 0;
}
