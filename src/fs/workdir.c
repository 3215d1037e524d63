#include "fs/workdir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "config/config.h"
#include "fs/file_user.h"
#include "net/call.h"
#include "net/server.h"

#define WORKSPACE "/workspace"

static const char *resolve(struct call *call, const char *given)
{
	const char *below = given + strlen(WORKSPACE);
	if (strncmp(given, WORKSPACE, strlen(WORKSPACE)) != 0 || (*below && *below != '/') ||
	    access(WORKSPACE, F_OK) == 0)
		return given;
	return arena_printf(call->arena, "%s%s", call->server->config->workspace, below);
}

int workdir_find(struct call *call, const char *name, const char *given, const char **ret,
		 struct err *err)
{
	struct user_view view;
	struct stat st;
	*ret = NULL;
	if (!given || !*given)
		return 0;
	if (*given != '/')
		return err_set(err, ERR_BAD_REQUEST, "%s '%.200s' is not an absolute path", name,
			       given);
	if (file_user_enter(call, false, &view, err) < 0)
		return -1;
	const char *path = resolve(call, given);
	int code = stat(path, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
	user_leave(&view);
	if (code)
		return err_set(err, code, "%s '%.200s'", name, given);
	*ret = path;
	return 0;
}
