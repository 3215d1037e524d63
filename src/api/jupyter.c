/* Python, and whatever else has a Jupyter kernel, in sessions that keep their variables. */
#include <string.h>

#include "api/code.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "code/code_events.h"
#include "code/kernels.h"
#include "config/config.h"
#include "kernel/kernelspec.h"
#include "net/call.h"
#include "net/server.h"

/* ---- execute ---- */

struct jupyter_execute {
	struct text code;
	int64_t timeout;
	const char *kernel_name, *session_id, *cwd;
};
static const struct field execute_fields[] = {
	TEXT(jupyter_execute, code, REQUIRED, "Code to execute.", .max_len = KERNELS_CODE_MAX),
	INT(jupyter_execute, timeout, MIN | MAX,
	    "Seconds until the code is interrupted: `timeout`. The session stays usable.",
	    .def = "30", .min = 1, .max = 300),
	STR(jupyter_execute, kernel_name, OPTIONAL,
	    "`python3`, `python3.10` to `python3.12`, or any other kernel of /v1/jupyter/info. "
	    "`python3` runs what names a Python that is not installed, and `hint` says so. Absent: "
	    "the session's, else the default, which PYTHON_VERSION chooses.",
	    .max_len = 100),
	STR(jupyter_execute, session_id, OPTIONAL,
	    "Session to run it in, made on first use; a new one when absent or empty.",
	    .max_len = 64),
	STR(jupyter_execute, cwd, OPTIONAL,
	    "Working directory, an absolute path. It stays the session's.", .max_len = 4000),
};
static const struct schema execute_schema =
	SCHEMA(jupyter_execute, "JupyterExecuteRequest", execute_fields);

/* For the document: outputs_write() writes those members that an output has. */
struct jupyter_output {
	const char *output_type, *name, *text, *ename, *evalue;
	json_t *data, *metadata;
	int64_t execution_count;
	struct list traceback;
};
static const struct field output_fields[] = {
	STR(jupyter_output, output_type, REQUIRED,
	    "`stream`, `execute_result`, `display_data` or `error`, as in nbformat."),
	STR(jupyter_output, name, NULLABLE, "Of a stream: `stdout` or `stderr`."),
	STR(jupyter_output, text, NULLABLE, "Of a stream."),
	JSON(jupyter_output, data, NULLABLE,
	     "Of a result or display: by MIME type; pictures in base64."),
	JSON(jupyter_output, metadata, NULLABLE, "Of a result or display."),
	INT(jupyter_output, execution_count, NULLABLE, "Of a result."),
	STR(jupyter_output, ename, NULLABLE, "Of an error: its name."),
	STR(jupyter_output, evalue, NULLABLE, "Of an error: its text."),
	LIST(jupyter_output, traceback, NULLABLE, "Of an error, with ANSI colours.", .item = T_STR),
};
const struct schema code_output_schema = SCHEMA(jupyter_output, "JupyterOutput", output_fields);

struct jupyter_executed {
	const char *kernel_name, *session_id, *status, *msg_id;
	struct text code;
	int64_t execution_count;
	struct each outputs;
};
static const struct field executed_fields[] = {
	STR(jupyter_executed, kernel_name, 0, "The kernel that ran it."),
	STR(jupyter_executed, session_id, NULLABLE, "Its session."),
	STR(jupyter_executed, status, 0,
	    "`ok`, `error`, or `timeout`: interrupted, the outputs are partial."),
	INT(jupyter_executed, execution_count, NULLABLE, "As the kernel counts."),
	EACH(jupyter_executed, outputs, 0, "What it gave, in order.", .item = T_OBJ,
	     .of = &code_output_schema),
	TEXT(jupyter_executed, code, 0, "The code."),
	STR(jupyter_executed, msg_id, NULLABLE, "Of the request, as the kernel knows it."),
};
static const struct schema executed_schema =
	SCHEMA(jupyter_executed, "JupyterExecuteResponse", executed_fields);
static const struct field executed_data = { .type = T_OBJ, .of = &executed_schema };

static const char *outcome(const struct kernels_result *result)
{
	if (!strcmp(result->status, "ok"))
		return "Code executed";
	return strcmp(result->status, "timeout") ? "Code failed" : "Code timed out";
}

static int execute(struct call *call, const void *in, struct err *err)
{
	const struct jupyter_execute *request = in;
	const struct kernels_job job = {
		.where = { request->session_id, request->kernel_name, NULL, request->cwd, NULL },
		.code = request->code,
		.timeout_ms = request->timeout * 1000,
		.events = call->wants_events,
	};
	struct kernels_result result;
	if (kernels_execute(call, &job, &result, err) < 0)
		return -1;
	if (job.events)
		return 0;
	call->message =
		result.notice ? arena_printf(call->arena, "%s. %s", outcome(&result), result.notice)
			      : outcome(&result);
	call->hint = result.notice;
	struct jupyter_executed executed = {
		.kernel_name = result.session.kernel_name,
		.session_id = result.session.id,
		.status = result.status,
		.execution_count = result.count,
		.outputs = { outputs_write, result.outputs },
		.code = request->code,
		.msg_id = result.id,
	};
	return call_reply(call, &executed, err);
}

/* ---- info ---- */

struct jupyter_info {
	const char *default_kernel, *description, *kernel_detection;
	struct list available_kernels, kernels;
	int64_t active_sessions, session_timeout_seconds, max_sessions;
};
static const struct field spec_fields[] = {
	STR(kernelspec, name, 0, "Its kernel_name."),
	STR(kernelspec, display, 0, "For people."),
	STR(kernelspec, language, 0, "What it runs."),
};
static const struct schema spec_schema = SCHEMA(kernelspec, "JupyterKernel", spec_fields);
static const struct field info_fields[] = {
	STR(jupyter_info, default_kernel, 0, "The kernel when none is named."),
	LIST(jupyter_info, available_kernels, 0, "Names of the kernels.", .item = T_STR),
	INT(jupyter_info, active_sessions, 0, "Sessions there are."),
	INT(jupyter_info, session_timeout_seconds, 0, "How long an idle one is kept."),
	INT(jupyter_info, max_sessions, 0, "Most there can be."),
	STR(jupyter_info, description, 0, "What this is."),
	STR(jupyter_info, kernel_detection, 0, "How kernels are found."),
	LIST(jupyter_info, kernels, 0, "The kernels, with what they run.", .item = T_OBJ,
	     .of = &spec_schema),
};
static const struct schema info_schema = SCHEMA(jupyter_info, "JupyterInfoResponse", info_fields);
static const struct field info_data = { .type = T_OBJ, .of = &info_schema };

static int get_info(struct call *call, const void *in, struct err *err)
{
	const struct config *config = call->server->config;
	struct tools_where where;
	(void)in;
	if (kernels_where(call->server, &where, err) < 0)
		return -1;
	struct list list = kernelspec_list(&where, call->arena);
	const struct kernelspec *specs = list.items;
	const char **names = arena_alloc(call->arena, (list.count + 1) * sizeof *names);
	for (size_t i = 0; i < list.count; i++)
		names[i] = specs[i].name;
	const struct kernelspec *usual = kernelspec_find(&where, NULL, call->arena, NULL);
	struct jupyter_info info = {
		.default_kernel = usual ? usual->name : "python3",
		.available_kernels = { list.count, names },
		.kernels = list,
		.active_sessions = (int64_t)kernels_list(call->arena).count,
		.session_timeout_seconds = config->kernel_idle_ms / 1000,
		.max_sessions = config->max_kernels,
		.description = "Code in Jupyter kernels; a session keeps its variables.",
		.kernel_detection =
			"python3 is the product's Python; others are Jupyter's kernelspecs; "
			"python3.X is an interpreter of that version that has ipykernel",
	};
	return call_reply(call, &info, err);
}

/* ---- sessions ---- */

struct jupyter_create {
	const char *session_id, *kernel_name, *cwd;
};
static const struct field create_fields[] = {
	STR(jupyter_create, session_id, OPTIONAL, "Its identifier; a new one when absent or empty.",
	    .max_len = 64),
	STR(jupyter_create, kernel_name, OPTIONAL, "As in /v1/jupyter/execute.", .max_len = 100),
	STR(jupyter_create, cwd, OPTIONAL,
	    "Where it starts, an absolute path; the workspace when absent.", .max_len = 4000),
};
static const struct schema create_schema =
	SCHEMA(jupyter_create, "JupyterCreateSessionRequest", create_fields);

struct jupyter_created {
	const char *session_id, *kernel_name, *message;
};
static const struct field created_fields[] = {
	STR(jupyter_created, session_id, 0, "Session identifier."),
	STR(jupyter_created, kernel_name, 0, "Its kernel."),
	STR(jupyter_created, message, 0, "Whether it is new."),
};
static const struct schema created_schema =
	SCHEMA(jupyter_created, "JupyterCreateSessionResponse", created_fields);
static const struct field created_data = { .type = T_OBJ, .of = &created_schema };

static int create_session(struct call *call, const void *in, struct err *err)
{
	const struct jupyter_create *request = in;
	const struct kernels_wish wish = { request->session_id, request->kernel_name, NULL,
					   request->cwd, NULL };
	struct kernels_opened opened;
	if (kernels_open(call, &wish, &opened, err) < 0)
		return -1;
	struct jupyter_created created = { opened.id, opened.kernel_name,
					   opened.made ? "Session created"
						       : "The session was there already" };
	call->message = created.message;
	call->hint = opened.notice;
	return call_reply(call, &created, err);
}

struct jupyter_session_info {
	const char *kernel_name, *status, *cwd, *connection_file;
	double last_used;
	int64_t age_seconds, pid, executions;
};
static const struct field session_fields[] = {
	STR(jupyter_session_info, kernel_name, 0, "Its kernel."),
	NUM(jupyter_session_info, last_used, 0, "When it was last used, in seconds since 1970."),
	INT(jupyter_session_info, age_seconds, 0, "How long it has been there."),
	STR(jupyter_session_info, status, 0, "`idle` or `busy`."),
	STR(jupyter_session_info, cwd, 0, "Where it was started."),
	STR(jupyter_session_info, connection_file, NULLABLE,
	    "For other Jupyter clients: `jupyter console --existing FILE`."),
	INT(jupyter_session_info, pid, NULLABLE, "The kernel's process."),
	INT(jupyter_session_info, executions, 0, "How often code was run in it."),
};
static const struct schema session_schema =
	SCHEMA(jupyter_session_info, "SessionInfo", session_fields);

struct jupyter_session_list {
	struct list sessions;
};
static const struct field list_fields[] = {
	MAP(jupyter_session_list, sessions, 0, "Sessions by their identifier.", .item = T_OBJ,
	    .of = &session_schema),
};
static const struct schema list_schema =
	SCHEMA(jupyter_session_list, "ActiveSessionsResult", list_fields);
static const struct field list_data = { .type = T_OBJ, .of = &list_schema };

static int list_sessions(struct call *call, const void *in, struct err *err)
{
	struct timespec now;
	(void)in;
	struct list list = kernels_list(call->arena);
	const struct kernels_info *infos = list.items;
	struct named *named = arena_alloc(call->arena, (list.count + 1) * sizeof *named);
	struct jupyter_session_info *sessions =
		arena_alloc(call->arena, (list.count + 1) * sizeof *sessions);
	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < list.count; i++) {
		sessions[i] = (struct jupyter_session_info){
			.kernel_name = infos[i].kernel_name,
			.status = infos[i].busy ? "busy" : "idle",
			.cwd = infos[i].cwd,
			.connection_file = infos[i].connection_file,
			.last_used =
				(double)infos[i].used.tv_sec + (double)infos[i].used.tv_nsec / 1e9,
			.age_seconds = now.tv_sec - infos[i].created.tv_sec,
			.pid = infos[i].pid,
			.executions = infos[i].executions,
		};
		named[i] = (struct named){ infos[i].id, &sessions[i] };
	}
	return call_reply(call, &(struct jupyter_session_list){ { list.count, named } }, err);
}

static int delete_all(struct call *call, const void *in, struct err *err)
{
	(void)in;
	size_t count = kernels_close_all();
	call->message =
		arena_printf(call->arena, "%zu session%s ended", count, count == 1 ? "" : "s");
	return call_reply(call, NULL, err);
}

struct delete
{
	const char *session_id;
};
static const struct field delete_fields[] = {
	STR(delete, session_id, PATH | REQUIRED, "Session."),
};
static const struct schema delete_schema = SCHEMA(delete, "JupyterDelete", delete_fields);

static int delete_one(struct call *call, const void *in, struct err *err)
{
	const struct delete *request = in;
	if (kernels_close(request->session_id, err) < 0)
		return -1;
	call->message = "Session ended";
	return call_reply(call, NULL, err);
}

static const struct field nothing = { .type = T_JSON };

static const struct route routes[] = {
	{ "POST", "/v1/jupyter/execute", execute, &execute_schema, &executed_data,
	  "Run code in a Jupyter kernel",
	  "Variables and imports stay in the session: give its `session_id` again. Plots come as PNG in "
	  "`display_data`. `status` is how it ended; a kernel that died is replaced with the next "
	  "call, whose `message` says so. input() is an error, because no one can type. "
	  "A caller that leaves has its code interrupted. Sessions end after 30 minutes "
	  "without use; one without a name of its own that was used once ends before, where its room is needed.",
	  .flags = EVENTS | RUNS, .sends = &code_events_sends },
	{ "GET", "/v1/jupyter/info", get_info, NULL, &info_data, "Kernels there are" },
	{ "GET", "/v1/jupyter/sessions", list_sessions, NULL, &list_data, "List sessions" },
	{ "DELETE", "/v1/jupyter/sessions", delete_all, NULL, &nothing, "End all sessions" },
	{ "DELETE", "/v1/jupyter/sessions/{session_id}", delete_one, &delete_schema, &nothing,
	  "End a session", "All its processes are ended." },
	{ "POST", "/v1/jupyter/sessions/create", create_session, &create_schema, &created_data,
	  "Create a session", "An existing id gives that session." },
};
const struct route_group jupyter_group = { "jupyter",
					   "Code in Jupyter kernels, in sessions that keep state.",
					   routes, COUNT(routes) };
