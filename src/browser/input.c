#include "browser/input.h"

#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "browser/tab.h"
#include "browser/web_keys.h"

/* ---- the mouse ---- */

static const struct {
	const char *name;
	int bit;
} buttons[] = {
	[INPUT_LEFT] = { "left", 1 },
	[INPUT_RIGHT] = { "right", 2 },
	[INPUT_MIDDLE] = { "middle", 4 },
};

static json_t *mouse_event(const char *type, struct input_point at)
{
	return json_pack("{s:s, s:f, s:f}", "type", type, "x", at.x, "y", at.y);
}

int input_move(struct tab *tab, struct input_point at, const struct wait *wait, struct err *err)
{
	return tab_ask(tab, "Input.dispatchMouseEvent", mouse_event("mouseMoved", at), wait, err);
}

static int press(struct tab *tab, bool down, struct input_point at, enum input_button button,
		 int64_t nth, const struct wait *wait, struct err *err)
{
	json_t *event = mouse_event(down ? "mousePressed" : "mouseReleased", at);
	json_object_set_new(event, "button", json_string(buttons[button].name));
	json_object_set_new(event, "buttons", json_integer(down ? buttons[button].bit : 0));
	json_object_set_new(event, "clickCount", json_integer(nth));
	return tab_ask(tab, "Input.dispatchMouseEvent", event, wait, err);
}

int input_click(struct tab *tab, struct input_point at, enum input_button button, int64_t count,
		const struct wait *wait, struct err *err)
{
	for (int64_t nth = 1; nth <= count; nth++)
		if (press(tab, true, at, button, nth, wait, err) < 0 ||
		    press(tab, false, at, button, nth, wait, err) < 0)
			return -1;
	return 0;
}

/* ---- the keyboard ---- */

/* With a key held that makes a command of it, a key types nothing. */
static const char *typed(const struct web_key *key, unsigned modifiers)
{
	return modifiers & (WEB_CONTROL | WEB_ALT | WEB_META) ? "" : key->text;
}

static int key_event(struct tab *tab, const struct web_key *key, bool down, unsigned modifiers,
		     const struct wait *wait, struct err *err)
{
	const char *text = typed(key, modifiers);
	const char *type = !down ? "keyUp" : *text ? "keyDown" : "rawKeyDown";
	json_t *event = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:b}", "type", type, "modifiers",
				  (int)modifiers, "key", key->key, "code", key->code,
				  "windowsVirtualKeyCode", key->number, "location", key->location,
				  "isKeypad", key->location == 3);
	if (down && *text) {
		json_object_set_new(event, "text", json_string(text));
		json_object_set_new(event, "unmodifiedText", json_string(text));
	}
	return tab_ask(tab, "Input.dispatchKeyEvent", event, wait, err);
}

/* With Shift held, a key of the layout gives its other character: "Shift+1" is an exclamation mark. */
static struct web_key with_shift(struct web_key key, unsigned modifiers)
{
	static const char pairs[] = "0)1!2@3#4$5%6^7&8*9(;:=+,<-_.>/?`~[{\\|]}'\"";
	if (!(modifiers & WEB_SHIFT) || !*key.key || key.key[1] || key.location == 3)
		return key;
	for (const char *at = pairs; *at; at += 2)
		if (*at == *key.key)
			*key.key = at[1];
	if (*key.key >= 'a' && *key.key <= 'z')
		*key.key -= 'a' - 'A';
	if (*key.text)
		*key.text = *key.key;
	return key;
}

int input_keys(struct tab *tab, const struct web_key *keys, size_t count, const struct wait *wait,
	       struct err *err)
{
	/* "Control+A" is what the A key gives with Control: Shift is meant where it is named. */
	unsigned modifiers = count == 1 && keys->shifted ? WEB_SHIFT : 0;
	int result = 0;
	size_t pressed = 0;
	for (; pressed < count && result == 0; pressed++) {
		modifiers |= keys[pressed].modifier;
		const struct web_key key = with_shift(keys[pressed], modifiers);
		result = key_event(tab, &key, true, modifiers, wait, err);
	}
	for (; pressed > 0; pressed--) { /* also after a failure: none is to stay down */
		modifiers &= ~keys[pressed - 1].modifier;
		if (result < 0)
			(void)key_event(tab, &keys[pressed - 1], false, modifiers, wait, NULL);
		else
			result = key_event(tab, &keys[pressed - 1], false, modifiers, wait, err);
	}
	return result;
}

int input_insert(struct tab *tab, const char *text, const struct wait *wait, struct err *err)
{
	return tab_ask(tab, "Input.insertText", json_pack("{s:s}", "text", text), wait, err);
}

/* ---- typing ---- */

static int pause_typing(int64_t delay_ms, const struct wait *wait, struct err *err)
{
	const struct wait until = { clock_ms() + delay_ms, wait->client_fd, wait->stop_fd };
	enum wake wake = delay_ms > 0 ? wait_fd(&until, -1, 0) : WAKE_TIMEOUT;
	return wake == WAKE_TIMEOUT ? 0 : wake_err(wake, err);
}

/* How many bytes at text are typed at once: a character that a key has, or those up to the next one. */
static size_t next_part(const char *text, size_t len, bool one, struct web_key *key)
{
	size_t at = utf8_char(text, len);
	if (web_key_of((unsigned char)*text, key) && at == 1)
		return 1;
	*key = (struct web_key){ 0 };
	at = at ? at : 1;
	/* What joins characters to one, as in 👩‍👩‍👧, is not ASCII either: it stays together. */
	while (!one && at < len && (unsigned char)text[at] >= 0x80)
		at++;
	return at;
}

static int type_part(struct tab *tab, const char *text, size_t len, const struct web_key *key,
		     const struct wait *wait, struct err *err)
{
	if (*key->key)
		return input_keys(tab, key, 1, wait, err);
	json_t *params = json_pack("{s:s%}", "text", text, len);
	return tab_ask(tab, "Input.insertText", params, wait, err);
}

int input_type(struct tab *tab, const char *text, int64_t delay_ms, const struct wait *wait,
	       struct err *err)
{
	size_t len = strlen(text);
	for (size_t at = 0; at < len;) {
		struct web_key key;
		size_t part = next_part(text + at, len - at, delay_ms > 0, &key);
		if (type_part(tab, text + at, part, &key, wait, err) < 0)
			return -1;
		at += part;
		if (at < len && pause_typing(delay_ms, wait, err) < 0)
			return -1;
	}
	return 0;
}
