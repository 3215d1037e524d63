#include "base/timestamp.h"

#include "base/arena.h"

const char *timestamp_text(struct arena *arena, const struct timespec *when)
{
	struct tm tm;
	char text[40];
	if (!gmtime_r(&when->tv_sec, &tm)) /* a file may have any number as its time */
		return NULL;
	strftime(text, sizeof text, "%FT%T", &tm);
	return arena_printf(arena, "%s.%06ldZ", text, when->tv_nsec / 1000);
}
