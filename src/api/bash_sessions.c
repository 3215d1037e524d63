#include "api/bash_sessions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/moment.h"
#include "api/routes.h"
#include "api/sessions.h"
#include "api/workdir.h"
#include "base/arena.h"
#include "base/awake.h"
#include "base/config.h"
#include "base/err.h"
#include "base/own.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/command.h"
#include "proc/tree.h"

/* A command of a session. */
struct entry {
	struct entry *older;
	char id[32];
	char *text;
	struct command *command;
};

struct bash_session {
	_Atomic int refs;
	pthread_mutex_t lock;
	char id[SESSION_ID_MAX * 4 + 1], marker[112];
	struct entry *commands; /* the newest first */
	int64_t count, used_ms;
	char *cwd, *snapshot;
	struct timespec created, used;
	bool closed;
};

static void entry_free(struct entry *entry)
{
	command_abandon(entry->command);
	command_unref(entry->command);
	free(entry->text);
	free(entry);
}

static void session_ref(void *arg)
{
	struct bash_session *session = arg;
	atomic_fetch_add(&session->refs, 1);
}

static void session_unref(void *arg)
{
	struct bash_session *session = arg;
	if (!session || atomic_fetch_sub(&session->refs, 1) > 1)
		return;
	for (struct entry *entry = session->commands, *older; entry; entry = older) {
		older = entry->older;
		entry_free(entry);
	}
	pthread_mutex_destroy(&session->lock);
	free(session->cwd);
	free(session->snapshot);
	free(session);
}

static bool is_running(struct entry *entry)
{
	bool running = command_lock(entry->command)->state == COMMAND_RUNNING;
	command_unlock(entry->command);
	return running;
}

/* The newest command that runs, else the newest. With the session's lock. */
static struct entry *current(struct bash_session *session)
{
	for (struct entry *entry = session->commands; entry; entry = entry->older)
		if (is_running(entry))
			return entry;
	return session->commands;
}

/* A command runs in it, or somebody has it beside the table, who may be about to start one. */
static bool session_busy(void *arg)
{
	struct bash_session *session = arg;
	pthread_mutex_lock(&session->lock);
	struct entry *entry = current(session);
	bool busy = atomic_load(&session->refs) > 1 || (entry && is_running(entry));
	pthread_mutex_unlock(&session->lock);
	return busy;
}

static void touch(struct bash_session *session)
{
	session->used_ms = awake_ms();
	clock_gettime(CLOCK_REALTIME, &session->used);
}

static int64_t session_used_ms(void *arg)
{
	struct bash_session *session = arg;
	pthread_mutex_lock(&session->lock);
	int64_t used = session->used_ms;
	pthread_mutex_unlock(&session->lock);
	return used;
}

static void session_end(void *arg)
{
	struct bash_session *session = arg;
	pthread_mutex_lock(&session->lock);
	bool used = session->count > 0;
	session->closed = true;
	for (struct entry *entry = session->commands; entry; entry = entry->older)
		command_condemn(entry->command);
	pthread_mutex_unlock(&session->lock);
	if (used)
		tree_end(session->marker);
}

static const struct sessions_ops session_ops = { session_ref, session_unref, session_busy,
						 session_used_ms, session_end };
struct sessions bash_sessions = SESSIONS("bash", &session_ops);

static void *session_make(const char *id, void *cwd, struct err *err)
{
	(void)err;
	struct bash_session *session = xcalloc(1, sizeof *session);
	session->refs = 1;
	pthread_mutex_init(&session->lock, NULL);
	snprintf(session->id, sizeof session->id, "%s", id);
	tree_marker(session->marker, sizeof session->marker, id);
	session->cwd = xstrdup(cwd);
	touch(session);
	session->created = session->used;
	return session;
}

struct bash_session *bash_session_open(const struct config *config, const char *id, const char *cwd,
				       struct err *err)
{
	const char *dir = cwd && *cwd ? cwd : config->workspace;
	return sessions_open(&bash_sessions, config, id, session_make, (void *)dir, err);
}

struct bash_session *bash_session_find(const char *id, struct err *err)
{
	return sessions_find(&bash_sessions, id, err);
}

void bash_session_unref(struct bash_session *session)
{
	session_unref(session);
}

const char *bash_session_id(const struct bash_session *session)
{
	return session->id;
}

const char *bash_session_marker(const struct bash_session *session)
{
	return session->marker;
}

int bash_session_place(struct bash_session *session, const char *dir, struct arena *arena,
		       const char **ret_cwd, const char **ret_snapshot, struct err *err)
{
	pthread_mutex_lock(&session->lock);
	bool closed = session->closed;
	if (dir) {
		free(session->cwd);
		session->cwd = xstrdup(dir);
	}
	*ret_cwd = arena_strdup(arena, session->cwd);
	*ret_snapshot = session->snapshot ? arena_strdup(arena, session->snapshot) : NULL;
	pthread_mutex_unlock(&session->lock);
	return closed ? err_set(err, ERR_CONFLICT, "the session '%s' is closed", session->id) : 0;
}

/* ---- their commands ---- */

/* Forgets the oldest ended commands of a session that has too many. With its lock. */
static void trim(struct bash_session *session, int64_t most)
{
	int64_t seen = 0;
	for (struct entry **at = &session->commands; *at;) {
		struct entry *entry = *at;
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
	struct entry *entry = xcalloc(1, sizeof *entry);
	entry->text = xstrdup(text);
	entry->command = command_ref(command);
	pthread_mutex_lock(&session->lock);
	snprintf(entry->id, sizeof entry->id, "cmd-%lld", (long long)++session->count);
	entry->older = session->commands;
	session->commands = entry;
	touch(session);
	trim(session, most);
	const char *id = arena_strdup(arena, entry->id);
	bool closed = session->closed;
	pthread_mutex_unlock(&session->lock);
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
	pthread_mutex_lock(&session->lock);
	struct entry *entry = id && *id ? session->commands : current(session);
	while (id && *id && entry && strcmp(entry->id, id) != 0)
		entry = entry->older;
	if (entry) {
		command = command_ref(entry->command);
		*ret_id = arena_strdup(arena, entry->id);
		*ret_text = arena_strdup(arena, entry->text);
	}
	touch(session);
	pthread_mutex_unlock(&session->lock);
	if (!command)
		err_set(err, ERR_NOT_FOUND,
			id && *id ? "there is no command '%.40s' in session '%s'"
				  : "%.0sno command was run in session '%s'",
			id ? id : "", session->id);
	return command;
}

int bash_session_signal(struct bash_session *session, const char *id, int number)
{
	int sent = 0;
	pthread_mutex_lock(&session->lock);
	for (struct entry *entry = session->commands; entry; entry = entry->older)
		if (!id || !*id || !strcmp(entry->id, id))
			sent += command_signal(entry->command, number, NULL) == 0;
	touch(session);
	pthread_mutex_unlock(&session->lock);
	return sent;
}

/* ---- what is said of a session ---- */

static const char *const session_states[] = { "ready", "closed", NULL };

struct session_info {
	const char *session_id, *status, *working_dir, *created_at, *last_used_at, *current_command;
	int64_t command_count;
};
static const struct field session_info_fields[] = {
	STR(session_info, session_id, 0, "Session identifier."),
	ENUM(session_info, status, 0, "`ready`, or `closed`: cannot be used any more.",
	     .choices = session_states),
	STR(session_info, working_dir, 0, "Where its next command runs."),
	STR(session_info, created_at, 0, "When it was made."),
	STR(session_info, last_used_at, 0, "When it was last used."),
	STR(session_info, current_command, NULLABLE, "The command that is running."),
	INT(session_info, command_count, 0, "How many commands it has run."),
};
static const struct schema session_info_schema =
	SCHEMA(session_info, "BashSessionInfo", session_info_fields);
const struct field bash_session_data = { .type = T_OBJ, .of = &session_info_schema };
const struct field bash_session_list_data = { .type = T_LIST,
					      .item = T_OBJ,
					      .of = &session_info_schema };

static struct session_info describe(struct bash_session *session, struct arena *arena)
{
	pthread_mutex_lock(&session->lock);
	struct entry *entry = current(session);
	struct session_info info = {
		.session_id = arena_strdup(arena, session->id),
		.status = session_states[session->closed],
		.working_dir = arena_strdup(arena, session->cwd),
		.created_at = moment_text(arena, &session->created),
		.last_used_at = moment_text(arena, &session->used),
		.current_command = entry && is_running(entry) ? arena_strdup(arena, entry->text)
							      : NULL,
		.command_count = session->count,
	};
	pthread_mutex_unlock(&session->lock);
	return info;
}

/* ---- making, listing, closing ---- */

struct create_request {
	const char *session_id, *exec_dir, *snapshot_path;
};
static const struct field create_fields[] = {
	STR(create_request, session_id, OPTIONAL, "Its identifier; a new one when absent or empty.",
	    .max_len = 64, .alias = "id"),
	STR(create_request, exec_dir, OPTIONAL, "Where its commands run, an absolute path."),
	STR(create_request, snapshot_path, OPTIONAL, "A script that each command sources first."),
};
const struct schema bash_session_create_schema =
	SCHEMA(create_request, "BashSessionCreateRequest", create_fields);

int bash_session_create(struct call *call, const void *in, struct err *err)
{
	const struct create_request *request = in;
	const char *snapshot = request->snapshot_path, *dir;
	if (workdir_find(call, "exec_dir", request->exec_dir, &dir, err) < 0)
		return -1;
	if (snapshot && *snapshot && (access(snapshot, R_OK) < 0 || strchr(snapshot, '\'')))
		return err_set(err, ERR_BAD_REQUEST, "snapshot_path '%.200s' cannot be read",
			       snapshot);
	auto_bash_session struct bash_session *session =
		bash_session_open(call->server->config, request->session_id, dir, err);
	if (!session)
		return -1;
	if (snapshot && *snapshot) {
		pthread_mutex_lock(&session->lock);
		free(session->snapshot);
		session->snapshot = xstrdup(snapshot);
		pthread_mutex_unlock(&session->lock);
	}
	struct session_info info = describe(session, call->arena);
	return call_reply(call, &info, err);
}

struct listing {
	struct arena *arena;
	struct session_info *infos;
	size_t count, room;
};

static void list_one(void *session, void *arg)
{
	struct listing *listing = arg;
	if (listing->count < listing->room)
		listing->infos[listing->count++] = describe(session, listing->arena);
}

int bash_session_list(struct call *call, const void *in, struct err *err)
{
	(void)in;
	sessions_expire(&bash_sessions, call->server->config);
	struct listing listing = { call->arena, NULL, 0, sessions_count(&bash_sessions) };
	listing.infos = arena_alloc(call->arena, listing.room * sizeof *listing.infos);
	sessions_each(&bash_sessions, list_one, &listing);
	return call_reply(call, &(struct list){ listing.count, listing.infos }, err);
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
