#include "base/rate_limit.h"

#include <stddef.h>

#include "base/own.h"

static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037u;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h;
}

/* One in so many milliseconds, and some in a row. */
bool rate_take(struct rate *rate, int64_t now_ms)
{
	if (!rate->refilled_ms) {
		rate->refilled_ms = now_ms;
		rate->left = RATE_LIMIT_BURST;
	}
	int64_t more = (now_ms - rate->refilled_ms) / RATE_LIMIT_EACH_MS;
	rate->refilled_ms += more * RATE_LIMIT_EACH_MS;
	rate->left = rate->left + more > RATE_LIMIT_BURST ? RATE_LIMIT_BURST : rate->left + more;
	if (!rate->left)
		return false;
	rate->left--;
	return true;
}

/* The row of a thing, or the one that was reported the longest ago. */
static struct rate_limit_row *find(struct rate_limit *limit, uint64_t thing)
{
	struct rate_limit_row *oldest = limit->rows;
	for (size_t i = 0; i < COUNT(limit->rows); i++) {
		if (limit->rows[i].at_ms && limit->rows[i].thing == thing)
			return &limit->rows[i];
		if (limit->rows[i].at_ms < oldest->at_ms)
			oldest = &limit->rows[i];
	}
	return oldest;
}

int64_t rate_limit_ask(struct rate_limit *limit, const char *thing, int64_t now_ms)
{
	uint64_t key = hash(thing);
	struct rate_limit_row *row = find(limit, key);
	bool known = row->at_ms && row->thing == key;
	if (known && now_ms - row->at_ms < RATE_LIMIT_AGAIN_MS) {
		row->times++;
		return 0;
	}
	if (!rate_take(&limit->rate, now_ms)) {
		row->times += known;
		return 0;
	}
	int64_t times = known ? row->times + 1 : 1;
	*row = (struct rate_limit_row){ key, now_ms, 0 };
	return times;
}
