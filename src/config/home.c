#include "config/home.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

void home_find(char *to, size_t room)
{
	static const char *const places[] = { "/../share/aiobox", "/.." };
	const char *given = getenv("AIO_HOME");
	if (given && *given) {
		snprintf(to, room, "%s", given);
		return;
	}
	char exe[2048], candidate[4096], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[n < 0 ? 0 : n] = 0;
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = 0;
	snprintf(to, room, "%s", exe);
	for (size_t i = 0; i < COUNT(places); i++) {
		snprintf(candidate, sizeof candidate, "%s%s/web", exe, places[i]);
		if (access(candidate, F_OK) < 0)
			continue;
		snprintf(candidate, sizeof candidate, "%s%s", exe, places[i]);
		snprintf(to, room, "%s", realpath(candidate, real) ? real : candidate);
		return;
	}
}
