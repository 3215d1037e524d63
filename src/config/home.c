#include "config/home.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "config/distribution.h"

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

void home_python_needs(const char *home, char *to, size_t room)
{
	char path[PATH_MAX], place[PATH_MAX];
	snprintf(path, sizeof path, "%s/.venv/bin/python3", home);
	ssize_t n = readlink(path, place, sizeof place - 1);
	place[n < 0 ? 0 : n] = 0;
	snprintf(path, sizeof path, "%s/.venv/lib", home);
	DIR *dir = opendir(path);
	*to = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (!strncmp(entry->d_name, "python3.", 8))
			snprintf(to, room, "Python %.10s at %.200s", entry->d_name + 6, place);
	if (dir)
		closedir(dir);
}

bool home_python(const char *home, char *to, size_t room)
{
	char real[PATH_MAX], packages[PATH_MAX * 2], needs[256];
	if ((size_t)snprintf(to, room, "%s/.venv/bin/python", home) >= room ||
	    access(to, X_OK) < 0 || !distribution_has_glibc() || !realpath(to, real))
		return false;
	const char *name = strrchr(real, '/') + 1;
	if (strncmp(name, "python3.", 8) != 0) /* which version it is only running it would tell */
		return true;
	snprintf(packages, sizeof packages, "%s/.venv/lib/%s", home, name);
	if (access(packages, F_OK) == 0)
		return true;
	home_python_needs(home, needs, sizeof needs);
	return !*needs;
}
