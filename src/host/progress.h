/* progress.h - says on standard error what a start is doing, when that takes long enough to be wondered
 * about. */
#pragma once

/* The start is doing this now; NULL: it is over. The text stays the caller's. */
void progress(const char *step);
