/*
 * plain.h - what a terminal was sent, as plain text.
 *
 * Escape sequences and control characters go, and what was overwritten goes too: each line comes
 * out as a terminal would show it in the end. A progress bar that was drawn a hundred times is one
 * line, and so is a command that was typed with mistakes. Only what happens within a line counts:
 * cursor movements across lines are ignored, and every LF ends one. Tabs stay tabs, blanks that
 * edits left behind at the end of a line are dropped, and bytes that are not UTF-8 stay as they
 * are. Characters take the columns that width_char() says.
 *
 * A line is held back until it ends, or until it is longer than PLAIN_LINE_MAX: then this much is
 * passed on, and cannot be overwritten any more.
 */
#pragma once
#include "base/buf.h"
#include "term/seq.h"

enum {
	PLAIN_LINE_MAX = 65536, /* bytes of a line, and columns once it is edited */
	PLAIN_MOVE_MAX = 1000,  /* no cursor movement leads right of this column */
};

struct plain {
	struct seq seq;
	struct buf text;          /* the line, as long as nothing in it was overwritten */
	bool back;                /* the cursor is at the beginning of text, not at its end */
	bool edited;              /* the line is in cells instead, with the cursor at col */
	struct plain_cell *cells; /* one per column */
	size_t col, used, room;
};

void plain_init(struct plain *plain);
void plain_done(struct plain *plain);

/* Appends the lines that data completes. -1 once `to` is full. */
int plain_feed(struct plain *plain, const char *data, size_t len, struct buf *to);

/* Appends what is held back: the last line, if it has no end. Then all begins anew. */
int plain_finish(struct plain *plain, struct buf *to);
