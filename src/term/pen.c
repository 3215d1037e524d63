#include "term/pen.h"

#include <stddef.h>

#include "base/buf.h"
#include "base/own.h"
#include "term/seq.h"

static const struct rendition {
	int code;
	uint32_t clear, set;
} renditions[] = {
	{ 1, 0, PEN_BOLD },
	{ 2, 0, PEN_DIM },
	{ 3, 0, PEN_ITALIC },
	{ 4, PEN_UNDERLINES, PEN_UNDERLINE },
	{ 5, 0, PEN_BLINK },
	{ 6, 0, PEN_BLINK },
	{ 7, 0, PEN_REVERSE },
	{ 8, 0, PEN_HIDDEN },
	{ 9, 0, PEN_STRIKE },
	{ 21, PEN_UNDERLINES, 2 * PEN_UNDERLINE },
	{ 22, PEN_BOLD | PEN_DIM, 0 },
	{ 23, PEN_ITALIC, 0 },
	{ 24, PEN_UNDERLINES, 0 },
	{ 25, PEN_BLINK, 0 },
	{ 27, PEN_REVERSE, 0 },
	{ 28, PEN_HIDDEN, 0 },
	{ 29, PEN_STRIKE, 0 },
	{ 53, 0, PEN_OVERLINE },
	{ 55, PEN_OVERLINE, 0 },
};

static int clamp(int n, int low, int high)
{
	return n < low ? low : n > high ? high : n;
}

static uint32_t byte(const struct seq *seq, int n)
{
	return (uint32_t)clamp(seq_param(seq, n, 0), 0, 255);
}

/* The colour after a 38, 48 or 58 at `at`: 5;N or 2;R;G;B, or with colons, up to end, 5:N, 2:R:G:B
 * or 2:SPACE:R:G:B. Returns where the next rendition is. */
static int extended_color(const struct seq *seq, int at, int end, uint32_t *color)
{
	int kind = seq_param(seq, at + 1, 0), values = kind == 2 ? 3 : 1, first = at + 2;
	if (kind != 2 && kind != 5)
		return end > at + 1 ? end : at + 2;
	if (end == at + 1)
		end = first + values;
	else if (kind == 2 && end - first > 3)
		first++;
	if (first + values > seq->count || first + values > end)
		return end;
	if (kind == 5)
		*color = COLOR_INDEX | byte(seq, first);
	else
		*color = COLOR_RGB | byte(seq, first) << 16 | byte(seq, first + 1) << 8 |
			 byte(seq, first + 2);
	return end;
}

static void basic_color(struct pen *pen, int code)
{
	bool bg = code / 10 % 2 == 0; /* 4x and 10x, against 3x and 9x */
	uint32_t *color = bg ? &pen->bg : &pen->fg;
	if (code % 10 < 8)
		*color = COLOR_INDEX | (uint32_t)(code % 10 + (code >= 90 ? 8 : 0));
	else if (code == 39 || code == 49)
		*color = 0;
}

/* Applies the rendition at a parameter, and returns where the next is. */
static int rendition(struct pen *pen, const struct seq *seq, int at)
{
	uint32_t ignored;
	int code = seq_param(seq, at, 0), end = at + 1;
	while (end < seq->count && seq->sub >> end & 1)
		end++;
	if (code == 0)
		*pen = (struct pen){ 0 };
	else if (code == 38)
		return extended_color(seq, at, end, &pen->fg);
	else if (code == 48)
		return extended_color(seq, at, end, &pen->bg);
	else if (code == 58)
		return extended_color(seq, at, end, &ignored);
	else if ((code >= 30 && code < 50) || (code >= 90 && code < 110))
		basic_color(pen, code);
	for (size_t i = 0; i < COUNT(renditions); i++)
		if (renditions[i].code == code)
			pen->attrs = (pen->attrs & ~renditions[i].clear) | renditions[i].set;
	if (code == 4 && end > at + 1) {
		uint32_t style = (uint32_t)clamp(seq_param(seq, at + 1, 1), 0, 5);
		pen->attrs = (pen->attrs & ~(uint32_t)PEN_UNDERLINES) | style * PEN_UNDERLINE;
	}
	return end;
}

void pen_select(struct pen *pen, const struct seq *seq)
{
	int at = 0;
	do
		at = rendition(pen, seq, at);
	while (at < seq->count);
}

static int add_color(struct buf *to, int base, uint32_t color)
{
	unsigned r = color >> 16 & 255, g = color >> 8 & 255, b = color & 255;
	if (color & COLOR_RGB)
		return buf_printf(to, ";%d;2;%u;%u;%u", base + 8, r, g, b);
	if (!(color & COLOR_INDEX))
		return 0;
	if (b < 8)
		return buf_printf(to, ";%d", base + (int)b);
	if (b < 16)
		return buf_printf(to, ";%d", base + 60 + (int)b - 8);
	return buf_printf(to, ";%d;5;%u", base + 8, b);
}

int pen_write(const struct pen *pen, struct buf *to)
{
	uint32_t left = pen->attrs & ~(uint32_t)PEN_UNDERLINES;
	unsigned style = (pen->attrs & PEN_UNDERLINES) / PEN_UNDERLINE;
	(void)buf_str(to, "\033[0");
	for (size_t i = 0; i < COUNT(renditions); i++) {
		uint32_t set = renditions[i].set & left;
		if (set)
			(void)buf_printf(to, ";%d", renditions[i].code);
		left &= ~set;
	}
	if (style == 1)
		(void)buf_str(to, ";4");
	else if (style)
		(void)buf_printf(to, ";4:%u", style);
	(void)add_color(to, 30, pen->fg);
	(void)add_color(to, 40, pen->bg);
	return buf_str(to, "m");
}
