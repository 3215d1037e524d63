#include "proc/user.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { ENTRY_MAX = 65536 };

int user_find(const char *name, struct user *ret, struct err *err)
{
	struct passwd entry, *found;
	auto_free char *text = xmalloc(ENTRY_MAX);
	int code = getpwnam_r(name, &entry, text, ENTRY_MAX, &found);
	if (code || !found)
		return err_set(err, code ? code : ERR_NOT_FOUND, "there is no user '%s'", name);
	snprintf(ret->name, sizeof ret->name, "%s", entry.pw_name);
	/* Whoever we are ourselves is at home where we were told. */
	const char *home = entry.pw_uid == getuid() ? getenv("HOME") : NULL;
	snprintf(ret->home, sizeof ret->home, "%s", home && *home == '/' ? home : entry.pw_dir);
	ret->uid = entry.pw_uid;
	ret->gid = entry.pw_gid;
	ret->other = geteuid() == 0 && entry.pw_uid != 0;
	ret->group_count = USER_GROUPS_MAX;
	if (getgrouplist(name, entry.pw_gid, ret->groups, &ret->group_count) < 0)
		ret->group_count = USER_GROUPS_MAX; /* it has more: the first ones will do */
	return 0;
}

const struct user *user_sandbox(const char *name, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct user user;
	static bool found;
	pthread_mutex_lock(&lock);
	found = found || user_find(name, &user, err) == 0;
	const struct user *result = found ? &user : NULL;
	pthread_mutex_unlock(&lock);
	return result;
}

/* From /proc, because umask() would change it for all threads meanwhile. */
static mode_t mask = 022;

static void read_mask(void)
{
	char line[128];
	unsigned value;
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Umask: %o", &value) == 1)
			mask = value;
	if (file)
		fclose(file);
}

mode_t user_umask(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_mask);
	return mask;
}

/* The system calls themselves, because the library's change every thread of the process. */

int user_become(const struct user *user)
{
	if (!user->other)
		return 0;
	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
	    syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
	    syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
		return -1;
	return 0;
}

int user_enter(const struct user *user, struct user_view *view, struct err *err)
{
	*view = (struct user_view){ 0 };
	if (!user->other)
		return 0;
	view->group_count = getgroups(USER_GROUPS_MAX, view->groups);
	if (view->group_count < 0 || syscall(SYS_setgroups, user->group_count, user->groups) < 0)
		return err_set(err, errno, "cannot look at files as '%s'", user->name);
	view->changed = true;
	setfsgid(user->gid);
	setfsuid(user->uid); /* takes root's power over files away, too */
	if ((uid_t)setfsuid((uid_t)-1) == user->uid)
		return 0;
	user_leave(view);
	return err_set(err, EPERM, "cannot look at files as '%s'", user->name);
}

void user_leave(const struct user_view *view)
{
	if (!view->changed)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
	(void)syscall(SYS_setgroups, view->group_count, view->groups);
}
