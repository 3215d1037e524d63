/* page.h - lists that come in pages: a cursor is where the next one begins. */
#pragma once
#include <stddef.h>

struct exchange;

enum { PAGE_SIZE = 100 };

/* Where the page that was asked for begins; -1 after exchange_fail() for a cursor that is none. */
int page_start(struct exchange *ex, size_t *ret_at);

/* Writes "nextCursor" when there is more after the page. */
void page_end(struct exchange *ex, size_t at, size_t total);
