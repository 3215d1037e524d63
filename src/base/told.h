/* told.h - what was told lately: the same thing is told once a while, and not too much in all, however
 * often it happens. Not safe for threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* How much may be told in all. */
struct told_rate {
	int64_t refilled_ms;
	int64_t left; /* that may be told now */
};

struct told {
	struct told_row {
		uint64_t thing; /* a hash */
		int64_t at_ms;  /* when it was told; 0: never */
		int64_t times;  /* it happened since */
	} rows[128];
	struct told_rate rate;
};

enum { TOLD_AGAIN_MS = 30000, TOLD_BURST = 60, TOLD_EACH_MS = 1000 };

/* How often it happened since it was told last, this time included; 0: it is not to be told now. */
int64_t told_ask(struct told *told, const char *thing, int64_t now_ms);

/* Whether one more may be told now, which then counts as told. */
bool told_rate_take(struct told_rate *rate, int64_t now_ms);
