#include "desktop/x_setup.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "desktop/x_wire.h"

enum {
	FAILED = 0,
	SUCCESS = 1,
	FIXED = 40, /* what all answers have before the vendor's name */
	FORMAT = 8,
	SCREEN = 40,
	DEPTH = 8,
	VISUAL = 24,
	TRUE_COLOR = 4,
	PIXEL_BITS = 32,
	LITTLE_ENDIAN_FIRST = 0,
};

static const char method[] = "MIT-MAGIC-COOKIE-1";

void x_setup_ask(struct buf *to, const unsigned char cookie[X_COOKIE])
{
	enum { NAME = sizeof method - 1 };
	unsigned char ask[12 + NAME + 2 + X_COOKIE] = { 'l', 0, 11, 0, 0, 0, NAME, 0, X_COOKIE };
	memcpy(ask + 12, method, NAME);
	memcpy(ask + sizeof ask - X_COOKIE, cookie, X_COOKIE);
	(void)buf_add(to, ask, sizeof ask);
}

static int refused(const unsigned char *data, size_t len, struct err *err)
{
	size_t said = data[0] == FAILED && data[1] <= len - X_SETUP_HEAD ? data[1] : 0;
	char reason[256] = "";
	for (size_t i = 0; i < said; i++) {
		unsigned char c = data[X_SETUP_HEAD + i];
		reason[i] = (char)(c >= ' ' && c < 127 ? c : ' ');
	}
	return err_set(err, ERR_UNAVAILABLE, "the X server refused the connection: %s", reason);
}

static int cut(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "the X server's setup response is malformed");
}

/* Whether pixels of that depth have 32 bits. */
static bool is_wide(const unsigned char *formats, unsigned count, unsigned depth)
{
	for (unsigned i = 0; i < count; i++)
		if (formats[i * FORMAT] == depth)
			return formats[i * FORMAT + 1] == PIXEL_BITS;
	return false;
}

/* Whether the root's visual, in the list of depths, has red, green and blue where BGRX has them. */
static bool is_bgrx(const unsigned char *screen, const unsigned char *end)
{
	uint32_t wanted = x_get32(screen + 32);
	const unsigned char *at = screen + SCREEN;
	for (unsigned depths = screen[39]; depths && end - at >= DEPTH; depths--) {
		unsigned visuals = x_get16(at + 2);
		at += DEPTH;
		for (; visuals && end - at >= VISUAL; visuals--, at += VISUAL)
			if (x_get32(at) == wanted)
				return at[4] == TRUE_COLOR && x_get32(at + 8) == 0xff0000 &&
				       x_get32(at + 12) == 0xff00 && x_get32(at + 16) == 0xff;
		if (visuals)
			return false;
	}
	return false;
}

static int read_screen(const unsigned char *screen, const unsigned char *end, struct x_setup *ret)
{
	ret->root = x_get32(screen);
	ret->width = x_get16(screen + 20);
	ret->height = x_get16(screen + 22);
	ret->depth = screen[38];
	return is_bgrx(screen, end) ? 0 : -1;
}

int x_setup_read(const unsigned char *data, size_t len, struct x_setup *ret, struct err *err)
{
	if (len < X_SETUP_HEAD)
		return cut(err);
	if (data[0] != SUCCESS)
		return refused(data, len, err);
	if (len < FIXED)
		return cut(err);
	size_t formats = FIXED + ((size_t)(x_get16(data + 24) + 3) & ~(size_t)3);
	size_t screen = formats + (size_t)data[29] * FORMAT;
	if (!data[28] || screen + SCREEN > len)
		return cut(err);
	*ret = (struct x_setup){ .id_base = x_get32(data + 12),
				 .id_mask = x_get32(data + 16),
				 .first_keycode = data[34],
				 .last_keycode = data[35] };
	if (ret->first_keycode < 8 || ret->first_keycode > ret->last_keycode || !ret->id_mask)
		return cut(err);
	if (read_screen(data + screen, data + len, ret) < 0 || data[30] != LITTLE_ENDIAN_FIRST ||
	    !is_wide(data + formats, data[29], ret->depth))
		return err_set(err, ERR_UNAVAILABLE,
			       "the X server's screen is not true colour with 32 bits a pixel");
	return 0;
}
