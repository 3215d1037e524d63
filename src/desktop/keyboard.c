#include "desktop/keyboard.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

int keyboard_read(struct keyboard *keyboard, const struct x_packet *packet, unsigned group)
{
	const unsigned columns = packet->data[1];
	const unsigned count = keyboard->last - keyboard->first + 1;
	if (columns == 0 || packet->len < X_PACKET + (size_t)columns * count * 4)
		return -1;
	/* The first two columns are the first group, the next two the second. */
	const unsigned at = group == 1 && columns >= 4 ? 2 : 0;
	for (unsigned i = 0; i < count; i++) {
		const unsigned char *row = packet->data + X_PACKET + (size_t)i * columns * 4;
		__typeof__(*keyboard->keys) *key = &keyboard->keys[keyboard->first + i];
		bool any = false;
		for (unsigned k = 0; k < columns; k++)
			any |= x_get32(row + k * 4ul) != 0;
		const unsigned char *own = at && x_get32(row + at * 4ul) ? row + at * 4ul : row;
		key->plain = x_get32(own);
		key->shifted = columns > 1 ? x_get32(own + 4) : 0;
		if (key->ours && key->ours != key->plain)
			key->ours = 0;
		key->spare = !any || key->ours;
		key->touched = false;
	}
	return 0;
}

int keyboard_load(struct keyboard *keyboard, struct x_link *link, unsigned group,
		  const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	keyboard->first = link->setup.first_keycode;
	keyboard->last = link->setup.last_keycode;
	const uint32_t words[] = {
		x_pair(keyboard->first | (keyboard->last - keyboard->first + 1) << 8, 0)
	};
	x_link_put(link, X_GET_KEYBOARD_MAPPING, 0, words, COUNT(words));
	if (x_link_reply(link, X_PACKET, &packet, wait, err) < 0)
		return -1;
	if (keyboard_read(keyboard, &packet, group) < 0)
		return err_set(err, ERR_UNAVAILABLE,
			       "the X server's keyboard mapping is malformed");
	return 0;
}

bool keyboard_find(const struct keyboard *keyboard, uint32_t keysym, struct keystroke *ret)
{
	for (unsigned i = keyboard->first; i <= keyboard->last; i++)
		if (keyboard->keys[i].plain == keysym) {
			*ret = (struct keystroke){ (uint8_t)i, false };
			return true;
		}
	for (unsigned i = keyboard->first; i <= keyboard->last; i++)
		if (keyboard->keys[i].shifted == keysym) {
			*ret = (struct keystroke){ (uint8_t)i, true };
			return true;
		}
	return false;
}

/* ---- spare keys ---- */

/* The spare key that was not used for longest, first of all one that nothing is on; 0: none is left. */
static unsigned pick(const struct keyboard *keyboard)
{
	unsigned best = 0;
	for (unsigned i = keyboard->last; i >= keyboard->first; i--) {
		if (!keyboard->keys[i].spare || keyboard->keys[i].touched)
			continue;
		if (!keyboard->keys[i].ours)
			return i;
		if (!best || keyboard->keys[i].used_ms < keyboard->keys[best].used_ms)
			best = i;
	}
	return best;
}

size_t keyboard_place(struct keyboard *keyboard, const uint32_t *keysyms, size_t count,
		      int64_t *ret_again)
{
	const int64_t now = clock_ms();
	*ret_again = 0;
	for (size_t n = 0; n < count; n++) {
		unsigned i = pick(keyboard);
		if (!i)
			return n;
		if (keyboard->keys[i].ours && keyboard->keys[i].used_ms > *ret_again)
			*ret_again = keyboard->keys[i].used_ms;
		keyboard->keys[i].ours = keysyms[n];
		keyboard->keys[i].plain = keyboard->keys[i].shifted = keysyms[n];
		keyboard->keys[i].touched = true;
		keyboard->keys[i].used_ms = now;
	}
	return count;
}

/* Twice the same: of one keysym alone, X would make a small and a capital letter. */
static void send_run(const struct keyboard *keyboard, struct x_link *link, unsigned from,
		     unsigned end)
{
	uint32_t words[1 + 2 * KEYCODES] = { x_pair(from | 2 << 8, 0) };
	for (unsigned i = from; i < end; i++)
		words[1 + 2 * (i - from)] = words[2 + 2 * (i - from)] = keyboard->keys[i].plain;
	x_link_put(link, X_CHANGE_KEYBOARD_MAPPING, end - from, words,
		   1 + 2 * (size_t)(end - from));
}

int keyboard_send(struct keyboard *keyboard, struct x_link *link, const struct wait *wait,
		  struct err *err)
{
	for (unsigned i = keyboard->first, end; i <= keyboard->last; i = end) {
		end = i + 1;
		if (!keyboard->keys[i].touched)
			continue;
		while (end <= keyboard->last && keyboard->keys[end].touched)
			end++;
		send_run(keyboard, link, i, end);
		for (unsigned k = i; k < end; k++)
			keyboard->keys[k].touched = false;
	}
	return x_link_sync(link, wait, err);
}
