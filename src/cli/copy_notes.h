/* copy_notes.h - what could not be copied, on standard error; of very much, how much. */
#pragma once
#include <stddef.h>

struct copy_notes {
	size_t count;
};

/* "NAME: WHY", both harmless to a terminal. */
void copy_note(struct copy_notes *notes, const char *name, const char *why);
void copy_notes_end(const struct copy_notes *notes);
