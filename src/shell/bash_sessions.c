#include "shell/bash_sessions.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "config/config.h"
#include "fs/file_user.h"
#include "fs/workdir.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/command.h"
#include "proc/tree.h"

/* A command of a session. */
struct bash_sessions_entry {
	struct bash_sessions_entry *older;
	char id[32];
	char *text;
	struct command *command;
};

struct bash_session {
	struct session base;
	char marker[112];
	struct bash_sessions_entry *commands; /* the newest first */
	int64_t count;
	char *cwd, *snapshot;
};

static void entry_free(struct bash_sessions_entry *entry)
{
	command_abandon(entry->command);
	command_unref(entry->command);
	free(entry->text);
	free(entry);
}

static void session_done(void *arg)
{
	struct bash_session *session = arg;
	for (struct bash_sessions_entry *entry = session->commands, *older; entry; entry = older) {
		older = entry->older;
		entry_free(entry);
	}
	free(session->cwd);
	free(session->snapshot);
}

static bool is_running(struct bash_sessions_entry *entry)
{
	bool running = command_lock(entry->command)->state == COMMAND_RUNNING;
	command_unlock(entry->command);
	return running;
}

/* The newest command that runs, else the newest. With the session's lock. */
static struct bash_sessions_entry *current(struct bash_session *session)
{
	for (struct bash_sessions_entry *entry = session->commands; entry; entry = entry->older)
		if (is_running(entry))
			return entry;
	return session->commands;
}

/* A command runs in it, or a user may be about to start one. */
static bool session_busy(void *arg)
{
	struct bash_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	struct bash_sessions_entry *entry = current(session);
	bool busy = session->base.users > 0 || (entry && is_running(entry));
	pthread_mutex_unlock(&session->base.lock);
	return busy;
}

static void session_end(void *arg)
{
	struct bash_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	bool used = session->count > 0;
	for (struct bash_sessions_entry *entry = session->commands; entry; entry = entry->older)
		command_condemn(entry->command);
	pthread_mutex_unlock(&session->base.lock);
	if (used)
		tree_end(session->marker);
}

struct sessions bash_sessions = {
	.kind = "bash",
	.size = sizeof(struct bash_session),
	.busy = session_busy,
	.end = session_end,
	.done = session_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static void session_fill(void *arg, void *cwd)
{
	struct bash_session *session = arg;
	tree_marker(session->marker, sizeof session->marker, session->base.id);
	session->cwd = xstrdup(cwd);
}

struct bash_session *bash_session_open(const struct config *config, const char *id, const char *cwd,
				       struct err *err)
{
	const char *dir = cwd && *cwd ? cwd : config->workspace;
	return sessions_open(&bash_sessions, id, session_fill, (void *)dir, err);
}

struct bash_session *bash_session_find(const char *id, struct err *err)
{
	return sessions_find(&bash_sessions, id, err);
}

const char *bash_session_id(const struct bash_session *session)
{
	return session->base.id;
}

const char *bash_session_marker(const struct bash_session *session)
{
	return session->marker;
}

int bash_session_place(struct bash_session *session, const char *dir, struct arena *arena,
		       const char **ret_cwd, const char **ret_snapshot, struct err *err)
{
	pthread_mutex_lock(&session->base.lock);
	bool closed = session->base.closed;
	if (dir) {
		free(session->cwd);
		session->cwd = xstrdup(dir);
	}
	*ret_cwd = arena_strdup(arena, session->cwd);
	*ret_snapshot = session->snapshot ? arena_strdup(arena, session->snapshot) : NULL;
	pthread_mutex_unlock(&session->base.lock);
	return closed ? err_set(err, ERR_CONFLICT, "the session '%s' is closed", session->base.id)
		      : 0;
}

/* ---- their commands ---- */

/* Forgets the oldest ended commands of a session that has too many. With its lock. */
static void trim(struct bash_session *session, int64_t most)
{
	int64_t seen = 0;
	for (struct bash_sessions_entry **at = &session->commands; *at;) {
		struct bash_sessions_entry *entry = *at;
		if (++seen > most && !is_running(entry)) {
			*at = entry->older;
			entry_free(entry);
		} else {
			at = &entry->older;
		}
	}
}

const char *bash_session_remember(struct bash_session *session, const char *text,
				  struct command *command, int64_t most, struct arena *arena)
{
	struct bash_sessions_entry *entry = xcalloc(1, sizeof *entry);
	entry->text = xstrdup(text);
	entry->command = command_ref(command);
	pthread_mutex_lock(&session->base.lock);
	snprintf(entry->id, sizeof entry->id, "cmd-%lld", (long long)++session->count);
	entry->older = session->commands;
	session->commands = entry;
	sessions_touch(&session->base);
	trim(session, most);
	const char *id = arena_strdup(arena, entry->id);
	bool closed = session->base.closed;
	pthread_mutex_unlock(&session->base.lock);
	if (closed) { /* while it started: whoever closed the session has not seen it */
		command_condemn(command);
		tree_end(session->marker);
	}
	return id;
}

struct command *bash_session_pick(struct bash_session *session, const char *id, struct arena *arena,
				  const char **ret_id, const char **ret_text, struct err *err)
{
	struct command *command = NULL;
	pthread_mutex_lock(&session->base.lock);
	struct bash_sessions_entry *entry = id && *id ? session->commands : current(session);
	while (id && *id && entry && strcmp(entry->id, id) != 0)
		entry = entry->older;
	if (entry) {
		command = command_ref(entry->command);
		*ret_id = arena_strdup(arena, entry->id);
		*ret_text = arena_strdup(arena, entry->text);
	}
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
	if (!command)
		err_set(err, ERR_NOT_FOUND,
			id && *id ? "there is no command '%.40s' in session '%s'"
				  : "%.0sno command was run in session '%s'",
			id ? id : "", session->base.id);
	return command;
}

int bash_session_signal(struct bash_session *session, const char *id, int number)
{
	int sent = 0;
	pthread_mutex_lock(&session->base.lock);
	for (struct bash_sessions_entry *entry = session->commands; entry; entry = entry->older)
		if (!id || !*id || !strcmp(entry->id, id))
			sent += command_signal(entry->command, number, NULL) == 0;
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
	return sent;
}

/* ---- what is said of a session ---- */

static const char *const session_states[] = { "ready", "closed", NULL };

struct bash_sessions_session_info {
	const char *session_id, *status, *working_dir, *created_at, *last_used_at, *current_command;
	int64_t command_count;
};
static const struct field session_info_fields[] = {
	STR(bash_sessions_session_info, session_id, 0, "Session identifier."),
	ENUM(bash_sessions_session_info, status, 0,
	     "`ready`, or `closed`: cannot be used any more.", .choices = session_states),
	STR(bash_sessions_session_info, working_dir, 0, "Where its next command runs."),
	STR(bash_sessions_session_info, created_at, 0, "When it was made."),
	STR(bash_sessions_session_info, last_used_at, 0, "When it was last used."),
	STR(bash_sessions_session_info, current_command, NULLABLE, "The command that is running."),
	INT(bash_sessions_session_info, command_count, 0, "How many commands it has run."),
};
static const struct schema session_info_schema =
	SCHEMA(bash_sessions_session_info, "BashSessionInfo", session_info_fields);
const struct field bash_session_data = { .type = T_OBJ, .of = &session_info_schema };
const struct field bash_session_list_data = { .type = T_LIST,
					      .item = T_OBJ,
					      .of = &session_info_schema };

static struct bash_sessions_session_info describe(struct bash_session *session, struct arena *arena)
{
	pthread_mutex_lock(&session->base.lock);
	struct bash_sessions_entry *entry = current(session);
	struct bash_sessions_session_info info = {
		.session_id = arena_strdup(arena, session->base.id),
		.status = session_states[session->base.closed],
		.working_dir = arena_strdup(arena, session->cwd),
		.created_at = timestamp_text(arena, &session->base.created),
		.last_used_at = timestamp_text(arena, &session->base.used),
		.current_command = entry && is_running(entry) ? arena_strdup(arena, entry->text)
							      : NULL,
		.command_count = session->count,
	};
	pthread_mutex_unlock(&session->base.lock);
	return info;
}

/* ---- making, listing, closing ---- */

struct bash_sessions_create_request {
	const char *session_id, *exec_dir, *snapshot_path;
};
static const struct field create_fields[] = {
	STR(bash_sessions_create_request, session_id, OPTIONAL,
	    "Its identifier; a new one when absent or empty.", .max_len = 64, .alias = "id"),
	STR(bash_sessions_create_request, exec_dir, OPTIONAL,
	    "Where its commands run, an absolute path."),
	STR(bash_sessions_create_request, snapshot_path, OPTIONAL,
	    "A script that each command sources first."),
};
const struct schema bash_session_create_schema =
	SCHEMA(bash_sessions_create_request, "BashSessionCreateRequest", create_fields);

/* Whether the user may read it. */
static bool is_readable(struct call *call, const char *path)
{
	struct user_view view;
	if (file_user_enter(call, false, &view, NULL) < 0)
		return false;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	user_leave(&view);
	return fd >= 0;
}

int bash_session_create(struct call *call, const void *in, struct err *err)
{
	const struct bash_sessions_create_request *request = in;
	const char *snapshot = request->snapshot_path, *dir;
	if (workdir_find(call, "exec_dir", request->exec_dir, &dir, err) < 0)
		return -1;
	if (snapshot && *snapshot && (!is_readable(call, snapshot) || strchr(snapshot, '\'')))
		return err_set(err, ERR_BAD_REQUEST, "snapshot_path '%.200s' cannot be read",
			       snapshot);
	auto_session struct bash_session *session =
		bash_session_open(call->server->config, request->session_id, dir, err);
	if (!session)
		return -1;
	if (snapshot && *snapshot) {
		pthread_mutex_lock(&session->base.lock);
		free(session->snapshot);
		session->snapshot = xstrdup(snapshot);
		pthread_mutex_unlock(&session->base.lock);
	}
	struct bash_sessions_session_info info = describe(session, call->arena);
	return call_reply(call, &info, err);
}

int bash_session_list(struct call *call, const void *in, struct err *err)
{
	(void)in;
	sessions_expire(&bash_sessions);
	size_t count;
	void **all = sessions_list(&bash_sessions, call->arena, &count);
	struct bash_sessions_session_info *infos = arena_alloc(call->arena, count * sizeof *infos);
	for (size_t i = 0; i < count; i++)
		infos[i] = describe(all[i], call->arena);
	return call_reply(call, &(struct list){ count, infos }, err);
}

struct close_request {
	const char *session_id;
};
static const struct field close_fields[] = {
	STR(close_request, session_id, PATH | REQUIRED, "Session."),
};
const struct schema bash_session_close_schema = SCHEMA(close_request, "BashClose", close_fields);

int bash_session_close(struct call *call, const void *in, struct err *err)
{
	const struct close_request *request = in;
	if (sessions_close(&bash_sessions, request->session_id, err) < 0)
		return -1;
	call->message = "Session closed";
	return call_reply(call, NULL, err);
}
