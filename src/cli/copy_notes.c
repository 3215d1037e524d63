#include "cli/copy_notes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/ask.h"

enum { NOTES_MAX = 20 };

void copy_note(struct copy_notes *notes, const char *name, const char *why)
{
	if (notes->count++ >= NOTES_MAX)
		return;
	auto_free char *line = xasprintf("%.1000s: %.500s", name, why);
	ask_make_plain(line, strlen(line), false);
	fprintf(stderr, "%saio file cp: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", line);
}

void copy_notes_end(const struct copy_notes *notes)
{
	if (notes->count > NOTES_MAX)
		fprintf(stderr, "aio file cp: and %zu more\n", notes->count - NOTES_MAX);
}
