#include "code/code_events.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "kernel/outputs.h"
#include "net/call.h"

struct code_events_start {
	const char *language, *session_id;
};
static const struct field start_fields[] = {
	STR(code_events_start, language, 0, "What runs."),
	STR(code_events_start, session_id, NULLABLE, "Its session."),
};
static const struct schema start_schema = SCHEMA(code_events_start, "CodeStartEvent", start_fields);
struct code_events_piece {
	struct text text;
};
static const struct field piece_fields[] = {
	TEXT(code_events_piece, text, 0, "What it printed."),
};
static const struct schema piece_schema = SCHEMA(code_events_piece, "CodeTextEvent", piece_fields);
struct failure {
	const char *ename, *evalue;
	struct each traceback;
};
static const struct field failure_fields[] = {
	STR(failure, ename, 0, "Its name."),
	STR(failure, evalue, 0, "Its text."),
	EACH(failure, traceback, 0, "Its lines, with ANSI colours.", .item = T_STR),
};
static const struct schema failure_schema = SCHEMA(failure, "CodeErrorEvent", failure_fields);
struct result {
	const char *output_type;
	json_t *data, *metadata, *execution_count, *display_id;
};
static const struct field result_fields[] = {
	STR(result, output_type, 0,
	    "`execute_result`, `display_data`, or `update_display_data`: new data for an earlier one."),
	JSON(result, data, OMIT, "By MIME type; pictures in base64."),
	JSON(result, metadata, OMIT, "As in nbformat."),
	JSON(result, execution_count, OMIT, "Of a result."),
	JSON(result, display_id, OMIT, "What later updates name."),
};
static const struct schema result_schema = SCHEMA(result, "CodeResultEvent", result_fields);
static const struct field end_fields[] = {
	STR(code_events_end, status, 0, "`ok`, `error` or `timeout`."),
	STR(code_events_end, session_id, NULLABLE, "Its session."),
	INT(code_events_end, exit_code, NULLABLE, "As in the answer of /v1/code/execute."),
	NAMED("execution_count", INT, code_events_end, count, NULLABLE, "As the kernel counts."),
	STR(code_events_end, notice, NULLABLE, "Something else to know."),
};
static const struct schema end_schema = SCHEMA(code_events_end, "CodeEndEvent", end_fields);
static const struct variant events[] = {
	{ "start", &start_schema },
	{ "stdout", &piece_schema },
	{ "stderr", &piece_schema },
	{ "result", &result_schema, "A value, a picture, a table." },
	{ "error", &failure_schema, "The error that ended it." },
	{ "end", &end_schema },
};
const struct schema code_events_sends = TAGGED("CodeEvent", "event", events, .outside = true);

int code_events_start(struct call *call, const char *language, const char *session_id,
		      struct err *err)
{
	return call_send(call, "start", NULL, &(struct code_events_start){ language, session_id },
			 err);
}

int code_events_text(struct call *call, const char *name, const char *data, size_t len,
		     struct err *err)
{
	return call_send(call, name, NULL, &(struct code_events_piece){ { data, len } }, err);
}

int code_events_error(struct call *call, const char *name, const char *value,
		      const json_t *traceback, struct err *err)
{
	struct failure failure = { name ? name : "Error",
				   value ? value : "",
				   { desc_each_json, (void *)traceback } };
	return call_send(call, "error", NULL, &failure, err);
}

/* A change of an earlier result: its display_id says which. */
static int put_update(struct call *call, const json_t *content, struct err *err)
{
	const json_t *transient = json_object_get(content, "transient");
	json_t *data = json_object_get(content, "data"), *none = json_null();
	json_t *metadata = json_object_get(content, "metadata");
	json_t *id = json_object_get(transient, "display_id");
	struct result result = { "update_display_data", data ? data : none,
				 metadata ? metadata : none, NULL, id ? id : none };
	return call_send(call, "result", NULL, &result, err);
}

static int put_result(struct call *call, const char *type, const json_t *content, struct err *err)
{
	json_t *shape = outputs_shape(type, content);
	if (!shape)
		return 0;
	struct result result = {
		type, json_object_get(shape, "data"), json_object_get(shape, "metadata"),
		json_object_get(shape, "execution_count"),
		json_object_get(json_object_get(content, "transient"), "display_id")
	};
	int sent = call_send(call, "result", NULL, &result, err);
	json_decref(shape);
	return sent;
}

int code_events_message(struct call *call, const char *type, const json_t *content, struct err *err)
{
	if (!strcmp(type, "stream")) {
		const char *name = json_string_value(json_object_get(content, "name"));
		const json_t *text = json_object_get(content, "text");
		bool errors = name && !strcmp(name, "stderr");
		return json_string_length(text)
			       ? code_events_text(call, errors ? "stderr" : "stdout",
						  json_string_value(text), json_string_length(text),
						  err)
			       : 0;
	}
	if (!strcmp(type, "error"))
		return code_events_error(call, json_string_value(json_object_get(content, "ename")),
					 json_string_value(json_object_get(content, "evalue")),
					 json_object_get(content, "traceback"), err);
	if (!strcmp(type, "update_display_data"))
		return put_update(call, content, err);
	return put_result(call, type, content, err);
}

int code_events_finish(struct call *call, const struct code_events_end *end, struct err *err)
{
	return call_send(call, "end", NULL, end, err);
}
