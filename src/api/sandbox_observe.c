/* Observing a sandbox: what it uses now, or over a while, and reports of that. */
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "net/call.h"
#include "net/server.h"
#include "observe/live.h"
#include "observe/observation.h"
#include "observe/reports.h"

/* ---- now ---- */

static const struct field status_fields[] = {
	ENUM(observation_status, mode, REQUIRED, "What runs.", .choices = observation_modes),
	BOOL(observation_status, running, REQUIRED, "Whether an observation runs."),
	STR(observation_status, session_id, NULLABLE, "The one that runs, or was the last."),
	STR(observation_status, started_at, NULLABLE, "When it was started."),
	STR(observation_status, ends_at, NULLABLE, "When it ends unless it is stopped."),
	NUM(observation_status, interval_seconds, NULLABLE, "Between two samples."),
	STR(observation_status, last_sample_at, NULLABLE, "When the last sample was taken."),
	STR(observation_status, runtime_dir, NULLABLE, "Where its files are."),
	INT(observation_status, report_count, 0, "Reports that there are."),
};
static const struct schema status_schema =
	SCHEMA(observation_status, "ObservationStatus", status_fields);
static const struct field status_data = { .type = T_OBJ, .of = &status_schema };

static int show_status(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct observation_status status;
	observation_status(call->arena, &status);
	return call_reply(call, &status, err);
}

struct live_wanted {
	int64_t top_rows;
};
static const struct field wanted_fields[] = {
	INT(live_wanted, top_rows, QUERY | MIN | MAX, "How many processes are listed.", .def = "10",
	    .min = 0, .max = LIVE_ROWS_MAX),
};
static const struct schema wanted_schema = SCHEMA(live_wanted, "ObserveLiveWanted", wanted_fields);
static const struct field live_data = { .type = T_OBJ, .of = &live_schema };

static int show_live(struct call *call, const void *in, struct err *err)
{
	const struct live_wanted *request = in;
	struct live live;
	const struct wait wait = call_until(call, INT64_MAX);
	if (live_take(call->server, (size_t)request->top_rows, &wait, call->arena, &live, err) < 0)
		return -1;
	return call_reply(call, &live, err);
}

/* ---- over a while ---- */

static const char *const start_modes[] = { "guardrail", "capture", NULL };
static const struct field start_fields[] = {
	ENUM(observation_request, mode, 0,
	     "`capture` keeps samples; `guardrail` also looks at rules, and reports what meets one.",
	     .def = "capture", .choices = start_modes),
	STR(observation_request, idempotency_key, 0,
	    "A request with a key that was used before gets the same answer, and starts nothing.",
	    .max_len = OBSERVATION_KEY_MAX),
	INT(observation_request, duration_seconds, MIN | MAX,
	    "How long it runs; 900 for `capture` and until it is stopped for `guardrail` when absent.",
	    .min = 1, .max = OBSERVATION_SECONDS_MAX),
	NUM(observation_request, interval_seconds, MIN | MAX,
	    "Between two samples; 1 for `capture`, 5 for `guardrail` when absent.",
	    .min = OBSERVATION_INTERVAL_MIN, .max = OBSERVATION_INTERVAL_MAX),
	TRI(observation_request, include_processes, 0,
	    "Whether the processes that use most are part of each sample; they are when absent."),
	BOOL(observation_request, include_disk, 0,
	     "Whether disks are; in `guardrail` they always are.", .def = "true"),
};
static const struct schema start_schema =
	SCHEMA(observation_request, "ObserveStartRequest", start_fields);

static const struct field started_fields[] = {
	STR(observation_started, session_id, REQUIRED, "The observation."),
	ENUM(observation_started, mode, REQUIRED, "Its mode.", .choices = observation_modes),
	STR(observation_started, started_at, REQUIRED, "When it was started."),
	STR(observation_started, ends_at, NULLABLE, "When it ends unless it is stopped."),
	NUM(observation_started, interval_seconds, REQUIRED, "Between two samples."),
	STR(observation_started, runtime_dir, REQUIRED,
	    "Where its files are, as they are written."),
};
static const struct schema started_schema =
	SCHEMA(observation_started, "ObservationStartResult", started_fields);
static const struct field started_data = { .type = T_OBJ, .of = &started_schema };

static int start(struct call *call, const void *in, struct err *err)
{
	struct observation_started started;
	const struct wait wait = call_until(call, INT64_MAX);
	if (observation_start(in, &wait, call->arena, &started, err) < 0)
		return -1;
	return call_reply(call, &started, err);
}

struct observe_stop {
	const char *session_id;
};
static const struct field stop_fields[] = {
	STR(observe_stop, session_id, 0, "Only if it is this one that runs."),
};
static const struct schema stop_schema = SCHEMA(observe_stop, "ObserveStopRequest", stop_fields);
static const struct field stopped_fields[] = {
	STR(observation_stopped, session_id, REQUIRED, "The observation."),
	BOOL(observation_stopped, stopped, REQUIRED, "False: it had ended already."),
	BOOL(observation_stopped, report_ready, REQUIRED, "Whether there is something to export."),
};
static const struct schema stopped_schema =
	SCHEMA(observation_stopped, "ObservationStopResult", stopped_fields);
static const struct field stopped_data = { .type = T_OBJ, .of = &stopped_schema };

static int stop(struct call *call, const void *in, struct err *err)
{
	const struct observe_stop *request = in;
	struct observation_stopped stopped;
	const struct wait wait = call_until(call, INT64_MAX);
	if (observation_stop(request->session_id, &wait, call->arena, &stopped, err) < 0)
		return -1;
	return call_reply(call, &stopped, err);
}

/* ---- reports ---- */

struct observe_export {
	const char *idempotency_key, *session_id, *reason;
};
static const struct field export_fields[] = {
	STR(observe_export, idempotency_key, 0,
	    "A request with a key that was used before gets the same answer, and exports nothing.",
	    .max_len = OBSERVATION_KEY_MAX),
	STR(observe_export, session_id, 0,
	    "The observation; the one that runs, or was the last, when absent."),
	STR(observe_export, reason, 0, "Why, for who reads the list of reports.", .def = "manual",
	    .max_len = REPORTS_REASON_MAX),
};
static const struct schema export_schema =
	SCHEMA(observe_export, "ObserveExportRequest", export_fields);
static const struct field report_data = { .type = T_OBJ, .of = &report_schema };
static const struct field reports_data = { .type = T_LIST, .item = T_OBJ, .of = &report_schema };

static int export_report(struct call *call, const void *in, struct err *err)
{
	const struct observe_export *request = in;
	struct report report;
	const struct wait wait = call_until(call, INT64_MAX);
	if (observation_export(request->session_id, request->reason, request->idempotency_key,
			       &wait, call->arena, &report, err) < 0)
		return -1;
	return call_reply(call, &report, err);
}

static int list_reports(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct list list;
	if (reports_list(call->server, call->arena, &list, err) < 0)
		return -1;
	return call_reply(call, &list, err);
}

struct report_one {
	const char *report_id;
};
static const struct field one_fields[] = {
	STR(report_one, report_id, PATH | REQUIRED, "The report."),
};
static const struct schema one_schema = SCHEMA(report_one, "ObserveReportId", one_fields);

static int download(struct call *call, const void *in, struct err *err)
{
	const struct report_one *request = in;
	auto_close int fd = reports_open(call->server, request->report_id, err);
	if (fd < 0)
		return -1;
	const char *name = arena_printf(call->arena, "%s.tar.gz", request->report_id);
	return call_file(call, fd, "application/gzip", name, NULL, 0, err);
}

static int delete_report(struct call *call, const void *in, struct err *err)
{
	const struct report_one *request = in;
	struct report report;
	if (reports_remove(call->server, call->arena, request->report_id, &report, err) < 0)
		return -1;
	return call_reply(call, &report, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/sandbox/observe/status", show_status, NULL, &status_data,
	  "What observes the sandbox" },
	{ "GET", "/v1/sandbox/observe/live", show_live, &wanted_schema, &live_data,
	  "What the sandbox uses now",
	  "Of CPU and memory by its cgroup, of its disks, the processes that use most, and the latest "
	  "events. Takes a fifth of a second, for what is said of CPU." },
	{ "POST", "/v1/sandbox/observe/start", start, &start_schema, &started_data,
	  "Start to observe the sandbox", "One observation at a time: 409 while another runs." },
	{ "POST", "/v1/sandbox/observe/stop", stop, &stop_schema, &stopped_data,
	  "Stop to observe the sandbox", "What was kept can still be exported." },
	{ "POST", "/v1/sandbox/observe/export", export_report, &export_schema, &report_data,
	  "Make a report",
	  "An archive of text files: a summary, the sandbox as it is now, its services, and the samples, "
	  "processes and events of the observation. The latest 20 reports are kept, and 64 MiB of "
	  "them." },
	{ "GET", "/v1/sandbox/observe/reports", list_reports, NULL, &reports_data, "List reports",
	  "The newest first." },
	{ "GET", "/v1/sandbox/observe/reports/{report_id}", download, &one_schema, NULL,
	  "Download a report", .flags = BARE, .type = "application/gzip" },
	{ "DELETE", "/v1/sandbox/observe/reports/{report_id}", delete_report, &one_schema,
	  &report_data, "Delete a report", "Returns what it was." },
};
const struct route_group sandbox_observe_group = {
	"sandbox", "What the sandbox is and what is installed in it.", routes, COUNT(routes)
};
