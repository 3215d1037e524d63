/* timestamp.h - a point in time as JSON has it. */
#pragma once
#include <time.h>

struct arena;

/* "2026-01-31T12:00:00.000000Z" */
const char *timestamp_text(struct arena *arena, const struct timespec *when);
