#include "code/evict.h"

#include "code/kernels.h"
#include "code/nodejs_sessions.h"
#include "proc/limits.h"

bool evict_one(void)
{
	return sessions_evict(&kernels_sessions) || sessions_evict(&nodejs_sessions);
}

void evict_for(int64_t tasks)
{
	while (!limits_fit(tasks) && evict_one())
		;
}
