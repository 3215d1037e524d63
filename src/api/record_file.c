#include "api/record_file.h"

#include <time.h>

#include "api/file.h"
#include "base/arena.h"
#include "net/call.h"

/* To the millisecond: two never have the same. */
static const char *new_path(struct call *call, const char *name)
{
	struct timespec now;
	struct tm parts;
	char text[32];
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &parts);
	strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
	return arena_printf(call->arena, "/tmp/recordings/%s_%s_%03ld.mp4", name, text,
			    now.tv_nsec / 1000000);
}

const char *record_file(struct call *call, const char *save_path, const char *name, struct err *err)
{
	return save_path && *save_path ? file_path(call, save_path, NULL, err)
				       : new_path(call, name);
}
