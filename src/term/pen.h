/* pen.h - the colours and attributes that text is written with. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct seq;

/* 0 is the terminal's own colour, else it is COLOR_INDEX | 0..255 or COLOR_RGB | 0xrrggbb. */
enum { COLOR_INDEX = 1 << 24, COLOR_RGB = 2 << 24 };

enum {
	PEN_BOLD = 1 << 0,
	PEN_DIM = 1 << 1,
	PEN_ITALIC = 1 << 2,
	PEN_BLINK = 1 << 3,
	PEN_REVERSE = 1 << 4,
	PEN_HIDDEN = 1 << 5,
	PEN_STRIKE = 1 << 6,
	PEN_OVERLINE = 1 << 7,
	PEN_UNDERLINE =
		1 << 8, /* times the style: 1 single, 2 double, 3 curly, 4 dotted, 5 dashed */
	PEN_UNDERLINES = 7 << 8,
};

struct pen {
	uint32_t fg, bg, attrs;
};

static inline bool pen_equal(const struct pen *a, const struct pen *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->attrs == b->attrs;
}

/* Applies a CSI m. */
void pen_select(struct pen *pen, const struct seq *seq);

/* Appends the CSI m that sets exactly this. -1 once `to` is full. */
int pen_write(const struct pen *pen, struct buf *to);
