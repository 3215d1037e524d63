#include "browser/web_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "desktop/keys.h"

enum { F1 = 0xffbe, F24 = 0xffd5, KEYPAD_0 = 0xffb0, KEYPAD_9 = 0xffb9 };

/* ---- those that type nothing ---- */

/* clang-format off */
static const struct special {
	uint32_t keysym;
	const char *key, *code;
	int number, location;
	unsigned modifier;
	const char *text;
} specials[] = {
	{ 0xff0d, "Enter", "Enter", 13, 0, 0, "\r" },
	{ 0xff0a, "Enter", "Enter", 13, 0, 0, "\r" },
	{ 0xff8d, "Enter", "NumpadEnter", 13, 3, 0, "\r" },
	{ 0xff09, "Tab", "Tab", 9, 0, 0, "" },
	{ 0xff08, "Backspace", "Backspace", 8, 0, 0, "" },
	{ 0xff1b, "Escape", "Escape", 27, 0, 0, "" },
	{ 0xffff, "Delete", "Delete", 46, 0, 0, "" },
	{ 0xff63, "Insert", "Insert", 45, 0, 0, "" },
	{ 0xff50, "Home", "Home", 36, 0, 0, "" },
	{ 0xff57, "End", "End", 35, 0, 0, "" },
	{ 0xff55, "PageUp", "PageUp", 33, 0, 0, "" },
	{ 0xff56, "PageDown", "PageDown", 34, 0, 0, "" },
	{ 0xff51, "ArrowLeft", "ArrowLeft", 37, 0, 0, "" },
	{ 0xff52, "ArrowUp", "ArrowUp", 38, 0, 0, "" },
	{ 0xff53, "ArrowRight", "ArrowRight", 39, 0, 0, "" },
	{ 0xff54, "ArrowDown", "ArrowDown", 40, 0, 0, "" },
	{ 0xffe3, "Control", "ControlLeft", 17, 1, WEB_CONTROL, "" },
	{ 0xffe4, "Control", "ControlRight", 17, 2, WEB_CONTROL, "" },
	{ 0xffe1, "Shift", "ShiftLeft", 16, 1, WEB_SHIFT, "" },
	{ 0xffe2, "Shift", "ShiftRight", 16, 2, WEB_SHIFT, "" },
	{ 0xffe9, "Alt", "AltLeft", 18, 1, WEB_ALT, "" },
	{ 0xffea, "Alt", "AltRight", 18, 2, WEB_ALT, "" },
	{ 0xfe03, "AltGraph", "AltRight", 225, 2, 0, "" },
	{ 0xffeb, "Meta", "MetaLeft", 91, 1, WEB_META, "" },
	{ 0xffec, "Meta", "MetaRight", 92, 2, WEB_META, "" },
	{ 0xffe7, "Meta", "MetaLeft", 91, 1, WEB_META, "" },
	{ 0xffe8, "Meta", "MetaRight", 92, 2, WEB_META, "" },
	{ 0xffe5, "CapsLock", "CapsLock", 20, 0, 0, "" },
	{ 0xff7f, "NumLock", "NumLock", 144, 0, 0, "" },
	{ 0xff14, "ScrollLock", "ScrollLock", 145, 0, 0, "" },
	{ 0xff13, "Pause", "Pause", 19, 0, 0, "" },
	{ 0xff61, "PrintScreen", "PrintScreen", 44, 0, 0, "" },
	{ 0xff67, "ContextMenu", "ContextMenu", 93, 0, 0, "" },
	{ 0xff6a, "Help", "Help", 47, 0, 0, "" },
	{ 0xff0b, "Clear", "NumpadClear", 12, 3, 0, "" },
	{ 0xffaa, "*", "NumpadMultiply", 106, 3, 0, "*" },
	{ 0xffab, "+", "NumpadAdd", 107, 3, 0, "+" },
	{ 0xffad, "-", "NumpadSubtract", 109, 3, 0, "-" },
	{ 0xffae, ".", "NumpadDecimal", 110, 3, 0, "." },
	{ 0xffaf, "/", "NumpadDivide", 111, 3, 0, "/" },
};

/* ---- those of the US layout: plain and with Shift ---- */

static const struct layout_key {
	char plain, shifted;
	const char *code;
	int number;
} plains[] = {
	{ ' ', ' ', "Space", 32 },
	{ '0', ')', "Digit0", 48 }, { '1', '!', "Digit1", 49 }, { '2', '@', "Digit2", 50 }, { '3', '#', "Digit3", 51 },
	{ '4', '$', "Digit4", 52 }, { '5', '%', "Digit5", 53 }, { '6', '^', "Digit6", 54 }, { '7', '&', "Digit7", 55 },
	{ '8', '*', "Digit8", 56 }, { '9', '(', "Digit9", 57 },
	{ ';', ':', "Semicolon", 186 }, { '=', '+', "Equal", 187 }, { ',', '<', "Comma", 188 }, { '-', '_', "Minus", 189 },
	{ '.', '>', "Period", 190 }, { '/', '?', "Slash", 191 }, { '`', '~', "Backquote", 192 }, { '[', '{', "BracketLeft", 219 },
	{ '\\', '|', "Backslash", 220 }, { ']', '}', "BracketRight", 221 }, { '\'', '"', "Quote", 222 },
};
/* clang-format on */

static void fill(struct web_key *ret, const char *key, const char *code, int number)
{
	*ret = (struct web_key){ .number = number };
	snprintf(ret->key, sizeof ret->key, "%s", key);
	snprintf(ret->code, sizeof ret->code, "%s", code);
}

static bool fill_special(uint32_t keysym, struct web_key *ret)
{
	for (size_t i = 0; i < COUNT(specials); i++) {
		const struct special *row = &specials[i];
		if (row->keysym != keysym)
			continue;
		fill(ret, row->key, row->code, row->number);
		ret->location = row->location;
		ret->modifier = row->modifier;
		snprintf(ret->text, sizeof ret->text, "%s", row->text);
		return true;
	}
	return false;
}

static bool fill_numbered(uint32_t keysym, struct web_key *ret)
{
	char key[24], code[24];
	bool is_function = keysym >= F1 && keysym <= F24;
	int nth = (int)(keysym - (is_function ? F1 - 1 : KEYPAD_0));
	if (!is_function && !(keysym >= KEYPAD_0 && keysym <= KEYPAD_9))
		return false;
	snprintf(key, sizeof key, is_function ? "F%d" : "%d", nth);
	snprintf(code, sizeof code, is_function ? "F%d" : "Numpad%d", nth);
	fill(ret, key, code, (is_function ? 111 : 96) + nth);
	ret->location = is_function ? 0 : 3;
	if (!is_function)
		*ret->text = *key;
	return true;
}

static void fill_char(struct web_key *ret, char c, const char *code, int number, bool shifted)
{
	const char text[] = { c, 0 };
	fill(ret, text, code, number);
	memcpy(ret->text, text, sizeof text);
	ret->shifted = shifted;
}

bool web_key_of(uint32_t c, struct web_key *ret)
{
	if (c == '\n' || c == '\r')
		return fill_special(0xff0d, ret);
	if (c == '\t')
		return fill_special(0xff09, ret);
	if (c < 0x80 && isalpha((int)c)) {
		const char code[] = { 'K', 'e', 'y', (char)toupper((int)c), 0 };
		fill_char(ret, (char)c, code, toupper((int)c), isupper((int)c));
		return true;
	}
	for (size_t i = 0; i < COUNT(plains); i++)
		if (c == (uint32_t)plains[i].plain || c == (uint32_t)plains[i].shifted) {
			fill_char(ret, (char)c, plains[i].code, plains[i].number,
				  c != (uint32_t)plains[i].plain);
			return true;
		}
	return false;
}

/* "Digit1", as KeyboardEvent.code has it; those of letters are among desktop/keys.h. */
static bool is_digit(const char *name)
{
	return !strncasecmp(name, "digit", 5) && isdigit((unsigned char)name[5]) && !name[6];
}

/* A character, of whatever script: where no key of the layout types it, only its text counts. */
static void fill_text(const char *text, struct web_key *ret)
{
	fill(ret, text, "", 0);
	snprintf(ret->text, sizeof ret->text, "%s", text);
}

int web_key_named(const char *name, struct web_key *ret, struct err *err)
{
	size_t len = strlen(name);
	if (is_digit(name))
		name += 5, len = 1;
	if (len == 1 && web_key_of((unsigned char)*name, ret))
		return 0;
	if (len > 1 && utf8_char(name, len) == len) {
		fill_text(name, ret);
		return 0;
	}
	uint32_t keysym = key_named(name, err);
	if (!keysym)
		return -1;
	if (fill_special(keysym, ret) || fill_numbered(keysym, ret) || web_key_of(keysym, ret))
		return 0;
	return err_set(err, ERR_INVALID, "the key '%.100s' is not one that pages know", name);
}

size_t web_keys_parse(const char *text, struct web_key ret[WEB_KEYS_MAX], struct err *err)
{
	size_t count = 0;
	const char *at = text;
	do {
		if (count == WEB_KEYS_MAX) {
			err_set(err, ERR_INVALID, "'%.100s' has more than %d keys", text,
				WEB_KEYS_MAX);
			return 0;
		}
		size_t len = *at == '+' ? 1 : strcspn(at, "+"); /* "Control++" */
		auto_free char *name = xstrndup(at, len);
		if (web_key_named(name, &ret[count++], err) < 0)
			return 0;
		at += len;
	} while (*at++ == '+' && (*at || at[-2] != '+'));
	return count;
}
