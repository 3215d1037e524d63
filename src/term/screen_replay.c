#include "base/buf.h"
#include "term/screen_state.h"

static const struct pen no_pen;

/* --- characters ----------------------------------------------------------------------------- */

static int add_char(struct buf *to, uint32_t c)
{
	char text[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n; --i; c >>= 6)
		text[i] = (char)(0x80 | (c & 0x3f));
	text[0] = (char)(lead[n] | c);
	return buf_add(to, text, n);
}

static int add_cell(struct buf *to, const struct cell *cell)
{
	int ret = 0;
	if (!cell->chars[0])
		return buf_add(to, " ", 1);
	for (int i = 0; i < CELL_CHARS && cell->chars[i] > 0; i++)
		ret = add_char(to, (uint32_t)cell->chars[i]);
	return ret;
}

int screen_text(const struct screen *screen, struct buf *to)
{
	int ret = 0, empty = 0;
	for (int i = 0; i < screen->rows && ret == 0; i++) {
		const struct row *row = &screen->grid->rows[i];
		int end = row->used;
		while (end &&
		       (!row->cells[end - 1].chars[0] || row->cells[end - 1].chars[0] == ' '))
			end--;
		for (; end && empty; empty--)
			ret = buf_add(to, "\n", 1);
		for (int k = 0; k < end; k++)
			ret = add_cell(to, &row->cells[k]);
		empty++;
	}
	return to->full ? -1 : ret;
}

/* --- replay --------------------------------------------------------------------------------- */

struct replay {
	const struct screen *screen;
	struct buf *to;
	struct pen pen; /* what the terminal has by now */
	int origin;     /* the row that it counts positions from */
};

static void set_pen(struct replay *replay, const struct pen *pen)
{
	if (pen_equal(pen, &replay->pen))
		return;
	(void)(pen_equal(pen, &no_pen) ? buf_str(replay->to, "\033[m")
				       : pen_write(pen, replay->to));
	replay->pen = *pen;
}

static void go(struct replay *replay, int col, int row)
{
	(void)buf_printf(replay->to, "\033[%d;%dH", row - replay->origin + 1, col + 1);
}

static void draw_cell(struct replay *replay, const struct cell *cell)
{
	if (cell->chars[0] == CELL_TAIL)
		return;
	set_pen(replay, &cell->pen);
	(void)add_cell(replay->to, cell);
}

/* From the beginning of an empty row. */
static void draw_row(struct replay *replay, const struct row *row)
{
	struct pen rest = { 0 };
	int cols = replay->screen->cols, end = row_visible(row, cols, &rest.bg);
	for (int i = 0; i < end; i++)
		draw_cell(replay, &row->cells[i]);
	if (rest.bg && end < cols) {
		set_pen(replay, &rest);
		(void)buf_str(replay->to, "\033[K");
	}
	/* Rows that scroll in take the pen's background. */
	set_pen(replay, &no_pen);
}

/* All rows, so that the lines before them scroll off. */
static void draw_primary(struct replay *replay)
{
	const struct screen *screen = replay->screen;
	for (int i = 0; i < screen->history.count; i++) {
		draw_row(replay, history_at(&screen->history, i));
		(void)buf_str(replay->to, "\r\n");
	}
	for (int i = 0; i < screen->rows; i++) {
		if (i)
			(void)buf_str(replay->to, "\r\n");
		draw_row(replay, &screen->primary.rows[i]);
	}
}

static void draw_alternate(struct replay *replay)
{
	for (int i = 0; i < replay->screen->rows; i++) {
		const struct row *row = &replay->screen->alternate.rows[i];
		uint32_t bg;
		if (!row_visible(row, replay->screen->cols, &bg) && !bg)
			continue;
		go(replay, 0, i);
		draw_row(replay, row);
	}
}

/* The cursor as it is or was. */
static void put_cursor(struct replay *replay, const struct cursor *cursor, const struct grid *grid)
{
	const struct row *row = &grid->rows[cursor->row];
	const struct cell blank = { .pen.bg = row->fill };
	const struct cell *cell = cursor->col < row->used ? &row->cells[cursor->col] : &blank;
	int half = cell->chars[0] == CELL_TAIL;
	go(replay, cursor->wrap ? cursor->col - half : cursor->col, cursor->row);
	/* A character must be written into the last column for it to wait there. */
	if (cursor->wrap)
		draw_cell(replay, cell - half);
	set_pen(replay, &cursor->pen);
	for (int i = 0; i < 2; i++)
		if (cursor->drawing[i])
			(void)buf_str(replay->to, i ? "\033)0" : "\033(0");
	if (cursor->shifted)
		(void)buf_str(replay->to, "\016");
}

/* Undoes the part of put_cursor() that would change what is drawn next. */
static void plain_text(struct replay *replay, const struct cursor *cursor)
{
	if (cursor->shifted)
		(void)buf_str(replay->to, "\017");
	for (int i = 0; i < 2; i++)
		if (cursor->drawing[i])
			(void)buf_str(replay->to, i ? "\033)B" : "\033(B");
	set_pen(replay, &no_pen);
}

static bool is_default(const struct cursor *cursor)
{
	return !cursor->col && !cursor->row && !cursor->wrap && !cursor->shifted &&
	       !cursor->drawing[0] && !cursor->drawing[1] && pen_equal(&cursor->pen, &no_pen);
}

static void save_cursor(struct replay *replay, const struct cursor *cursor, const struct grid *grid)
{
	if (is_default(cursor))
		return;
	put_cursor(replay, cursor, grid);
	(void)buf_str(replay->to, "\0337");
	plain_text(replay, cursor);
}

static void set_modes(struct replay *replay, unsigned which)
{
	unsigned differ = (replay->screen->modes ^ MODE_DEFAULT) & which;
	for (int i = 0; i < screen_modes_count; i++) {
		const struct screen_mode *mode = &screen_modes[i];
		if (differ & mode->bit)
			(void)buf_printf(replay->to, "\033[%s%d%c", mode->prefix ? "?" : "",
					 mode->number,
					 replay->screen->modes & mode->bit ? 'h' : 'l');
	}
}

static void set_tabs(struct replay *replay)
{
	const bool *tabs = replay->screen->tabs;
	bool differ = false;
	for (int i = 0; i < replay->screen->cols; i++)
		differ |= tabs[i] != (i % 8 == 0);
	if (differ)
		(void)buf_str(replay->to, "\033[3g");
	for (int i = 0; differ && i < replay->screen->cols; i++) {
		if (!tabs[i])
			continue;
		go(replay, i, 0);
		(void)buf_str(replay->to, "\033H");
	}
}

static void draw(struct replay *replay)
{
	const struct screen *screen = replay->screen;
	draw_primary(replay);
	set_tabs(replay);
	if (!screen_alternate(screen)) {
		save_cursor(replay, &screen->saved[0], &screen->primary);
		return;
	}
	/* 1049 saves the cursor, to be restored when the program ends, and clears in its colour. */
	put_cursor(replay, &screen->saved[0], &screen->primary);
	(void)buf_str(replay->to, "\033[?1049h");
	plain_text(replay, &screen->saved[0]);
	if (screen->saved[0].pen.bg)
		(void)buf_str(replay->to, "\033[2J");
	draw_alternate(replay);
	save_cursor(replay, &screen->saved[1], &screen->alternate);
}

int screen_replay(const struct screen *screen, struct buf *to)
{
	struct replay replay = { .screen = screen, .to = to };
	draw(&replay);
	if (screen->top || screen->bottom < screen->rows)
		(void)buf_printf(to, "\033[%d;%dr", screen->top + 1, screen->bottom);
	set_modes(&replay, MODE_ORIGIN);
	replay.origin = screen_has(screen, MODE_ORIGIN) ? screen->top : 0;
	put_cursor(&replay, &screen->cursor, screen->grid);
	set_modes(&replay, ~(unsigned)MODE_ORIGIN);
	if (screen->mouse)
		(void)buf_printf(to, "\033[?%dh", screen->mouse);
	if (screen->mouse_encoding)
		(void)buf_printf(to, "\033[?%dh", screen->mouse_encoding);
	if (screen->cursor_style)
		(void)buf_printf(to, "\033[%d q", screen->cursor_style);
	return to->full ? -1 : 0;
}
