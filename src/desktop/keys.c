#include "desktop/keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/own.h"
#include "base/utf8.h"

enum { F1 = 0xffbe, F_MOST = 35, UNICODE = 0x1000000 };

/* clang-format off */
static const struct key_name {
	const char *name;
	uint32_t keysym;
} names[] = {
	{ "Return", 0xff0d },
	{ "enter", 0xff0d },
	{ "Escape", 0xff1b },
	{ "esc", 0xff1b },
	{ "Tab", 0xff09 },
	{ "space", 0x20 },
	{ "spacebar", 0x20 },
	{ "BackSpace", 0xff08 },
	{ "Delete", 0xffff },
	{ "del", 0xffff },
	{ "Insert", 0xff63 },
	{ "ins", 0xff63 },
	{ "Home", 0xff50 },
	{ "End", 0xff57 },
	{ "Page_Up", 0xff55 },
	{ "PageUp", 0xff55 },
	{ "pgup", 0xff55 },
	{ "Prior", 0xff55 },
	{ "Page_Down", 0xff56 },
	{ "PageDown", 0xff56 },
	{ "pgdn", 0xff56 },
	{ "Next", 0xff56 },
	{ "Left", 0xff51 },
	{ "ArrowLeft", 0xff51 },
	{ "Up", 0xff52 },
	{ "ArrowUp", 0xff52 },
	{ "Right", 0xff53 },
	{ "ArrowRight", 0xff53 },
	{ "Down", 0xff54 },
	{ "ArrowDown", 0xff54 },
	{ "Control_L", 0xffe3 },
	{ "ctrl", 0xffe3 },
	{ "control", 0xffe3 },
	{ "ControlLeft", 0xffe3 },
	{ "ctrlleft", 0xffe3 },
	{ "Control_R", 0xffe4 },
	{ "ControlRight", 0xffe4 },
	{ "ctrlright", 0xffe4 },
	{ "Shift_L", 0xffe1 },
	{ "shift", 0xffe1 },
	{ "ShiftLeft", 0xffe1 },
	{ "Shift_R", 0xffe2 },
	{ "ShiftRight", 0xffe2 },
	{ "Alt_L", 0xffe9 },
	{ "alt", 0xffe9 },
	{ "AltLeft", 0xffe9 },
	{ "option", 0xffe9 },
	{ "optionleft", 0xffe9 },
	{ "Alt_R", 0xffea },
	{ "AltRight", 0xffea },
	{ "optionright", 0xffea },
	{ "ISO_Level3_Shift", 0xfe03 },
	{ "AltGraph", 0xfe03 },
	{ "altgr", 0xfe03 },
	{ "Super_L", 0xffeb },
	{ "super", 0xffeb },
	{ "meta", 0xffeb },
	{ "MetaLeft", 0xffeb },
	{ "win", 0xffeb },
	{ "winleft", 0xffeb },
	{ "windows", 0xffeb },
	{ "cmd", 0xffeb },
	{ "command", 0xffeb },
	{ "os", 0xffeb },
	{ "OSLeft", 0xffeb },
	{ "Super_R", 0xffec },
	{ "MetaRight", 0xffec },
	{ "winright", 0xffec },
	{ "OSRight", 0xffec },
	{ "Meta_L", 0xffe7 },
	{ "Meta_R", 0xffe8 },
	{ "Hyper_L", 0xffed },
	{ "hyper", 0xffed },
	{ "Hyper_R", 0xffee },
	{ "Caps_Lock", 0xffe5 },
	{ "CapsLock", 0xffe5 },
	{ "Num_Lock", 0xff7f },
	{ "NumLock", 0xff7f },
	{ "Scroll_Lock", 0xff14 },
	{ "ScrollLock", 0xff14 },
	{ "Pause", 0xff13 },
	{ "Break", 0xff6b },
	{ "Print", 0xff61 },
	{ "PrintScreen", 0xff61 },
	{ "prntscrn", 0xff61 },
	{ "prtsc", 0xff61 },
	{ "prtscr", 0xff61 },
	{ "Sys_Req", 0xff15 },
	{ "Menu", 0xff67 },
	{ "ContextMenu", 0xff67 },
	{ "apps", 0xff67 },
	{ "Help", 0xff6a },
	{ "Undo", 0xff65 },
	{ "Redo", 0xff66 },
	{ "Find", 0xff68 },
	{ "Cancel", 0xff69 },
	{ "Clear", 0xff0b },
	{ "Linefeed", 0xff0a },
	{ "ISO_Left_Tab", 0xfe20 },
	{ "backtab", 0xfe20 },
	{ "Select", 0xff60 },
	{ "Execute", 0xff62 },
	{ "Mode_switch", 0xff7e },
	{ "Multi_key", 0xff20 },
	{ "Compose", 0xff20 },
	{ "KP_0", 0xffb0 },
	{ "Numpad0", 0xffb0 },
	{ "num0", 0xffb0 },
	{ "KP_1", 0xffb1 },
	{ "Numpad1", 0xffb1 },
	{ "num1", 0xffb1 },
	{ "KP_2", 0xffb2 },
	{ "Numpad2", 0xffb2 },
	{ "num2", 0xffb2 },
	{ "KP_3", 0xffb3 },
	{ "Numpad3", 0xffb3 },
	{ "num3", 0xffb3 },
	{ "KP_4", 0xffb4 },
	{ "Numpad4", 0xffb4 },
	{ "num4", 0xffb4 },
	{ "KP_5", 0xffb5 },
	{ "Numpad5", 0xffb5 },
	{ "num5", 0xffb5 },
	{ "KP_6", 0xffb6 },
	{ "Numpad6", 0xffb6 },
	{ "num6", 0xffb6 },
	{ "KP_7", 0xffb7 },
	{ "Numpad7", 0xffb7 },
	{ "num7", 0xffb7 },
	{ "KP_8", 0xffb8 },
	{ "Numpad8", 0xffb8 },
	{ "num8", 0xffb8 },
	{ "KP_9", 0xffb9 },
	{ "Numpad9", 0xffb9 },
	{ "num9", 0xffb9 },
	{ "Digit0", 0x30 },
	{ "Digit1", 0x31 },
	{ "Digit2", 0x32 },
	{ "Digit3", 0x33 },
	{ "Digit4", 0x34 },
	{ "Digit5", 0x35 },
	{ "Digit6", 0x36 },
	{ "Digit7", 0x37 },
	{ "Digit8", 0x38 },
	{ "Digit9", 0x39 },
	{ "KP_Enter", 0xff8d },
	{ "NumpadEnter", 0xff8d },
	{ "KP_Add", 0xffab },
	{ "NumpadAdd", 0xffab },
	{ "add", 0xffab },
	{ "KP_Subtract", 0xffad },
	{ "NumpadSubtract", 0xffad },
	{ "subtract", 0xffad },
	{ "KP_Multiply", 0xffaa },
	{ "NumpadMultiply", 0xffaa },
	{ "multiply", 0xffaa },
	{ "KP_Divide", 0xffaf },
	{ "NumpadDivide", 0xffaf },
	{ "divide", 0xffaf },
	{ "KP_Decimal", 0xffae },
	{ "NumpadDecimal", 0xffae },
	{ "decimal", 0xffae },
	{ "KP_Equal", 0xffbd },
	{ "NumpadEqual", 0xffbd },
	{ "KP_Separator", 0xffac },
	{ "separator", 0xffac },
	{ "NumpadComma", 0xffac },
	{ "KP_Home", 0xff95 },
	{ "KP_Left", 0xff96 },
	{ "KP_Up", 0xff97 },
	{ "KP_Right", 0xff98 },
	{ "KP_Down", 0xff99 },
	{ "KP_Prior", 0xff9a },
	{ "KP_Next", 0xff9b },
	{ "KP_End", 0xff9c },
	{ "KP_Begin", 0xff9d },
	{ "KP_Insert", 0xff9e },
	{ "KP_Delete", 0xff9f },
	{ "KP_Page_Up", 0xff9a },
	{ "KP_Page_Down", 0xff9b },
	{ "exclam", 0x21 },
	{ "quotedbl", 0x22 },
	{ "numbersign", 0x23 },
	{ "dollar", 0x24 },
	{ "percent", 0x25 },
	{ "ampersand", 0x26 },
	{ "apostrophe", 0x27 },
	{ "quote", 0x27 },
	{ "parenleft", 0x28 },
	{ "parenright", 0x29 },
	{ "asterisk", 0x2a },
	{ "plus", 0x2b },
	{ "comma", 0x2c },
	{ "minus", 0x2d },
	{ "period", 0x2e },
	{ "slash", 0x2f },
	{ "colon", 0x3a },
	{ "semicolon", 0x3b },
	{ "less", 0x3c },
	{ "equal", 0x3d },
	{ "greater", 0x3e },
	{ "question", 0x3f },
	{ "at", 0x40 },
	{ "bracketleft", 0x5b },
	{ "backslash", 0x5c },
	{ "bracketright", 0x5d },
	{ "asciicircum", 0x5e },
	{ "underscore", 0x5f },
	{ "grave", 0x60 },
	{ "backquote", 0x60 },
	{ "backtick", 0x60 },
	{ "braceleft", 0x7b },
	{ "bar", 0x7c },
	{ "braceright", 0x7d },
	{ "asciitilde", 0x7e },
	{ "EuroSign", 0x20ac },
	{ "degree", 0xb0 },
	{ "section", 0xa7 },
	{ "sterling", 0xa3 },
	{ "XF86AudioLowerVolume", 0x1008ff11 },
	{ "AudioVolumeDown", 0x1008ff11 },
	{ "volumedown", 0x1008ff11 },
	{ "XF86AudioMute", 0x1008ff12 },
	{ "AudioVolumeMute", 0x1008ff12 },
	{ "volumemute", 0x1008ff12 },
	{ "XF86AudioRaiseVolume", 0x1008ff13 },
	{ "AudioVolumeUp", 0x1008ff13 },
	{ "volumeup", 0x1008ff13 },
	{ "XF86AudioPlay", 0x1008ff14 },
	{ "MediaPlayPause", 0x1008ff14 },
	{ "playpause", 0x1008ff14 },
	{ "XF86AudioStop", 0x1008ff15 },
	{ "MediaStop", 0x1008ff15 },
	{ "stop", 0x1008ff15 },
	{ "XF86AudioPrev", 0x1008ff16 },
	{ "MediaTrackPrevious", 0x1008ff16 },
	{ "prevtrack", 0x1008ff16 },
	{ "XF86AudioNext", 0x1008ff17 },
	{ "MediaTrackNext", 0x1008ff17 },
	{ "nexttrack", 0x1008ff17 },
	{ "XF86HomePage", 0x1008ff18 },
	{ "BrowserHome", 0x1008ff18 },
	{ "XF86Search", 0x1008ff1b },
	{ "BrowserSearch", 0x1008ff1b },
	{ "XF86Back", 0x1008ff26 },
	{ "BrowserBack", 0x1008ff26 },
	{ "XF86Forward", 0x1008ff27 },
	{ "BrowserForward", 0x1008ff27 },
	{ "XF86Stop", 0x1008ff28 },
	{ "BrowserStop", 0x1008ff28 },
	{ "XF86Refresh", 0x1008ff29 },
	{ "BrowserRefresh", 0x1008ff29 },
	{ "XF86Favorites", 0x1008ff30 },
	{ "BrowserFavorites", 0x1008ff30 },
	{ "XF86Reload", 0x1008ff73 },
};

uint32_t key_of_char(uint32_t c)
{
	static const struct {
		uint32_t c, keysym;
	} controls[] = { { '\n', KEY_RETURN }, { '\r', KEY_RETURN }, { '\t', 0xff09 },
			 { '\b', 0xff08 },     { 0x1b, 0xff1b },     { 0x7f, 0xffff } };
	for (size_t i = 0; i < COUNT(controls); i++)
		if (controls[i].c == c)
			return controls[i].keysym;
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return 0;
	return c < 0x100 ? c : UNICODE + c;
}

static uint32_t decode(const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;
	if (len == 1)
		return at[0];
	uint32_t c = at[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (at[i] & 0x3f);
	return c;
}

/* "F12"; "KeyA". */
static uint32_t numbered(const char *name)
{
	char *end;
	if ((*name == 'F' || *name == 'f') && name[1] >= '1' && name[1] <= '9') {
		long n = strtol(name + 1, &end, 10);
		return *end || n > F_MOST ? 0 : F1 + (uint32_t)n - 1;
	}
	if (strncasecmp(name, "key", 3) || strlen(name) != 4)
		return 0;
	char letter = (char)(name[3] | 0x20);
	return letter >= 'a' && letter <= 'z' ? (uint32_t)letter : 0;
}

static int unknown(const char *name, struct err *err)
{
	size_t best = NEAREST_FAR;
	const char *meant = NULL;
	for (size_t i = 0; i < COUNT(names); i++)
		if (nearest_better(name, names[i].name, &best))
			meant = names[i].name;
	return err_set(err, ERR_INVALID,
		       "unknown key '%.40s': expected a name such as 'Enter', 'Tab', 'ctrl' or "
		       "'F5', or one character%s%s%s",
		       name, meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

uint32_t key_named(const char *name, struct err *err)
{
	size_t len = strlen(name), first = len ? utf8_char(name, len) : 0;
	uint32_t keysym = 0;
	if (first && first == len)
		keysym = key_of_char(decode(name, len));
	for (size_t i = 0; i < COUNT(names) && !keysym; i++)
		if (!strcasecmp(names[i].name, name))
			keysym = names[i].keysym;
	if (!keysym)
		keysym = numbered(name);
	if (!keysym)
		(void)unknown(name, err);
	return keysym;
}
