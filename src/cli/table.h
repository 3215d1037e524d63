/* table.h - rows for people: columns as wide as they need. */
#pragma once
#include <stddef.h>

struct table;
struct table *table_new(const char *const *titles, size_t columns);
void table_row(struct table *table, const char *const *cells); /* copies; NULL is "-" */
void table_print(const struct table *table);
void table_free(struct table *table);
