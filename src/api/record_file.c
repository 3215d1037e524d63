#include "api/record_file.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "api/file.h"
#include "base/arena.h"
#include "net/call.h"

/* The time in milliseconds; of two that ask at once, one gets the next. */
static int64_t new_moment(void)
{
	static _Atomic int64_t last;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t before = atomic_load(&last), ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	int64_t moment;
	do
		moment = ms > before ? ms : before + 1;
	while (!atomic_compare_exchange_weak(&last, &before, moment));
	return moment;
}

static const char *new_path(struct call *call, const char *name)
{
	const int64_t moment = new_moment();
	const time_t seconds = moment / 1000;
	struct tm parts;
	char text[32];
	localtime_r(&seconds, &parts);
	strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
	return arena_printf(call->arena, "/tmp/recordings/%s_%s_%03d.mp4", name, text,
			    (int)(moment % 1000));
}

const char *record_file(struct call *call, const char *save_path, const char *name, struct err *err)
{
	return save_path && *save_path ? file_path(call, save_path, NULL, err)
				       : new_path(call, name);
}
