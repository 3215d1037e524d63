/* evict.h - ending idle sessions of kernels and of Node.js, to make room for the process of another: only
 * those that have no name of their own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Ends one; false when there is none. */
bool evict_one(void);

/* Ends as many as it takes for so many more processes and threads: see limits_fit(). */
void evict_for(int64_t tasks);
