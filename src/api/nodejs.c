/* JavaScript and TypeScript: programs in a process of their own, and sessions that keep their state. */
#include "api/nodejs.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "api/nodejs_programs.h"
#include "api/routes.h"
#include "api/sessions.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/node_files.h"
#include "proc/waiter.h"

enum { EVENT_MAX = 256 << 20, PING_MS = 15000, IDLE_MIN = 60, IDLE_MAX = 86400 };

/* ---- sessions ---- */

struct session {
	_Atomic int refs;
	pthread_mutex_t lock;
	char id[SESSION_ID_MAX * 4 + 1];
	char program[4096];
	const struct config *config;
	struct waiter *waiters; /* for their turn */
	bool busy, closed;
	struct node *node; /* NULL before the first use, and once its process has ended */
	bool moved;        /* cwd is not where the process is */
	bool lost;         /* its process has ended, and with it the state */
	char *cwd;
	int64_t count, used_ms, idle_ms;
	double created, used; /* milliseconds since 1970 */
};

static void session_ref(void *arg)
{
	struct session *session = arg;
	atomic_fetch_add(&session->refs, 1);
}

static void session_unref(void *arg)
{
	struct session *session = arg;
	if (!session || atomic_fetch_sub(&session->refs, 1) > 1)
		return;
	node_unref(session->node);
	pthread_mutex_destroy(&session->lock);
	free(session->cwd);
	free(session);
}

static void session_release(struct session **session)
{
	session_unref(*session);
}
#define auto_session __attribute__((cleanup(session_release)))

static bool session_busy(void *arg)
{
	struct session *session = arg;
	pthread_mutex_lock(&session->lock);
	bool busy = session->busy;
	pthread_mutex_unlock(&session->lock);
	return busy;
}

/* Moved back for one that may be idle for a shorter time than others, so that it expires then. */
static int64_t session_used_ms(void *arg)
{
	struct session *session = arg;
	pthread_mutex_lock(&session->lock);
	int64_t used = session->used_ms;
	if (session->idle_ms < session->config->session_ms)
		used -= session->config->session_ms - session->idle_ms;
	pthread_mutex_unlock(&session->lock);
	return used;
}

static void session_end(void *arg)
{
	struct session *session = arg;
	pthread_mutex_lock(&session->lock);
	session->closed = true;
	struct node *node = session->node ? node_ref(session->node) : NULL;
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->lock);
	if (node)
		node_end(node);
	node_unref(node);
}

static const struct sessions_ops session_ops = { session_ref, session_unref, session_busy,
						 session_used_ms, session_end };
struct sessions nodejs_sessions = SESSIONS("nodejs", &session_ops);

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return floor((double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6);
}

/* With the lock. */
static void touch(struct session *session)
{
	session->used_ms = clock_ms();
	session->used = now_ms();
}

struct recipe {
	const struct config *config;
	const char *cwd, *program;
	int64_t idle_ms;
	bool made;
};

static void *session_make(const char *id, void *arg, struct err *err)
{
	(void)err;
	struct recipe *recipe = arg;
	struct session *session = xcalloc(1, sizeof *session);
	session->refs = 1;
	pthread_mutex_init(&session->lock, NULL);
	snprintf(session->id, sizeof session->id, "%s", id);
	snprintf(session->program, sizeof session->program, "%s", recipe->program);
	session->config = recipe->config;
	session->cwd = xstrdup(recipe->cwd ? recipe->cwd : recipe->config->workspace);
	session->idle_ms = recipe->idle_ms;
	touch(session);
	session->created = session->used;
	recipe->made = true;
	return session;
}

static int check_cwd(const char *path, struct err *err)
{
	struct stat st;
	if (*path != '/')
		return err_set(err, ERR_BAD_REQUEST, "cwd '%.200s' is not an absolute path", path);
	if (stat(path, &st) < 0)
		return err_set(err, errno, "cwd '%.200s'", path);
	return S_ISDIR(st.st_mode) ? 0 : err_set(err, ENOTDIR, "cwd '%.200s'", path);
}

/* ---- running code ---- */

struct listener {
	struct call *call;
	const struct nodejs_job *job;
	bool gone;
};

/* A caller who leaves ends a program; but not what runs in a session, whose state is worth more. */
static bool wait_events(void *arg, int event_fd, int64_t until_ms)
{
	struct listener *listener = arg;
	struct call *call = listener->call;
	struct err ignored;
	while (!listener->gone) {
		int64_t ping = clock_ms() + PING_MS;
		bool pings = listener->job->write && call->wants_events && ping < until_ms;
		enum call_wake wake = call_wait(call, event_fd, pings ? ping : until_ms);
		if (wake == CALL_STOPPING)
			return false;
		listener->gone = wake == CALL_LEFT;
		if (pings && wake == CALL_TIMEOUT)
			listener->gone = call_event_ping(call, &ignored) < 0;
		else if (!listener->gone)
			return true;
		if (listener->gone && !listener->job->stateful)
			return false;
	}
	struct pollfd pfds[] = { { .fd = event_fd, .events = POLLIN },
				 { .fd = server_stop_fd(call->server), .events = POLLIN } };
	int64_t left = until_ms - clock_ms();
	eventfd_t taken;
	(void)poll(pfds, COUNT(pfds), left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
	(void)eventfd_read(event_fd, &taken);
	return !pfds[1].revents;
}

static int write_output(void *arg, enum node_stream stream, const char *data, size_t len,
			struct err *err)
{
	struct listener *listener = arg;
	if (listener->gone || listener->job->write(listener->job->arg, stream, data, len, err) == 0)
		return 0;
	listener->gone = true;
	return listener->job->stateful ? 0 : -1;
}

/* Waits for the session to be free, and takes it. */
static int session_take(struct session *session, struct listener *listener, int64_t until_ms,
			struct err *err)
{
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct waiter waiter = { .fd = fd };
	bool waiting = true;
	pthread_mutex_lock(&session->lock);
	waiter_join(&session->waiters, &waiter);
	while (session->busy && !session->closed && waiting && clock_ms() < until_ms) {
		pthread_mutex_unlock(&session->lock);
		waiting = wait_events(listener, fd, until_ms) && !listener->gone;
		pthread_mutex_lock(&session->lock);
	}
	waiter_leave(&session->waiters, &waiter);
	bool taken = waiting && !session->busy && !session->closed;
	int code = session->closed ? ERR_NOT_FOUND : waiting ? ERR_CONFLICT : ERR_GONE;
	if (taken) {
		session->busy = true;
		touch(session);
	}
	pthread_mutex_unlock(&session->lock);
	return taken ? 0
		     : err_set(err, code,
			       code == ERR_NOT_FOUND  ? "the session '%.80s' was deleted"
			       : code == ERR_CONFLICT ? "the session '%.80s' is busy"
						      : "the caller left session '%.80s'",
			       session->id);
}

static void session_give_back(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	session->busy = false;
	touch(session);
	waiter_wake(session->waiters);
	pthread_mutex_unlock(&session->lock);
}

/* Its process, started where there is none. For who has taken the session. */
static struct node *session_node(struct session *session, const struct node_where *where,
				 struct err *err)
{
	if (session->node && node_alive(session->node))
		return session->node;
	struct node *node = node_open(where, session->id, session->cwd, err);
	if (!node)
		return NULL;
	pthread_mutex_lock(&session->lock);
	struct node *old = session->node;
	session->lost = session->lost || old;
	session->node = node;
	session->moved = false;
	bool closed = session->closed;
	pthread_mutex_unlock(&session->lock);
	if (old) /* it may have left children */
		node_end(old);
	node_unref(old);
	if (closed) /* meanwhile: whoever closed it has not seen this one */
		node_end(node);
	return node;
}

/* Takes over what the execution has told. */
static void session_note(struct session *session, struct node_result *ret, struct arena *arena,
			 bool anew)
{
	pthread_mutex_lock(&session->lock);
	ret->count = ++session->count;
	if (ret->cwd && *ret->cwd == '/') {
		free(session->cwd);
		session->cwd = xstrdup(ret->cwd);
		session->moved = false;
	}
	if (anew)
		ret->notice = arena_printf(arena,
					   "the session's process had ended: this is a new one, "
					   "without the state of the old%s%s",
					   ret->notice ? "; " : "", ret->notice ? ret->notice : "");
	session->lost = false;
	pthread_mutex_unlock(&session->lock);
}

static int session_execute(struct session *session, const struct node_where *where,
			   const struct nodejs_job *job, const struct node_caller *caller,
			   struct arena *arena, struct node_result *ret, struct err *err)
{
	bool anew = false;
	*ret = (struct node_result){ .unborn = true };
	for (int tries = 0; ret->unborn && tries < 2; tries++) { /* it may be dying already */
		struct node *node = session_node(session, where, err);
		if (!node)
			return -1;
		struct node_request request = job->request;
		pthread_mutex_lock(&session->lock);
		anew = session->lost;
		const char *dir = arena_strdup(arena, session->cwd);
		if (!request.cwd && session->moved)
			request.cwd = dir;
		pthread_mutex_unlock(&session->lock);
		if (node_files_write(where->user, request.cwd ? request.cwd : dir, &request.files,
				     err) < 0 ||
		    node_execute(node, &request, caller, arena, ret, err) < 0)
			return -1;
	}
	session_note(session, ret, arena, anew);
	return 0;
}

static int run_in_session(struct listener *listener, const struct node_where *where,
			  const struct node_caller *caller, struct node_result *ret,
			  const char **ret_session, struct err *err)
{
	const struct nodejs_job *job = listener->job;
	struct call *call = listener->call;
	const struct config *config = call->server->config;
	struct recipe recipe = { config, job->request.cwd, where->program, config->session_ms,
				 false };
	if (job->request.input.len)
		return err_set(err, ERR_BAD_REQUEST, "stdin: a session has none");
	auto_session struct session *session = sessions_open(&nodejs_sessions, config,
							     job->session_id, session_make, &recipe,
							     err);
	if (!session)
		return -1;
	if (job->version && *job->version && strcmp(session->program, where->program) != 0)
		return err_set(err, ERR_CONFLICT, "the session '%.80s' runs %s", session->id,
			       session->program);
	struct node_where at = *where;
	at.program = session->program;
	if (session_take(session, listener, clock_ms() + job->request.timeout_ms, err) < 0)
		return -1;
	int result = session_execute(session, &at, job, caller, call->arena, ret, err);
	session_give_back(session);
	if (result < 0 && recipe.made && (!job->session_id || !*job->session_id))
		(void)sessions_close(&nodejs_sessions, session->id, NULL); /* nobody has its name */
	*ret_session = arena_strdup(call->arena, session->id);
	return result;
}

int nodejs_execute(struct call *call, const struct nodejs_job *job, struct node_result *ret,
		   const char **ret_session, struct err *err)
{
	struct listener listener = { .call = call, .job = job };
	struct node_caller caller = { .wait = wait_events,
				      .write = job->write ? write_output : NULL,
				      .arg = &listener };
	struct nodejs_job copy = *job;
	struct node_where where;
	*ret_session = NULL;
	if (copy.request.cwd && !*copy.request.cwd)
		copy.request.cwd = NULL;
	listener.job = &copy;
	if (copy.request.cwd && check_cwd(copy.request.cwd, err) < 0)
		return -1;
	if (nodejs_programs_pick(call, copy.version, copy.request.typescript, &where, err) < 0)
		return -1;
	if (copy.stateful)
		return run_in_session(&listener, &where, &caller, ret, ret_session, err);
	return node_run(&where, &copy.request, &caller, call->arena, ret, err);
}

/* ---- execute ---- */

static const char *const languages[] = { "javascript", "typescript", NULL };

struct execute {
	struct text code, stdin_text;
	const char *language, *session_id, *cwd, *version;
	int64_t timeout;
	struct list files;
	bool stateful;
};
static const struct field execute_fields[] = {
	TEXT(execute, code, REQUIRED, "The code.", .max_len = NODE_CODE_MAX),
	ENUM(execute, language, OPTIONAL, "What the code is written in.", .def = "javascript",
	     .choices = languages),
	INT(execute, timeout, MIN | MAX, "Seconds after which it is ended.", .def = "30", .min = 1,
	    .max = 300),
	{ .name = "stdin",
	  .type = T_TEXT,
	  .at = FIELD_AT(execute, stdin_text, struct text),
	  .help = "Its standard input; not in a session." },
	MAP(execute, files, OPTIONAL, "Files to make where it runs: path and content."),
	BOOL(execute, stateful, OPTIONAL, "Run it in a session, which keeps its state.",
	     .def = "false"),
	STR(execute, session_id, OPTIONAL,
	    "The session, made on first use; a new one when absent or empty.", .max_len = 64),
	STR(execute, cwd, OPTIONAL,
	    "Where it runs, an absolute path; when absent a fresh directory, or in a session where "
	    "that is."),
	STR(execute, version, OPTIONAL, "Node.js to use: `node22` or `22`.", .max_len = 20),
};
static const struct schema execute_schema = SCHEMA(execute, "NodeJSExecuteRequest", execute_fields);

struct output {
	const char *output_type, *name, *ename, *evalue;
	struct text text;
	struct list traceback;
	json_t *data, *metadata;
};
static const struct field output_fields[] = {
	STR(output, output_type, REQUIRED, "`stream`, `execute_result` or `error`."),
	STR(output, name, NULLABLE, "Of a stream: `stdout` or `stderr`."),
	TEXT(output, text, NULLABLE, "Of a stream."),
	STR(output, ename, NULLABLE, "Name of an error."),
	STR(output, evalue, NULLABLE, "Message of an error."),
	LIST(output, traceback, NULLABLE, "Lines of an error's stack.", .item = T_STR),
	JSON(output, data, NULLABLE,
	     "Of a value, by media type: `text/plain`, and `application/json` where it has that."),
	JSON(output, metadata, NULLABLE, "More about it."),
};
static const struct schema output_schema = SCHEMA(output, "NodeJSOutput", output_fields);

struct executed {
	const char *language, *status, *session_id;
	struct text code, stdout_text, stderr_text;
	int64_t execution_count, exit_code;
	struct list outputs;
};
static const struct field executed_fields[] = {
	STR(executed, language, REQUIRED, "Always `javascript`."),
	ENUM(executed, status, REQUIRED, "How it ended.", .choices = node_status_names),
	INT(executed, execution_count, NULLABLE, "Which execution of its session it was."),
	LIST(executed, outputs, OPTIONAL, "What came of it, in order.", .item = T_OBJ,
	     .of = &output_schema),
	TEXT(executed, code, REQUIRED, "The code."),
	{ .name = "stdout",
	  .type = T_TEXT,
	  .at = FIELD_AT(executed, stdout_text, struct text),
	  .help = "What it printed." },
	{ .name = "stderr",
	  .type = T_TEXT,
	  .at = FIELD_AT(executed, stderr_text, struct text),
	  .help = "What it printed as errors." },
	INT(executed, exit_code, REQUIRED,
	    "Of the process, 128 and the number of a signal; in a session 0 or 1 while it lives on."),
	STR(executed, session_id, NULLABLE, "The session: to continue in it."),
};
static const struct schema executed_schema =
	SCHEMA(executed, "NodeJSExecuteResponse", executed_fields);
static const struct field executed_data = { .type = T_OBJ, .of = &executed_schema };

static void release(void *json)
{
	json_decref(json);
}

static json_t *value_data(struct call *call, const struct node_output *from)
{
	json_t *data = json_object();
	arena_defer(call->arena, release, data);
	json_object_set_new(data, "text/plain", json_stringn(from->text.data, from->text.len));
	if (from->json)
		json_object_set(data, "application/json", from->json);
	return data;
}

static struct list convert(struct call *call, const struct list *from)
{
	static const char *const types[] = { "stream", "execute_result", "error" };
	const struct node_output *outputs = from->items;
	struct output *to = arena_alloc(call->arena, (from->count + 1) * sizeof *to);
	for (size_t i = 0; i < from->count; i++) {
		const struct node_output *one = &outputs[i];
		to[i] = (struct output){ .output_type = types[one->type] };
		if (one->type == NODE_STREAM) {
			to[i].name = one->stream == NODE_STDERR ? "stderr" : "stdout";
			to[i].text = one->text;
		} else if (one->type == NODE_ERROR) {
			to[i].ename = one->name;
			to[i].evalue = one->message;
			to[i].traceback = one->trace;
		} else {
			to[i].data = value_data(call, one);
		}
	}
	return (struct list){ from->count, to };
}

static int send_event(struct call *call, const char *event, const struct schema *schema,
		      const void *value, struct err *err)
{
	struct jw jw;
	jw_init(&jw, EVENT_MAX);
	desc_encode(schema, value, &jw);
	int result = jw_failed(&jw) ? err_set(err, ERR_TOO_LARGE, "the event is too large")
				    : call_event(call, event, NULL, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

static int send_output(void *arg, enum node_stream stream, const char *data, size_t len,
		       struct err *err)
{
	struct output output = { .output_type = "stream",
				 .name = stream == NODE_STDERR ? "stderr" : "stdout",
				 .text = { data, len } };
	return send_event(arg, output.name, &output_schema, &output, err);
}

static int execute(struct call *call, const void *in, struct err *err)
{
	const struct execute *request = in;
	struct nodejs_job job = {
		.request = { .code = request->code,
			     .typescript = !strcmp(request->language, "typescript"),
			     .timeout_ms = request->timeout * 1000,
			     .cwd = request->cwd,
			     .input = request->stdin_text,
			     .files = request->files },
		.version = request->version,
		.stateful = request->stateful,
		.session_id = request->session_id,
		.write = call->wants_events ? send_output : NULL,
		.arg = call,
	};
	struct node_result result = { 0 };
	const char *session;
	if (nodejs_execute(call, &job, &result, &session, err) < 0)
		return -1;
	struct executed executed = {
		.language = "javascript",
		.status = node_status_names[result.status],
		.session_id = session,
		.code = request->code,
		.stdout_text = result.out,
		.stderr_text = result.err,
		.execution_count = result.count ? result.count : INT_ABSENT,
		.exit_code = result.exit_code,
		.outputs = convert(call, &result.outputs),
	};
	call->message = "Code executed";
	call->hint = result.notice;
	return call->wants_events ? send_event(call, "end", &executed_schema, &executed, err)
				  : call_reply(call, &executed, err);
}

/* ---- sessions ---- */

struct session_info {
	const char *session_id, *cwd, *state;
	double created_at, last_used;
	int64_t max_idle_time, age_seconds;
};
static const struct field session_info_fields[] = {
	STR(session_info, session_id, REQUIRED, "Session identifier."),
	STR(session_info, cwd, REQUIRED, "Where its code runs."),
	NUM(session_info, created_at, REQUIRED, "When it was made, in ms since 1970."),
	NUM(session_info, last_used, REQUIRED, "When it was last used, in ms since 1970."),
	INT(session_info, max_idle_time, REQUIRED,
	    "How long it is kept without being used, in ms."),
	INT(session_info, age_seconds, REQUIRED, "Seconds since it was last used."),
	STR(session_info, state, REQUIRED, "`IDLE` or `EXECUTING`."),
};
static const struct schema session_info_schema =
	SCHEMA(session_info, "NodeJSSessionInfo", session_info_fields);

static struct session_info describe(struct session *session, struct arena *arena)
{
	pthread_mutex_lock(&session->lock);
	struct session_info info = {
		.session_id = arena_strdup(arena, session->id),
		.cwd = arena_strdup(arena, session->cwd),
		.state = session->busy ? "EXECUTING" : "IDLE",
		.created_at = session->created,
		.last_used = session->used,
		.max_idle_time = session->idle_ms,
		.age_seconds = (clock_ms() - session->used_ms) / 1000,
	};
	pthread_mutex_unlock(&session->lock);
	return info;
}

struct create {
	const char *session_id, *cwd, *version;
	int64_t max_idle_time;
};
static const struct field create_fields[] = {
	STR(create, session_id, OPTIONAL, "Its identifier; a new one when absent or empty.",
	    .max_len = 64),
	STR(create, cwd, OPTIONAL, "Where its code runs, an absolute path."),
	INT(create, max_idle_time, MIN | MAX, "Seconds that it is kept without being used.",
	    .def = "86400", .min = IDLE_MIN, .max = IDLE_MAX),
	STR(create, version, QUERY, "Node.js to use: `node22` or `22`.", .max_len = 20),
};
static const struct schema create_schema =
	SCHEMA(create, "NodeJSCreateSessionRequest", create_fields);

struct created {
	const char *session_id, *message;
	bool created;
	const struct session_info *session;
};
static const struct field created_fields[] = {
	STR(created, session_id, REQUIRED, "Session identifier."),
	BOOL(created, created, REQUIRED, "Whether it is new."),
	STR(created, message, NULLABLE, "More about it."),
	OBJ(created, session, NULLABLE, "The session, when it is new.", .of = &session_info_schema),
};
static const struct schema created_schema =
	SCHEMA(created, "NodeJSCreateSessionResponse", created_fields);
static const struct field created_data = { .type = T_OBJ, .of = &created_schema };

/* Starts the process of a new session, so that its first code need not wait for that. */
static int session_start(struct call *call, struct session *session, const struct node_where *where,
			 struct err *err)
{
	const struct nodejs_job job = { .stateful = true };
	struct listener listener = { .call = call, .job = &job };
	if (session_take(session, &listener, clock_ms(), NULL) < 0)
		return 0; /* somebody else has started it */
	int result = session_node(session, where, err) ? 0 : -1;
	session_give_back(session);
	return result;
}

static int create_session(struct call *call, const void *in, struct err *err)
{
	const struct create *request = in;
	const char *cwd = request->cwd && *request->cwd ? request->cwd : NULL;
	struct node_where where;
	if ((cwd && check_cwd(cwd, err) < 0) ||
	    nodejs_programs_pick(call, request->version, false, &where, err) < 0)
		return -1;
	struct recipe recipe = { call->server->config, cwd, where.program,
				 request->max_idle_time * 1000, false };
	auto_session struct session *session = sessions_open(&nodejs_sessions, call->server->config,
							     request->session_id, session_make,
							     &recipe, err);
	if (!session)
		return -1;
	if (recipe.made && session_start(call, session, &where, err) < 0) {
		(void)sessions_close(&nodejs_sessions, session->id, NULL);
		return -1;
	}
	struct session_info info = describe(session, call->arena);
	struct created created = { .session_id = info.session_id,
				   .created = recipe.made,
				   .message = recipe.made ? NULL : "The session already exists",
				   .session = recipe.made ? &info : NULL };
	return call_reply(call, &created, err);
}

/* Those that run a certain Node.js, or all. */
struct listing {
	struct arena *arena;
	const char *program; /* NULL: any */
	struct session_info *infos;
	struct named *named;
	size_t count, room;
};

static void list_one(void *arg, void *to)
{
	struct session *session = arg;
	struct listing *listing = to;
	if (listing->count == listing->room ||
	    (listing->program && strcmp(listing->program, session->program) != 0))
		return;
	struct session_info *info = &listing->infos[listing->count];
	*info = describe(session, listing->arena);
	listing->named[listing->count++] = (struct named){ info->session_id, info };
}

struct which {
	const char *session_id, *version;
};
static const struct field list_fields[] = {
	STR(which, version, QUERY, "Only those of this Node.js: `node22` or `22`.", .max_len = 20),
};
static const struct schema list_schema = SCHEMA(which, "NodeJSSessions", list_fields);

struct session_list {
	struct list sessions;
};
static const struct field session_list_fields[] = {
	MAP(session_list, sessions, OPTIONAL, "The sessions by their id.", .item = T_OBJ,
	    .of = &session_info_schema),
};
static const struct schema session_list_schema =
	SCHEMA(session_list, "NodeJSSessionListResponse", session_list_fields);
static const struct field session_list_data = { .type = T_OBJ, .of = &session_list_schema };

static int list_sessions(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	struct node_where where = { 0 };
	if (request->version && *request->version &&
	    nodejs_programs_pick(call, request->version, false, &where, err) < 0)
		return -1;
	sessions_expire(&nodejs_sessions, call->server->config);
	size_t room = sessions_count(&nodejs_sessions);
	struct listing listing = {
		.arena = call->arena,
		.program = where.program,
		.infos = arena_alloc(call->arena, (room + 1) * sizeof(struct session_info)),
		.named = arena_alloc(call->arena, (room + 1) * sizeof(struct named)),
		.room = room,
	};
	sessions_each(&nodejs_sessions, list_one, &listing);
	struct session_list list = { { listing.count, listing.named } };
	return call_reply(call, &list, err);
}

static const struct field which_fields[] = {
	STR(which, session_id, PATH | REQUIRED, "Session."),
	STR(which, version, QUERY, "The Node.js that it runs: `node22` or `22`.", .max_len = 20),
};
static const struct schema which_schema = SCHEMA(which, "NodeJSSession", which_fields);

static struct session *find(struct call *call, const char *id, const char *version, struct err *err)
{
	struct node_where where = { 0 };
	sessions_expire(&nodejs_sessions, call->server->config);
	if (version && *version && nodejs_programs_pick(call, version, false, &where, err) < 0)
		return NULL;
	struct session *session = sessions_find(&nodejs_sessions, id, err);
	if (session && where.program && strcmp(where.program, session->program) != 0) {
		err_set(err, ERR_NOT_FOUND, "the session '%.80s' runs %s", id, session->program);
		session_unref(session);
		return NULL;
	}
	return session;
}

struct session_answer {
	const struct session_info *session;
};
static const struct field session_answer_fields[] = {
	OBJ(session_answer, session, REQUIRED, "The session.", .of = &session_info_schema),
};
static const struct schema session_answer_schema =
	SCHEMA(session_answer, "NodeJSSessionResponse", session_answer_fields);
static const struct field session_answer_data = { .type = T_OBJ, .of = &session_answer_schema };

static int get_session(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	auto_session struct session *session =
		find(call, request->session_id, request->version, err);
	if (!session)
		return -1;
	struct session_info info = describe(session, call->arena);
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
static const struct schema update_schema =
	SCHEMA(update, "NodeJSUpdateSessionRequest", update_fields);

struct updated {
	bool updated;
	const struct session_info *session;
};
static const struct field updated_fields[] = {
	BOOL(updated, updated, REQUIRED, "Whether something was changed."),
	OBJ(updated, session, REQUIRED, "The session.", .of = &session_info_schema),
};
static const struct schema updated_schema =
	SCHEMA(updated, "NodeJSUpdateSessionResponse", updated_fields);
static const struct field updated_data = { .type = T_OBJ, .of = &updated_schema };

static int update_session(struct call *call, const void *in, struct err *err)
{
	const struct update *request = in;
	const char *cwd = request->cwd && *request->cwd ? request->cwd : NULL;
	auto_session struct session *session =
		find(call, request->session_id, request->version, err);
	if (!session || (cwd && check_cwd(cwd, err) < 0))
		return -1;
	pthread_mutex_lock(&session->lock);
	if (request->max_idle_time != INT_ABSENT)
		session->idle_ms = request->max_idle_time * 1000;
	if (cwd) {
		free(session->cwd);
		session->cwd = xstrdup(cwd);
		session->moved = true;
	}
	touch(session);
	pthread_mutex_unlock(&session->lock);
	struct session_info info = describe(session, call->arena);
	struct updated updated = { cwd || request->max_idle_time != INT_ABSENT, &info };
	return call_reply(call, &updated, err);
}

struct deleted {
	bool deleted;
};
static const struct field deleted_fields[] = {
	BOOL(deleted, deleted, REQUIRED, "Whether it was deleted."),
};
static const struct schema deleted_schema =
	SCHEMA(deleted, "NodeJSDeleteSessionResponse", deleted_fields);
static const struct field deleted_data = { .type = T_OBJ, .of = &deleted_schema };

static int delete_session(struct call *call, const void *in, struct err *err)
{
	const struct which *request = in;
	auto_session struct session *session =
		find(call, request->session_id, request->version, err);
	if (!session || sessions_close(&nodejs_sessions, request->session_id, err) < 0)
		return -1;
	return call_reply(call, &(struct deleted){ true }, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/nodejs/execute", execute, &execute_schema, &executed_data,
	  "Run JavaScript or TypeScript",
	  "In a process and a directory of its own, both gone when it ends; or with `stateful` in a "
	  "session: variables, functions and imports stay, `const` and `class` can be declared again, "
	  "`await` stands at the top level, and the value of the last expression is an "
	  "`execute_result`. Past `timeout` a program is ended with all it has started; in a session "
	  "only the code is interrupted, and `hint` says whether the state could be kept. A program "
	  "that is one expression prints its value. With `Accept: text/event-stream` the events `stdout` and "
	  "`stderr` come as they happen, then `end` with the whole answer.",
	  .flags = EVENTS },
	{ "GET", "/v1/nodejs/info", nodejs_programs_info, NULL, &nodejs_programs_data,
	  "Node.js and its packages" },
	{ "POST", "/v1/nodejs/sessions", create_session, &create_schema, &created_data,
	  "Create a session", "An existing id gives that session: `created` is false." },
	{ "GET", "/v1/nodejs/sessions", list_sessions, &list_schema, &session_list_data,
	  "List sessions" },
	{ "GET", "/v1/nodejs/sessions/{session_id}", get_session, &which_schema,
	  &session_answer_data, "One session" },
	{ "PATCH", "/v1/nodejs/sessions/{session_id}", update_session, &update_schema,
	  &updated_data, "Change a session" },
	{ "DELETE", "/v1/nodejs/sessions/{session_id}", delete_session, &which_schema,
	  &deleted_data, "Delete a session", "All its processes are ended." },
};
const struct route_group nodejs_group = { "nodejs",
					  "JavaScript and TypeScript, with and without state.",
					  routes, COUNT(routes) };
