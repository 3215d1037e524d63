/* clipboard.h - giving a text to the program that pastes, and what the clipboard held back to it afterwards.
 *
 * A thread with a connection of its own owns the selection, and answers those who ask for it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/wait.h"

struct clipboard;
struct err;
struct x;

enum { CLIPBOARD_MAX = 4 << 20 }; /* bytes of a text */

/* Which one a paste takes: Ctrl+V, or the selection that terminals paste. */
enum clipboard_which { CLIPBOARD, PRIMARY, SELECTIONS };

/* NULL with err. */
struct clipboard *clipboard_open(struct x *x, const struct wait *wait, struct err *err);
void clipboard_free(struct clipboard *clipboard); /* NULL is fine */
bool clipboard_broken(struct clipboard *clipboard);

/* Has a text, which is copied, in the clipboard until clipboard_back(). */
int clipboard_offer(struct clipboard *clipboard, enum clipboard_which which, const char *text,
		    size_t len, const struct wait *wait, struct err *err);

/* Waits until a program has taken all of it. WAKE_TIMEOUT: none has by then. */
enum wake clipboard_await(struct clipboard *clipboard, const struct wait *wait);

/* What was there before is put back a little later, where it was text: a program may ask more than once.
 * At once: until then nobody is given the text any more. */
void clipboard_back(struct clipboard *clipboard, bool at_once);
