/*
 * grid.h - rows of cells: what a terminal shows, and the lines that scrolled off its top.
 *
 * A row holds cells only as far as something was written; the rest is blank, in one colour. So
 * clearing, scrolling and a big empty screen cost next to nothing.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "term/pen.h"

enum { CELL_CHARS = 4, CELL_TAIL = -1 };

struct cell {
	int32_t chars
		[CELL_CHARS]; /* with its marks; 0: blank, CELL_TAIL: right half of a wide one */
	struct pen pen;
};

struct row {
	struct cell *cells;
	int used, room;
	uint32_t fill; /* the background from used on */
};

/* Writes a character that is 1 or 2 columns wide. */
void row_put(struct row *row, int col, int32_t c, int width, const struct pen *pen);

/* Joins a mark to the character left of col, if there is one. */
void row_join(struct row *row, int col, int32_t mark);

/* Blanks columns; end may be the width of the screen. */
void row_erase(struct row *row, int col, int end, int cols, uint32_t bg);

/* Shifts what is at col, and right of it, by n columns; what comes in is blank. */
void row_insert(struct row *row, int col, int n, int cols, uint32_t bg);
void row_delete(struct row *row, int col, int n, int cols, uint32_t bg);

/* Up to where there is more to be seen than the one background that the rest has. */
int row_visible(const struct row *row, int cols, uint32_t *ret_bg);

static inline void row_clear(struct row *row, uint32_t bg)
{
	row->used = 0;
	row->fill = bg;
}

/* The lines that scrolled off, oldest first at `first`. */
enum { HISTORY_MAX = 1000 };

struct history {
	struct row *rows; /* a ring of HISTORY_MAX */
	int first, count;
};

/* Takes the row, and gives back one to be cleared. */
void history_push(struct history *history, struct row *row);
bool history_pop(struct history *history, struct row *ret_row);
const struct row *history_at(const struct history *history, int n);
void history_clear(struct history *history);

struct grid {
	struct row *rows;
	int count;
};

/* Moves the rows from top to bottom (not included) up by n, or down where n is negative. What goes
 * off the top goes to history, unless that is NULL. */
void grid_scroll(struct grid *grid, int top, int bottom, int n, uint32_t bg,
		 struct history *history);
void grid_clear(struct grid *grid, int top, int bottom, uint32_t bg);

/* Changes the number of rows, and cuts them off at cols. Returns by how much the content moved
 * down; the row `keep`, a cursor's, stays inside. */
int grid_resize(struct grid *grid, int count, int cols, int keep, struct history *history);
void grid_done(struct grid *grid);
