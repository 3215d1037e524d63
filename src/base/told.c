#include "base/told.h"

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
bool told_rate_take(struct told_rate *rate, int64_t now_ms)
{
	if (!rate->refilled_ms) {
		rate->refilled_ms = now_ms;
		rate->left = TOLD_BURST;
	}
	int64_t more = (now_ms - rate->refilled_ms) / TOLD_EACH_MS;
	rate->refilled_ms += more * TOLD_EACH_MS;
	rate->left = rate->left + more > TOLD_BURST ? TOLD_BURST : rate->left + more;
	if (!rate->left)
		return false;
	rate->left--;
	return true;
}

/* The row of a thing, or the one that was told the longest ago. */
static struct told_row *find(struct told *told, uint64_t thing)
{
	struct told_row *oldest = told->rows;
	for (size_t i = 0; i < COUNT(told->rows); i++) {
		if (told->rows[i].at_ms && told->rows[i].thing == thing)
			return &told->rows[i];
		if (told->rows[i].at_ms < oldest->at_ms)
			oldest = &told->rows[i];
	}
	return oldest;
}

int64_t told_ask(struct told *told, const char *thing, int64_t now_ms)
{
	uint64_t key = hash(thing);
	struct told_row *row = find(told, key);
	bool known = row->at_ms && row->thing == key;
	if (known && now_ms - row->at_ms < TOLD_AGAIN_MS) {
		row->times++;
		return 0;
	}
	if (!told_rate_take(&told->rate, now_ms)) {
		row->times += known;
		return 0;
	}
	int64_t times = known ? row->times + 1 : 1;
	*row = (struct told_row){ key, now_ms, 0 };
	return times;
}
