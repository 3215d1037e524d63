/* gui_hand.h - what the files of gui.h share. */
#pragma once
#include "base/turn.h"
#include "desktop/clipboard.h"
#include "desktop/gui.h"
#include "desktop/keyboard.h"
#include "desktop/x_link.h"

struct gui {
	struct x *x;
	struct turn turn; /* whose has it may use what follows */
	const struct wait *wait;
	struct x_link link;
	bool open;
	unsigned xtest; /* the extension's opcode */
	struct keyboard keyboard;
	struct clipboard *clipboard;
};

/* Puts an event, which the X server makes after a pause; and waits until all that were put are made. */
void gui_fake(struct gui *gui, unsigned type, unsigned detail, unsigned delay_ms, int x, int y);
int gui_sync(struct gui *gui, struct err *err);

/* gui_keys.c: types by keys alone. */
int gui_type_keys(struct gui *gui, const uint32_t *keysyms, size_t count, struct err *err);

/* Whether there are keys for all of them as the keyboard is. */
bool gui_has_keys(struct gui *gui, const uint32_t *keysyms, size_t count);

/* Whether spare keys can be had for those that have none, without taking any from others that programs may
 * not have read yet: how long they take for that cannot be known. */
bool gui_fits_keys(struct gui *gui, const uint32_t *keysyms, size_t count);
