#include "api/shell_events.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/wait.h"
#include "net/call.h"
#include "shell/shell.h"
#include "shell/shells.h"
#include "term/plain.h"

enum { PIECE = 32768 };

struct state {
	const char *session_id, *status;
	int64_t exit_code;
};
static const struct field state_fields[] = {
	STR(state, session_id, 0, "Session identifier."),
	STR(state, status, 0, "As in the answer."),
	INT(state, exit_code, NULLABLE, "Once it is completed."),
};
static const struct schema state_schema = SCHEMA(state, "ShellStateEvent", state_fields);
struct shell_events_piece {
	const char *session_id;
	struct text data;
};
static const struct field piece_fields[] = {
	STR(shell_events_piece, session_id, 0, "Session identifier."),
	TEXT(shell_events_piece, data, 0, "What it printed, as plain text."),
};
static const struct schema piece_schema =
	SCHEMA(shell_events_piece, "ShellOutputEvent", piece_fields);
static const struct variant events[] = {
	{ "start", &state_schema, "It runs, or waits for its turn." },
	{ "output", &piece_schema },
	{ "exit", &state_schema, "It has ended, or `timeout` is over and it runs on." },
};
const struct schema shell_events_sends = TAGGED("ShellEvent", "event", events, .outside = true);

static int send_state(struct call *call, const char *name, struct shell *shell,
		      const struct shell_command *command, struct err *err)
{
	shell_lock(shell);
	struct state state = { shell_id(shell), shells_status(command), shells_exit_code(command) };
	shell_unlock(shell);
	return call_send(call, name, NULL, &state, err);
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
		struct shell_events_piece event = { shell_id(shell), { text.data, text.len } };
		if (text.len && call_send(call, "output", NULL, &event, err) < 0)
			return -1;
	}
	return 0;
}

/* Waits for more than was sent. WAKE_TIMEOUT: for long in vain, or until_ms has come. */
static enum wake wait_more(struct call *call, struct shell *shell,
			   const struct shell_command *command, int64_t at, int64_t until_ms)
{
	const struct wait wait = call_until_ping(call, until_ms);
	enum wake wake = wait_check(&wait); /* one that prints without end is always ready */
	shell_lock(shell);
	while (wake == WAKE_READY && command->status <= SHELL_RUNNING && command->raw.size <= at)
		wake = shell_wait(shell, &wait, NULL);
	shell_unlock(shell);
	return wake;
}

int shell_events_stream(struct call *call, struct shell *shell, struct shell_command *command,
			int64_t until_ms, struct err *err)
{
	enum wake wake = WAKE_READY;
	struct plain plain;
	int64_t at = 0;
	plain_init(&plain);
	int failed = send_state(call, "start", shell, command, err);
	while (!failed) {
		shell_lock(shell);
		bool ended = command->status > SHELL_RUNNING;
		shell_unlock(shell);
		bool last = ended || wake == WAKE_STOPPING || clock_ms() >= until_ms;
		failed = send_new(call, shell, command, &plain, &at, last, err);
		if (last || failed)
			break;
		wake = wait_more(call, shell, command, at, until_ms);
		if (wake == WAKE_LEFT)
			failed = wake_err(wake, err);
		if (wake == WAKE_TIMEOUT && clock_ms() < until_ms)
			failed = call_event_ping(call, err);
	}
	plain_done(&plain);
	return failed ? -1 : send_state(call, "exit", shell, command, err);
}
