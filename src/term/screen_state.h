/* screen_state.h - what a screen consists of; for screen.c and screen_replay.c only. */
#pragma once
#include "term/grid.h"
#include "term/screen.h"
#include "term/seq.h"

enum mode {
	MODE_INSERT = 1 << 0,
	MODE_NEWLINE = 1 << 1, /* LF also returns the carriage */
	MODE_CURSOR_KEYS = 1 << 2,
	MODE_REVERSE = 1 << 3,
	MODE_ORIGIN = 1 << 4, /* positions count from the scroll region's top */
	MODE_WRAP = 1 << 5,
	MODE_CURSOR = 1 << 6, /* is visible */
	MODE_FOCUS = 1 << 7,
	MODE_PASTE = 1 << 8,
	MODE_KEYPAD = 1 << 9,
	MODE_DEFAULT = MODE_WRAP | MODE_CURSOR,
};

/* The switches of CSI h and CSI l. */
struct screen_mode {
	int number;
	char prefix; /* '?' or 0 */
	unsigned bit;
};
extern const struct screen_mode screen_modes[];
extern const int screen_modes_count;

/* What DECSC saves. */
struct cursor {
	int col, row;
	bool wrap;       /* in the last column, which is written: the next character wraps first */
	bool shifted;    /* G1 is in use, not G0 */
	bool drawing[2]; /* G0 and G1 are line drawing characters */
	struct pen pen;
};

struct screen {
	int cols, rows;
	struct seq seq;
	struct cursor cursor;
	struct grid primary, alternate, *grid; /* the one in use */
	struct cursor saved[2];                /* of the primary, and of the alternate */
	struct history history;
	int top, bottom; /* of the scroll region; bottom is the row below it */
	unsigned modes;
	int mouse, mouse_encoding, cursor_style; /* as CSI ? h and CSI q set them; 0 by default */
	int32_t last;                            /* character that was written, for CSI b */
	bool tabs[SCREEN_COLS_MAX];
	void (*answer)(void *arg, const char *data, size_t len);
	void *answer_arg;
};

static inline bool screen_has(const struct screen *screen, enum mode mode)
{
	return screen->modes & mode;
}
