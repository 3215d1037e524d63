#include "shell/shells.h"

#include "base/desc.h"
#include "config/config.h"
#include "net/server.h"
#include "proc/user.h"
#include "shell/shell_state.h"

enum { NO_CHANGE_S = 120 };

static bool session_busy(void *arg)
{
	struct shell *shell = arg;
	shell_lock(shell);
	const struct shell_command *latest = shell_latest(shell);
	bool busy = latest && latest->status <= SHELL_RUNNING;
	shell_unlock(shell);
	return busy;
}

static void session_end(void *arg)
{
	shell_end(arg);
}

static void session_done(void *arg)
{
	shell_done(arg);
}

struct sessions shell_sessions = {
	.kind = "shell",
	.size = sizeof(struct shell),
	.busy = session_busy,
	.end = session_end,
	.done = session_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static void session_fill(void *arg, void *settings)
{
	shell_init(arg, settings);
}

struct shell *shells_find(const char *id, struct err *err)
{
	return sessions_find(&shell_sessions, id, err);
}

struct shell *shells_open(struct server *server, const char *id, const char *dir, bool logical,
			  int no_change_s, struct err *err)
{
	const struct user *user = user_sandbox(server->config->user, err);
	struct shell_settings settings = {
		.cwd = dir && *dir ? dir : server->config->workspace,
		.home = server->home,
		.logical = logical,
		.as = user,
		.no_change_s = no_change_s > 0 ? no_change_s : NO_CHANGE_S,
		.history = (size_t)server->config->max_history,
	};
	return user ? sessions_open(&shell_sessions, id, session_fill, &settings, err) : NULL;
}

void shells_release(struct shell **shell)
{
	sessions_release(*shell);
}

const char *shells_status(const struct shell_command *command)
{
	static const char *const names[] = { "running", "running", "completed", "hard_timeout",
					     "terminated" };
	return command ? names[command->status] : "completed";
}

int64_t shells_exit_code(const struct shell_command *command)
{
	return command && command->status == SHELL_COMPLETED ? command->exit_code : INT_ABSENT;
}
