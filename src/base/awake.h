/* awake.h - a clock that stands still while this process is frozen: nothing is idle meanwhile. */
#pragma once
#include <stdint.h>

/* Milliseconds, as clock_ms() has them. */
int64_t awake_ms(void);

/* From now on awake_ms() is called at least every so often: a longer gap means that the process was
 * frozen. */
void awake_begin(int64_t every_ms);
