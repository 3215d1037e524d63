#include "shell/shell_keys.h"

#include <string.h>

enum {
	TYPED_MS = 300, /* for a prompt after what was typed */
	BUSY_MS = 5000, /* for a shell to read that, on a busy machine */
	QUIET_MS = 30,  /* for the line editor to have read all that was typed */
	INTERRUPT_MS = 100,
	INTERRUPTS_MAX = 3,
};

void shell_keys_started(struct shell_keys *keys)
{
	keys->prompted = keys->at_prompt = false;
	keys->prompt_due = true;
}

void shell_keys_launched(struct shell_keys *keys)
{
	keys->at_prompt = keys->settling = false;
}

void shell_keys_over(struct shell_keys *keys, int64_t now)
{
	keys->prompt_due = true;
	keys->prompt_ms = now;
}

void shell_keys_forget(struct shell_keys *keys)
{
	keys->half_line = keys->fed = false;
	keys->lines = 0;
	keys->interrupts = 0;
}

void shell_keys_typed(struct shell_keys *keys, const char *data, size_t len, bool to_command,
		      int64_t now)
{
	for (size_t i = 0; i < len; i++) {
		bool end = data[i] == '\r' || data[i] == '\n';
		keys->lines += end && !to_command;
		keys->fed = keys->fed || (end && to_command);
		keys->half_line = !end && !strchr("\003\004\032", data[i]);
	}
	keys->typed_ms = now;
}

void shell_keys_prompt(struct shell_keys *keys, bool after_interrupt, int64_t now)
{
	keys->lines -= keys->lines > 0 && !keys->prompt_due;
	keys->prompt_due = false;
	keys->prompt_ms = now;
	if (keys->interrupts && after_interrupt)
		shell_keys_forget(keys);
	keys->prompted = keys->at_prompt = true;
}

void shell_keys_code(struct shell_keys *keys, int code)
{
	if (!keys->interrupts)
		keys->last_code = code;
}

bool shell_keys_any(const struct shell_keys *keys)
{
	return keys->lines || keys->half_line || keys->fed;
}

/* Whether a prompt may come soon that says more: after what was typed, after a command. The line
 * editor is given time to read what is there. */
static bool is_moving(const struct shell_keys *keys, bool waiting, int64_t now)
{
	int64_t typed = now - keys->typed_ms, prompt = now - keys->prompt_ms;
	if (typed < QUIET_MS || (keys->at_prompt && prompt < QUIET_MS))
		return true;
	if ((keys->lines && typed < TYPED_MS) || (!keys->at_prompt && prompt < TYPED_MS))
		return true;
	return keys->lines && typed < BUSY_MS && !waiting;
}

/* It interrupts again if need be, because the line editor loses an interrupt that comes while it reads. */
enum shell_keys_next shell_keys_look(struct shell_keys *keys, bool busy, bool waiting, int64_t now,
				     int *ret_ms)
{
	keys->settling = !busy;
	if (busy || (!keys->interrupts && is_moving(keys, waiting, now))) {
		*ret_ms = QUIET_MS;
		return KEYS_WAIT;
	}
	if (keys->interrupts == INTERRUPTS_MAX || (!keys->lines && !keys->half_line)) {
		shell_keys_forget(keys);
		return KEYS_READY;
	}
	keys->given_up = true;
	keys->interrupts++;
	*ret_ms = INTERRUPT_MS;
	return KEYS_INTERRUPT;
}
