#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "journal/journal.h"
#include "shell/shell_state.h"

enum { HISTORY_LINE_MAX = 4096 };

void shell_typed_line(const struct shell *shell, char *to, size_t room)
{
	snprintf(to, room, " . %s/c", shell->dir);
}

ssize_t shell_type_bytes(struct shell *shell, const char *data, size_t len)
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
void shell_type_ahead(struct shell *shell)
{
	if (shell->ahead.len)
		(void)shell_type_bytes(shell, shell->ahead.data, shell->ahead.len);
	shell->ahead.len = 0;
}

static void read_exe(pid_t pid, char *to, size_t room)
{
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	ssize_t n = readlink(path, to, room - 1);
	to[n > 0 ? n : 0] = 0;
}

/* What a process runs: the path of the program, then its arguments, each ended by NUL, and one more.
 * Nothing while it is about to run another: the arguments may be none yet, or not of that program. */
static char *read_program(pid_t pid)
{
	char path[40], exe[256], args[256], after[256];
	auto_buf struct buf text = BUF(4096);
	read_exe(pid, exe, sizeof exe);
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, args, sizeof args - 1);
	read_exe(pid, after, sizeof after);
	if (n > 0 && !strcmp(exe, after)) {
		buf_str(&text, exe);
		buf_add(&text, "", 1);
		buf_add(&text, args, (size_t)n);
	}
	buf_add(&text, "\0", 2);
	return TAKE(text.data);
}

static bool same_program(const char *a, const char *b)
{
	for (; !strcmp(a, b) && *a; a += strlen(a) + 1, b += strlen(b) + 1)
		;
	return !*a && !*b;
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
	if (shell->keys.given_up)
		buf_printf(&text, "__aio_p=%d\n",
			   shell->keys.last_code); /* before we interrupted */
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
	if (shell_write_file(shell, "u", &user, err) < 0)
		return -1;
	return shell_write_file(shell, "c", &text, err);
}

void shell_set_nonce(struct shell *shell, const char *nonce)
{
	snprintf(shell->nonce, sizeof shell->nonce, "%s", nonce);
	shell->mark_len =
		(size_t)snprintf(shell->mark, sizeof shell->mark, "\033]777;aio;%s;", nonce);
}

static void new_nonce(struct shell *shell)
{
	unsigned char random[NONCE_LEN / 2];
	char nonce[NONCE_LEN + 1];
	(void)!getrandom(random, sizeof random, 0);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(nonce + i * 2, 3, "%02x", random[i]);
	shell_set_nonce(shell, nonce);
}

static bool is_busy(const struct shell *shell)
{
	pid_t front = tcgetpgrp(shell->pty);
	pid_t own = program_pid(shell->bash);
	auto_free char *program = read_program(own);
	return (front > 0 && front != own) ||
	       (shell->program && !same_program(program, shell->program) &&
		!is_interactive(program));
}

/* Whether the shell has read all there is, and waits. */
static bool is_waiting(const struct shell *shell)
{
	char path[40], stat[512];
	int unread = 1;
	auto_close int slave = ioctl(shell->pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, FIONREAD, &unread) < 0 || unread)
		return false;
	snprintf(path, sizeof path, "/proc/%d/stat", program_pid(shell->bash));
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
	stat[n > 0 ? n : 0] = 0;
	const char *state = strrchr(stat, ')');
	return state && !strncmp(state, ") S", 3);
}

/* Whether the shell reads what we type. Where others have typed something, it may be busy with that,
 * which is waited for; or a line may be half written, which is given up. */
bool shell_is_ready(struct shell *shell)
{
	int64_t now = clock_ms();
	int ms;
	if (!shell_running(shell) || !shell_keys_any(&shell->keys))
		return true;
	if (shell->machine.at[DUE_READY] != INT64_MAX)
		return false; /* it is looked at again then */
	bool busy = is_busy(shell);
	enum shell_keys_next next =
		shell_keys_look(&shell->keys, busy, !busy && is_waiting(shell), now, &ms);
	if (next == KEYS_INTERRUPT)
		(void)shell_type_bytes(shell, "\003", 1);
	if (next != KEYS_READY)
		shell_machine_wait(&shell->machine, now + ms);
	return next == KEYS_READY;
}

int shell_type_line(struct shell *shell, struct err *err)
{
	char line[80];
	shell_typed_line(shell, line, sizeof line - 1);
	strcat(line, "\r");
	if (shell_type_bytes(shell, line, strlen(line)) != (ssize_t)strlen(line))
		return err_set(err, ERR_CONFLICT, "the terminal takes no input");
	return 0;
}

void shell_clear_line(struct shell *shell)
{
	struct err err;
	shell->keys.given_up = true;
	(void)write_wrapper(shell, shell->current, &err);
	(void)shell_type_bytes(shell, "\003", 1);
}

/* The line editor loses what it has, and what is on its way, when it is interrupted; and what others
 * type may come between. So a line that the shell has read and not begun is typed again. And "exec zsh"
 * never comes back to the wrapper: another shell in the place of ours can run commands as well, so the
 * command that put it there is over. */
enum shell_event shell_look(struct shell *shell)
{
	if (!shell_machine_prints(&shell->machine))
		return shell->keys.prompted && !is_busy(shell) && is_waiting(shell) ? EVENT_LOST
										    : EVENT_SAME;
	auto_free char *program = read_program(program_pid(shell->bash));
	return same_program(program, shell->program) || !is_interactive(program) ? EVENT_SAME
										 : EVENT_REPLACED;
}

int shell_launch(struct shell *shell, struct shell_command *command, struct err *err)
{
	if (shell_start(shell, err) < 0)
		return -1;
	if (shell->keys.prompted) {
		free(shell->program);
		shell->program = read_program(program_pid(shell->bash));
	}
	new_nonce(shell);
	if (write_wrapper(shell, command, err) < 0)
		return -1;
	int64_t now = clock_ms();
	command->fresh = shell->fresh;
	command->status = SHELL_RUNNING;
	command->changed_ms = now;
	shell->fresh = false;
	shell->current = command;
	shell_keys_launched(&shell->keys);
	(void)shell_machine_feed(&shell->machine, EVENT_LAUNCH, now); /* ACTION_TYPE, below */
	shell_machine_limit(&shell->machine, command->hard_ms, now);
	if (shell_type_line(shell, err) == 0) {
		const struct journal_started started = {
			"shell", shell->base.id, NULL, { command->text, strlen(command->text) }
		};
		command->run = journal_begin(JOURNAL_COMMAND_STARTED, &started);
		return 0;
	}
	(void)shell_machine_feed(&shell->machine, EVENT_ABANDON, now);
	shell->prompt.len = shell->prompt_shown = 0;
	return -1;
}
