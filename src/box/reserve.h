/* reserve.h - room on a box's limited disk that the box cannot use: without it, one that has filled its
 * disk could not be started again, for an overlay makes directories there when it is mounted. */
#pragma once
#include <stdbool.h>

/* Before a start: whether there is so little room that the reserve has been given up for it. Elsewhere
 * it is made, or completed. */
bool reserve_release(int tree);

/* After such a start: puts by what there is. */
void reserve_make(int tree);
