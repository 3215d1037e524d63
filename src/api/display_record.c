/* Recording the desktop as a video. */
#include <string.h>

#include "api/record_file.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/chromium.h"
#include "desktop/record.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"

enum { START_MS = 75000, STOP_MS = 30000 };

static const char *const actions[] = { "start", "stop", "status", NULL };
struct display_record {
	const char *action, *save_path;
	int64_t fps, crf;
	double max_duration;
	int64_t width, height;
};
static const struct field record_fields[] = {
	ENUM(display_record, action, REQUIRED, "Recording action: start, stop, or status.",
	     .choices = actions),
	STR(display_record, save_path, OPTIONAL,
	    "Output file path; absent: /tmp/recordings/recording_{timestamp}.mp4. A file that is there is "
	    "replaced."),
	INT(display_record, fps, ABOVE | MAX, "Frames per second.", .def = "5", .min = 0,
	    .max = 30),
	INT(display_record, crf, MIN | MAX, "H.264 CRF quality (0=lossless, 51=worst).",
	    .def = "28", .min = 0, .max = 51),
	NUM(display_record, max_duration, ABOVE,
	    "Max recording duration in seconds; then the recording stops.", .def = "600", .min = 0),
	INT(display_record, width, ABOVE,
	    "Video width in pixels: the whole screen is scaled to it. Absent: as the screen, or as height "
	    "has it. Odd numbers become even.",
	    .min = 0),
	INT(display_record, height, ABOVE, "Video height in pixels; likewise.", .min = 0),
};
static const struct schema record_schema =
	SCHEMA(display_record, "DisplayRecordRequest", record_fields);

static const char *const states[] = { "idle", "recording", "stopped", NULL };
struct display_recorded {
	const char *status, *save_path;
	double duration;
	int64_t file_size_bytes;
};
static const struct field recorded_fields[] = {
	ENUM(display_recorded, status, REQUIRED, "Whether there is one.", .choices = states),
	STR(display_recorded, save_path, OPTIONAL, "The file."),
	NUM(display_recorded, duration, OPTIONAL, "Seconds that have been recorded.", .def = "0"),
	INT(display_recorded, file_size_bytes, OPTIONAL, "Size of the file."),
};
static const struct schema recorded_schema =
	SCHEMA(display_recorded, "DisplayRecordResult", recorded_fields);
static const struct field recorded_data = { .type = T_OBJ, .of = &recorded_schema };

static int reply(struct call *call, const struct record_info *info, struct err *err)
{
	const struct display_recorded recorded = {
		.status = states[info->state],
		.save_path = info->state == RECORD_IDLE ? NULL : info->path,
		.duration = info->video.seconds,
		.file_size_bytes = info->video.bytes < 0 ? INT_ABSENT : info->video.bytes,
	};
	return call_reply(call, &recorded, err);
}

/* What the caller has to know, or can mend, is an answer; the rest is an HTTP error. */
static int refuse(struct call *call, const struct err *cause, struct err *err)
{
	struct record_info info;
	if (cause->code == ERR_GONE || cause->code == ERR_UNAVAILABLE || cause->code == ERR_LIMIT ||
	    cause->code == ERR_INTERNAL || err_status(cause->code) == 422) {
		*err = *cause;
		return -1;
	}
	record_look(&info);
	call->failed = true;
	call->message = arena_strdup(call->arena, cause->msg);
	return reply(call, &info, err);
}

static int start(struct call *call, const struct display_record *request, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	const char *path = record_file(call, request->save_path, "recording", err);
	const struct record_wish wish = { path,           request->fps,
					  request->crf,   request->max_duration,
					  request->width, request->height };
	if (!path || browser_show(&wait, err) < 0)
		return -1;
	return record_start(call->server, &wish, &wait, err);
}

static int stop(struct call *call, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + STOP_MS);
	struct record_info before;
	record_look(&before);
	if (before.state == RECORD_IDLE)
		return err_set(err, ERR_CONFLICT, "there is no recording to stop: start one first");
	return record_stop(&wait, err);
}

static int look(struct call *call, struct err *err)
{
	struct record_info info;
	record_look(&info);
	if (info.video.failed)
		call->message =
			arena_printf(call->arena,
				     "The recording ended early: %s. What was recorded until "
				     "then is in the file.",
				     info.video.why);
	return reply(call, &info, err);
}

static int record(struct call *call, const void *in, struct err *err)
{
	const struct display_record *request = in;
	struct err cause = { 0 };
	int result = 0;
	if (!strcmp(request->action, "start"))
		result = start(call, request, &cause);
	else if (!strcmp(request->action, "stop"))
		result = stop(call, &cause);
	return result < 0 ? refuse(call, &cause, err) : look(call, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/display/record", record, &record_schema, &recorded_data,
	  "Record the desktop as a video",
	  "H.264 in an MP4, of the whole screen with all of its windows and the pointer; one recording "
	  "at a time. The file can be played while it is written, and after a crash. The desktop "
	  "and the browser are not stopped for being idle meanwhile." },
};
const struct route_group display_record_group = { "display", "Recording the desktop.", routes,
						  COUNT(routes) };
