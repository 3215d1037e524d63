#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "shell/shell_state.h"
#include "term/plain.h"
#include "term/screen.h"

enum {
	FEED_PIECE = 65536,
	OVERRUNS_MAX = 2,
};

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

/* Copies what the screen has not shown yet, up to *end. What is gone meanwhile is passed over, and all
 * that there is then is wanted; a few times, for a program that is always faster. */
static size_t next_piece(struct shell *shell, char *piece, int64_t *end, int *overruns)
{
	pthread_mutex_lock(&shell->base.lock);
	int64_t start = shell->tail_start, all = start + (int64_t)shell->tail.len;
	if (shell->screen_at < start && (*overruns)++ < OVERRUNS_MAX)
		*end = all;
	if (shell->screen_at < start)
		shell->screen_at = start;
	int64_t left = *end - shell->screen_at;
	size_t n = left <= 0 ? 0 : left < FEED_PIECE ? (size_t)left : FEED_PIECE;
	if (n)
		memcpy(piece, shell->tail.data + (shell->screen_at - start), n);
	pthread_mutex_unlock(&shell->base.lock);
	return n;
}

/* With the screen's lock only: whoever needs the shell's, the pump above all, does not wait for this. */
static void catch_up(struct shell *shell)
{
	auto_free char *piece = xmalloc(FEED_PIECE);
	int overruns = 0;
	pthread_mutex_lock(&shell->base.lock);
	int64_t end = shell->tail_start + (int64_t)shell->tail.len;
	pthread_mutex_unlock(&shell->base.lock);
	for (size_t n; (n = next_piece(shell, piece, &end, &overruns));) {
		screen_feed(shell->screen, piece, n);
		shell->screen_at += (int64_t)n;
	}
}

static void size_now(struct shell *shell, int *ret_cols, int *ret_rows)
{
	pthread_mutex_lock(&shell->base.lock);
	shell_size(shell, ret_cols, ret_rows);
	pthread_mutex_unlock(&shell->base.lock);
}

struct screen *shell_screen(struct shell *shell, int64_t *ret_at)
{
	int cols, rows;
	pthread_mutex_lock(&shell->screen_lock);
	if (!shell->screen) {
		size_now(shell, &cols, &rows);
		shell->screen = screen_new(cols, rows);
	}
	catch_up(shell);
	*ret_at = shell->screen_at;
	return shell->screen;
}

void shell_screen_done(struct shell *shell)
{
	pthread_mutex_unlock(&shell->screen_lock);
}

void shell_screen_fit(struct shell *shell)
{
	int cols, rows;
	pthread_mutex_lock(&shell->screen_lock);
	if (shell->screen) {
		catch_up(shell);
		size_now(shell, &cols, &rows);
		screen_resize(shell->screen, cols, rows);
	}
	pthread_mutex_unlock(&shell->screen_lock);
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
	shell_typed_line(shell, ours, sizeof ours);
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
	if (shell_machine_prints(&shell->machine)) {
		output_add(&shell->current->raw, data, len);
		shell->current->changed_ms = clock_ms();
	} else {
		size_t room = PROMPT_MAX - shell->prompt.len;
		if (len > room)
			shell->prompt.len = 0;
		buf_add(&shell->prompt, len > PROMPT_MAX ? data + len - PROMPT_MAX : data,
			len > PROMPT_MAX ? PROMPT_MAX : len);
	}
	if (shell_machine_hides(
		    &shell->machine)) /* the line that sources the command is nobody's business */
		return;
	tail_add(shell, data, len);
	shell->prompt_shown += len;
}

/* Viewers see the command as if it had been typed, after a prompt. */
void shell_show_command(struct shell *shell)
{
	free(shell->current->prompt);
	const char *prompt = shell->current->prompt = prompt_text(shell);
	if (!shell->prompt_shown)
		tail_add(shell, prompt, strlen(prompt));
	for (const char *at = shell->current->text; *at;) {
		size_t n = strcspn(at, "\n");
		tail_add(shell, at, n);
		tail_add(shell, "\r\n", at[n] || n ? 2 : 0);
		at += n + (at[n] == '\n');
	}
}

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

static void prompt_met(struct shell *shell, bool after_interrupt)
{
	if (!shell->keys.prompted)
		waiter_wake(shell->waiters);
	shell_keys_prompt(&shell->keys, after_interrupt, clock_ms());
	if (!shell->current)
		shell_start_next(shell);
}

/* At a whole mark: 'S' starts the output, 'E' ends it; 'P', or 'I' after an interrupt, comes before each
 * prompt, and ends the output of a command that was interrupted. */
static void mark_met(struct shell *shell, char kind)
{
	bool begins = kind == 'S' && shell_machine_hides(&shell->machine);
	unsigned actions =
		shell_machine_feed(&shell->machine, begins ? EVENT_BEGIN : EVENT_MARK, clock_ms());
	if (begins)
		shell->keys.given_up = false;
	if (!shell_machine_hides(&shell->machine) && !shell_machine_prints(&shell->machine))
		shell->prompt.len = shell->prompt_shown = 0;
	if (kind == 'P' || kind == 'I')
		prompt_met(shell, kind == 'I');
	shell_act(shell, actions);
}

/* Takes new bytes of the terminal, with the marks of the current command out of them. */
void shell_take(struct shell *shell, const char *data, size_t len)
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
	}
	show(shell, data, len);
}
