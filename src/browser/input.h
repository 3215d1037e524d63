/* input.h - the mouse and keyboard of a page: what is sent is real input, as if it came from a person. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct tab;
struct web_key;

enum input_button { INPUT_LEFT, INPUT_RIGHT, INPUT_MIDDLE };

/* CSS pixels of the tab's viewport. */
struct input_point {
	double x, y;
};

int input_move(struct tab *tab, struct input_point at, const struct wait *wait, struct err *err);

/* Presses and releases a button there, `count` times: 2 is a double click. */
int input_click(struct tab *tab, struct input_point at, enum input_button button, int64_t count,
		const struct wait *wait, struct err *err);

/* Presses keys in their order, holding all of them, and releases them in the opposite one. */
int input_keys(struct tab *tab, const struct web_key *keys, size_t count, const struct wait *wait,
	       struct err *err);

/* Types a text, key by key; characters that no key has are entered as an input method would. delay_ms
 * lies between two of them. */
int input_type(struct tab *tab, const char *text, int64_t delay_ms, const struct wait *wait,
	       struct err *err);

/* Enters a text at once, in place of what is selected. */
int input_insert(struct tab *tab, const char *text, const struct wait *wait, struct err *err);
