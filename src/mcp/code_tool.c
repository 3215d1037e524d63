#include "mcp/code_tool.h"

#include <string.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "mcp/exchange.h"
#include "mcp/session.h"
#include "term/plain.h"

enum { TEXT_MAX = 48 << 20 };

static const char *const languages[] = {
	"python", "javascript", "py", "js", "node", "nodejs", NULL
};

struct code_tool {
	const char *code, *language, *session_id, *cwd;
	int64_t timeout;
	bool stateful;
};
static const struct field in_fields[] = {
	STR(code_tool, code, REQUIRED, "The program.", .max_len = 4 << 20),
	ENUM(code_tool, language, OPTIONAL, "python or javascript.", .def = "python",
	     .choices = languages),
	INT(code_tool, timeout, MIN | MAX, "Seconds it may take.", .def = "30", .min = 1,
	    .max = 300),
	STR(code_tool, cwd, OPTIONAL,
	    "Directory to run it in; relative ones are in the workspace."),
	BOOL(code_tool, stateful, OPTIONAL, "Keep variables for your later stateful calls.",
	     .def = "false"),
	STR(code_tool, session_id, OPTIONAL,
	    "Whose variables to keep, instead of your own session's: any name.", .max_len = 64),
};
const struct schema code_tool_in = SCHEMA(code_tool, "ExecuteCode", in_fields);

struct code_result {
	const char *status, *out, *errors, *result, *traceback, *session_id;
	struct list displayed;
	int64_t exit_code;
};
static const struct field out_fields[] = {
	STR(code_result, status, 0, "ok, error or timeout."),
	NAMED("stdout", STR, code_result, out, 0, "What it printed."),
	NAMED("stderr", STR, code_result, errors, 0,
	      "What it printed as errors, without the traceback."),
	STR(code_result, result, NULLABLE, "The value of the last expression, if it has one."),
	LIST(code_result, displayed, 0, "What else it displayed, as text; images follow.",
	     .item = T_STR),
	STR(code_result, traceback, NULLABLE, "Of the error that ended it."),
	INT(code_result, exit_code, NULLABLE, "0 for success; null after a time-out."),
	STR(code_result, session_id, NULLABLE, "Where its variables are kept, if it is stateful."),
};
const struct schema code_tool_out = SCHEMA(code_result, "ExecuteCodeResult", out_fields);

/* ---- what it gave ---- */

/* What is displayed as text: by MIME type in `data`. NULL: nothing. */
static json_t *shown(const json_t *data)
{
	static const char *const types[] = { "text/markdown", "text/plain", "text/latex",
					     "text/html" };
	json_t *text = NULL;
	for (size_t i = 0; i < COUNT(types) && !text; i++)
		text = json_object_get(data, types[i]);
	return text;
}

static bool is_picture(const json_t *data)
{
	const char *type;
	json_t *value;
	json_object_foreach((json_t *)data, type, value)
		if (!strncmp(type, "image/", 6))
			return true;
	return false;
}

/* The value of the last expression, and what else was displayed. */
static void take_outputs(const json_t *outputs, json_t *to)
{
	json_t *output, *displayed = json_array();
	size_t i;
	json_object_set_new(to, "result", json_null());
	json_object_set_new(to, "displayed", displayed);
	json_array_foreach(outputs, i, output) {
		const char *type = json_string_value(json_object_get(output, "output_type"));
		const json_t *data = json_object_get(output, "data");
		if (type && !strcmp(type, "execute_result") && shown(data))
			json_object_set(to, "result", shown(data));
		else if (!is_picture(data) && shown(data))
			json_array_append(displayed, shown(data));
	}
}

/* ---- its error ---- */

static bool is_rule(const char *line)
{
	return strlen(line) > 10 && strspn(line, "-") == strlen(line);
}

/* The lines of a traceback as plain text. */
static void put_traceback(const json_t *lines, struct buf *to)
{
	struct plain plain;
	json_t *line;
	size_t i;
	plain_init(&plain);
	json_array_foreach(lines, i, line) {
		auto_buf struct buf text = BUF(TEXT_MAX);
		(void)plain_feed(&plain, json_string_value(line), json_string_length(line), &text);
		(void)plain_finish(&plain, &text);
		if (i == 0 && text.data && is_rule(text.data)) /* of IPython */
			continue;
		(void)buf_printf(to, "%s%s", to->len ? "\n" : "", text.data ? text.data : "");
	}
	plain_done(&plain);
}

/* What was printed as errors without the traceback, which a process that ends with it has printed. */
static json_t *without(json_t *errors, const struct buf *traceback)
{
	static const char version[] = "\n\nNode.js v";
	const char *text = json_string_value(errors), *end = text + json_string_length(errors);
	const char *at =
		traceback->len ? memmem(text, (size_t)(end - text), traceback->data, traceback->len)
			       : NULL;
	if (!at)
		return json_incref(errors);
	const char *rest = at + traceback->len; /* a NUL stands at the end */
	if (!strncmp(rest, version, sizeof version - 1))
		rest += 2 + strcspn(rest + 2, "\n");
	rest += *rest == '\n';
	auto_buf struct buf left = BUF(TEXT_MAX);
	(void)buf_add(&left, text, (size_t)(at - text));
	(void)buf_add(&left, rest, (size_t)(end - rest));
	return json_stringn(left.data ? left.data : "", left.len);
}

static json_t *result_of(const json_t *data)
{
	auto_buf struct buf traceback = BUF(TEXT_MAX);
	put_traceback(json_object_get(data, "traceback"), &traceback);
	json_t *result = json_pack("{s:O,s:O,s:o}", "status", json_object_get(data, "status"),
				   "stdout", json_object_get(data, "stdout"), "stderr",
				   without(json_object_get(data, "stderr"), &traceback));
	take_outputs(json_object_get(data, "outputs"), result);
	json_object_set_new(result, "traceback",
			    traceback.len ? json_stringn(traceback.data, traceback.len)
					  : json_null());
	json_object_set(result, "exit_code", json_object_get(data, "exit_code"));
	json_object_set(result, "session_id", json_object_get(data, "session_id"));
	return result;
}

/* ---- running ---- */

static json_t *arguments(struct tool_use *use, const struct code_tool *code)
{
	const char *own = session_own(use->ex->from.session);
	const char *session = code->session_id && *code->session_id ? code->session_id
			      : code->stateful && own               ? own
								    : "";
	json_t *args = json_pack("{s:s,s:s,s:I,s:b,s:b,s:s}", "language",
				 *code->language == 'p' ? "python" : "javascript", "code",
				 code->code, "timeout", (json_int_t)code->timeout, "stateful",
				 code->stateful, "last_expression", 1, "session_id", session);
	if (args && code->cwd)
		json_object_set_new(args, "cwd", tool_path(use, code->cwd));
	return args;
}

int code_tool_run(struct tool_use *use, const void *in, struct err *err)
{
	json_t *args = arguments(use, in), *output;
	size_t i;
	if (!args)
		return err_set(err, ERR_INVALID, "the code is not UTF-8");
	tool_route(use, "POST /v1/code/execute", args, err);
	if (!use->structured)
		return 0;
	json_t *data = json_incref(use->structured);
	tool_restructure(use, result_of(data));
	json_array_foreach(json_object_get(data, "outputs"), i, output)
		tool_pictures(use, json_object_get(output, "data"));
	/* What the program got wrong is for the model to repair. */
	const char *status = json_string_value(json_object_get(data, "status"));
	use->failed = status && strcmp(status, "ok") != 0;
	json_decref(data);
	return 0;
}
