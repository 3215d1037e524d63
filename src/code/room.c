#include "code/room.h"

#include "code/kernels.h"
#include "code/nodejs_sessions.h"
#include "proc/limits.h"

bool room_evict(void)
{
	return sessions_evict(&kernels_sessions) || sessions_evict(&nodejs_sessions);
}

void room_make(int64_t tasks)
{
	while (!limits_fit(tasks) && room_evict())
		;
}
