/* user.h - the sandbox user: whom a server that is root runs programs as, and looks at files as. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct err;

enum { USER_GROUPS_MAX = 64 };

struct user {
	char name[256], home[4096];
	uid_t uid;
	gid_t gid, groups[USER_GROUPS_MAX];
	int group_count;
	bool other; /* the server is root and this user is not: it can, and has to, become them */
};

int user_find(const char *name, struct user *ret, struct err *err);

/* The same, remembered for the life of the process: for the one sandbox user there is. */
const struct user *user_sandbox(const char *name, struct err *err);

/* What the server's file mode creation mask is, and that of what it starts. */
mode_t user_umask(void);

/* Becomes the user for good, where that is needed: for a process between fork and exec. -1 with
 * errno. */
int user_become(const struct user *user);

/* From here to user_leave() this thread, and no other, may touch only what the user may. */
struct user_view {
	bool changed;
	gid_t groups[USER_GROUPS_MAX];
	int group_count;
};
int user_enter(const struct user *user, struct user_view *view, struct err *err);
void user_leave(const struct user_view *view);
