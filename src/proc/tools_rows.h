/* tools_rows.h - the programs worth telling an agent about, where they are installed. */
#pragma once
#include <stddef.h>

struct tools_row {
	const char *category, *name, *description;
	const char *needs; /* a path without which it only fails; NULL: none */
};

/* Rows of one category follow each other. */
extern const struct tools_row tools_rows[];
extern const size_t tools_row_count;
