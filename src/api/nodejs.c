/* JavaScript and TypeScript: programs in a process of their own, and sessions that keep their state. */

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "api/nodejs_manage.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "code/nodejs_execute.h"
#include "code/nodejs_programs.h"
#include "code/nodejs_sessions.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/limits.h"

static const char *const languages[] = { "javascript", "typescript", NULL };

struct nodejs_execute {
	struct text code, stdin_text;
	const char *language, *session_id, *cwd, *version;
	int64_t timeout;
	struct list files;
	bool stateful;
};
static const struct field execute_fields[] = {
	TEXT(nodejs_execute, code, REQUIRED, "The code.", .max_len = NODE_CODE_MAX),
	ENUM(nodejs_execute, language, OPTIONAL, "What the code is written in.",
	     .def = "javascript", .choices = languages),
	INT(nodejs_execute, timeout, MIN | MAX, "Seconds after which it is ended.", .def = "30",
	    .min = 1, .max = 300),
	NAMED("stdin", TEXT, nodejs_execute, stdin_text, 0,
	      "Its standard input; not in a session."),
	MAP(nodejs_execute, files, OPTIONAL, "Files to make where it runs: path and content."),
	BOOL(nodejs_execute, stateful, OPTIONAL, "Run it in a session, which keeps its state.",
	     .def = "false"),
	STR(nodejs_execute, session_id, OPTIONAL,
	    "The session, made on first use; also says `stateful`. A new one when absent or empty.",
	    .max_len = 64),
	STR(nodejs_execute, cwd, OPTIONAL,
	    "Where it runs, an absolute path; when absent a fresh directory, or in a session where "
	    "that is."),
	STR(nodejs_execute, version, OPTIONAL, "Node.js to use: `node22` or `22`.", .max_len = 20),
};
static const struct schema execute_schema =
	SCHEMA(nodejs_execute, "NodeJSExecuteRequest", execute_fields);

struct nodejs_output {
	const char *output_type, *name, *ename, *evalue;
	struct text text;
	struct list traceback;
	json_t *data, *metadata;
};
static const struct field output_fields[] = {
	STR(nodejs_output, output_type, REQUIRED, "`stream`, `execute_result` or `error`."),
	STR(nodejs_output, name, NULLABLE, "Of a stream: `stdout` or `stderr`."),
	TEXT(nodejs_output, text, NULLABLE, "Of a stream."),
	STR(nodejs_output, ename, NULLABLE, "Name of an error."),
	STR(nodejs_output, evalue, NULLABLE, "Message of an error."),
	LIST(nodejs_output, traceback, NULLABLE, "Lines of an error's stack.", .item = T_STR),
	JSON(nodejs_output, data, NULLABLE,
	     "Of a value, by media type: `text/plain`, and `application/json` where it has that."),
	JSON(nodejs_output, metadata, NULLABLE, "More about it."),
};
static const struct schema output_schema = SCHEMA(nodejs_output, "NodeJSOutput", output_fields);

struct nodejs_executed {
	const char *language, *status, *session_id;
	struct text code, stdout_text, stderr_text;
	int64_t execution_count, exit_code;
	struct list outputs;
};
static const struct field executed_fields[] = {
	STR(nodejs_executed, language, REQUIRED, "Always `javascript`."),
	ENUM(nodejs_executed, status, REQUIRED, "How it ended.", .choices = node_status_names),
	INT(nodejs_executed, execution_count, NULLABLE, "Which execution of its session it was."),
	LIST(nodejs_executed, outputs, OPTIONAL, "What came of it, in order.", .item = T_OBJ,
	     .of = &output_schema),
	TEXT(nodejs_executed, code, REQUIRED, "The code."),
	NAMED("stdout", TEXT, nodejs_executed, stdout_text, 0, "What it printed."),
	NAMED("stderr", TEXT, nodejs_executed, stderr_text, 0, "What it printed as errors."),
	INT(nodejs_executed, exit_code, REQUIRED,
	    "Of the process, 128 and the number of a signal; in a session 0 or 1 while it lives on."),
	STR(nodejs_executed, session_id, NULLABLE, "The session: to continue in it."),
};
static const struct schema executed_schema =
	SCHEMA(nodejs_executed, "NodeJSExecuteResponse", executed_fields);
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
	struct nodejs_output *to = arena_alloc(call->arena, (from->count + 1) * sizeof *to);
	for (size_t i = 0; i < from->count; i++) {
		const struct node_output *one = &outputs[i];
		to[i] = (struct nodejs_output){ .output_type = types[one->type] };
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

static const struct variant execute_events[] = {
	{ "stdout", &output_schema },
	{ "stderr", &output_schema },
	{ "end", &executed_schema, "The whole answer." },
};
static const struct schema execute_sends =
	TAGGED("NodeJSEvent", "event", execute_events, .outside = true);

static int send_output(void *arg, enum node_stream stream, const char *data, size_t len,
		       struct err *err)
{
	struct nodejs_output output = { .output_type = "stream",
					.name = stream == NODE_STDERR ? "stderr" : "stdout",
					.text = { data, len } };
	return call_send(arg, output.name, NULL, &output, err);
}

static int execute(struct call *call, const void *in, struct err *err)
{
	const struct nodejs_execute *request = in;
	struct nodejs_job job = {
		.request = { .code = request->code,
			     .typescript = !strcmp(request->language, "typescript"),
			     .timeout_ms = request->timeout * 1000,
			     .cwd = request->cwd,
			     .input = request->stdin_text,
			     .files = request->files },
		.version = request->version,
		.stateful = request->stateful || (request->session_id && *request->session_id),
		.session_id = request->session_id,
		.write = call->wants_events ? send_output : NULL,
		.arg = call,
	};
	static const char *const messages[] = { "Code executed", "Code failed", "Code timed out" };
	struct node_result result = { 0 };
	const char *session;
	if (nodejs_execute(call, &job, &result, &session, err) < 0)
		return -1;
	struct nodejs_executed executed = {
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
	call->message = messages[result.status];
	call->hint = result.notice;
	return call->wants_events ? call_send(call, "end", NULL, &executed, err)
				  : call_reply(call, &executed, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/nodejs/execute", execute, &execute_schema, &executed_data,
	  "Run JavaScript or TypeScript",
	  "In a process and a directory of its own, both gone when it ends; or with `stateful` or a "
	  "`session_id` in a session: variables, functions and imports stay, `const` and `class` can be "
	  "declared again, `await` stands at the top level, and the value of the last expression is an "
	  "`execute_result`. Past `timeout` a program is ended with all it has started; in a session "
	  "only the code is interrupted, and `hint` says whether the state could be kept. A program "
	  "that is one expression, and prints nothing itself, prints its value.",
	  .flags = EVENTS | RUNS, .sends = &execute_sends },
	{ "GET", "/v1/nodejs/info", nodejs_programs_info, NULL, &nodejs_programs_data,
	  "Node.js and its packages" },
	{ "POST", "/v1/nodejs/sessions", nodejs_manage_create, &nodejs_manage_create_schema,
	  &nodejs_manage_created_data, "Create a session",
	  "An existing id gives that session: `created` is false." },
	{ "GET", "/v1/nodejs/sessions", nodejs_manage_list, &nodejs_manage_list_schema,
	  &nodejs_manage_session_list_data, "List sessions" },
	{ "GET", "/v1/nodejs/sessions/{session_id}", nodejs_manage_get, &nodejs_manage_which_schema,
	  &nodejs_manage_session_answer_data, "One session" },
	{ "PATCH", "/v1/nodejs/sessions/{session_id}", nodejs_manage_update,
	  &nodejs_manage_update_schema, &nodejs_manage_updated_data, "Change a session" },
	{ "DELETE", "/v1/nodejs/sessions/{session_id}", nodejs_manage_delete,
	  &nodejs_manage_which_schema, &nodejs_manage_deleted_data, "Delete a session",
	  "All its processes are ended." },
};
const struct route_group nodejs_group = { "nodejs",
					  "JavaScript and TypeScript, with and without state.",
					  routes, COUNT(routes) };
