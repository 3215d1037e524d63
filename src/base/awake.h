/* awake.h - for how long this process was frozen, as a box is that was paused. */
#pragma once
#include <stdint.h>

/* Somebody looks at awake_lost_ms() at least every so often from now on. */
void awake_begin(int64_t every_ms);

/* Milliseconds of clock_ms(), all in all, in which nobody looked though somebody should have. */
int64_t awake_lost_ms(void);
