/*
 * screen.h - a terminal without a window: what a program that draws on it would show.
 *
 * It understands what xterm and xterm.js agree on: cursor movement, erasing, scroll regions, the
 * alternate screen, colours and attributes, wide and combining characters, line drawing, tab stops.
 * Any bytes may be fed, in any pieces. Memory is bounded by the size of the screen and by the
 * 1000 lines that are kept when they scroll off its top. Not for use by two threads at once.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct screen;

enum { SCREEN_COLS_MAX = 1000, SCREEN_ROWS_MAX = 500 };

/* Sizes are brought within 1 and the limits above. */
struct screen *screen_new(int cols, int rows);
void screen_free(struct screen *screen);

/* Lines are not wrapped anew: a narrower screen cuts them. */
void screen_resize(struct screen *screen, int cols, int rows);

void screen_feed(struct screen *screen, const char *data, size_t len);

/* Has fn called, within screen_feed(), with what a terminal answers when a program asks it for its
 * kind or its cursor. Without, nothing is answered. */
void screen_on_answer(struct screen *screen, void (*fn)(void *arg, const char *data, size_t len),
		      void *arg);

/* The alternate screen is on: a program such as vim, less or htop shows something for a while. */
bool screen_alternate(const struct screen *screen);

/* From 0. */
void screen_cursor(const struct screen *screen, int *ret_col, int *ret_row);

/* Appends what is to be seen: rows joined by LF, without blanks at their ends and empty rows at
 * the end of all. -1 once `to` is full. */
int screen_text(const struct screen *screen, struct buf *to);

/* Appends what makes a terminal of the same size that was just reset show the same, with the lines
 * that scrolled off before, and be in the same state: cursor, attributes, scroll region, modes. */
int screen_replay(const struct screen *screen, struct buf *to);
