/* Recording the page as a video. */
#include <string.h>

#include "api/browser_lease.h"
#include "api/record_file.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/tab_record.h"
#include "net/call.h"

enum { START_MS = 75000, STOP_MS = 45000, ONCE_MAX = 600 };

static const char *const actions[] = { "once", "start", "pause", "resume", "stop", "status", NULL };
struct page_record {
	const char *action, *save_path;
	double duration;
	int64_t fps, quality;
};
static const struct field record_fields[] = {
	ENUM(page_record, action, OPTIONAL,
	     "once records for `duration` and returns when the file is complete; start returns once it has begun, "
	     "and stop completes the file. What passes between pause and resume is not in it.",
	     .choices = actions, .def = "once"),
	STR(page_record, save_path, OPTIONAL,
	    "Output file path, always an MP4; absent: /tmp/recordings/page_{timestamp}.mp4. A file "
	    "that is there is replaced."),
	NUM(page_record, duration, ABOVE,
	    "With once: how many seconds, at most 600. A recording of start ends by itself after an hour.",
	    .def = "10", .min = 0),
	INT(page_record, fps, ABOVE | MAX, "Frames per second.", .def = "15", .min = 0,
	    .max = TAB_RECORD_FPS_MAX),
	INT(page_record, quality, MIN | MAX, "Of the pictures, 0 to 100: 100 is the best.",
	    .def = "80", .min = 0, .max = 100),
};
static const struct schema record_schema = SCHEMA(page_record, "RecordRequest", record_fields);

static const char *const states[] = {
	[TAB_RECORD_IDLE] = "idle",
	[TAB_RECORD_GOING] = "recording",
	[TAB_RECORD_PAUSED] = "paused",
	[TAB_RECORD_ENDED] = "stopped",
	NULL,
};
struct page_recorded {
	const char *status, *save_path;
	double duration;
	int64_t file_size_bytes, frames, width, height, fps;
	const char *reason;
};
static const struct field recorded_fields[] = {
	ENUM(page_recorded, status, 0, "Whether the tab is being recorded.", .choices = states),
	STR(page_recorded, save_path, NULLABLE, "The file."),
	NUM(page_recorded, duration, 0, "Seconds that have been recorded, without pauses."),
	INT(page_recorded, file_size_bytes, NULLABLE, "Size of the file."),
	INT(page_recorded, frames, 0, "Frames of the video."),
	INT(page_recorded, width, NULLABLE,
	    "Of the video: as the page was when it began, at most 1920 pixels a side."),
	INT(page_recorded, height, NULLABLE, "Likewise."),
	INT(page_recorded, fps, NULLABLE, "Frames per second."),
	STR(page_recorded, reason, NULLABLE, "Why it has ended; null while it goes on."),
};
static const struct schema recorded_schema =
	SCHEMA(page_recorded, "PageRecordResult", recorded_fields);
static const struct field recorded_data = { .type = T_OBJ, .of = &recorded_schema };

/* NULL: there is none. */
static int reply(struct call *call, struct tab_record *record, struct err *err)
{
	struct tab_record_info info;
	struct page_recorded recorded = { .status = states[TAB_RECORD_IDLE],
					  .file_size_bytes = INT_ABSENT,
					  .width = INT_ABSENT,
					  .height = INT_ABSENT,
					  .fps = INT_ABSENT };
	if (!record)
		return call_reply(call, &recorded, err);
	tab_record_look(record, &info);
	recorded = (struct page_recorded){
		.status = states[info.state],
		.save_path = info.path,
		.duration = info.video.seconds,
		.file_size_bytes = info.video.bytes < 0 ? INT_ABSENT : info.video.bytes,
		.frames = info.video.frames,
		.width = info.width,
		.height = info.height,
		.fps = info.fps,
		.reason = *info.why ? info.why : NULL,
	};
	if (info.early && !call->message)
		call->message =
			arena_printf(call->arena,
				     "The recording ended early: %s. What was recorded until then "
				     "is in the file.",
				     info.why);
	return call_reply(call, &recorded, err);
}

/* What the caller has to know, or can mend, is an answer; the rest is an HTTP error. */
static int refuse(struct call *call, struct tab_record *record, const struct err *cause,
		  struct err *err)
{
	if (cause->code == ERR_GONE || cause->code == ERR_UNAVAILABLE || cause->code == ERR_LIMIT ||
	    cause->code == ERR_INTERNAL || err_status(cause->code) == 422) {
		*err = *cause;
		return -1;
	}
	call->failed = true;
	call->message = arena_strdup(call->arena, cause->msg);
	return reply(call, record, err);
}

static void give_back(void *record)
{
	tab_record_unref(record);
}

static struct tab_record *held(struct call *call, struct tab_record *record)
{
	if (record)
		arena_defer(call->arena, give_back, record);
	return record;
}

/* ---- the actions: each sets the recording that the answer is about ---- */

static int start_one(struct call *call, const struct page_record *request, double seconds,
		     struct tab_record **ret, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	const char *path = record_file(call, request->save_path, "page", err);
	const struct tab_record_wish wish = { path, request->fps, request->quality, seconds };
	struct tab_record *record = path ? tab_record_start(call->server, &wish, &wait, err) : NULL;
	*ret = held(call, record);
	return record ? 0 : -1;
}

static int start(struct call *call, const struct page_record *request, struct tab_record **ret,
		 struct err *err)
{
	return start_one(call, request, TAB_RECORD_SECONDS, ret, err);
}

static int end(struct call *call, struct tab_record *record, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + STOP_MS);
	tab_record_ask_end(record);
	return tab_record_await(record, &wait, err);
}

/* A caller who leaves ends it. */
static int once(struct call *call, const struct page_record *request, struct tab_record **ret,
		struct err *err)
{
	if (request->duration > ONCE_MAX)
		return err_set(
			err, ERR_INVALID,
			"invalid duration %g: once records at most %d seconds; start and stop "
			"record longer",
			request->duration, ONCE_MAX);
	if (start_one(call, request, request->duration, ret, err) < 0)
		return -1;
	const struct wait wait =
		call_until(call, clock_ms() + (int64_t)(request->duration * 1000) + STOP_MS);
	if (tab_record_await(*ret, &wait, err) == 0)
		return 0;
	if (err->code == ERR_SLOW) /* it was paused by another caller */
		return end(call, *ret, err);
	tab_record_ask_end(*ret);
	return -1;
}

/* The one of the tab, to be changed. */
static int current(struct call *call, const char *action, struct tab_record **ret, struct err *err)
{
	char elsewhere[400];
	*ret = held(call, tab_record_current());
	if (*ret)
		return 0;
	if (tab_record_elsewhere(elsewhere, sizeof elsewhere))
		return err_set(err, ERR_CONFLICT, "there is no recording of this tab to %s. %s",
			       action, elsewhere);
	return err_set(err, ERR_CONFLICT,
		       "there is no recording of this tab to %s: start one first", action);
}

static int change(struct call *call, const struct page_record *request, struct tab_record **ret,
		  struct err *err)
{
	if (current(call, request->action, ret, err) < 0)
		return -1;
	return tab_record_pause(*ret, !strcmp(request->action, "pause"), err);
}

/* The caller may mean another tab. */
static void mention_others(struct call *call, struct tab_record *record)
{
	char elsewhere[400];
	if (!(record && tab_record_is_going(record)) &&
	    tab_record_elsewhere(elsewhere, sizeof elsewhere))
		call->message = arena_strdup(call->arena, elsewhere);
}

static int stop(struct call *call, const struct page_record *request, struct tab_record **ret,
		struct err *err)
{
	if (current(call, request->action, ret, err) < 0)
		return -1;
	mention_others(call, *ret);
	return end(call, *ret, err);
}

static int status(struct call *call, const struct page_record *request, struct tab_record **ret,
		  struct err *err)
{
	(void)request;
	(void)err;
	*ret = held(call, tab_record_current());
	mention_others(call, *ret);
	return 0;
}

static const struct {
	const char *action;
	int (*run)(struct call *call, const struct page_record *request, struct tab_record **ret,
		   struct err *err);
} rows[] = {
	{ "once", once },     { "start", start }, { "pause", change },
	{ "resume", change }, { "stop", stop },   { "status", status },
};

static int record(struct call *call, const void *in, struct err *err)
{
	const struct page_record *request = in;
	struct tab_record *record = NULL;
	struct err cause = { 0 };
	size_t i = 0;
	while (strcmp(rows[i].action, request->action) != 0)
		i++;
	if (rows[i].run(call, request, &record, &cause) == 0)
		return reply(call, record, err);
	if (!record)
		record = held(call, tab_record_current());
	return refuse(call, record, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/record", record, &record_schema, &recorded_data,
	  "Record the page as a video",
	  "H.264 in an MP4, of the page in the active tab without the browser around it, whatever it "
	  "shows meanwhile and whichever tab is active; up to 4 tabs at a time. The file can be "
	  "played while it is written. Closing the tab ends the recording, and so does the end of "
	  "the browser; `reason` says so. The browser is not stopped for being idle meanwhile." },
};
const struct route_group browser_page_record_group = { "browser", "The page as a video.", routes,
						       COUNT(routes) };
