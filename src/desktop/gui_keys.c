/* Keys: pressing them, and finding one for every character. */
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "desktop/gui_hand.h"
#include "desktop/keys.h"
#include "desktop/x_protocol.h"

enum {
	LOCKED = 1 << 1, /* Caps Lock, in the state of the pointer */
	GROUP_AT = 13,
	SETTLE_MS = 1000, /* until programs have seen keys that are to become others */
	BATCH = 256,      /* keys, between two waits for the server */
};

static void put_key(struct gui *gui, uint8_t keycode, bool down)
{
	gui_fake(gui, down ? X_KEY_PRESS : X_KEY_RELEASE, keycode, 0, 0, 0);
}

static void put_stroke(struct gui *gui, const struct keystroke *stroke, bool down)
{
	struct keystroke shift;
	gui->keyboard.keys[stroke->keycode].used_ms = clock_ms();
	bool shifted = stroke->shift && keyboard_find(&gui->keyboard, KEY_SHIFT, &shift);
	if (shifted && down)
		put_key(gui, shift.keycode, true);
	put_key(gui, stroke->keycode, down);
	if (shifted && !down)
		put_key(gui, shift.keycode, false);
}

static void tap(struct gui *gui, uint32_t keysym)
{
	struct keystroke stroke;
	if (!keyboard_find(&gui->keyboard, keysym, &stroke))
		return;
	put_stroke(gui, &stroke, true);
	put_stroke(gui, &stroke, false);
}

static int load(struct gui *gui, unsigned *ret_state, struct err *err)
{
	struct gui_place place;
	if (gui_where(gui, &place, err) < 0)
		return -1;
	if (ret_state)
		*ret_state = place.state;
	return keyboard_load(&gui->keyboard, &gui->link, place.state >> GROUP_AT & 3, gui->wait,
			     err);
}

bool gui_has_keys(struct gui *gui, const uint32_t *keysyms, size_t count)
{
	struct keystroke stroke;
	bool all = load(gui, NULL, NULL) == 0;
	for (size_t i = 0; i < count && all; i++)
		all = keyboard_find(&gui->keyboard, keysyms[i], &stroke) &&
		      !gui->keyboard.keys[stroke.keycode].ours;
	return all;
}

/* ---- keys that are not there ---- */

static bool is_among(const uint32_t *keysyms, size_t count, uint32_t keysym)
{
	for (size_t i = 0; i < count; i++)
		if (keysyms[i] == keysym)
			return true;
	return false;
}

/* Those of the next keysyms that no key gives, each once. */
static size_t missing(const struct gui *gui, const uint32_t *keysyms, size_t count, uint32_t *ret)
{
	struct keystroke stroke;
	size_t found = 0;
	for (size_t i = 0; i < count && found < KEYCODES; i++)
		if (!keyboard_find(&gui->keyboard, keysyms[i], &stroke) &&
		    !is_among(ret, found, keysyms[i]))
			ret[found++] = keysyms[i];
	return found;
}

bool gui_fits_keys(struct gui *gui, const uint32_t *keysyms, size_t count)
{
	uint32_t wanted[KEYCODES];
	size_t spare = 0;
	if (load(gui, NULL, NULL) < 0)
		return true;
	for (unsigned i = gui->keyboard.first; i <= gui->keyboard.last; i++)
		spare += gui->keyboard.keys[i].spare &&
			 (!gui->keyboard.keys[i].ours ||
			  gui->keyboard.keys[i].used_ms + 2 * SETTLE_MS < clock_ms());
	return missing(gui, keysyms, count, wanted) <= spare;
}

/* Keys that programs may not have seen yet must not change before they have. */
static int settle(struct gui *gui, int64_t used_ms, struct err *err)
{
	int64_t until_ms = used_ms + SETTLE_MS;
	if (!used_ms || until_ms <= clock_ms())
		return 0;
	const struct wait wait = { until_ms, gui->wait->client_fd, gui->wait->stop_fd };
	enum wake wake = wait_fd(&wait, -1, 0);
	return wake == WAKE_TIMEOUT ? 0 : wake_err(wake, err);
}

/* Has keys give as many of the next keysyms as there is room for. */
static int place(struct gui *gui, const uint32_t *keysyms, size_t count, struct err *err)
{
	uint32_t wanted[KEYCODES];
	int64_t again;
	size_t many = missing(gui, keysyms, count, wanted);
	if (!many)
		return 0;
	if (!keyboard_place(&gui->keyboard, wanted, many, &again))
		return err_set(err, ERR_CONFLICT,
			       "the keyboard has no spare key for a character that is not on it");
	if (settle(gui, again, err) < 0)
		return -1;
	return keyboard_send(&gui->keyboard, &gui->link, gui->wait, err);
}

/* ---- typing ---- */

/* As many of the keysyms as there are keys for now; at most a batch. */
static size_t put_batch(struct gui *gui, const uint32_t *keysyms, size_t count)
{
	struct keystroke stroke;
	size_t i = 0;
	for (; i < count && i < BATCH; i++) {
		if (!keyboard_find(&gui->keyboard, keysyms[i], &stroke))
			break;
		put_stroke(gui, &stroke, true);
		put_stroke(gui, &stroke, false);
	}
	return i;
}

static int type_all(struct gui *gui, const uint32_t *keysyms, size_t count, struct err *err)
{
	for (size_t at = 0; at < count;) {
		size_t put = put_batch(gui, keysyms + at, count - at);
		if (put && gui_sync(gui, err) < 0)
			return -1;
		if (!put && place(gui, keysyms + at, count - at, err) < 0)
			return -1;
		at += put;
	}
	return 0;
}

int gui_type_keys(struct gui *gui, const uint32_t *keysyms, size_t count, struct err *err)
{
	unsigned state;
	if (load(gui, &state, err) < 0 || place(gui, keysyms, count, err) < 0)
		return -1;
	if (state & LOCKED)
		tap(gui, KEY_CAPS_LOCK);
	int result = type_all(gui, keysyms, count, err);
	if (state & LOCKED)
		tap(gui, KEY_CAPS_LOCK);
	return gui_sync(gui, result < 0 ? NULL : err) < 0 ? -1 : result;
}

/* ---- pressing ---- */

int gui_keys(struct gui *gui, const uint32_t *keysyms, size_t count, bool down, bool up,
	     struct err *err)
{
	struct keystroke strokes[GUI_KEYS_MAX];
	if (load(gui, NULL, err) < 0 || place(gui, keysyms, count, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (!keyboard_find(&gui->keyboard, keysyms[i], &strokes[i]))
			return err_set(err, ERR_CONFLICT, "the keyboard has no spare key");
	for (size_t i = 0; i < count && down; i++)
		put_stroke(gui, &strokes[i], true);
	for (size_t i = count; i > 0 && up; i--)
		put_stroke(gui, &strokes[i - 1], false);
	return gui_sync(gui, err);
}
