#include "api/events.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "kernel/outputs.h"
#include "net/call.h"

static int put(struct call *call, const char *name, struct jw *jw, struct err *err)
{
	jw_close(jw, '}');
	int result = call_event(call, name, NULL, jw->out.data, jw->out.len, err);
	jw_done(jw);
	return result;
}

static void begin(struct jw *jw)
{
	jw_init(jw, SIZE_MAX / 16);
	jw_open(jw, '{');
}

static void put_int(struct jw *jw, const char *key, int64_t value)
{
	jw_key(jw, key);
	if (value == INT_ABSENT)
		jw_null(jw);
	else
		jw_int(jw, value);
}

int events_start(struct call *call, const char *language, const char *session_id, struct err *err)
{
	struct jw jw;
	begin(&jw);
	jw_key_str(&jw, "language", language);
	jw_key_str(&jw, "session_id", session_id);
	return put(call, "start", &jw, err);
}

int events_text(struct call *call, const char *name, const char *data, size_t len, struct err *err)
{
	struct jw jw;
	begin(&jw);
	jw_key(&jw, "text");
	jw_text(&jw, data, len);
	return put(call, name, &jw, err);
}

int events_error(struct call *call, const char *name, const char *value, const json_t *traceback,
		 struct err *err)
{
	struct jw jw;
	begin(&jw);
	jw_key_str(&jw, "ename", name ? name : "Error");
	jw_key_str(&jw, "evalue", value ? value : "");
	jw_key(&jw, "traceback");
	if (traceback) {
		jw_json(&jw, traceback);
	} else {
		jw_open(&jw, '[');
		jw_close(&jw, ']');
	}
	return put(call, "error", &jw, err);
}

/* A change of an earlier result: its display_id says which. */
static int put_update(struct call *call, const json_t *content, struct err *err)
{
	struct jw jw;
	begin(&jw);
	jw_key_str(&jw, "output_type", "update_display_data");
	jw_key(&jw, "data");
	jw_json(&jw, json_object_get(content, "data"));
	jw_key(&jw, "metadata");
	jw_json(&jw, json_object_get(content, "metadata"));
	jw_key(&jw, "display_id");
	jw_json(&jw, json_object_get(json_object_get(content, "transient"), "display_id"));
	return put(call, "result", &jw, err);
}

static int put_result(struct call *call, const char *type, const json_t *content, struct err *err)
{
	json_t *shape = outputs_shape(type, content);
	const json_t *id = json_object_get(json_object_get(content, "transient"), "display_id");
	const char *key;
	json_t *value;
	struct jw jw;
	if (!shape)
		return 0;
	begin(&jw);
	json_object_foreach(shape, key, value) {
		jw_key(&jw, key);
		jw_json(&jw, value);
	}
	if (id) {
		jw_key(&jw, "display_id");
		jw_json(&jw, id);
	}
	json_decref(shape);
	return put(call, "result", &jw, err);
}

int events_message(struct call *call, const char *type, const json_t *content, struct err *err)
{
	if (!strcmp(type, "stream")) {
		const char *name = json_string_value(json_object_get(content, "name"));
		const json_t *text = json_object_get(content, "text");
		bool errors = name && !strcmp(name, "stderr");
		return json_string_length(text)
			       ? events_text(call, errors ? "stderr" : "stdout",
					     json_string_value(text), json_string_length(text), err)
			       : 0;
	}
	if (!strcmp(type, "error"))
		return events_error(call, json_string_value(json_object_get(content, "ename")),
				    json_string_value(json_object_get(content, "evalue")),
				    json_object_get(content, "traceback"), err);
	if (!strcmp(type, "update_display_data"))
		return put_update(call, content, err);
	return put_result(call, type, content, err);
}

int events_finish(struct call *call, const struct events_end *end, struct err *err)
{
	struct jw jw;
	begin(&jw);
	jw_key_str(&jw, "status", end->status);
	jw_key_str(&jw, "session_id", end->session_id);
	put_int(&jw, "exit_code", end->exit_code);
	put_int(&jw, "execution_count", end->count);
	jw_key_str(&jw, "notice", end->notice);
	return put(call, "end", &jw, err);
}
