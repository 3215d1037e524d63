#include "cli/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

enum { COLUMNS_MAX = 12 };

struct table {
	size_t columns, rows, room, width[COLUMNS_MAX];
	char **cells;
};

struct table *table_new(const char *const *titles, size_t columns)
{
	struct table *table = xcalloc(1, sizeof *table);
	table->columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
	table_row(table, titles);
	return table;
}

/* Bytes that begin a character. */
static size_t width(const char *text)
{
	size_t n = 0;
	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

void table_row(struct table *table, const char *const *cells)
{
	if (table->rows == table->room) {
		table->room = table->room * 2 + 16;
		table->cells =
			xrealloc(table->cells, table->room * table->columns * sizeof(char *));
	}
	for (size_t i = 0; i < table->columns; i++) {
		const char *cell = cells[i] ? cells[i] : "-";
		table->cells[table->rows * table->columns + i] = xstrdup(cell);
		if (width(cell) > table->width[i])
			table->width[i] = width(cell);
	}
	table->rows++;
}

void table_print(const struct table *table)
{
	for (size_t n = 0; n < table->rows * table->columns; n++) {
		size_t column = n % table->columns;
		bool last = column + 1 == table->columns;
		const char *cell = table->cells[n];
		printf("%s%*s", cell, last ? 0 : (int)(table->width[column] + 2 - width(cell)), "");
		if (last)
			putchar('\n');
	}
}

void table_free(struct table *table)
{
	for (size_t n = 0; n < table->rows * table->columns; n++)
		free(table->cells[n]);
	free(table->cells);
	free(table);
}
