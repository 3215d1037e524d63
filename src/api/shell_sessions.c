/* The sessions of shells on a terminal: made, listed and ended. */
#include <time.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/awake.h"
#include "base/err.h"
#include "base/timestamp.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "net/call.h"
#include "net/server.h"
#include "shell/shell.h"
#include "shell/shells.h"

enum { ACTIVE_MS = 5 * 60 * 1000 };

struct shell_sessions_create_request {
	const char *id, *exec_dir;
	int64_t no_change_timeout;
	bool preserve_symlinks;
};
static const struct field create_fields[] = {
	STR(shell_sessions_create_request, id, OPTIONAL,
	    "Its identifier; a new one when absent or empty.", .max_len = SESSION_ID_MAX,
	    .alias = "session_id"),
	STR(shell_sessions_create_request, exec_dir, OPTIONAL,
	    "Where it starts, an absolute path."),
	INT(shell_sessions_create_request, no_change_timeout, MIN | MAX,
	    "Seconds of silence after which a command's caller gets an answer; 120 when absent.",
	    .min = 1, .max = 86400),
	BOOL(shell_sessions_create_request, preserve_symlinks, OPTIONAL,
	     "Keep the symbolic links of exec_dir.", .def = "false"),
};
static const struct schema create_schema =
	SCHEMA(shell_sessions_create_request, "ShellCreateSessionRequest", create_fields);

struct create_result {
	const char *session_id, *working_dir;
};
static const struct field create_result_fields[] = {
	STR(create_result, session_id, 0, "Session identifier."),
	STR(create_result, working_dir, 0, "Where it is."),
};
static const struct schema create_result_schema =
	SCHEMA(create_result, "ShellCreateSessionResponse", create_result_fields);
static const struct field create_result_data = { .type = T_OBJ, .of = &create_result_schema };

static int create_session(struct call *call, const void *in, struct err *err)
{
	const struct shell_sessions_create_request *request = in;
	const char *dir;
	char cwd[4096];
	if (workdir_find(call, "exec_dir", request->exec_dir, &dir, err) < 0)
		return -1;
	int no_change = request->no_change_timeout == INT_ABSENT ? 0
								 : (int)request->no_change_timeout;
	auto_shell struct shell *shell = shells_open(call->server, request->id, dir,
						     request->preserve_symlinks, no_change, err);
	if (!shell)
		return -1;
	shell_lock(shell);
	int started = shell_start(shell, err);
	shell_cwd(shell, cwd, sizeof cwd);
	shell_unlock(shell);
	struct create_result result = { shell_id(shell), cwd };
	return started < 0 ? -1 : call_reply(call, &result, err);
}

struct update_request {
	const char *id;
	int64_t no_change_timeout;
};
static const struct field update_fields[] = {
	STR(update_request, id, REQUIRED, "Session.", .alias = "session_id"),
	INT(update_request, no_change_timeout, MIN | MAX, "Seconds of silence; see create.",
	    .min = 1, .max = 86400),
};
static const struct schema update_schema =
	SCHEMA(update_request, "ShellUpdateSessionRequest", update_fields);

static int update_session(struct call *call, const void *in, struct err *err)
{
	const struct update_request *request = in;
	auto_shell struct shell *shell = shells_find(request->id, err);
	if (!shell)
		return -1;
	shell_lock(shell);
	if (request->no_change_timeout != INT_ABSENT)
		*shell_no_change_s(shell) = (int)request->no_change_timeout;
	shell_touch(shell);
	shell_unlock(shell);
	call->message = "Session updated";
	return call_reply(call, NULL, err);
}

static const struct field url_data = { .type = T_STR, .help = "The terminal's page." };

static int terminal_url(struct call *call, const void *in, struct err *err)
{
	(void)in;
	auto_shell struct shell *shell = shells_open(call->server, NULL, NULL, false, 0, err);
	if (!shell)
		return -1;
	const char *url = arena_printf(call->arena, "%s/terminal?session_id=%s", call->base_url,
				       shell_id(shell));
	return call_reply(call, &url, err);
}

struct stats {
	int64_t total_sessions, active_sessions, idle_sessions, max_sessions, session_timeout;
	double usage_ratio;
};
static const struct field stats_fields[] = {
	INT(stats, total_sessions, 0, "How many there are."),
	INT(stats, active_sessions, 0, "Used within the last 5 minutes."),
	INT(stats, idle_sessions, 0, "The others."),
	INT(stats, max_sessions, 0, "How many there may be."),
	INT(stats, session_timeout, 0, "Seconds without use after which an idle one is ended."),
	NUM(stats, usage_ratio, 0, "How many of those that may be there are; 0 to 1."),
};
static const struct schema stats_schema = SCHEMA(stats, "ShellSessionStats", stats_fields);
static const struct field stats_data = { .type = T_OBJ, .of = &stats_schema };

static int session_stats(struct call *call, const void *in, struct err *err)
{
	(void)in;
	const struct config *config = call->server->config;
	sessions_expire(&shell_sessions);
	size_t count;
	void **all = sessions_list(&shell_sessions, call->arena, &count);
	struct stats stats = { .total_sessions = (int64_t)count,
			       .max_sessions = config->max_sessions,
			       .session_timeout = config->session_ms / 1000 };
	for (size_t i = 0; i < count; i++)
		stats.active_sessions += awake_ms() - ((const struct session *)all[i])->used_ms <
					 ACTIVE_MS;
	stats.idle_sessions = stats.total_sessions - stats.active_sessions;
	stats.usage_ratio = (double)stats.total_sessions / (double)stats.max_sessions;
	return call_reply(call, &stats, err);
}

struct shell_sessions_session_info {
	const char *working_dir, *created_at, *last_used_at, *status, *current_command;
	int64_t age_seconds;
};
static const struct field session_info_fields[] = {
	STR(shell_sessions_session_info, working_dir, 0, "Where it is."),
	STR(shell_sessions_session_info, created_at, 0, "When it was made."),
	STR(shell_sessions_session_info, last_used_at, 0, "When it was last used."),
	INT(shell_sessions_session_info, age_seconds, 0, "How old it is."),
	STR(shell_sessions_session_info, status, 0,
	    "`running` while a command runs, else `ready`."),
	STR(shell_sessions_session_info, current_command, NULLABLE, "The command that is running."),
};
static const struct schema session_info_schema =
	SCHEMA(shell_sessions_session_info, "ShellSessionInfo", session_info_fields);

struct shell_sessions_session_list {
	struct list sessions;
};
static const struct field session_list_fields[] = {
	MAP(shell_sessions_session_list, sessions, 0, "Sessions by their id.", .item = T_OBJ,
	    .of = &session_info_schema),
};
static const struct schema session_list_schema =
	SCHEMA(shell_sessions_session_list, "ActiveShellSessionsResult", session_list_fields);
static const struct field session_list_data = { .type = T_OBJ, .of = &session_list_schema };

static struct named describe(struct shell *shell, struct arena *arena)
{
	struct shell_sessions_session_info *info = arena_alloc(arena, sizeof *info);
	char cwd[4096];
	shell_lock(shell);
	shell_cwd(shell, cwd, sizeof cwd);
	const struct shell_command *current = shell_current(shell);
	*info = (struct shell_sessions_session_info){
		.working_dir = arena_strdup(arena, cwd),
		.created_at = timestamp_text(arena, shell_created(shell)),
		.last_used_at = timestamp_text(arena, shell_used(shell)),
		.age_seconds = time(NULL) - shell_created(shell)->tv_sec,
		.status = current ? "running" : "ready",
		.current_command = current ? arena_strdup(arena, current->text) : NULL,
	};
	shell_unlock(shell);
	return (struct named){ shell_id(shell), info };
}

static int list_sessions(struct call *call, const void *in, struct err *err)
{
	(void)in;
	sessions_expire(&shell_sessions);
	size_t count;
	void **all = sessions_list(&shell_sessions, call->arena, &count);
	struct named *named = arena_alloc(call->arena, count * sizeof *named);
	for (size_t i = 0; i < count; i++)
		named[i] = describe(all[i], call->arena);
	struct shell_sessions_session_list result = { { count, named } };
	return call_reply(call, &result, err);
}

static int delete_all(struct call *call, const void *in, struct err *err)
{
	(void)in;
	size_t count = sessions_close_all(&shell_sessions);
	call->message = arena_printf(call->arena, "%zu sessions ended", count);
	return call_reply(call, NULL, err);
}

struct delete_request {
	const char *session_id;
};
static const struct field delete_fields[] = {
	STR(delete_request, session_id, PATH | REQUIRED, "Session."),
};
static const struct schema delete_schema = SCHEMA(delete_request, "ShellDelete", delete_fields);

static int delete_one(struct call *call, const void *in, struct err *err)
{
	const struct delete_request *request = in;
	if (sessions_close(&shell_sessions, request->session_id, err) < 0)
		return -1;
	call->message = "Session ended";
	return call_reply(call, NULL, err);
}

static const struct field nothing = { .type = T_JSON };

static const struct route routes[] = {
	{ "POST", "/v1/shell/sessions/create", create_session, &create_schema, &create_result_data,
	  "Create a session", "An existing id gives that session." },
	{ "POST", "/v1/shell/sessions/update", update_session, &update_schema, &nothing,
	  "Change a session's settings" },
	{ "GET", "/v1/shell/terminal-url", terminal_url, NULL, &url_data,
	  "Create a session and get its terminal's page" },
	{ "GET", "/v1/shell/sessions/stats", session_stats, NULL, &stats_data, "Count sessions" },
	{ "GET", "/v1/shell/sessions", list_sessions, NULL, &session_list_data, "List sessions" },
	{ "DELETE", "/v1/shell/sessions", delete_all, NULL, &nothing, "End all sessions" },
	{ "DELETE", "/v1/shell/sessions/{session_id}", delete_one, &delete_schema, &nothing,
	  "End a session", "All its processes are ended." },
};
const struct route_group shell_sessions_group = { "shell",
						  "Shells on a terminal, whose state lasts.",
						  routes, COUNT(routes) };
