/* awake.h - a clock that stands still while this process is frozen, as those of a paused box are: nobody
 * is idle meanwhile. */
#pragma once
#include <stdint.h>

/* Milliseconds, as clock_ms() has them. */
int64_t awake_ms(void);

/* From now on somebody asks at least every so often: who is not asked for longer was frozen. */
void awake_begin(int64_t every_ms);
