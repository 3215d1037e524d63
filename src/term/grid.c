#include "term/grid.h"

#include <limits.h>
#include <string.h>

#include "base/own.h"

/* --- rows ----------------------------------------------------------------------------------- */

static struct cell blank(uint32_t bg)
{
	return (struct cell){ .pen.bg = bg };
}

/* Makes cells up to end. */
static void reach(struct row *row, int end)
{
	if (end > row->room) {
		int room = row->room ? row->room : 32;
		while (room < end)
			room *= 2;
		row->cells = xrealloc(row->cells, (size_t)room * sizeof *row->cells);
		row->room = room;
	}
	while (row->used < end)
		row->cells[row->used++] = blank(row->fill);
}

/* Blanks the wide character that would be cut in two before col. */
static void cut(struct row *row, int col)
{
	if (col <= 0 || col >= row->used || row->cells[col].chars[0] != CELL_TAIL)
		return;
	row->cells[col - 1] = blank(row->cells[col - 1].pen.bg);
	row->cells[col] = blank(row->cells[col].pen.bg);
}

void row_put(struct row *row, int col, int32_t c, int width, const struct pen *pen)
{
	cut(row, col);
	cut(row, col + width);
	reach(row, col + width);
	row->cells[col] = (struct cell){ { c }, *pen };
	if (width == 2)
		row->cells[col + 1] = (struct cell){ { CELL_TAIL }, *pen };
}

void row_join(struct row *row, int col, int32_t mark)
{
	int at = col - 1;
	if (at > 0 && at < row->used && row->cells[at].chars[0] == CELL_TAIL)
		at--;
	if (at < 0 || at >= row->used || row->cells[at].chars[0] <= 0)
		return;
	int32_t *chars = row->cells[at].chars;
	int n = 1;
	while (n < CELL_CHARS && chars[n])
		n++;
	if (n < CELL_CHARS)
		chars[n] = mark;
}

void row_erase(struct row *row, int col, int end, int cols, uint32_t bg)
{
	cut(row, col);
	cut(row, end);
	if (end >= cols) {
		if (row->fill != bg)
			reach(row, col);
		row->used = col < row->used ? col : row->used;
		row->fill = bg;
		return;
	}
	if (row->fill == bg && end > row->used)
		end = row->used;
	if (col < end)
		reach(row, end);
	for (; col < end; col++)
		row->cells[col] = blank(bg);
}

void row_insert(struct row *row, int col, int n, int cols, uint32_t bg)
{
	if (n > cols - col)
		n = cols - col;
	cut(row, col);
	cut(row, cols - n);
	if (row->fill != bg)
		reach(row, col);
	if (col >= row->used && row->fill == bg)
		return;
	int used = row->used, end = used + n < cols ? used + n : cols;
	reach(row, end);
	memmove(row->cells + col + n, row->cells + col,
		(size_t)(end - col - n) * sizeof *row->cells);
	for (int i = col; i < col + n; i++)
		row->cells[i] = blank(bg);
}

void row_delete(struct row *row, int col, int n, int cols, uint32_t bg)
{
	if (n > cols - col)
		n = cols - col;
	cut(row, col);
	cut(row, col + n);
	if (row->fill != bg)
		reach(row, cols);
	row->fill = bg;
	if (col + n >= row->used) {
		row->used = col < row->used ? col : row->used;
		return;
	}
	memmove(row->cells + col, row->cells + col + n,
		(size_t)(row->used - col - n) * sizeof *row->cells);
	row->used -= n;
}

int row_visible(const struct row *row, int cols, uint32_t *ret_bg)
{
	const uint32_t drawn = PEN_REVERSE | PEN_STRIKE | PEN_OVERLINE | PEN_UNDERLINES;
	int end = row->used;
	*ret_bg = end < cols ? row->fill : row->cells[end - 1].pen.bg;
	for (; end; end--) {
		const struct cell *cell = &row->cells[end - 1];
		bool space = cell->chars[0] == ' ' && !cell->chars[1] && !(cell->pen.attrs & drawn);
		if ((cell->chars[0] && !space) || cell->pen.bg != *ret_bg)
			break;
	}
	return end;
}

/* --- history -------------------------------------------------------------------------------- */

void history_push(struct history *history, struct row *row)
{
	if (!history->rows)
		history->rows = xcalloc(HISTORY_MAX, sizeof *history->rows);
	int at = (history->first + history->count) % HISTORY_MAX;
	if (history->count < HISTORY_MAX)
		history->count++;
	else
		history->first = (history->first + 1) % HISTORY_MAX;
	struct row old = history->rows[at];
	/* Most lines are short, and they stay for long. */
	if (row->room > row->used) {
		row->room = row->used ? row->used : 1;
		row->cells = xrealloc(row->cells, (size_t)row->room * sizeof *row->cells);
	}
	history->rows[at] = *row;
	*row = old;
}

bool history_pop(struct history *history, struct row *ret_row)
{
	if (!history->count)
		return false;
	int at = (history->first + --history->count) % HISTORY_MAX;
	*ret_row = history->rows[at];
	history->rows[at] = (struct row){ 0 };
	return true;
}

const struct row *history_at(const struct history *history, int n)
{
	return &history->rows[(history->first + n) % HISTORY_MAX];
}

void history_clear(struct history *history)
{
	for (int i = 0; history->rows && i < HISTORY_MAX; i++)
		free(history->rows[i].cells);
	free(history->rows);
	*history = (struct history){ 0 };
}

/* --- grids ---------------------------------------------------------------------------------- */

static void reverse(struct row *rows, int count)
{
	for (int i = 0, k = count - 1; i < k; i++, k--) {
		struct row row = rows[i];
		rows[i] = rows[k];
		rows[k] = row;
	}
}

void grid_scroll(struct grid *grid, int top, int bottom, int n, uint32_t bg,
		 struct history *history)
{
	int height = bottom - top;
	n = n > height ? height : n < -height ? -height : n;
	struct row *rows = grid->rows + top;
	for (int i = 0; i < n && history; i++)
		history_push(history, &rows[i]);
	int up = n < 0 ? height + n : n;
	reverse(rows, up);
	reverse(rows + up, height - up);
	reverse(rows, height);
	if (n < 0)
		grid_clear(grid, top, top - n, bg);
	else
		grid_clear(grid, bottom - n, bottom, bg);
}

void grid_clear(struct grid *grid, int top, int bottom, uint32_t bg)
{
	for (int i = top; i < bottom; i++)
		row_clear(&grid->rows[i], bg);
}

static void shrink(struct grid *grid, int count)
{
	while (grid->count > count)
		free(grid->rows[--grid->count].cells);
}

static bool empty(const struct row *row)
{
	uint32_t bg;
	return !row_visible(row, INT_MAX, &bg) && !bg;
}

int grid_resize(struct grid *grid, int count, int cols, int keep, struct history *history)
{
	int end = grid->count, moved = 0;
	bool at_bottom = keep == end - 1;
	while (end > count && end - 1 > keep && empty(&grid->rows[end - 1]))
		end--;
	shrink(grid, end);
	if (end > count) {
		int up = end - count < keep ? end - count : keep;
		grid_scroll(grid, 0, end, up, 0, history);
		moved -= up;
		shrink(grid, count);
	}
	grid->rows = xrealloc(grid->rows, (size_t)count * sizeof *grid->rows);
	for (; grid->count < count; grid->count++) {
		struct row row = { 0 }, *to = &grid->rows[grid->count];
		if (at_bottom && history && history_pop(history, &row)) {
			to = grid->rows;
			memmove(to + 1, to, (size_t)grid->count * sizeof *to);
			moved++;
		}
		*to = row;
	}
	for (int i = 0; i < count; i++) {
		struct row *row = &grid->rows[i];
		cut(row, cols);
		row->used = row->used < cols ? row->used : cols;
	}
	return moved;
}

void grid_done(struct grid *grid)
{
	shrink(grid, 0);
	free(grid->rows);
	grid->rows = NULL;
}
