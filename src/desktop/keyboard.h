/* keyboard.h - which key of the X server's keyboard gives a keysym. One that no key gives is put on a spare
 * key, where it stays until that is needed for another. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct x_link;
struct x_packet;

enum { KEYCODES = 256 };

struct keyboard {
	unsigned first, last;
	struct {
		uint32_t plain, shifted; /* keysyms in the group that is on */
		uint32_t ours;           /* what we have put there; 0: nothing */
		bool spare;              /* nobody else has put anything there */
		bool touched;            /* since the last change that was sent */
		int64_t used_ms;
	} keys[KEYCODES];
};

struct keystroke {
	uint8_t keycode;
	bool shift;
};

/* Reads what the keys are now. Group: which of the layouts is on. */
int keyboard_load(struct keyboard *keyboard, struct x_link *link, unsigned group,
		  const struct wait *wait, struct err *err);

/* Of a reply to GetKeyboardMapping. -1: it does not hold what it says. */
int keyboard_read(struct keyboard *keyboard, const struct x_packet *packet, unsigned group);

/* False: no key gives it. */
bool keyboard_find(const struct keyboard *keyboard, uint32_t keysym, struct keystroke *ret);

/* Puts keysyms that no key gives on spare keys: as many as there is room for at once. Returns how many; the
 * keys are changed by the next keyboard_send(). *ret_again is when the keys that were taken from other keysyms
 * were last used, by clock_ms(); 0: none was. */
size_t keyboard_place(struct keyboard *keyboard, const uint32_t *keysyms, size_t count,
		      int64_t *ret_again);
int keyboard_send(struct keyboard *keyboard, struct x_link *link, const struct wait *wait,
		  struct err *err);
