#include "host/history.h"

#include "base/json.h"
#include "base/own.h"
#include "host/host.h"
#include "host/store.h"

enum { DATA_MAX = 2047 }; /* of an event: what is longer is left out */

static const struct schema nothing_schema = { .name = "SandboxEventNothing" };

static const struct field template_fields[] = {
	NAMED("template", STR, history_text, value, 0,
	      "Its name; `machine` for the machine's own."),
};
static const struct schema template_schema =
	SCHEMA(history_text, "SandboxEventTemplate", template_fields);
static const struct field exec_fields[] = {
	STR(history_exec, path, 0, "Of the request, with stars for parameters."),
	STR(history_exec, command, OMIT,
	    "The first 200 characters of the command or code, without secrets; not there if the "
	    "request has neither, or is larger than 16 KiB."),
};
static const struct schema exec_schema = SCHEMA(history_exec, "SandboxEventExec", exec_fields);
static const struct field why_fields[] = {
	NAMED("why", STR, history_text, value, 0, "The reason."),
};
static const struct schema why_schema = SCHEMA(history_text, "SandboxEventReason", why_fields);
static const struct field fork_fields[] = {
	NAMED("to", STR, history_text, value, 0, "The id of the new one."),
};
static const struct schema fork_schema = SCHEMA(history_text, "SandboxEventFork", fork_fields);

static const struct field oom_fields[] = {
	INT(history_oom, kills, 0, "How many since the last such event."),
};
static const struct schema oom_schema = SCHEMA(history_oom, "SandboxEventMemory", oom_fields);

static const struct field exit_fields[] = {
	INT(history_exit, exit_code, OMIT, "Of the box's server."),
	INT(history_exit, signal, OMIT,
	    "That ended its server. Neither is there if the whole box was killed."),
};
static const struct schema exit_schema = SCHEMA(history_exit, "SandboxEventExit", exit_fields);

static const struct field mount_fields[] = {
	STR(history_mount, target, 0, "Where it would have been."),
	STR(history_mount, why, 0, "What was wrong."),
};
static const struct schema mount_schema = SCHEMA(history_mount, "SandboxEventMount", mount_fields);

static const struct field denied_fields[] = {
	NUM(history_denied, time, OMIT, "When, in seconds since 1970."),
	STR(history_denied, by, OMIT, "`host` if the host denied it to a caller of the box."),
	STR(history_denied, host, OMIT, "The name or address that the box called."),
	INT(history_denied, port, OMIT, "Its port; 0 for a question to DNS."),
	STR(history_denied, reason, 0, "Why it was denied."),
	INT(history_denied, times, OMIT, "How often since it was last reported."),
};
static const struct schema denied_schema =
	SCHEMA(history_denied, "SandboxEventDenied", denied_fields);

#define NAME(id, name, of, help)    name,
#define VARIANT(id, name, of, help) { name, &of##_schema, help },
const char *const history_names[] = { HISTORY_KINDS(NAME) NULL };
static const struct variant variants[] = { HISTORY_KINDS(VARIANT) };
const struct schema history_data_schema =
	TAGGED("SandboxEventData", "type", variants, .outside = true);

const struct schema *history_schema(enum history_kind kind)
{
	return variants[kind].of;
}

void history_add(struct host *host, struct box *box, enum history_kind kind, const void *data)
{
	struct jw jw;
	jw_init(&jw, DATA_MAX);
	desc_encode(variants[kind].of, data, &jw);
	char *json = jw_failed(&jw) ? xstrdup("{}") : xstrndup(jw.out.data, jw.out.len);
	jw_done(&jw);
	int64_t now = host_now_ms();
	int64_t seq = boxes_event(&host->boxes, box, now, history_names[kind], xstrdup(json));
	if (seq >= 0)
		store_event(host->store, box->id, seq, now, history_names[kind], json,
			    BOX_EVENTS_MAX);
	free(json);
}
