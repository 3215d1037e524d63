/* One way to run code of any language that is installed. */
#include "api/code.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "code/code_events.h"
#include "code/kernels.h"
#include "code/nodejs_execute.h"
#include "code/nodejs_outputs.h"
#include "code/nodejs_programs.h"
#include "code/script.h"
#include "config/config.h"
#include "kernel/kernelspec.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/child.h"

enum { TIMEOUT = 30, TIMEOUT_MAX = 300, VERSION_MS = 5000, NODE_TYPESCRIPT = 22 };

struct code_execute {
	const char *language, *cwd, *session_id;
	struct text code;
	int64_t timeout;
	bool stateful, last_expression;
};
static const struct field execute_fields[] = {
	STR(code_execute, language, REQUIRED,
	    "`python`, `javascript`, `typescript`, `bash`, or what else /v1/code/info lists.",
	    .min_len = 1, .max_len = 60),
	TEXT(code_execute, code, REQUIRED, "Source code.", .max_len = KERNELS_CODE_MAX),
	INT(code_execute, timeout, MIN | MAX, "Seconds until it is stopped: `timeout`.",
	    .def = "30", .min = 1, .max = TIMEOUT_MAX),
	STR(code_execute, cwd, OPTIONAL, "Working directory, an absolute path.", .max_len = 4000),
	BOOL(code_execute, stateful, OPTIONAL, "Keep variables in a session, for the next call.",
	     .def = "false"),
	STR(code_execute, session_id, OPTIONAL,
	    "That session, made on first use; a new one when absent or empty.", .max_len = 64),
	BOOL(code_execute, last_expression, OPTIONAL,
	     "Return the value of the last expression of Python among `outputs`, as a session does.",
	     .def = "false"),
};
static const struct schema execute_schema =
	SCHEMA(code_execute, "CodeExecuteRequest", execute_fields);

struct code_executed {
	const char *language, *status, *session_id;
	struct text code, out, errors;
	struct each outputs, traceback;
	int64_t exit_code;
};
static const struct field executed_fields[] = {
	STR(code_executed, language, 0, "The language."),
	STR(code_executed, status, 0, "`ok`, `error` or `timeout`."),
	EACH(code_executed, outputs, 0, "What it gave, in order, as in nbformat.", .item = T_JSON,
	     .of = &code_output_schema),
	TEXT(code_executed, code, 0, "The code."),
	NAMED("stdout", TEXT, code_executed, out, NULLABLE, "What it printed."),
	NAMED("stderr", TEXT, code_executed, errors, NULLABLE, "What it printed as errors."),
	INT(code_executed, exit_code, NULLABLE,
	    "Of its process; of a session 0 or 1, and null after a time-out."),
	EACH(code_executed, traceback, NULLABLE, "Of the error, where there is one.",
	     .item = T_STR),
	STR(code_executed, session_id, NULLABLE, "The session, when it is stateful."),
};
static const struct schema executed_schema =
	SCHEMA(code_executed, "CodeExecuteResponse", executed_fields);
static const struct field executed_data = { .type = T_OBJ, .of = &executed_schema };

/* What an answer is made of, whoever ran the code. */
struct code_done {
	const char *status, *session_id, *notice;
	int64_t exit_code;
	struct outputs *outputs;
};

static int reply(struct call *call, const struct code_execute *request,
		 const struct code_done *done, struct err *err)
{
	const json_t *error = outputs_error(done->outputs);
	call->message = !strcmp(done->status, "ok")      ? "Code executed"
			: !strcmp(done->status, "error") ? "Code failed"
							 : "Code timed out";
	if (done->notice)
		call->message = arena_printf(call->arena, "%s. %s", call->message, done->notice);
	call->hint = done->notice;
	auto_buf struct buf out = BUF(SIZE_MAX / 2), errors = BUF(SIZE_MAX / 2);
	outputs_text(done->outputs, "stdout", &out);
	outputs_text(done->outputs, "stderr", &errors);
	struct code_executed executed = {
		.language = request->language,
		.status = done->status,
		.outputs = { outputs_write, done->outputs },
		.code = request->code,
		.out = { out.data ? out.data : "", out.len },
		.errors = { errors.data ? errors.data : "", errors.len },
		.exit_code = done->exit_code,
		.traceback = { error ? desc_each_json : NULL, json_object_get(error, "traceback") },
		.session_id = done->session_id,
	};
	return call_reply(call, &executed, err);
}

/* ---- each way ---- */

static int by_kernel(struct call *call, const struct code_execute *request, struct err *err)
{
	const struct kernels_job job = {
		.where = { .id = request->stateful ? request->session_id : NULL,
			   .language = strcmp(request->language, "python") ? request->language
									   : NULL,
			   .cwd = request->cwd },
		.code = request->code,
		.timeout_ms = request->timeout * 1000,
		.once = !request->stateful,
		.events = call->wants_events,
	};
	struct kernels_result result;
	if (kernels_execute(call, &job, &result, err) < 0)
		return -1;
	if (job.events)
		return 0;
	const struct code_done done = {
		.status = result.status,
		.session_id = request->stateful ? result.session.id : NULL,
		.notice = result.notice,
		.exit_code = result.exit_code,
		.outputs = result.outputs,
	};
	return reply(call, request, &done, err);
}

static int by_script(struct call *call, const struct code_execute *request, struct err *err)
{
	const struct script_job job = { request->language,  request->code,
					request->cwd,       request->timeout,
					call->wants_events, request->last_expression };
	struct script_result result;
	if (script_run(call, &job, &result, err) < 0)
		return -1;
	if (job.events) {
		const struct code_events_end end = { .status = result.status,
						     .notice = result.notice,
						     .exit_code = result.exit_code,
						     .count = INT_ABSENT };
		return code_events_finish(call, &end, err);
	}
	const struct code_done done = { .status = result.status,
					.notice = result.notice,
					.exit_code = result.exit_code,
					.outputs = result.outputs };
	return reply(call, request, &done, err);
}

static int by_node(struct call *call, const struct code_execute *request, struct err *err)
{
	const struct nodejs_job job = {
		.request = { .code = request->code,
			     .typescript = !strcmp(request->language, "typescript"),
			     .timeout_ms = request->timeout * 1000,
			     .cwd = request->cwd && *request->cwd ? request->cwd : NULL },
		.stateful = request->stateful,
		.session_id = request->session_id,
	};
	struct nodejs_outputs result;
	if (nodejs_outputs_run(call, &job, &result, err) < 0)
		return -1;
	if (call->wants_events)
		return 0;
	const struct code_done done = { result.status, result.session_id, result.notice,
					result.exit_code, result.outputs };
	return reply(call, request, &done, err);
}

/* ---- which way ---- */

typedef int way(struct call *call, const struct code_execute *request, struct err *err);

static const struct language {
	const char *name, *alias, *description;
	way *once, *stateful;
} languages[] = {
	{ "python", "py,python3", "Python; stateful in a Jupyter kernel", by_script, by_kernel },
	{ "javascript", "js,node,nodejs", "JavaScript, by Node.js", by_node, by_node },
	{ "typescript", "ts", "TypeScript, by Node.js", by_node, by_node },
	{ "bash", "sh,shell", "Commands, by bash", by_script, by_kernel },
};

static bool named(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; (at = strcasestr(at, name)); at++)
		if ((at == list || at[-1] == ',') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

static const struct language *find_language(const char *name)
{
	for (size_t i = 0; i < COUNT(languages); i++)
		if (!strcasecmp(languages[i].name, name) || named(languages[i].alias, name))
			return &languages[i];
	return NULL;
}

const char *code_language(const char *name)
{
	const struct language *language = find_language(name);
	return language ? language->name : name;
}

/* A language that only a kernel speaks, if one does. */
static int by_other(struct call *call, const struct code_execute *request, struct err *err)
{
	struct tools_where where;
	if (kernels_where(call->server, &where, err) < 0)
		return -1;
	if (kernelspec_for(&where, request->language, call->arena))
		return by_kernel(call, request, err);
	struct list list = kernelspec_list(&where, call->arena);
	const struct kernelspec *specs = list.items;
	auto_buf struct buf names = BUF(300);
	for (size_t i = 0; i < COUNT(languages); i++)
		(void)buf_printf(&names, "%s%s", i ? ", " : "", languages[i].name);
	for (size_t i = 0; i < list.count; i++)
		if (*specs[i].language && !find_language(specs[i].language))
			(void)buf_printf(&names, ", %s", specs[i].language);
	return err_set(err, ERR_INVALID, "unknown language '%.60s': expected one of: %s",
		       request->language, names.data);
}

static int execute(struct call *call, const void *in, struct err *err)
{
	struct code_execute request = *(const struct code_execute *)in;
	const struct language *language = find_language(request.language);
	if (request.session_id && *request.session_id)
		request.stateful = true;
	if (!language)
		return by_other(call, &request, err);
	request.language = language->name;
	return (request.stateful ? language->stateful : language->once)(call, &request, err);
}

/* ---- info ---- */

struct language_info {
	const char *language, *description, *runtime_version;
	int64_t default_timeout, max_timeout;
	json_t *details;
};
static const struct field language_fields[] = {
	STR(language_info, language, 0, "Its name, for /v1/code/execute."),
	STR(language_info, description, 0, "What runs it."),
	STR(language_info, runtime_version, NULLABLE, "Version of what runs it."),
	INT(language_info, default_timeout, 0, "Seconds."),
	INT(language_info, max_timeout, 0, "Seconds."),
	JSON(language_info, details, 0, "`runtime`: the program; `kernels`; `stateful`."),
};
static const struct schema language_schema =
	SCHEMA(language_info, "CodeLanguageInfo", language_fields);
struct code_info {
	struct list languages;
};
static const struct field info_fields[] = {
	LIST(code_info, languages, 0, "The languages there are.", .item = T_OBJ,
	     .of = &language_schema),
};
static const struct schema info_schema = SCHEMA(code_info, "CodeInfoResponse", info_fields);
static const struct field info_data = { .type = T_OBJ, .of = &info_schema };

/* "Python 3.11.2", "GNU bash, version 5.2.15(1)…": the first number and what belongs to it. */
static const char *version_of(struct call *call, const char *program)
{
	struct tools_where where;
	auto_buf struct buf out = BUF(4096);
	struct program_status end;
	char *argv[] = { (char *)program, (char *)"--version", NULL };
	if (kernels_where(call->server, &where, NULL) < 0 ||
	    tools_run(&where, argv, clock_ms() + VERSION_MS, &out, &end, NULL) < 0 || !out.len)
		return NULL;
	const char *at = out.data;
	while (*at && !isdigit((unsigned char)*at))
		at++;
	return *at ? arena_strndup(call->arena, at, strspn(at, "0123456789.")) : NULL;
}

/* Of a language that a kernel speaks: of the program that it is, unless that is only what runs it. */
static const char *kernel_version(struct call *call, const struct kernelspec *spec)
{
	const char *program = *(const char *const *)spec->argv.items;
	const char *name = strrchr(program, '/');
	return !strncmp(name ? name + 1 : program, "python", 6) ? NULL : version_of(call, program);
}

static void decref(void *json)
{
	json_decref(json);
}

static json_t *details(struct call *call, const char *program, const struct list *specs,
		       const char *language, bool stateful)
{
	const struct kernelspec *spec = specs->items;
	json_t *all = json_object(), *kernels = json_array();
	for (size_t i = 0; i < specs->count; i++)
		if (!strcasecmp(spec[i].language, language))
			json_array_append_new(kernels, json_string(spec[i].name));
	json_object_set_new(all, "stateful",
			    json_boolean(stateful || json_array_size(kernels) > 0));
	if (program)
		json_object_set_new(all, "runtime", json_string(program));
	json_object_set_new(all, "kernels", kernels);
	arena_defer(call->arena, decref, all);
	return all;
}

static bool listed(const struct language_info *infos, size_t count, const char *language)
{
	for (size_t i = 0; i < count; i++)
		if (!strcasecmp(infos[i].language, language))
			return true;
	return false;
}

static size_t add_own(struct call *call, const struct list *specs, struct language_info *to)
{
	size_t count = 0;
	for (size_t i = 0; i < COUNT(languages); i++) {
		bool node = languages[i].once == by_node;
		const char *program = node ? NULL
					   : script_interpreter(call, languages[i].name, NULL);
		const char *version = node      ? nodejs_version(call)
				      : program ? version_of(call, program)
						: NULL;
		if (!version || (!strcmp(languages[i].name, "typescript") &&
				 strtol(version, NULL, 10) < NODE_TYPESCRIPT))
			continue; /* it is not installed */
		to[count++] = (struct language_info){
			.language = languages[i].name,
			.description = languages[i].description,
			.runtime_version = version,
			.details = details(call, program, specs, languages[i].name, node),
		};
	}
	return count;
}

static int get_info(struct call *call, const void *in, struct err *err)
{
	struct tools_where where;
	(void)in;
	if (kernels_where(call->server, &where, err) < 0)
		return -1;
	struct list specs = kernelspec_list(&where, call->arena);
	const struct kernelspec *spec = specs.items;
	struct language_info *infos =
		arena_alloc(call->arena, (specs.count + COUNT(languages)) * sizeof *infos);
	size_t count = add_own(call, &specs, infos);
	for (size_t i = 0; i < specs.count; i++)
		if (*spec[i].language && !listed(infos, count, spec[i].language))
			infos[count++] = (struct language_info){
				.language = spec[i].language,
				.description = spec[i].display,
				.runtime_version = kernel_version(call, &spec[i]),
				.details = details(call, *(const char *const *)spec[i].argv.items,
						   &specs, spec[i].language, true),
			};
	for (size_t i = 0; i < count; i++) {
		infos[i].default_timeout = TIMEOUT;
		infos[i].max_timeout = TIMEOUT_MAX;
	}
	return call_reply(call, &(struct code_info){ { count, infos } }, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/code/execute", execute, &execute_schema, &executed_data,
	  "Run code of any language",
	  "A fresh process runs it, unless `stateful` or a `session_id` asks for a session that keeps "
	  "its variables. A caller that leaves has its code stopped.",
	  .flags = EVENTS | RUNS, .sends = &code_events_sends },
	{ "GET", "/v1/code/info", get_info, NULL, &info_data, "Languages there are" },
};
const struct route_group code_group = { "code", "Code of any language, in one way.", routes,
					COUNT(routes) };
