#include "code/nodejs_outputs.h"

#include <jansson.h>

#include "base/arena.h"
#include "code/code_events.h"
#include "code/nodejs_execute.h"
#include "config/config.h"
#include "net/call.h"
#include "net/server.h"

struct streaming {
	struct call *call;
	const char *language;
	const char *const *session_id; /* known once it runs */
};

/* The stream begins with the first output, or with the end: until then an error is still a 4xx. */
static int send_start(const struct streaming *to, struct err *err)
{
	return to->call->sink->begun
		       ? 0
		       : code_events_start(to->call, to->language, *to->session_id, err);
}

static int send_text(void *arg, enum node_stream stream, const char *data, size_t len,
		     struct err *err)
{
	const struct streaming *to = arg;
	if (send_start(to, err) < 0)
		return -1;
	return code_events_text(to->call, stream == NODE_STDERR ? "stderr" : "stdout", data, len,
				err);
}

static json_t *text_value(const struct text *text)
{
	json_t *value = json_stringn(text->data, text->len);
	return value ? value : json_string("");
}

/* One of Node's outputs as a kernel would have sent it. */
static json_t *node_message(const struct node_output *output, const char **ret_type)
{
	json_t *content = json_object(), *list;
	switch (output->type) {
	case NODE_STREAM:
		*ret_type = "stream";
		break; /* its bytes may be no text: see below */
	case NODE_VALUE:
		*ret_type = "execute_result";
		list = json_object();
		json_object_set_new(list, "text/plain", text_value(&output->text));
		if (output->json)
			json_object_set(list, "application/json", output->json);
		json_object_set_new(content, "data", list);
		break;
	case NODE_ERROR:
		*ret_type = "error";
		list = json_array();
		for (size_t i = 0; i < output->trace.count; i++)
			json_array_append_new(list, json_string(((const char *const *)
									 output->trace.items)[i]));
		json_object_set_new(content, "ename", json_string(output->name));
		json_object_set_new(content, "evalue", json_string(output->message));
		json_object_set_new(content, "traceback", list);
		break;
	}
	return content;
}

/* Streams were sent as they came; what is left are the value and the error. */
static int take_outputs(struct call *call, const struct node_result *result, bool events,
			struct outputs *to, struct err *err)
{
	const struct node_output *outputs = result->outputs.items;
	int failed = 0;
	for (size_t i = 0; i < result->outputs.count && !failed; i++) {
		const struct node_output *output = &outputs[i];
		const char *type = "";
		if (output->type == NODE_STREAM) {
			outputs_stream(to, output->stream == NODE_STDERR ? "stderr" : "stdout",
				       output->text.data, output->text.len);
			continue;
		}
		json_t *content = node_message(output, &type);
		outputs_add(to, type, content);
		if (events)
			failed = code_events_message(call, type, content, err);
		json_decref(content);
	}
	return failed;
}

static void free_outputs(void *outputs)
{
	outputs_done(outputs);
}

int nodejs_outputs_run(struct call *call, const struct nodejs_job *given,
		       struct nodejs_outputs *ret, struct err *err)
{
	struct nodejs_job job = *given;
	struct node_result result;
	const struct streaming to = { call, job.request.typescript ? "typescript" : "javascript",
				      &ret->session_id };
	job.request.value = true;
	job.write = call->wants_events ? send_text : NULL;
	job.arg = (void *)&to;
	*ret = (struct nodejs_outputs){ .outputs = arena_alloc(call->arena, sizeof *ret->outputs) };
	outputs_init(ret->outputs, (size_t)call->server->config->kernel_output);
	arena_defer(call->arena, free_outputs, ret->outputs);
	if (nodejs_execute(call, &job, &result, &ret->session_id, err) < 0 ||
	    (call->wants_events && send_start(&to, err) < 0) ||
	    take_outputs(call, &result, call->wants_events, ret->outputs, err) < 0)
		return -1;
	ret->status = node_status_names[result.status];
	ret->notice = result.notice;
	ret->exit_code = result.exit_code;
	const struct code_events_end end = { ret->status, ret->session_id, ret->notice,
					     ret->exit_code,
					     result.count ? result.count : INT_ABSENT };
	return call->wants_events ? code_events_finish(call, &end, err) : 0;
}
