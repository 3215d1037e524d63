#include "editor/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "config/config.h"
#include "config/distribution.h"
#include "net/call.h"
#include "net/dial.h"
#include "net/server.h"
#include "proc/stage.h"
#include "proc/tools.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	START_MS = 45000,
	GRACE_MS = 5000,
	CONNECT_MS = 10000,
	TRIES = 3,
	END_MS = 1000, /* from when it takes no connection until its end is seen */
	SETTINGS_MAX = 8192,
	PIDS = 64, /* its processes and their threads, with a page and a terminal */
};
#define MEMORY ((int64_t)128 << 20)

/* Where code-server has its data, too: settings, extensions, logs. */
#define DATA ".local/share/code-server"

static struct {
	struct server *server;
	struct service *service;
	char dir[PATH_MAX], socket[PATH_MAX + 16];
} editor;

/* ---- the program ---- */

static const char *find_node(void *arg, struct arena *arena, struct err *err)
{
	const struct server *server = arg;
	const char *script =
		arena_printf(arena, "%s/node_modules/code-server/out/server-main.js", server->home);
	struct tools_where where = { .home = server->home,
				     .user = user_sandbox(server->config->user, err),
				     .stop_fd = -1 };
	if (!where.user)
		return NULL;
	if (!distribution_has_glibc()) {
		err_set(err, ERR_UNAVAILABLE,
			"the editor needs glibc, and the image of this box lacks it: use an image with "
			"glibc, such as Debian's");
		return NULL;
	}
	auto_free char *node = access(script, R_OK) == 0 ? tools_find(&where, "node", 0) : NULL;
	if (node)
		return arena_strdup(arena, node);
	err_set(err, ERR_UNAVAILABLE, "VS Code ('%s'), or Node.js, is not installed: make deps",
		script);
	return NULL;
}

/* ---- its files ---- */

/* Of a new sandbox: what a person would otherwise meet first are questions, news, and a chat that needs an
 * account. The settings are the user's from then on. */
static int write_settings(const char *dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/settings.json", dir);
	auto_free char *ours = xasprintf("%s/share/editor/settings.json", editor.server->home);
	auto_close int from = open(ours, O_RDONLY | O_CLOEXEC);
	char text[SETTINGS_MAX];
	ssize_t len = from < 0 ? -1 : read(from, text, sizeof text);
	if (len < 0)
		return err_set(err, errno, "read '%s'", ours);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return err_set(err, errno, "write '%s'", path);
	return 0;
}

/* As the user. The socket of one that was killed would keep the next one from starting. */
static int prepare_files(const struct user *user, struct err *err)
{
	static const char *const dirs[] = { ".local", ".local/share", DATA, DATA "/User" };
	char path[PATH_MAX + 64];
	struct user_view view;
	int result = 0;
	if (user_enter(user, &view, err) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(dirs) && result == 0; i++) {
		snprintf(path, sizeof path, "%s/%s", user->home, dirs[i]);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			result = err_set(err, errno, "mkdir '%s'", path);
	}
	if (result == 0)
		result = write_settings(path, err);
	if (result == 0 && unlink(editor.socket) < 0 && errno != ENOENT)
		result = err_set(err, errno, "remove '%s'", editor.socket);
	user_leave(&view);
	return result;
}

/* ---- the service ---- */

static int prepare(struct service_run *run, struct service_start *start, struct err *err)
{
	const struct server *server = run->arg;
	const struct user *user = user_sandbox(server->config->user, err);
	struct spawn *spawn = &start->program.spawn;
	if (!user || prepare_files(user, err) < 0)
		return -1;
	char *data = arena_printf(start->arena, "%s/" DATA, user->home);
	char *argv[] = {
		(char *)spawn->path,
		arena_printf(start->arena, "%s/node_modules/code-server/out/server-main.js",
			     server->home),
		(char *)"--socket-path",
		editor.socket,
		(char *)"--server-base-path",
		(char *)EDITOR_PATH,
		(char *)"--default-folder",
		(char *)server->config->workspace,
		(char *)"--server-data-dir",
		data,
		(char *)"--user-data-dir", /* or it would be a directory in that */
		data,
		(char *)"--without-connection-token", /* see editor.h */
		(char *)"--accept-server-license-terms",
		(char *)"--telemetry-level",
		(char *)"off",
		(char *)"--disable-update-check",
		(char *)"--disable-workspace-trust",
		(char *)"--disable-getting-started-override",
		NULL,
	};
	const struct pair extra[] = {
		/* Browsers would ask a gallery on the web. Extensions are installed from files. */
		{ "EXTENSIONS_GALLERY", getenv("EXTENSIONS_GALLERY") ?: "{}" },
		/* For the command `code-server` of its terminals. */
		{ "NODE_EXEC_PATH", spawn->path },
	};
	char **copy = arena_alloc(start->arena, sizeof argv);
	memcpy(copy, argv, sizeof argv);
	spawn->argv = copy;
	spawn->cwd = user->home;
	start->program.group = true;
	start->ready = (struct ready){ .how = READY_UNIX, .path = editor.socket };
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL,
			&(struct list){ COUNT(extra), extra });
	return 0;
}

void editor_setup(struct server *server)
{
	static struct service_row row = { .name = "code-server",
					  .title = "the editor",
					  .find = find_node,
					  .prepare = prepare,
					  .pids = PIDS,
					  .memory = MEMORY,
					  .start_ms = START_MS,
					  .grace_ms = GRACE_MS };
	struct err err;
	const struct user *user = user_sandbox(server->config->user, &err);
	editor.server = server;
	if (!user || stage_make_dir(user, "editor", editor.dir, sizeof editor.dir, &err) < 0) {
		log_warn("no directory for the editor: %s", err.msg);
		row.refused = "there is no directory for its socket";
	}
	snprintf(editor.socket, sizeof editor.socket, "%s/socket", editor.dir);
	row.idle_ms = server->config->service_idle_ms;
	editor.service = service_add(&row, server);
	if (server->config->editor_ready)
		(void)service_begin(editor.service);
}

const char *editor_socket(void)
{
	return editor.socket;
}

/* ---- using it ---- */

/* As the sandbox user: at the path there may be whatever that has put there. */
static int dial_as_user(const struct dial_wait *wait, struct err *err)
{
	const struct user *user = user_sandbox(editor.server->config->user, err);
	struct user_view view;
	if (!user || user_enter(user, &view, err) < 0)
		return -1;
	int fd = dial_unix(editor.socket, wait, err);
	user_leave(&view);
	return fd;
}

static void release(void *run)
{
	service_release(run);
}

/* One that was just killed takes no more connections before its end is seen. */
int editor_connect(struct call *call, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	for (int tries = 0; tries < TRIES; tries++) {
		struct service_run *run = service_use(editor.service, &wait, err);
		if (!run)
			return -1;
		const struct dial_wait patience = { .all = wait, .connect_ms = CONNECT_MS };
		int fd = dial_as_user(&patience, err);
		if (fd >= 0) {
			arena_defer(call->arena, release, run);
			return fd;
		}
		const struct wait moment = call_until(call, clock_ms() + END_MS);
		(void)program_wait(run->program, &moment, NULL);
		service_lost(run, program_ended(run->program) ? NULL : "it takes no connection");
		service_release(run);
	}
	return -1;
}
