#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "host/apparmor.h"
#include "tap.h"

static char top[] = "/tmp/aio-apparmor-XXXXXX";

static void put(const char *path, const char *text)
{
	char whole[256];
	snprintf(whole, sizeof whole, "%s/%s", top, path);
	for (char *slash = whole + sizeof top; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		(void)mkdir(whole, 0755);
		*slash = '/';
	}
	auto_close int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

int main(void)
{
	static const char sysctl[] = "sys/kernel/apparmor_restrict_unprivileged_userns";
	static const char profiles[] = "kernel/security/apparmor/profiles";
	if (!mkdtemp(top))
		return 1;
	CHECK(apparmor_look(top, top) == APPARMOR_OPEN); /* no such kernel */
	put(sysctl, "0\n");
	CHECK(apparmor_look(top, top) == APPARMOR_OPEN);
	put(sysctl, "1\n");
	CHECK(apparmor_look(top, top) == APPARMOR_CLOSED); /* the list cannot be read */
	put(profiles,
	    "unprivileged_userns (enforce)\naioboxes (unconfined)\nnot aiobox (enforce)\n");
	CHECK(apparmor_look(top, top) == APPARMOR_CLOSED);
	put(profiles, "chrome (unconfined)\naiobox (unconfined)\n");
	CHECK(apparmor_look(top, top) == APPARMOR_LOADED);
	put(sysctl, "0\n");
	CHECK(apparmor_look(top, top) == APPARMOR_OPEN);
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command) || tap_done(); /* NOLINT(cert-env33-c) */
}
