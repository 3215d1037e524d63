#include "term/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "term/screen_state.h"
#include "term/width.h"

const struct screen_mode screen_modes[] = {
	{ 4, 0, MODE_INSERT },     { 20, 0, MODE_NEWLINE },  { 1, '?', MODE_CURSOR_KEYS },
	{ 5, '?', MODE_REVERSE },  { 6, '?', MODE_ORIGIN },  { 7, '?', MODE_WRAP },
	{ 25, '?', MODE_CURSOR },  { 66, '?', MODE_KEYPAD }, { 1004, '?', MODE_FOCUS },
	{ 2004, '?', MODE_PASTE },
};
const int screen_modes_count = COUNT(screen_modes);

static int clamp(int n, int low, int high)
{
	return n < low ? low : n > high ? high : n;
}

static struct row *row_here(struct screen *screen)
{
	return &screen->grid->rows[screen->cursor.row];
}

/* Lines that leave the alternate screen are not kept. */
static struct history *history_of(struct screen *screen)
{
	return screen->grid == &screen->primary ? &screen->history : NULL;
}

/* How often, or how far: a CSI's first parameter. */
static int amount(const struct screen *screen)
{
	int n = seq_param(&screen->seq, 0, 1);
	return n ? n : 1;
}

static void answer(struct screen *screen, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void answer(struct screen *screen, const char *format, ...)
{
	char text[64];
	va_list args;
	if (!screen->answer)
		return;
	va_start(args, format);
	int len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	screen->answer(screen->answer_arg, text, (size_t)len);
}

/* --- cursor --------------------------------------------------------------------------------- */

static void move_to(struct screen *screen, int col, int row)
{
	screen->cursor.col = clamp(col, 0, screen->cols - 1);
	screen->cursor.row = clamp(row, 0, screen->rows - 1);
	screen->cursor.wrap = false;
}

/* Rows count from the scroll region in origin mode, and stay inside it. */
static void move_to_origin(struct screen *screen, int col, int row)
{
	if (screen_has(screen, MODE_ORIGIN))
		row = clamp(row + screen->top, screen->top, screen->bottom - 1);
	move_to(screen, col, row);
}

/* Up or down; the scroll region's edges stop it, from inside. */
static void move_rows(struct screen *screen, int by)
{
	int row = screen->cursor.row;
	int low = row >= screen->top ? screen->top : 0;
	int high = row < screen->bottom ? screen->bottom - 1 : screen->rows - 1;
	move_to(screen, screen->cursor.col, clamp(row + by, low, high));
}

static void scroll(struct screen *screen, int n)
{
	grid_scroll(screen->grid, screen->top, screen->bottom, n, screen->cursor.pen.bg,
		    screen->top == 0 ? history_of(screen) : NULL);
}

static void line_feed(struct screen *screen)
{
	if (screen->cursor.row == screen->bottom - 1)
		scroll(screen, 1);
	else if (screen->cursor.row < screen->rows - 1)
		screen->cursor.row++;
	screen->cursor.wrap = false;
}

static void reverse_line_feed(struct screen *screen)
{
	if (screen->cursor.row == screen->top)
		scroll(screen, -1);
	else if (screen->cursor.row > 0)
		screen->cursor.row--;
	screen->cursor.wrap = false;
}

static void next_line(struct screen *screen)
{
	line_feed(screen);
	screen->cursor.col = 0;
}

static void tab(struct screen *screen, int n)
{
	int col = screen->cursor.col, step = n < 0 ? -1 : 1;
	while (n && col + step >= 0 && col + step < screen->cols) {
		col += step;
		n -= screen->tabs[col] ? step : 0;
	}
	move_to(screen, col, screen->cursor.row);
}

static struct cursor *saved(struct screen *screen)
{
	return &screen->saved[screen->grid == &screen->alternate];
}

static void save_cursor(struct screen *screen)
{
	*saved(screen) = screen->cursor;
}

static void restore_cursor(struct screen *screen)
{
	struct cursor *cursor = &screen->cursor;
	*cursor = *saved(screen);
	if (screen_has(screen, MODE_ORIGIN))
		cursor->row = clamp(cursor->row, screen->top, screen->bottom - 1);
}

/* --- text ----------------------------------------------------------------------------------- */

static int32_t drawn(const struct screen *screen, uint32_t c)
{
	/* The line drawing characters of the VT100, from '`' to '~'. */
	static const uint16_t drawing[] = {
		0x25c6, 0x2592, 0x2409, 0x240c, 0x240d, 0x240a, 0xb0,   0xb1,
		0x2424, 0x240b, 0x2518, 0x2510, 0x250c, 0x2514, 0x253c, 0x23ba,
		0x23bb, 0x2500, 0x23bc, 0x23bd, 0x251c, 0x2524, 0x2534, 0x252c,
		0x2502, 0x2264, 0x2265, 0x3c0,  0x2260, 0xa3,   0xb7,
	};
	bool on = screen->cursor.drawing[screen->cursor.shifted];
	return (int32_t)(on && c >= '`' && c <= '~' ? drawing[c - '`'] : c);
}

/* The cursor's row: 0 from the cursor, 1 up to the cursor, 2 all. */
static void erase_row(struct screen *screen, int what)
{
	struct cursor *cursor = &screen->cursor;
	int from = what == 0 ? cursor->col + cursor->wrap : 0;
	int end = what == 1 ? cursor->col + 1 : screen->cols;
	row_erase(row_here(screen), from, end, screen->cols, cursor->pen.bg);
}

static void print(struct screen *screen, int32_t c)
{
	struct cursor *cursor = &screen->cursor;
	int width = width_char((uint32_t)c);
	if (!width) {
		row_join(row_here(screen), cursor->col + cursor->wrap, c);
		return;
	}
	if (width > screen->cols) {
		c = 0xfffd;
		width = 1;
	}
	bool full = cursor->wrap || cursor->col + width > screen->cols;
	if (full && screen_has(screen, MODE_WRAP)) {
		if (!cursor->wrap) /* a wide character leaves a column empty */
			erase_row(screen, 0);
		next_line(screen);
	}
	if (cursor->col + width > screen->cols)
		cursor->col = screen->cols - width;
	if (screen_has(screen, MODE_INSERT))
		row_insert(row_here(screen), cursor->col, width, screen->cols, cursor->pen.bg);
	row_put(row_here(screen), cursor->col, c, width, &cursor->pen);
	screen->last = c;
	cursor->col += width;
	cursor->wrap = cursor->col == screen->cols;
	cursor->col -= cursor->wrap;
}

static void print_text(struct screen *screen, const char *text, size_t len)
{
	for (size_t n; len; text += n, len -= n)
		print(screen, drawn(screen, seq_char(text, len, &n)));
}

static void repeat(struct screen *screen)
{
	for (int n = clamp(amount(screen), 0, screen->cols); n && screen->last; n--)
		print(screen, screen->last);
}

/* --- erasing, inserting, deleting ----------------------------------------------------------- */

static void erase_in_line(struct screen *screen)
{
	int what = seq_param(&screen->seq, 0, 0);
	if (what <= 2)
		erase_row(screen, what);
}

static void erase_in_display(struct screen *screen)
{
	int what = seq_param(&screen->seq, 0, 0), row = screen->cursor.row;
	if (what == 3)
		history_clear(&screen->history);
	if (what > 2)
		return;
	if (what != 2)
		erase_row(screen, what);
	int from = what == 0 ? row + 1 : 0, end = what == 1 ? row : screen->rows;
	grid_clear(screen->grid, from, end, screen->cursor.pen.bg);
}

static void erase_chars(struct screen *screen)
{
	int col = screen->cursor.col, end = clamp(col + amount(screen), 0, screen->cols);
	row_erase(row_here(screen), col, end, screen->cols, screen->cursor.pen.bg);
	screen->cursor.wrap = false;
}

static void insert_chars(struct screen *screen)
{
	struct cursor *cursor = &screen->cursor;
	row_insert(row_here(screen), cursor->col, amount(screen), screen->cols, cursor->pen.bg);
	cursor->wrap = false;
}

static void delete_chars(struct screen *screen)
{
	struct cursor *cursor = &screen->cursor;
	row_delete(row_here(screen), cursor->col, amount(screen), screen->cols, cursor->pen.bg);
	cursor->wrap = false;
}

static void scroll_from_cursor(struct screen *screen, int n)
{
	int row = screen->cursor.row;
	if (row < screen->top || row >= screen->bottom)
		return;
	grid_scroll(screen->grid, row, screen->bottom, n, screen->cursor.pen.bg, NULL);
	move_to(screen, 0, row);
}

static void insert_lines(struct screen *screen)
{
	scroll_from_cursor(screen, -amount(screen));
}

static void delete_lines(struct screen *screen)
{
	scroll_from_cursor(screen, amount(screen));
}

static void scroll_up(struct screen *screen)
{
	scroll(screen, amount(screen));
}

static void scroll_down(struct screen *screen)
{
	if (screen->seq.count <= 1) /* more: mouse highlighting */
		scroll(screen, -amount(screen));
}

/* --- positions ------------------------------------------------------------------------------ */

static void cursor_up(struct screen *screen)
{
	move_rows(screen, -amount(screen));
}

static void cursor_down(struct screen *screen)
{
	move_rows(screen, amount(screen));
}

static void cursor_right(struct screen *screen)
{
	move_to(screen, screen->cursor.col + amount(screen), screen->cursor.row);
}

static void cursor_left(struct screen *screen)
{
	move_to(screen, screen->cursor.col - amount(screen), screen->cursor.row);
}

static void cursor_next_line(struct screen *screen)
{
	cursor_down(screen);
	screen->cursor.col = 0;
}

static void cursor_previous_line(struct screen *screen)
{
	cursor_up(screen);
	screen->cursor.col = 0;
}

static void cursor_column(struct screen *screen)
{
	move_to(screen, amount(screen) - 1, screen->cursor.row);
}

static void cursor_row(struct screen *screen)
{
	move_to_origin(screen, screen->cursor.col, amount(screen) - 1);
}

static void cursor_position(struct screen *screen)
{
	move_to_origin(screen, seq_param(&screen->seq, 1, 1) - 1, amount(screen) - 1);
}

static void tab_forward(struct screen *screen)
{
	if (!screen->cursor.wrap)
		tab(screen, amount(screen));
}

static void tab_backward(struct screen *screen)
{
	tab(screen, -amount(screen));
}

static void tab_clear(struct screen *screen)
{
	int what = seq_param(&screen->seq, 0, 0);
	if (what == 0)
		screen->tabs[screen->cursor.col] = false;
	else if (what == 3)
		memset(screen->tabs, 0, sizeof screen->tabs);
}

static void scroll_region(struct screen *screen)
{
	int top = amount(screen) - 1, bottom = seq_param(&screen->seq, 1, 0);
	if (bottom == 0 || bottom > screen->rows)
		bottom = screen->rows;
	if (bottom - top < 2)
		return;
	screen->top = top;
	screen->bottom = bottom;
	move_to_origin(screen, 0, 0);
}

/* --- modes ---------------------------------------------------------------------------------- */

static void use_alternate(struct screen *screen, bool on)
{
	struct grid *grid = on ? &screen->alternate : &screen->primary;
	if (grid == screen->grid)
		return;
	screen->grid = grid;
	if (on)
		grid_clear(grid, 0, screen->rows, screen->cursor.pen.bg);
}

static void set_private_mode(struct screen *screen, int number, bool on)
{
	switch (number) {
	case 6:
		move_to_origin(screen, 0, 0);
		break;
	case 9:
	case 1000:
	case 1002:
	case 1003:
		screen->mouse = on ? number : 0;
		break;
	case 1005:
	case 1006:
	case 1015:
	case 1016:
		screen->mouse_encoding = on ? number : 0;
		break;
	case 1048:
	case 1049:
		if (on)
			save_cursor(screen);
		if (number == 1049)
			use_alternate(screen, on);
		if (!on)
			restore_cursor(screen);
		break;
	case 47:
	case 1047:
		use_alternate(screen, on);
	}
}

static void set_modes(struct screen *screen, bool on)
{
	const struct seq *seq = &screen->seq;
	for (int i = 0; i < seq->count; i++) {
		for (int k = 0; k < screen_modes_count; k++) {
			const struct screen_mode *mode = &screen_modes[k];
			if (mode->number == seq->params[i] && mode->prefix == seq->prefix)
				screen->modes = on ? screen->modes | mode->bit
						   : screen->modes & ~mode->bit;
		}
		if (seq->prefix)
			set_private_mode(screen, seq->params[i], on);
	}
}

static void modes_on(struct screen *screen)
{
	set_modes(screen, true);
}

static void modes_off(struct screen *screen)
{
	set_modes(screen, false);
}

static void cursor_style(struct screen *screen)
{
	int style = seq_param(&screen->seq, 0, 0);
	screen->cursor_style = style <= 6 ? style : screen->cursor_style;
}

/* What a program relies on when it starts; what is shown stays. */
static void soft_reset(struct screen *screen)
{
	screen->modes = MODE_DEFAULT;
	screen->top = 0;
	screen->bottom = screen->rows;
	screen->cursor = (struct cursor){ .col = screen->cursor.col, .row = screen->cursor.row };
	*saved(screen) = (struct cursor){ 0 };
}

static void full_reset(struct screen *screen)
{
	use_alternate(screen, false);
	soft_reset(screen);
	screen->cursor = screen->saved[1] = (struct cursor){ 0 };
	screen->mouse = screen->mouse_encoding = screen->cursor_style = 0;
	screen->last = 0;
	history_clear(&screen->history);
	grid_clear(&screen->primary, 0, screen->rows, 0);
	for (int i = 0; i < SCREEN_COLS_MAX; i++)
		screen->tabs[i] = i % 8 == 0;
}

/* --- questions ------------------------------------------------------------------------------ */

static void device_attributes(struct screen *screen)
{
	if (seq_param(&screen->seq, 0, 0) == 0)
		answer(screen, "%s", screen->seq.prefix ? "\033[>0;0;0c" : "\033[?1;2c");
}

static void device_status(struct screen *screen)
{
	const char *prefix = screen->seq.prefix ? "?" : "";
	int what = seq_param(&screen->seq, 0, 0);
	int row = screen->cursor.row - (screen_has(screen, MODE_ORIGIN) ? screen->top : 0);
	if (what == 5 && !*prefix)
		answer(screen, "\033[0n");
	else if (what == 6)
		answer(screen, "\033[%s%d;%dR", prefix, row + 1, screen->cursor.col + 1);
}

static void select_rendition(struct screen *screen)
{
	pen_select(&screen->cursor.pen, &screen->seq);
}

/* --- dispatch ------------------------------------------------------------------------------- */

static const struct op {
	char prefix, intermediate, final;
	void (*run)(struct screen *screen);
} csi_ops[] = {
	{ 0, 0, 'm', select_rendition },
	{ 0, 0, 'H', cursor_position },
	{ 0, 0, 'K', erase_in_line },
	{ 0, 0, '@', insert_chars },
	{ 0, 0, 'A', cursor_up },
	{ 0, 0, 'B', cursor_down },
	{ 0, 0, 'C', cursor_right },
	{ 0, 0, 'D', cursor_left },
	{ 0, 0, 'E', cursor_next_line },
	{ 0, 0, 'F', cursor_previous_line },
	{ 0, 0, 'G', cursor_column },
	{ 0, 0, 'I', tab_forward },
	{ 0, 0, 'J', erase_in_display },
	{ '?', 0, 'J', erase_in_display },
	{ '?', 0, 'K', erase_in_line },
	{ 0, 0, 'L', insert_lines },
	{ 0, 0, 'M', delete_lines },
	{ 0, 0, 'P', delete_chars },
	{ 0, 0, 'S', scroll_up },
	{ 0, 0, 'T', scroll_down },
	{ 0, 0, 'X', erase_chars },
	{ 0, 0, 'Z', tab_backward },
	{ 0, 0, '`', cursor_column },
	{ 0, 0, 'a', cursor_right },
	{ 0, 0, 'b', repeat },
	{ 0, 0, 'c', device_attributes },
	{ '>', 0, 'c', device_attributes },
	{ 0, 0, 'd', cursor_row },
	{ 0, 0, 'e', cursor_down },
	{ 0, 0, 'f', cursor_position },
	{ 0, 0, 'g', tab_clear },
	{ 0, 0, 'h', modes_on },
	{ '?', 0, 'h', modes_on },
	{ 0, 0, 'l', modes_off },
	{ '?', 0, 'l', modes_off },
	{ 0, 0, 'n', device_status },
	{ '?', 0, 'n', device_status },
	{ 0, '!', 'p', soft_reset },
	{ 0, ' ', 'q', cursor_style },
	{ 0, 0, 'r', scroll_region },
	{ 0, 0, 's', save_cursor },
	{ 0, 0, 'u', restore_cursor },
};

static void csi(struct screen *screen)
{
	const struct seq *seq = &screen->seq;
	for (size_t i = 0; i < COUNT(csi_ops); i++) {
		const struct op *op = &csi_ops[i];
		if (op->final != seq->final || op->prefix != seq->prefix ||
		    op->intermediate != seq->intermediate)
			continue;
		op->run(screen);
		return;
	}
}

static void escape(struct screen *screen)
{
	const struct seq *seq = &screen->seq;
	if (seq->intermediate == '(' || seq->intermediate == ')')
		screen->cursor.drawing[seq->intermediate == ')'] = seq->final == '0';
	if (seq->intermediate)
		return;
	switch (seq->final) {
	case '7':
		save_cursor(screen);
		break;
	case '8':
		restore_cursor(screen);
		break;
	case '=':
		screen->modes |= MODE_KEYPAD;
		break;
	case '>':
		screen->modes &= ~(unsigned)MODE_KEYPAD;
		break;
	case 'D':
		line_feed(screen);
		break;
	case 'E':
		next_line(screen);
		break;
	case 'H':
		screen->tabs[screen->cursor.col] = true;
		break;
	case 'M':
		reverse_line_feed(screen);
		break;
	case 'c':
		full_reset(screen);
	}
}

static void control(struct screen *screen)
{
	struct cursor *cursor = &screen->cursor;
	switch (screen->seq.final) {
	case '\b':
		move_to(screen, cursor->col - 1, cursor->row);
		break;
	case '\t':
		if (!cursor->wrap)
			tab(screen, 1);
		break;
	case '\n':
	case '\v':
	case '\f':
		line_feed(screen);
		if (screen_has(screen, MODE_NEWLINE))
			cursor->col = 0;
		break;
	case '\r':
		move_to(screen, 0, cursor->row);
		break;
	case 0x0e:
	case 0x0f:
		cursor->shifted = screen->seq.final == 0x0e;
	}
}

void screen_feed(struct screen *screen, const char *data, size_t len)
{
	const char *end = data + len;
	enum seq_kind kind;
	while ((kind = seq_next(&screen->seq, &data, end))) {
		if (kind == SEQ_TEXT)
			print_text(screen, screen->seq.text, screen->seq.len);
		else if (kind == SEQ_CONTROL)
			control(screen);
		else if (kind == SEQ_CSI)
			csi(screen);
		else
			escape(screen);
	}
}

/* --- the rest of the interface -------------------------------------------------------------- */

struct screen *screen_new(int cols, int rows)
{
	struct screen *screen = xcalloc(1, sizeof *screen);
	screen->grid = &screen->primary;
	screen_resize(screen, cols, rows);
	full_reset(screen);
	return screen;
}

void screen_free(struct screen *screen)
{
	if (!screen)
		return;
	grid_done(&screen->primary);
	grid_done(&screen->alternate);
	history_clear(&screen->history);
	free(screen);
}

static void cursor_fit(const struct screen *screen, struct cursor *cursor, int moved)
{
	int last = screen->cols - 1;
	cursor->row = clamp(cursor->row + moved, 0, screen->rows - 1);
	cursor->wrap = cursor->wrap && cursor->col == last;
	cursor->col = clamp(cursor->col, 0, last);
}

void screen_resize(struct screen *screen, int cols, int rows)
{
	bool alternate = screen_alternate(screen);
	struct cursor *cursor = &screen->cursor, *saved_primary = &screen->saved[0];
	cols = clamp(cols, 1, SCREEN_COLS_MAX);
	rows = clamp(rows, 1, SCREEN_ROWS_MAX);
	if (cols == screen->cols && rows == screen->rows)
		return;
	screen->cols = cols;
	screen->rows = rows;
	int keep = alternate ? saved_primary->row : cursor->row;
	int moved = grid_resize(&screen->primary, rows, cols, keep, &screen->history);
	keep = alternate ? cursor->row : 0;
	int other = grid_resize(&screen->alternate, rows, cols, keep, NULL);
	cursor_fit(screen, cursor, alternate ? other : moved);
	cursor_fit(screen, saved_primary, moved);
	cursor_fit(screen, &screen->saved[1], other);
	screen->top = 0;
	screen->bottom = rows;
}

void screen_on_answer(struct screen *screen, void (*fn)(void *arg, const char *data, size_t len),
		      void *arg)
{
	screen->answer = fn;
	screen->answer_arg = arg;
}

bool screen_alternate(const struct screen *screen)
{
	return screen->grid == &screen->alternate;
}

void screen_cursor(const struct screen *screen, int *ret_col, int *ret_row)
{
	*ret_col = screen->cursor.col;
	*ret_row = screen->cursor.row;
}
