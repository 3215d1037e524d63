#include "api/shell_events.h"

#include <sys/eventfd.h>

#include "api/shells.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/wait.h"
#include "net/call.h"
#include "proc/shell.h"
#include "term/plain.h"

enum { PIECE = 32768 };

static int put_event(struct call *call, const char *name, struct shell *shell, const char *text,
		     size_t len, const struct shell_command *command, struct err *err)
{
	struct jw jw;
	jw_init(&jw, 8 << 20);
	jw_open(&jw, '{');
	jw_key_str(&jw, "session_id", shell_id(shell));
	if (text) {
		jw_key(&jw, "data");
		jw_text(&jw, text, len);
	}
	if (command) {
		shell_lock(shell);
		jw_key_str(&jw, "status", shells_status(command));
		jw_key(&jw, "exit_code");
		if (shells_exit_code(command) == INT_ABSENT)
			jw_null(&jw);
		else
			jw_int(&jw, command->exit_code);
		shell_unlock(shell);
	}
	jw_close(&jw, '}');
	int result = call_event(call, name, NULL, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

/* Sends the command's new output as plain text, a line at a time. */
static int send_new(struct call *call, struct shell *shell, const struct shell_command *command,
		    struct plain *plain, int64_t *at, bool last, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	auto_buf struct buf text = BUF(4 << 20);
	for (size_t n = 1; n;) {
		shell_lock(shell);
		n = output_read(&command->raw, *at, piece, PIECE);
		shell_unlock(shell);
		*at += (int64_t)n;
		text.len = 0;
		plain_feed(plain, piece, n, &text);
		if (!n && last)
			plain_finish(plain, &text);
		if (text.len &&
		    put_event(call, "output", shell, text.data, text.len, NULL, err) < 0)
			return -1;
	}
	return 0;
}

int shell_events_stream(struct call *call, struct shell *shell, struct shell_command *command,
			int64_t until_ms, struct err *err)
{
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct waiter waiter = { .fd = fd };
	enum wake wake = WAKE_READY;
	struct plain plain;
	int64_t at = 0;
	plain_init(&plain);
	int failed = put_event(call, "start", shell, NULL, 0, command, err);
	shell_lock(shell);
	shell_join(shell, &waiter);
	shell_unlock(shell);
	while (!failed) {
		shell_lock(shell);
		bool ended = command->status > SHELL_RUNNING;
		shell_unlock(shell);
		bool last = ended || wake == WAKE_STOPPING || clock_ms() >= until_ms;
		failed = send_new(call, shell, command, &plain, &at, last, err);
		if (last || failed)
			break;
		wake = call_wait_events(call, fd, until_ms);
		if (wake == WAKE_LEFT)
			failed = wake_err(wake, err);
	}
	shell_lock(shell);
	shell_leave(shell, &waiter);
	shell_unlock(shell);
	plain_done(&plain);
	return failed ? -1 : put_event(call, "exit", shell, NULL, 0, command, err);
}
