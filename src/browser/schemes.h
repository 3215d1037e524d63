/* schemes.h - addresses that the browser would hand to another program: mailto:, tel:, zoommtg: and the like.
 *
 * For those Chromium asks, in a window of its own over the page, whether to open one. Nothing reports that
 * window, and while it is there the tab takes no input although calls seem to work. So pages are kept from
 * leading there. */
#pragma once
#include <stdbool.h>

struct err;

/* -1 with ERR_CONFLICT: it is not an address that a tab can show, by its scheme or for lack of one. */
int schemes_check(const char *url, struct err *err);
