/* room.h - room for the process of another session: idle sessions of kernels and of Node.js that nobody
 * has named make it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Ends one; false when there is none. */
bool room_evict(void);

/* Ends as many as it takes for so many more processes and threads: see limits_fit(). */
void room_make(int64_t tasks);
