/* Typing a text: by keys, or by pasting it, whichever gives exactly that text. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "desktop/gui_hand.h"
#include "desktop/keys.h"
#include "desktop/x_protocol.h"

enum {
	PASTE_MS = 1500,     /* for a program to ask for what it is to paste */
	TRANSFER_MS = 20000, /* for a long one */
	LONG = 64 << 10,
	PARENTS = 16, /* of a window, up to the one that has a class */
	KEYS_MAX = 20000,
};

/* ---- who has the focus ---- */

enum taker { TAKES_KEYS, TAKES_PASTE, TERMINAL };

/* Parts of the classes of terminals, which paste another selection by another key, and of which a paste
 * may not be what typing is. */
static const char *const terminals[] = { "xterm",      "rxvt",      "terminal",    "konsole",
					 "kitty",      "alacritty", "st-256color", "tilix",
					 "terminator", "wezterm",   "foot",        "guake" };

static enum taker taker_of(const struct x_property *class)
{
	char name[256];
	size_t len = class->len < sizeof name ? class->len : sizeof name - 1;
	for (size_t i = 0; i < len; i++)
		name[i] = (char)(class->data[i] ? class->data[i] : ' ');
	name[len] = 0;
	for (size_t i = 0; i < COUNT(terminals); i++)
		if (strcasestr(name, terminals[i]))
			return TERMINAL;
	return TAKES_PASTE;
}

static uint32_t parent_of(struct gui *gui, uint32_t window)
{
	struct x_packet packet;
	x_link_put(&gui->link, X_QUERY_TREE, 0, &window, 1);
	if (x_link_reply(&gui->link, X_PACKET, &packet, gui->wait, NULL) < 0)
		return 0;
	return x_get32(packet.data + 12);
}

static enum taker find_taker(struct gui *gui)
{
	struct x_packet packet;
	struct x_property class;
	x_link_put(&gui->link, X_GET_INPUT_FOCUS, 0, NULL, 0);
	if (x_link_reply(&gui->link, X_PACKET, &packet, gui->wait, NULL) < 0)
		return TAKES_KEYS;
	uint32_t window = x_get32(packet.data + 8);
	for (int i = 0; i < PARENTS && window > 1 && window != gui->link.setup.root; i++) {
		if (x_link_property(&gui->link, window, X_WM_CLASS, false, 64, &class, gui->wait,
				    NULL) == 0 &&
		    class.len)
			return taker_of(&class);
		window = parent_of(gui, window);
	}
	return TAKES_KEYS;
}

/* ---- by the clipboard ---- */

static int press_paste(struct gui *gui, bool terminal, struct err *err)
{
	const uint32_t insert[] = { KEY_SHIFT, KEY_INSERT }, v[] = { KEY_CONTROL, 'v' };
	return gui_keys(gui, terminal ? insert : v, 2, true, true, err);
}

/* 1: somebody has taken it; 0: nobody has, and nobody can any more. */
static int paste(struct gui *gui, const char *text, size_t len, bool terminal, struct err *err)
{
	struct wait wait = *gui->wait;
	int64_t until_ms = clock_ms() + (len > LONG ? TRANSFER_MS : PASTE_MS);
	wait.until_ms = until_ms < wait.until_ms ? until_ms : wait.until_ms;
	if (clipboard_offer(gui->clipboard, terminal ? PRIMARY : CLIPBOARD, text, len, gui->wait,
			    err) < 0)
		return -1;
	if (press_paste(gui, terminal, err) < 0) {
		clipboard_back(gui->clipboard, true);
		return -1;
	}
	enum wake wake = clipboard_await(gui->clipboard, &wait);
	clipboard_back(gui->clipboard, wake != WAKE_READY);
	if (wake == WAKE_READY || wake == WAKE_TIMEOUT)
		return wake == WAKE_READY;
	return wake_err(wake, err);
}

/* ---- by keys ---- */

static uint32_t next_keysym(const char **at, const char *end)
{
	size_t len = utf8_char(*at, (size_t)(end - *at));
	const unsigned char *c = (const unsigned char *)*at;
	uint32_t value = len == 1 ? c[0] : c[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++)
		value = value << 6 | (c[i] & 0x3f);
	*at += len ? len : 1;
	if (value == '\r' && *at < end && **at == '\n')
		(*at)++;
	return len ? key_of_char(value) : 0;
}

/* The keysyms of a text, of which there are at most len. -1 with err: no key gives one of the characters. */
static int get_keysyms(const char *text, size_t len, uint32_t *ret, size_t *ret_count,
		       struct err *err)
{
	*ret_count = 0;
	for (const char *at = text; at < text + len;) {
		ret[*ret_count] = next_keysym(&at, text + len);
		if (!ret[(*ret_count)++])
			return err_set(err, ERR_INVALID,
				       "no key gives the control character at %zu",
				       (size_t)(at - text));
	}
	return 0;
}

static int type_keysyms(struct gui *gui, const char *text, size_t len, bool only_if_there,
			struct err *err)
{
	size_t count;
	auto_free uint32_t *keysyms = xmalloc(len * sizeof *keysyms);
	if (get_keysyms(text, len, keysyms, &count, err) < 0)
		return only_if_there ? 0 : -1;
	if (only_if_there && !gui_has_keys(gui, keysyms, count))
		return 0;
	if (count > KEYS_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "the text has %zu characters: at most %d are typed by keys", count,
			       KEYS_MAX);
	return gui_type_keys(gui, keysyms, count, err) < 0 ? -1 : 1;
}

static bool fits_keys(struct gui *gui, const char *text, size_t len)
{
	size_t count;
	auto_free uint32_t *keysyms = xmalloc(len * sizeof *keysyms);
	if (get_keysyms(text, len, keysyms, &count, NULL) < 0)
		return false;
	return count <= KEYS_MAX && gui_fits_keys(gui, keysyms, count);
}

static int type_plain(struct gui *gui, const char *text, size_t len, struct err *err)
{
	return type_keysyms(gui, text, len, false, err) < 0 ? -1 : 0;
}

/* ---- both ---- */

static int paste_or_type(struct gui *gui, const char *text, size_t len, bool terminal,
			 struct err *err)
{
	int pasted = paste(gui, text, len, terminal, err);
	return pasted ? (pasted < 0 ? -1 : 0) : type_plain(gui, text, len, err);
}

/* Of a line that is pasted, a shell would take the end for a character: it is a key. */
static int type_line(struct gui *gui, const char *line, size_t len, struct err *err)
{
	int typed = len ? type_keysyms(gui, line, len, true, err) : 1;
	return typed ? (typed < 0 ? -1 : 0) : paste_or_type(gui, line, len, true, err);
}

static int type_lines(struct gui *gui, const char *text, size_t len, struct err *err)
{
	for (const char *at = text, *end = text + len; at < end;) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((line ? line : end) - at);
		size_t ending = line && length && line[-1] == '\r'; /* with the line feed one key */
		if (type_line(gui, at, length - ending, err) < 0)
			return -1;
		if (line && type_plain(gui, "\n", 1, err) < 0)
			return -1;
		at += length + 1;
	}
	return 0;
}

int gui_type(struct gui *gui, const char *text, size_t len, bool by_clipboard, struct err *err)
{
	bool keys = !by_clipboard && fits_keys(gui, text, len);
	enum taker taker = keys ? TAKES_KEYS : find_taker(gui);
	if (taker == TAKES_PASTE)
		return paste_or_type(gui, text, len, false, err);
	return taker == TERMINAL ? type_lines(gui, text, len, err)
				 : type_plain(gui, text, len, err);
}
