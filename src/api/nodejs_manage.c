#include "api/nodejs_manage.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "code/nodejs_execute.h"
#include "code/nodejs_programs.h"
#include "code/nodejs_sessions.h"
#include "fs/workdir.h"
#include "net/call.h"
#include "net/server.h"

enum { IDLE_MIN = 60, IDLE_MAX = 86400 };

struct nodejs_manage_session_info {
	const char *session_id, *cwd, *state;
	double created_at, last_used;
	int64_t max_idle_time, age_seconds;
};
static const struct field session_info_fields[] = {
	STR(nodejs_manage_session_info, session_id, REQUIRED, "Session identifier."),
	STR(nodejs_manage_session_info, cwd, REQUIRED, "Where its code runs."),
	NUM(nodejs_manage_session_info, created_at, REQUIRED,
	    "When it was made, in ms since 1970."),
	NUM(nodejs_manage_session_info, last_used, REQUIRED,
	    "When it was last used, in ms since 1970."),
	INT(nodejs_manage_session_info, max_idle_time, REQUIRED,
	    "How long it is kept without being used, in ms."),
	INT(nodejs_manage_session_info, age_seconds, REQUIRED, "Seconds since it was last used."),
	STR(nodejs_manage_session_info, state, REQUIRED, "`IDLE` or `EXECUTING`."),
};
static const struct schema session_info_schema =
	SCHEMA(nodejs_manage_session_info, "NodeJSSessionInfo", session_info_fields);

static struct nodejs_manage_session_info shape(const struct nodejs_session_info *info)
{
	return (struct nodejs_manage_session_info){
		.session_id = info->id,
		.cwd = info->cwd,
		.state = info->busy ? "EXECUTING" : "IDLE",
		.created_at = info->created,
		.last_used = info->used,
		.max_idle_time = info->idle_ms,
		.age_seconds = info->age_seconds,
	};
}

static struct nodejs_manage_session_info describe(struct nodejs_session *session,
						  struct arena *arena)
{
	const struct nodejs_session_info info = nodejs_session_describe(session, arena);
	return shape(&info);
}

struct nodejs_manage_create {
	const char *session_id, *cwd, *version;
	int64_t max_idle_time;
};
static const struct field create_fields[] = {
	STR(nodejs_manage_create, session_id, OPTIONAL,
	    "Its identifier; a new one when absent or empty.", .max_len = 64),
	STR(nodejs_manage_create, cwd, OPTIONAL, "Where its code runs, an absolute path."),
	INT(nodejs_manage_create, max_idle_time, MIN | MAX,
	    "Seconds that it is kept without being used.", .def = "86400", .min = IDLE_MIN,
	    .max = IDLE_MAX),
	STR(nodejs_manage_create, version, QUERY, "Node.js to use: `node22` or `22`.",
	    .max_len = 20),
};
const struct schema nodejs_manage_create_schema =
	SCHEMA(nodejs_manage_create, "NodeJSCreateSessionRequest", create_fields);

struct nodejs_manage_created {
	const char *session_id, *message;
	bool created;
	const struct nodejs_manage_session_info *session;
};
static const struct field created_fields[] = {
	STR(nodejs_manage_created, session_id, REQUIRED, "Session identifier."),
	BOOL(nodejs_manage_created, created, REQUIRED, "Whether it is new."),
	STR(nodejs_manage_created, message, NULLABLE, "More about it."),
	OBJ(nodejs_manage_created, session, NULLABLE, "The session, when it is new.",
	    .of = &session_info_schema),
};
static const struct schema created_schema =
	SCHEMA(nodejs_manage_created, "NodeJSCreateSessionResponse", created_fields);
const struct field nodejs_manage_created_data = { .type = T_OBJ, .of = &created_schema };

/* Starts the process of a new session, so that its first code need not wait for that. */
static int start(struct nodejs_session *session, const struct node_where *where, struct err *err)
{
	if (nodejs_session_take(session, &(struct wait){ 0, -1, -1 }, NULL) < 0)
		return 0; /* somebody else has started it */
	int result = nodejs_session_start(session, where, err);
	nodejs_session_give_back(session);
	return result;
}

int nodejs_manage_create(struct call *call, const void *in, struct err *err)
{
	const struct nodejs_manage_create *request = in;
	const char *cwd;
	struct node_where where;
	bool made;
	if (workdir_find(call, "cwd", request->cwd, &cwd, err) < 0 ||
	    nodejs_programs_pick(call, request->version, false, &where, err) < 0)
		return -1;
	const struct nodejs_session_wish wish = { .id = request->session_id,
						  .cwd = cwd,
						  .program = where.program,
						  .idle_ms = request->max_idle_time * 1000,
						  .wanted = true };
	auto_session struct nodejs_session *session =
		nodejs_session_open(call->server->config, &wish, &made, err);
	if (!session)
		return -1;
	if (made && start(session, &where, err) < 0) {
		(void)nodejs_session_close(nodejs_session_id(session), NULL);
		return -1;
	}
	struct nodejs_manage_session_info info = describe(session, call->arena);
	struct nodejs_manage_created created = { .session_id = info.session_id,
						 .created = made,
						 .message = made ? NULL
								 : "The session already exists",
						 .session = made ? &info : NULL };
	return call_reply(call, &created, err);
}

struct which {
	const char *session_id, *version;
};
static const struct field list_fields[] = {
	STR(which, version, QUERY, "Only those of this Node.js: `node22` or `22`.", .max_len = 20),
};
const struct schema nodejs_manage_list_schema = SCHEMA(which, "NodeJSSessions", list_fields);

struct nodejs_manage_session_list {
	struct list sessions;
};
static const struct field session_list_fields[] = {
	MAP(nodejs_manage_session_list, sessions, OPTIONAL, "The sessions by their id.",
	    .item = T_OBJ, .of = &session_info_schema),
};
static const struct schema session_list_schema =
	SCHEMA(nodejs_manage_session_list, "NodeJSSessionListResponse", session_list_fields);
const struct field nodejs_manage_session_list_data = { .type = T_OBJ, .of = &session_list_schema };

int nodejs_manage_list(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	struct node_where where = { 0 };
	if (request->version && *request->version &&
	    nodejs_programs_pick(call, request->version, false, &where, err) < 0)
		return -1;
	struct list all = nodejs_session_list(call->arena);
	const struct nodejs_session_info *from = all.items;
	struct nodejs_manage_session_info *infos =
		arena_alloc(call->arena, (all.count + 1) * sizeof *infos);
	struct named *named = arena_alloc(call->arena, (all.count + 1) * sizeof *named);
	size_t count = 0;
	for (size_t i = 0; i < all.count; i++) {
		if (where.program && strcmp(where.program, from[i].program) != 0)
			continue;
		infos[count] = shape(&from[i]);
		named[count] = (struct named){ from[i].id, &infos[count] };
		count++;
	}
	return call_reply(call, &(struct nodejs_manage_session_list){ { count, named } }, err);
}

static const struct field which_fields[] = {
	STR(which, session_id, PATH | REQUIRED, "Session."),
	STR(which, version, QUERY, "The Node.js that it runs: `node22` or `22`.", .max_len = 20),
};
const struct schema nodejs_manage_which_schema = SCHEMA(which, "NodeJSSession", which_fields);

static struct nodejs_session *find(struct call *call, const char *id, const char *version,
				   struct err *err)
{
	struct node_where where = { 0 };
	sessions_expire(&nodejs_sessions);
	if (version && *version && nodejs_programs_pick(call, version, false, &where, err) < 0)
		return NULL;
	struct nodejs_session *session = nodejs_session_find(id, err);
	if (session && where.program &&
	    strcmp(where.program, nodejs_session_program(session)) != 0) {
		err_set(err, ERR_NOT_FOUND, "the session '%.80s' runs %s", id,
			nodejs_session_program(session));
		sessions_release(session);
		return NULL;
	}
	return session;
}

struct session_answer {
	const struct nodejs_manage_session_info *session;
};
static const struct field session_answer_fields[] = {
	OBJ(session_answer, session, REQUIRED, "The session.", .of = &session_info_schema),
};
static const struct schema session_answer_schema =
	SCHEMA(session_answer, "NodeJSSessionResponse", session_answer_fields);
const struct field nodejs_manage_session_answer_data = { .type = T_OBJ,
							 .of = &session_answer_schema };

int nodejs_manage_get(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	auto_session struct nodejs_session *session =
		find(call, request->session_id, request->version, err);
	if (!session)
		return -1;
	struct nodejs_manage_session_info info = describe(session, call->arena);
	return call_reply(call, &(struct session_answer){ &info }, err);
}

struct update {
	const char *session_id, *cwd, *version;
	int64_t max_idle_time;
};
static const struct field update_fields[] = {
	STR(update, session_id, PATH | REQUIRED, "Session."),
	INT(update, max_idle_time, MIN | MAX, "Seconds that it is kept without being used.",
	    .min = IDLE_MIN, .max = IDLE_MAX),
	STR(update, cwd, OPTIONAL, "Where its next code runs, an absolute path."),
	STR(update, version, QUERY, "The Node.js that it runs: `node22` or `22`.", .max_len = 20),
};
const struct schema nodejs_manage_update_schema =
	SCHEMA(update, "NodeJSUpdateSessionRequest", update_fields);

struct updated {
	bool updated;
	const struct nodejs_manage_session_info *session;
};
static const struct field updated_fields[] = {
	BOOL(updated, updated, REQUIRED, "Whether something was changed."),
	OBJ(updated, session, REQUIRED, "The session.", .of = &session_info_schema),
};
static const struct schema updated_schema =
	SCHEMA(updated, "NodeJSUpdateSessionResponse", updated_fields);
const struct field nodejs_manage_updated_data = { .type = T_OBJ, .of = &updated_schema };

int nodejs_manage_update(struct call *call, const void *in, struct err *err)
{
	const struct update *request = in;
	const char *cwd;
	auto_session struct nodejs_session *session =
		find(call, request->session_id, request->version, err);
	if (!session || workdir_find(call, "cwd", request->cwd, &cwd, err) < 0)
		return -1;
	nodejs_session_change(session, cwd,
			      request->max_idle_time == INT_ABSENT ? INT_ABSENT
								   : request->max_idle_time * 1000);
	struct nodejs_manage_session_info info = describe(session, call->arena);
	struct updated updated = { cwd || request->max_idle_time != INT_ABSENT, &info };
	return call_reply(call, &updated, err);
}

struct nodejs_manage_deleted {
	bool deleted;
};
static const struct field deleted_fields[] = {
	BOOL(nodejs_manage_deleted, deleted, REQUIRED, "Whether it was deleted."),
};
static const struct schema deleted_schema =
	SCHEMA(nodejs_manage_deleted, "NodeJSDeleteSessionResponse", deleted_fields);
const struct field nodejs_manage_deleted_data = { .type = T_OBJ, .of = &deleted_schema };

int nodejs_manage_delete(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	auto_session struct nodejs_session *session =
		find(call, request->session_id, request->version, err);
	if (!session || nodejs_session_close(request->session_id, err) < 0)
		return -1;
	return call_reply(call, &(struct nodejs_manage_deleted){ true }, err);
}
