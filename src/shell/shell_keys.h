/* shell_keys.h - what others have typed into a shell, as far as it may still be there.
 *
 * A command is typed into a shell that people type into as well. Their lines are waited for; a line
 * that is half written is given up, as with Ctrl+C, for the command to have a line of its own. Pure, as
 * shell_machine.h is. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shell_keys {
	unsigned lines; /* at a prompt, or for one: no later prompt has followed them yet */
	bool fed;       /* lines to a command, which has not read all of them perhaps */
	bool half_line;
	bool settling;   /* a command waits for no more than that the shell shows a prompt */
	bool prompt_due; /* one that says nothing of lines: at the start, and after a command */
	bool at_prompt;  /* as far as is known; a shell in the place of ours may not tell */
	bool prompted;   /* it has shown a prompt, so it reads what is typed */
	bool given_up;   /* a line was, for the command that comes next */
	int interrupts;  /* by us, to have a prompt of our own, which has not come yet */
	int last_code;   /* of the last command, as a prompt told it */
	int64_t prompt_ms, typed_ms;
};

enum shell_keys_next { KEYS_READY, KEYS_WAIT, KEYS_INTERRUPT };

void shell_keys_started(struct shell_keys *keys);  /* a shell */
void shell_keys_launched(struct shell_keys *keys); /* a command */
void shell_keys_over(struct shell_keys *keys, int64_t now);
void shell_keys_forget(struct shell_keys *keys);

/* At a prompt, or to a command. */
void shell_keys_typed(struct shell_keys *keys, const char *data, size_t len, bool to_command,
		      int64_t now);

/* A prompt is about to be shown: one line that was typed has been dealt with. */
void shell_keys_prompt(struct shell_keys *keys, bool after_interrupt, int64_t now);
void shell_keys_code(struct shell_keys *keys, int code); /* reported by a prompt */

/* Whether a shell has to be looked at before a line of ours can be typed; what that look says: busy
 * with a program, or with all read waiting for more. For KEYS_WAIT and KEYS_INTERRUPT *ret_ms is how long
 * until the next look. */
bool shell_keys_any(const struct shell_keys *keys);
enum shell_keys_next shell_keys_look(struct shell_keys *keys, bool busy, bool waiting, int64_t now,
				     int *ret_ms);
