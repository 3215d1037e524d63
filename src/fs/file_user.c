#include "fs/file_user.h"

#include <unistd.h>

#include "base/err.h"
#include "config/config.h"
#include "net/call.h"
#include "net/server.h"

static int check_sudo(const struct call *call, struct err *err)
{
	if (call->inside)
		return err_set(
			err, ERR_FORBIDDEN,
			"sudo is not possible for the sandbox's own programs: use their own");
	if (geteuid() == 0)
		return 0;
	return err_set(err, ERR_FORBIDDEN,
		       "sudo is not possible: the server runs as user %u, not as root",
		       (unsigned)geteuid());
}

int file_user_enter(struct call *call, bool sudo, struct user_view *view, struct err *err)
{
	*view = (struct user_view){ 0 };
	if (sudo)
		return check_sudo(call, err);
	const struct user *user = user_sandbox(call->server->config->user, err);
	return user ? user_enter(user, view, err) : -1;
}

int file_user_of(struct call *call, bool sudo, const struct user **ret, struct err *err)
{
	*ret = NULL;
	if (sudo)
		return check_sudo(call, err);
	*ret = user_sandbox(call->server->config->user, err);
	return *ret ? 0 : -1;
}
