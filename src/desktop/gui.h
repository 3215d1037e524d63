/* gui.h - what a person does at the desktop: pointer, keyboard, typing. One action at a time, in the order in
 * which they came. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct gui;
struct x;

struct gui *gui_new(struct x *x);
void gui_free(struct gui *gui); /* NULL is fine */

/* The turn is the caller's until gui_end(): all others are for who has it. `wait` must live until then. */
int gui_begin(struct gui *gui, const struct wait *wait, struct err *err);
void gui_end(struct gui *gui);

enum gui_button {
	GUI_LEFT = 1,
	GUI_MIDDLE,
	GUI_RIGHT,
	GUI_UP,
	GUI_DOWN,
	GUI_WHEEL_LEFT,
	GUI_WHEEL_RIGHT
};

/* The pointer, and the screen that it is on. */
struct gui_place {
	int x, y, width, height;
	unsigned state; /* which buttons and modifiers are held */
};
int gui_where(struct gui *gui, struct gui_place *ret, struct err *err);

int gui_move(struct gui *gui, int x, int y, struct err *err);
int gui_press(struct gui *gui, enum gui_button button, bool down, struct err *err);
int gui_click(struct gui *gui, enum gui_button button, int times, struct err *err);

/* Presses the left button where the pointer is (unless it is held), moves there in steps, and releases it. */
int gui_drag(struct gui *gui, int x, int y, struct err *err);

/* Keys by their keysyms. Pressed in that order, released in the other one. */
enum { GUI_KEYS_MAX = 16 };
int gui_keys(struct gui *gui, const uint32_t *keysyms, size_t count, bool down, bool up,
	     struct err *err);

/* Types a text, of UTF-8: exactly that arrives at the window that has the focus. By the clipboard, where that
 * is wished and somebody takes it, which is then as it was before. */
int gui_type(struct gui *gui, const char *text, size_t len, bool by_clipboard, struct err *err);
