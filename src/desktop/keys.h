/* keys.h - keys by their names, and characters, as the X11 protocol numbers them (keysyms). */
#pragma once
#include <stdint.h>

struct err;

enum {
	KEY_SHIFT = 0xffe1,
	KEY_CONTROL = 0xffe3,
	KEY_CAPS_LOCK = 0xffe5,
	KEY_RETURN = 0xff0d,
	KEY_INSERT = 0xff63
};

/* What a name says: of the DOM ("Enter", "KeyA"), of X11 ("Return", "BackSpace"), an alias ("ctrl", "esc"),
 * "F1" to "F35", or one character; letters of names may be small or large. 0 with err: it is none. */
uint32_t key_named(const char *name, struct err *err);

/* What a character has; of a line feed, tabulator and the like, the key that gives it. */
uint32_t key_of_char(uint32_t c);
