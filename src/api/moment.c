#include "api/moment.h"

#include "base/arena.h"

const char *moment_text(struct arena *arena, const struct timespec *when)
{
	struct tm tm;
	char text[40];
	gmtime_r(&when->tv_sec, &tm);
	strftime(text, sizeof text, "%FT%T", &tm);
	return arena_printf(arena, "%s.%06ldZ", text, when->tv_nsec / 1000);
}
