#include "notebook/jupyterlab.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "config/home.h"
#include "net/dial.h"
#include "net/server.h"
#include "proc/stage.h"
#include "proc/user.h"
#include "service/service.h"

enum { START_MS = 60000, GRACE_MS = 2000, PIDS = 8 };
#define MEMORY ((int64_t)96 << 20)

static struct {
	struct service *service;
	char dir[PATH_MAX], socket[PATH_MAX + 16];
} jupyterlab;

static const char *find_python(void *arg, struct arena *arena, struct err *err)
{
	const struct server *server = arg;
	const char *page =
		arena_printf(arena, "%s/.venv/share/jupyter/lab/static/index.html", server->home);
	char python[PATH_MAX], needs[256];
	if (home_python(server->home, python, sizeof python) && access(page, R_OK) == 0)
		return arena_strdup(arena, python);
	home_python_needs(server->home, needs, sizeof needs);
	if (*needs)
		err_set(err, ERR_UNAVAILABLE,
			"it needs %s: add the package python3 to the image of this box", needs);
	else
		err_set(err, ERR_UNAVAILABLE, "'%s' or '%s' is not installed: make deps", python,
			page);
	return NULL;
}

/* Nobody else may enter the directory of its socket. What one that was killed has left there goes. */
static int prepare_dir(const struct user *user, struct err *err)
{
	char *dir = jupyterlab.dir;
	struct user_view view;
	if (!*dir && stage_make_dir(user, "notebook", dir, sizeof jupyterlab.dir, err) < 0) {
		*dir = 0;
		return -1;
	}
	snprintf(jupyterlab.socket, sizeof jupyterlab.socket, "%s/socket", dir);
	if (user_enter(user, &view, err) < 0)
		return -1;
	(void)unlink(jupyterlab.socket);
	user_leave(&view);
	return 0;
}

static int prepare(struct service_run *run, struct service_start *start, struct err *err)
{
	static struct pair extra[] = { { "JUPYTER_RUNTIME_DIR", jupyterlab.dir } };
	const struct server *server = run->arg;
	const struct user *user = user_sandbox(server->config->user, err);
	struct spawn *spawn = &start->program.spawn;
	if (!user || prepare_dir(user, err) < 0)
		return -1;
	char *argv[] = { (char *)spawn->path,
			 arena_printf(start->arena, "%s/share/notebook/lab.py", server->home),
			 jupyterlab.socket, (char *)server->config->workspace, NULL };
	char **copy = arena_alloc(start->arena, sizeof argv);
	memcpy(copy, argv, sizeof argv);
	spawn->argv = copy;
	spawn->cwd = server->config->workspace;
	start->program.group = true;
	start->ready = (struct ready){ .how = READY_UNIX, .path = jupyterlab.socket };
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL,
			&(struct list){ COUNT(extra), extra });
	return 0;
}

void jupyterlab_setup(struct server *server)
{
	static struct service_row row = { .name = "jupyter",
					  .title = "the notebook",
					  .find = find_python,
					  .prepare = prepare,
					  .pids = PIDS,
					  .memory = MEMORY,
					  .start_ms = START_MS,
					  .grace_ms = GRACE_MS };
	row.idle_ms = server->config->service_idle_ms;
	jupyterlab.service = service_add(&row, server);
}

struct service_run *jupyterlab_use(const struct wait *wait, struct err *err)
{
	return service_use(jupyterlab.service, wait, err);
}

int jupyterlab_connect(const struct server *server, const struct wait *wait, struct err *err)
{
	const struct dial_wait patience = { .all = *wait };
	const struct user *user = user_sandbox(server->config->user, err);
	struct user_view view;
	/* As the sandbox user: the path is in that user's directory. */
	if (!user || user_enter(user, &view, err) < 0)
		return -1;
	int fd = dial_unix(jupyterlab.socket, &patience, err);
	user_leave(&view);
	return fd;
}

const char *jupyterlab_socket(void)
{
	return jupyterlab.socket;
}
