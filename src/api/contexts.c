/* Contexts, as the clients of sandbox-code-interpreter know them: sessions by another name. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/code.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/timestamp.h"
#include "code/code_events.h"
#include "code/kernels.h"
#include "code/nodejs_execute.h"
#include "code/nodejs_outputs.h"
#include "code/nodejs_programs.h"
#include "code/nodejs_sessions.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "net/call.h"
#include "net/server.h"

/* ---- what is said of one ---- */

struct contexts_context {
	const char *context_id, *type, *status, *created_at, *language, *session_name, *working_dir;
};
static const struct field context_fields[] = {
	STR(contexts_context, context_id, 0, "Its identifier."),
	STR(contexts_context, type, 0, "`jupyter`."),
	STR(contexts_context, status, 0, "`active`, or `busy` while code runs in it."),
	STR(contexts_context, created_at, 0, "When it was made, in UTC."),
	STR(contexts_context, language, 0, "What it runs."),
	STR(contexts_context, session_name, NULLABLE, "The name it was given."),
	STR(contexts_context, working_dir, 0, "Where it was started."),
};
static const struct schema context_schema = SCHEMA(contexts_context, "Context", context_fields);
static const struct field context_data = { .type = T_OBJ, .of = &context_schema };
static const struct field context_list_data = { .type = T_LIST,
						.item = T_OBJ,
						.of = &context_schema };

/* A context is a session of a kernel, or of Node.js. */
struct contexts_found {
	struct contexts_context context;
	bool node;
};

static struct contexts_found of_kernel(struct call *call, const struct kernels_info *info)
{
	return (struct contexts_found){
		.context = { .context_id = info->id,
			     .type = "jupyter",
			     .status = info->busy ? "busy" : "active",
			     .created_at = timestamp_text(call->arena, &info->created),
			     .language = info->language,
			     .session_name = *info->context ? info->context : NULL,
			     .working_dir = info->cwd }
	};
}

static struct contexts_found of_node(struct call *call, const struct nodejs_session_info *info)
{
	const struct timespec created = { (time_t)(info->created / 1e3),
					  (long)fmod(info->created, 1e3) * 1000000 };
	return (struct contexts_found){
		.context = { .context_id = info->id,
			     .type = "jupyter",
			     .status = info->busy ? "busy" : "active",
			     .created_at = timestamp_text(call->arena, &created),
			     .language = info->language,
			     .session_name = *info->context ? info->context : NULL,
			     .working_dir = info->cwd },
		.node = true
	};
}

/* All contexts: of struct contexts_found. */
static struct list look(struct call *call)
{
	struct list kernels = kernels_list(call->arena);
	struct list nodes = nodejs_session_list(call->arena);
	const struct kernels_info *kernel = kernels.items;
	const struct nodejs_session_info *node = nodes.items;
	struct contexts_found *found =
		arena_alloc(call->arena, (kernels.count + nodes.count + 1) * sizeof *found);
	size_t count = 0;
	for (size_t i = 0; i < kernels.count; i++)
		if (kernel[i].context)
			found[count++] = of_kernel(call, &kernel[i]);
	for (size_t i = 0; i < nodes.count; i++)
		if (node[i].context)
			found[count++] = of_node(call, &node[i]);
	return (struct list){ count, found };
}

static const struct contexts_found *find(struct call *call, const char *id)
{
	struct list list = look(call);
	const struct contexts_found *found = list.items;
	for (size_t i = 0; i < list.count; i++)
		if (!strcmp(found[i].context.context_id, id))
			return &found[i];
	return NULL;
}

static int say_missing(struct call *call, const char *id, struct err *err)
{
	struct jw jw;
	jw_init(&jw, 65536);
	jw_open(&jw, '{');
	jw_key_str(&jw, "error", arena_printf(call->arena, "there is no context '%.200s'", id));
	jw_key_str(&jw, "code", "CONTEXT_NOT_FOUND");
	jw_close(&jw, '}');
	struct answer answer = { 404, "application/json", (int64_t)jw.out.len, .header_count = 0 };
	int result = call->sink->begin(call->sink, &answer, err);
	if (result == 0)
		result = call->sink->write(call->sink, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

/* ---- making, listing, ending ---- */

struct contexts_create {
	const char *type, *language, *session_name, *working_dir;
};
static const struct field create_fields[] = {
	STR(contexts_create, type, OPTIONAL, "`jupyter`.", .def = "jupyter", .max_len = 40),
	STR(contexts_create, language, OPTIONAL,
	    "`python`, `javascript`, `typescript`, `bash`, or another of /v1/code/info.",
	    .def = "python", .max_len = 60),
	STR(contexts_create, session_name, OPTIONAL, "A name for it.", .max_len = 200,
	    .alias = "name"),
	STR(contexts_create, working_dir, OPTIONAL,
	    "Where it starts, an absolute path; the workspace when absent.", .max_len = 4000,
	    .alias = "cwd"),
};
static const struct schema create_schema =
	SCHEMA(contexts_create, "ContextCreateRequest", create_fields);

static int open_kernel(struct call *call, const char *id, const char *language,
		       const struct contexts_create *request, struct err *err)
{
	const struct kernels_wish wish = {
		.id = id,
		.language = strcmp(language, "python") ? language : NULL,
		.cwd = request->working_dir,
		.context = request->session_name ? request->session_name : "",
	};
	struct kernels_opened opened;
	return kernels_open(call, &wish, &opened, err);
}

/* Its process is started with its first code. */
static int open_node(struct call *call, const char *id, const char *language,
		     const struct contexts_create *request, struct err *err)
{
	const struct config *config = call->server->config;
	struct nodejs_session_wish wish = {
		.id = id,
		.idle_ms = config->session_ms,
		.context = request->session_name ? request->session_name : "",
		.language = language,
	};
	struct node_where where;
	bool made;
	if (workdir_find(call, "working_dir", request->working_dir, &wish.cwd, err) < 0 ||
	    nodejs_programs_pick(call, NULL, !strcmp(language, "typescript"), &where, err) < 0)
		return -1;
	wish.program = where.program;
	struct nodejs_session *session = nodejs_session_open(config, &wish, &made, err);
	sessions_release(session);
	return session ? 0 : -1;
}

static int create_context(struct call *call, const void *in, struct err *err)
{
	const struct contexts_create *request = in;
	const char *language = code_language(request->language);
	unsigned long long number = 0;
	if (strcasecmp(request->type, "jupyter") != 0)
		return err_set(err, ERR_BAD_REQUEST, "type '%.40s' is not known: it is `jupyter`",
			       request->type);
	(void)!getrandom(&number, sizeof number, 0);
	const char *id = arena_printf(call->arena, "ctx-%016llx", number);
	bool node = !strcmp(language, "javascript") || !strcmp(language, "typescript");
	if ((node ? open_node : open_kernel)(call, id, language, request, err) < 0)
		return -1;
	const struct contexts_found *found = find(call, id);
	return found ? call_reply(call, &found->context, err) : say_missing(call, id, err);
}

static int list_contexts(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct list list = look(call);
	const struct contexts_found *found = list.items;
	struct contexts_context *contexts =
		arena_alloc(call->arena, (list.count + 1) * sizeof *contexts);
	for (size_t i = 0; i < list.count; i++)
		contexts[i] = found[i].context;
	return call_reply(call, &(struct list){ list.count, contexts }, err);
}

struct contexts_one {
	const char *context_id;
};
static const struct field one_fields[] = {
	STR(contexts_one, context_id, PATH | REQUIRED, "Context."),
};
static const struct schema one_schema = SCHEMA(contexts_one, "ContextId", one_fields);

static int get_context(struct call *call, const void *in, struct err *err)
{
	const struct contexts_one *request = in;
	const struct contexts_found *found = find(call, request->context_id);
	return found ? call_reply(call, &found->context, err)
		     : say_missing(call, request->context_id, err);
}

struct contexts_deleted {
	const char *context_id, *status;
	bool success;
};
static const struct field deleted_fields[] = {
	BOOL(contexts_deleted, success, 0, "Always true."),
	STR(contexts_deleted, context_id, 0, "The one that was ended."),
	STR(contexts_deleted, status, 0, "`stopped`."),
};
static const struct schema deleted_schema =
	SCHEMA(contexts_deleted, "ContextDeleted", deleted_fields);
static const struct field deleted_data = { .type = T_OBJ, .of = &deleted_schema };

static int delete_context(struct call *call, const void *in, struct err *err)
{
	const struct contexts_one *request = in;
	const struct contexts_found *found = find(call, request->context_id);
	if (!found ||
	    (found->node ? nodejs_session_close : kernels_close)(request->context_id, NULL) < 0)
		return say_missing(call, request->context_id, err);
	return call_reply(call, &(struct contexts_deleted){ request->context_id, "stopped", true },
			  err);
}

/* ---- execute ---- */

struct contexts_execute {
	const char *context_id;
	struct text code;
	double timeout;
};
static const struct field execute_fields[] = {
	STR(contexts_execute, context_id, PATH | REQUIRED, "Context."),
	TEXT(contexts_execute, code, REQUIRED, "Code to run.", .max_len = KERNELS_CODE_MAX),
	NUM(contexts_execute, timeout, ABOVE | MAX, "Seconds until it is interrupted.", .def = "30",
	    .min = 0, .max = 300),
};
static const struct schema execute_schema =
	SCHEMA(contexts_execute, "ContextExecuteRequest", execute_fields);

struct contexts_output {
	struct text out, errors;
};
static const struct field output_fields[] = {
	NAMED("stdout", TEXT, contexts_output, out, 0, "What it printed."),
	NAMED("stderr", TEXT, contexts_output, errors, 0,
	      "What it printed as errors, and the traceback of one that ended it."),
};
static const struct schema output_schema = SCHEMA(contexts_output, "ContextOutput", output_fields);

struct contexts_executed {
	const struct contexts_output *output;
	bool success;
	double execution_time;
	struct each results;
	const char *message;
};
static const struct field executed_fields[] = {
	OBJ(contexts_executed, output, 0, "Text.", .of = &output_schema),
	BOOL(contexts_executed, success, 0, "It ended by itself and without an error."),
	NUM(contexts_executed, execution_time, 0, "Seconds."),
	EACH(contexts_executed, results, 0,
	     "What else it gave, as in nbformat: values, pictures, tables.", .item = T_JSON,
	     .of = &code_output_schema),
	STR(contexts_executed, message, NULLABLE, "That the kernel is a new one, and the like."),
};
static const struct schema executed_schema =
	SCHEMA(contexts_executed, "ContextExecuteResponse", executed_fields);
static const struct field executed_data = { .type = T_OBJ, .of = &executed_schema };

/* The traceback of an error, without its colours. */
static void add_traceback(const json_t *error, struct buf *to)
{
	const json_t *lines = json_object_get(error, "traceback");
	size_t index;
	json_t *line;
	auto_buf struct buf text = BUF(SIZE_MAX / 2);
	json_array_foreach(lines, index, line)
		(void)buf_printf(&text, "%s\n",
				 json_string_value(line) ? json_string_value(line) : "");
	if (!json_array_size(lines))
		(void)buf_printf(&text, "%s: %s\n",
				 json_string_value(json_object_get(error, "ename")),
				 json_string_value(json_object_get(error, "evalue")));
	if (to->len && to->data[to->len - 1] != '\n')
		(void)buf_str(to, "\n");
	for (size_t at = 0; at < text.len;) {
		size_t n = strcspn(text.data + at, "\033");
		(void)buf_add(to, text.data + at, n);
		at += n;
		if (at < text.len) /* ESC [ … m */
			at += 1 + strspn(text.data + at + 1, "[0123456789;") + 1;
	}
}

/* How it went, whoever ran it. */
struct contexts_done {
	const char *status, *notice;
	struct outputs *outputs;
};

static int run_kernel(struct call *call, const struct contexts_execute *request,
		      struct contexts_done *ret, struct err *err)
{
	const struct kernels_job job = {
		.where = { .id = request->context_id },
		.code = request->code,
		.timeout_ms = (int64_t)ceil(request->timeout * 1000),
		.events = call->wants_events,
	};
	struct kernels_result result;
	if (kernels_execute(call, &job, &result, err) < 0)
		return -1;
	*ret = (struct contexts_done){ result.status, result.notice, result.outputs };
	return 0;
}

static int run_node(struct call *call, const struct contexts_execute *request, bool typescript,
		    struct contexts_done *ret, struct err *err)
{
	const struct nodejs_job job = {
		.request = { .code = request->code,
			     .typescript = typescript,
			     .timeout_ms = (int64_t)ceil(request->timeout * 1000) },
		.stateful = true,
		.session_id = request->context_id,
	};
	struct nodejs_outputs result;
	if (nodejs_outputs_run(call, &job, &result, err) < 0)
		return -1;
	*ret = (struct contexts_done){ result.status, result.notice, result.outputs };
	return 0;
}

static int reply(struct call *call, const struct contexts_done *done, int64_t us, struct err *err)
{
	auto_buf struct buf out = BUF(SIZE_MAX / 2), errors = BUF(SIZE_MAX / 2);
	const json_t *error = outputs_error(done->outputs);
	const char *message = done->notice;
	outputs_text(done->outputs, "stdout", &out);
	outputs_text(done->outputs, "stderr", &errors);
	if (error)
		add_traceback(error, &errors);
	if (!strcmp(done->status, "timeout"))
		message = arena_printf(call->arena, "The code timed out%s%s", message ? ": " : "",
				       message ? message : "");
	struct contexts_output output = { { out.data ? out.data : "", out.len },
					  { errors.data ? errors.data : "", errors.len } };
	struct contexts_executed executed = {
		.output = &output,
		.success = !strcmp(done->status, "ok"),
		.execution_time = (double)us / 1e6,
		.results = { outputs_write_results, done->outputs },
		.message = message,
	};
	return call_reply(call, &executed, err);
}

static int execute(struct call *call, const void *in, struct err *err)
{
	const struct contexts_execute *request = in;
	const struct contexts_found *found = find(call, request->context_id);
	struct contexts_done done;
	if (!found)
		return say_missing(call, request->context_id, err);
	bool typescript = !strcmp(found->context.language, "typescript");
	int64_t begin = clock_us();
	if ((found->node ? run_node(call, request, typescript, &done, err)
			 : run_kernel(call, request, &done, err)) < 0)
		return -1;
	if (call->wants_events)
		return 0;
	return reply(call, &done, clock_us() - begin, err);
}

static const struct route routes[] = {
	{ "POST", "/api/v1/contexts", create_context, &create_schema, &context_data,
	  "Create a context", .flags = BARE },
	{ "GET", "/api/v1/contexts", list_contexts, NULL, &context_list_data, "List contexts",
	  .flags = BARE },
	{ "GET", "/api/v1/contexts/{context_id}", get_context, &one_schema, &context_data,
	  "Get a context", .flags = BARE },
	{ "DELETE", "/api/v1/contexts/{context_id}", delete_context, &one_schema, &deleted_data,
	  "End a context", .flags = BARE },
	{ "POST", "/api/v1/contexts/{context_id}/execute", execute, &execute_schema, &executed_data,
	  "Run code in a context",
	  "Variables stay. Code that fails has `success` false and its traceback in `stderr`.",
	  .flags = BARE | EVENTS | RUNS, .sends = &code_events_sends },
};
const struct route_group contexts_group = { "contexts",
					    "Code in contexts, as sandbox-code-interpreter has it.",
					    routes, COUNT(routes) };
