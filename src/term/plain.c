#include "term/plain.h"

#include <string.h>

#include "base/own.h"
#include "term/width.h"

enum { TAB_WIDTH = 8, TAIL = 255 };

/* A character with its marks. What is wider than a column (wide characters, tabs) goes on in cells
 * whose len is TAIL; a cell that nothing was written to has none. */
struct plain_cell {
	char text[15];
	unsigned char len;
};

void plain_init(struct plain *plain)
{
	*plain = (struct plain){ .text = BUF(PLAIN_LINE_MAX) };
}

void plain_done(struct plain *plain)
{
	buf_done(&plain->text);
	free(plain->cells);
	plain_init(plain);
}

static void line_reset(struct plain *plain)
{
	plain->text.len = plain->col = plain->used = 0;
	plain->back = plain->edited = false;
}

/* Blanks at the end of an edited line are text only if the cursor passed them last. */
static size_t visible(const struct plain *plain)
{
	size_t end = plain->used;
	for (; end; end--) {
		const struct plain_cell *cell = &plain->cells[end - 1];
		bool space = cell->len == 1 && cell->text[0] == ' ';
		if (cell->len && (!space || end <= plain->col))
			break;
	}
	return end;
}

static int line_out(struct plain *plain, struct buf *to)
{
	int ret = plain->edited ? 0 : buf_add(to, plain->text.data, plain->text.len);
	for (size_t i = 0, end = visible(plain); i < end && ret == 0; i++) {
		const struct plain_cell *cell = &plain->cells[i];
		if (cell->len != TAIL)
			ret = buf_add(to, cell->len ? cell->text : " ", cell->len ? cell->len : 1);
	}
	line_reset(plain);
	return ret;
}

/* --- an edited line ------------------------------------------------------------------------- */

/* Makes cells up to end, which is at most PLAIN_LINE_MAX. */
static void reach(struct plain *plain, size_t end)
{
	if (end > plain->room) {
		size_t room = plain->room ? plain->room : 128;
		while (room < end)
			room *= 2;
		plain->cells = xrealloc(plain->cells, room * sizeof *plain->cells);
		plain->room = room;
	}
	for (; plain->used < end; plain->used++)
		plain->cells[plain->used].len = 0;
}

/* Blanks the character that would be cut in two before col. */
static void cut(struct plain *plain, size_t col)
{
	if (col >= plain->used || plain->cells[col].len != TAIL)
		return;
	while (plain->cells[col].len == TAIL)
		col--;
	plain->cells[col++].len = 0;
	for (; col < plain->used && plain->cells[col].len == TAIL; col++)
		plain->cells[col].len = 0;
}

static void erase(struct plain *plain, size_t from, size_t end)
{
	end = end < plain->used ? end : plain->used;
	if (from >= end)
		return;
	cut(plain, from);
	cut(plain, end);
	for (size_t i = from; i < end; i++)
		plain->cells[i].len = 0;
	if (end == plain->used)
		plain->used = from;
}

/* Moves what is at from, and right of it, to col. */
static void shift(struct plain *plain, size_t from, size_t col)
{
	size_t end = plain->used - from + col;
	end = end < PLAIN_LINE_MAX ? end : PLAIN_LINE_MAX;
	cut(plain, from);
	if (col < from)
		cut(plain, col);
	reach(plain, end);
	memmove(plain->cells + col, plain->cells + from, (end - col) * sizeof *plain->cells);
	for (size_t i = from; i < col; i++)
		plain->cells[i].len = 0;
	plain->used = end;
}

/* Joins a mark to the character left of the cursor; false where there is none. */
static bool join(struct plain *plain, const char *mark, size_t len)
{
	size_t col = plain->col < plain->used ? plain->col : plain->used;
	while (col && plain->cells[col - 1].len == TAIL)
		col--;
	struct plain_cell *cell = col && plain->col <= plain->used ? &plain->cells[col - 1] : NULL;
	if (!cell || !cell->len || cell->text[0] == '\t')
		return false;
	if (cell->len + len <= sizeof cell->text) {
		memcpy(cell->text + cell->len, mark, len);
		cell->len += (unsigned char)len;
	}
	return true;
}

/* Writes one character (or tab) at the cursor. */
static int cell_put(struct plain *plain, const char *text, size_t len, uint32_t c, struct buf *to)
{
	bool tab = c == '\t';
	size_t width = tab ? TAB_WIDTH - plain->col % TAB_WIDTH : (size_t)width_char(c);
	if (!width) {
		if (join(plain, text, len))
			return 0;
		width = 1;
	}
	if (plain->col + width > PLAIN_LINE_MAX) {
		if (line_out(plain, to) < 0)
			return -1;
		plain->edited = true;
	}
	size_t col = plain->col, end = col + width;
	plain->col = end;
	if (tab && col < plain->used)
		return 0;
	cut(plain, col);
	cut(plain, end);
	reach(plain, end);
	memcpy(plain->cells[col].text, text, len);
	plain->cells[col].len = (unsigned char)len;
	while (++col < end)
		plain->cells[col].len = TAIL;
	return 0;
}

static int cells_put(struct plain *plain, const char *text, size_t len, struct buf *to)
{
	for (size_t n; len; text += n, len -= n) {
		uint32_t c = seq_char(text, len, &n);
		if (cell_put(plain, text, n, c, to) < 0)
			return -1;
	}
	return 0;
}

static int edit(struct plain *plain, struct buf *to)
{
	if (plain->edited)
		return 0;
	bool back = plain->back;
	plain->edited = true;
	if (cells_put(plain, plain->text.data, plain->text.len, to) < 0)
		return -1;
	if (back)
		plain->col = 0;
	return 0;
}

/* --- any line ------------------------------------------------------------------------------- */

/* Where the character begins that an end at `at` would cut; `at` if there is none. */
static size_t boundary(const char *text, size_t len, size_t at)
{
	for (size_t back = 1; back <= 3 && back <= at; back++) {
		const char *lead = text + at - back;
		size_t n;
		if (((unsigned char)*lead & 0xc0) == 0x80)
			continue;
		(void)seq_char(lead, len - at + back, &n);
		return n > back ? at - back : at;
	}
	return at;
}

static int put(struct plain *plain, const char *text, size_t len, struct buf *to)
{
	if (plain->back && len && edit(plain, to) < 0)
		return -1;
	if (plain->edited)
		return cells_put(plain, text, len, to);
	for (size_t n; len; text += n, len -= n) {
		size_t room = PLAIN_LINE_MAX - plain->text.len;
		n = len <= room ? len : boundary(text, len, room);
		if (buf_add(&plain->text, text, n) < 0 || (n < len && line_out(plain, to) < 0))
			return -1;
	}
	return 0;
}

static void carriage_return(struct plain *plain)
{
	plain->col = 0;
	plain->back = !plain->edited && plain->text.len;
}

static int move_to(struct plain *plain, size_t col, struct buf *to)
{
	if (!col) {
		carriage_return(plain);
		return 0;
	}
	if (edit(plain, to) < 0)
		return -1;
	size_t most = plain->used > PLAIN_MOVE_MAX ? plain->used : PLAIN_MOVE_MAX;
	plain->col = col < most ? col : most;
	return 0;
}

static int move_left(struct plain *plain, size_t n, struct buf *to)
{
	if (!plain->edited && (plain->back || !plain->text.len))
		return 0;
	if (edit(plain, to) < 0)
		return -1;
	plain->col -= n < plain->col ? n : plain->col;
	return 0;
}

static int erase_line(struct plain *plain, int what, struct buf *to)
{
	if (!plain->edited && what == 0 && !plain->back)
		return 0;
	if (!plain->edited && what != 1 && plain->back) {
		line_reset(plain);
		return 0;
	}
	if (edit(plain, to) < 0)
		return -1;
	erase(plain, what == 0 ? plain->col : 0, what == 1 ? plain->col + 1 : plain->used);
	return 0;
}

/* Inserts blanks, deletes or erases at the cursor. */
static int edit_line(struct plain *plain, char how, size_t n, struct buf *to)
{
	if (edit(plain, to) < 0)
		return -1;
	size_t col = plain->col, used = plain->used;
	if (col >= used)
		return 0;
	if (how == 'X') {
		erase(plain, col, col + n);
	} else if (how == 'P') {
		shift(plain, n < used - col ? col + n : used, col);
	} else {
		n = n < PLAIN_MOVE_MAX ? n : PLAIN_MOVE_MAX;
		shift(plain, col, col + n < PLAIN_LINE_MAX ? col + n : PLAIN_LINE_MAX);
	}
	return 0;
}

static int csi(struct plain *plain, struct buf *to)
{
	const struct seq *seq = &plain->seq;
	int what = seq_param(seq, 0, 0);
	size_t n = what ? (size_t)what : 1;
	if (seq->prefix || seq->intermediate)
		return 0;
	switch (seq->final) {
	case 'C':
	case 'a':
		if (edit(plain, to) < 0)
			return -1;
		return move_to(plain, plain->col + n, to);
	case 'D':
	case 'j':
		return move_left(plain, n, to);
	case 'G':
	case '`':
		return move_to(plain, n - 1, to);
	case 'J':
		return what == 0 ? erase_line(plain, 0, to) : 0;
	case 'K':
		return what <= 2 ? erase_line(plain, what, to) : 0;
	case '@':
	case 'P':
	case 'X':
		return edit_line(plain, seq->final, n, to);
	}
	return 0;
}

static int control(struct plain *plain, char c, struct buf *to)
{
	switch (c) {
	case '\n':
		return line_out(plain, to) < 0 ? -1 : buf_add(to, "\n", 1);
	case '\t':
		return put(plain, "\t", 1, to);
	case '\b':
		return move_left(plain, 1, to);
	case '\r':
		carriage_return(plain);
	}
	return 0;
}

/* Lines with nothing but text in them, which most are, need no more than to be copied. */
static int copy_lines(struct plain *plain, const char **data, const char *end, struct buf *to)
{
	while (seq_idle(&plain->seq) && !plain->edited && !plain->text.len) {
		const char *stop = *data;
		do
			stop += seq_span(stop, (size_t)(end - stop));
		while (stop < end && *stop == '\t' && ++stop);
		const char *next = stop;
		while (next < end && *next == '\r')
			next++;
		if (next == end || *next != '\n')
			break;
		size_t len = (size_t)(stop - *data);
		char *line = buf_grow(to, len + 1);
		if (!line)
			return -1;
		memcpy(line, *data, len);
		memcpy(line + len, "\n", 2);
		to->len += len + 1;
		*data = next + 1;
	}
	return 0;
}

int plain_feed(struct plain *plain, const char *data, size_t len, struct buf *to)
{
	const char *end = data + len;
	struct seq *seq = &plain->seq;
	int ret = 0;
	while (ret == 0 && data < end) {
		if (copy_lines(plain, &data, end, to) < 0)
			return -1;
		enum seq_kind kind = seq_next(seq, &data, end);
		if (kind == SEQ_TEXT)
			ret = put(plain, seq->text, seq->len, to);
		else if (kind == SEQ_CONTROL)
			ret = control(plain, seq->final, to);
		else if (kind == SEQ_CSI)
			ret = csi(plain, to);
	}
	return ret;
}

int plain_finish(struct plain *plain, struct buf *to)
{
	struct seq *seq = &plain->seq;
	int ret = seq->state ? 0 : put(plain, seq->hold, seq->held, to);
	*seq = (struct seq){ 0 };
	return ret < 0 ? -1 : line_out(plain, to);
}
