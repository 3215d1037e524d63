/* rate_limit.h - how often something is reported: the same thing once in a while, and not too much in
 * all, however often it happens. Not safe for threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* How much may be reported in all. */
struct rate {
	int64_t refilled_ms;
	int64_t left; /* that may be reported now */
};

struct rate_limit {
	struct rate_limit_row {
		uint64_t thing; /* a hash */
		int64_t at_ms;  /* when it was reported; 0: never */
		int64_t times;  /* it happened since */
	} rows[128];
	struct rate rate;
};

enum { RATE_LIMIT_AGAIN_MS = 30000, RATE_LIMIT_BURST = 60, RATE_LIMIT_EACH_MS = 1000 };

/* How often it happened since its last report, this time included; 0: do not report it now. */
int64_t rate_limit_ask(struct rate_limit *limit, const char *thing, int64_t now_ms);

/* Whether one more may be reported now, which then counts as reported. */
bool rate_take(struct rate *rate, int64_t now_ms);
