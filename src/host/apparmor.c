#include "host/apparmor.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"
#include "config/home.h"
#include "proc/utility.h"

/* A line of the kernel's list is "name (mode)". */
static bool is_loaded(const char *sys)
{
	char path[256], line[512];
	bool found = false;
	snprintf(path, sizeof path, "%s/kernel/security/apparmor/profiles", sys);
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof line, file))
		found = !strncmp(line, BOX_PROFILE " (", strlen(BOX_PROFILE " ("));
	if (file)
		fclose(file);
	return found;
}

enum apparmor apparmor_look(const char *proc, const char *sys)
{
	char path[256], value = '0';
	snprintf(path, sizeof path, "%s/sys/kernel/apparmor_restrict_unprivileged_userns", proc);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &value, 1) != 1 || value == '0')
		return APPARMOR_OPEN;
	return is_loaded(sys) ? APPARMOR_LOADED : APPARMOR_CLOSED;
}

void apparmor_prepare(char *text, size_t room)
{
	char home[4096], profile[4200],
		*argv[] = { (char *)"apparmor_parser", (char *)"-r", profile, NULL };
	struct err err = { 0 };
	size_t len = strlen(text);
	enum apparmor state = apparmor_look("/proc", "/sys");
	home_find(home, sizeof home);
	snprintf(profile, sizeof profile, "%s/share/apparmor/" BOX_PROFILE, home);
	if (state == APPARMOR_CLOSED &&
	    utility_run("apparmor_parser", "apparmor", argv, NULL, UTILITY_MS, &err) == 0)
		state = apparmor_look("/proc", "/sys");
	if (state == APPARMOR_LOADED)
		snprintf(text + len, room - len, "%-12s AppArmor profile " BOX_PROFILE "\n",
			 "in a box");
	if (state == APPARMOR_CLOSED)
		snprintf(
			text + len, room - len,
			"%-12s none, so browsers have no sandbox of their own: AppArmor restricts "
			"user namespaces. To allow them in boxes, 'apparmor_parser -r %s' and start "
			"this again (%.200s)\n",
			"in a box", profile, err.msg);
}
