/* file_user.h - with whose rights a file call touches files: the sandbox user's, or with sudo root's.
 * Of this thread alone, and of no program it starts: that one gets its user through spawn. */
#pragma once
#include <stdbool.h>

#include "proc/user.h"

struct call;
struct err;

/* From here to user_leave(view). -1 with ERR_FORBIDDEN for sudo when the server is not root. */
int file_user_enter(struct call *call, bool sudo, struct user_view *view, struct err *err);

/* Whom a program started for such a call has to be: for spawn.as or child_spec.user. */
int file_user_of(struct call *call, bool sudo, const struct user **ret, struct err *err);

static inline void file_user_own_leave(const struct user_view *view)
{
	user_leave(view);
}
#define auto_leave __attribute__((cleanup(file_user_own_leave)))
