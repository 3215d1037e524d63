/* File watchers: what happens to files, asked for, streamed, or waited for. Answers have no envelope. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "api/file.h"
#include "api/file_watch_news.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "config/config.h"
#include "fs/file_user.h"
#include "fs/watch.h"
#include "fs/watchers.h"
#include "net/call.h"
#include "net/server.h"
#include "session/sessions.h"

enum {
	PING_MS = 15000,
	EVENTS_AT_ONCE = 256, /* copied at a time for a stream */
};

static const char *const states[] = { "starting", "active", "ended", NULL };

/* ---- watchers ---- */

struct watcher_info {
	const char *watcher_id, *path, *status, *reason, *created_at;
	bool recursive, incomplete;
	int64_t debounce, cursor, directories;
	struct list exclude, include_patterns;
};
#define WATCHER_FIELDS(s)                                                                         \
	STR(s, watcher_id, 0, "Watcher identifier."), STR(s, path, 0, "What is watched."),        \
		BOOL(s, recursive, 0, "With all directories below."),                             \
		LIST(s, exclude, 0, "What is left out.", .item = T_STR),                          \
		LIST(s, include_patterns, 0, "Which paths are reported; all when empty.",         \
		     .item = T_STR),                                                              \
		INT(s, debounce, 0, "Milliseconds for which events of one file are gathered."),   \
		ENUM(s, status, 0, "`active`; `ended` when what was watched is gone.",            \
		     .choices = states),                                                          \
		STR(s, reason, NULLABLE, "Why it has ended."),                                    \
		INT(s, cursor, 0, "The number of its newest event."),                             \
		INT(s, directories, 0, "How many directories are watched."),                      \
		BOOL(s, incomplete, 0, "Some directories could not be watched: see the limits."), \
		STR(s, created_at, 0, "When it was made.")
static const struct field info_fields[] = { WATCHER_FIELDS(watcher_info) };
static const struct schema info_schema = SCHEMA(watcher_info, "FileWatcher", info_fields);

static struct watcher_info describe(struct watcher *watcher, struct arena *arena)
{
	const struct watch_view *view = watch_lock(watcher->watch);
	struct watcher_info info = {
		.watcher_id = watcher->base.id,
		.path = watcher->path,
		.status = states[view->state],
		.reason = view->state == WATCH_ENDED ? arena_strdup(arena, view->why.msg) : NULL,
		.created_at = timestamp_text(arena, &watcher->base.created),
		.recursive = watcher->recursive,
		.incomplete = view->incomplete,
		.debounce = watcher->debounce,
		.cursor = file_events_last(view->events),
		.directories = (int64_t)view->dirs,
		.exclude = watcher->exclude,
		.include_patterns = watcher->include,
	};
	watch_unlock(watcher->watch);
	return info;
}

/* ---- create ---- */

struct file_watch_create {
	const char *path, *path_b64;
	bool recursive;
	struct list exclude, include_patterns;
	int64_t debounce;
};
static const struct field create_fields[] = {
	STR(file_watch_create, path, REQUIRED, "File or directory to watch."),
	BOOL(file_watch_create, recursive, OPTIONAL, "Watch all directories below it, too.",
	     .def = "true"),
	LIST(file_watch_create, exclude, OPTIONAL,
	     "Patterns of what to leave out: of names, or with a slash of paths below `path`. "
	     "Directories that match are not watched.",
	     .item = T_STR, .max_len = GLOB_SET_MAX,
	     .def = "[\".git\",\"node_modules\",\"__pycache__\",\".venv\",\"*.pyc\",\"*.pyo\","
		    "\".DS_Store\",\"*.swp\",\"*.swo\"]"),
	INT(file_watch_create, debounce, MIN | MAX,
	    "Milliseconds for which events of one file are gathered before they are reported.",
	    .def = "300", .min = 50, .max = 5000),
	LIST(file_watch_create, include_patterns, OPTIONAL,
	     "Patterns of the paths that are reported; all when empty.", .item = T_STR,
	     .max_len = GLOB_SET_MAX, .def = "[]"),
	FILE_B64(file_watch_create),
};
static const struct schema create_schema =
	SCHEMA(file_watch_create, "CreateWatchRequest", create_fields);

struct file_watch_created {
	const char *watcher_id, *path, *status, *reason, *created_at;
	bool recursive, incomplete;
	int64_t debounce, cursor, directories;
	struct list exclude, include_patterns;
	const struct watcher_info *data;
};
static const struct field created_fields[] = {
	WATCHER_FIELDS(file_watch_created),
	OBJ(file_watch_created, data, 0, "The same once more.", .of = &info_schema),
};
static const struct schema created_schema =
	SCHEMA(file_watch_created, "FileWatcherCreated", created_fields);
static const struct field created_data = { .type = T_OBJ, .of = &created_schema };

static int create_watcher(struct call *call, const void *in, struct err *err)
{
	const struct file_watch_create *request = in;
	struct watch_spec spec = {
		.path = file_path(call, request->path, request->path_b64, err),
		.recursive = request->recursive,
		.window_ms = request->debounce,
		.max_dirs = (size_t)call->server->config->max_watch_dirs,
		.include = request->include_patterns,
		.exclude = request->exclude,
	};
	if (!spec.path || file_user_of(call, false, &spec.user, err) < 0)
		return -1;
	auto_watcher struct watcher *watcher = watchers_open(&spec, err);
	if (!watcher)
		return -1;
	if (file_watch_news_start(call, watcher->watch, err) < 0) {
		(void)sessions_close(&watchers_sessions, watcher->base.id, NULL);
		return -1;
	}
	struct watcher_info info = describe(watcher, call->arena);
	struct file_watch_created created = {
		info.watcher_id, info.path,        info.status,     info.reason,
		info.created_at, info.recursive,   info.incomplete, info.debounce,
		info.cursor,     info.directories, info.exclude,    info.include_patterns,
		&info,
	};
	return call_reply(call, &created, err);
}

/* ---- list, delete ---- */

struct file_watch_listing {
	struct list watchers;
	int64_t count;
};
static const struct field listing_fields[] = {
	LIST(file_watch_listing, watchers, 0, "All of them, the newest first.", .item = T_OBJ,
	     .of = &info_schema),
	INT(file_watch_listing, count, 0, "How many."),
};
static const struct schema listing_schema =
	SCHEMA(file_watch_listing, "FileWatcherList", listing_fields);
static const struct field listing_data = { .type = T_OBJ, .of = &listing_schema };

static int list_watchers(struct call *call, const void *in, struct err *err)
{
	(void)in;
	sessions_expire(&watchers_sessions);
	size_t count;
	void **all = sessions_list(&watchers_sessions, call->arena, &count);
	struct watcher_info *infos = arena_alloc(call->arena, count * sizeof *infos);
	for (size_t i = 0; i < count; i++)
		infos[i] = describe(all[i], call->arena);
	struct file_watch_listing listing = { { count, infos }, (int64_t)count };
	return call_reply(call, &listing, err);
}

struct named_watcher {
	const char *watcher_id;
};
static const struct field named_fields[] = {
	STR(named_watcher, watcher_id, PATH | REQUIRED, "Watcher."),
};
static const struct schema named_schema = SCHEMA(named_watcher, "FileWatchStop", named_fields);

struct stopped {
	const char *watcher_id, *status;
	bool success;
};
static const struct field stopped_fields[] = {
	STR(stopped, watcher_id, 0, "Watcher identifier."),
	STR(stopped, status, 0, "`stopped`."),
	BOOL(stopped, success, 0, "True."),
};
static const struct schema stopped_schema = SCHEMA(stopped, "FileWatchStopped", stopped_fields);
static const struct field stopped_data = { .type = T_OBJ, .of = &stopped_schema };

static int stop_watcher(struct call *call, const void *in, struct err *err)
{
	const struct named_watcher *request = in;
	if (sessions_close(&watchers_sessions, request->watcher_id, err) < 0)
		return -1;
	return call_reply(call, &(struct stopped){ request->watcher_id, "stopped", true }, err);
}

/* ---- poll ---- */

struct poll_request {
	const char *watcher_id;
	int64_t cursor, limit, timeout;
};
static const struct field poll_fields[] = {
	STR(poll_request, watcher_id, PATH | REQUIRED, "Watcher."),
	INT(poll_request, cursor, MIN, "From the previous response; later events are returned.",
	    .def = "0", .min = 0, .alias = "since"),
	INT(poll_request, limit, MIN | MAX, "Most events in the answer.", .def = "100", .min = 1,
	    .max = 1000),
	INT(poll_request, timeout, MIN | MAX, "Seconds to wait for an event; 0 does not wait.",
	    .def = "0", .min = 0, .max = 60),
};
static const struct schema poll_schema = SCHEMA(poll_request, "PollRequest", poll_fields);

struct polled {
	const char *watcher_id, *status, *reason;
	struct list events;
	int64_t cursor;
	bool overflow, has_more;
};
static const struct field polled_fields[] = {
	STR(polled, watcher_id, 0, "Watcher identifier."),
	LIST(polled, events, 0, "What happened, in order.", .item = T_OBJ,
	     .of = &file_watch_news_schema),
	INT(polled, cursor, 0, "For the next request."),
	BOOL(polled, overflow, 0,
	     "Events were lost: look at the files themselves, then go on from the cursor."),
	BOOL(polled, has_more, 0, "More events are there already."),
	ENUM(polled, status, 0, "As in the list of watchers.", .choices = states),
	STR(polled, reason, NULLABLE, "Why it has ended."),
};
static const struct schema polled_schema = SCHEMA(polled, "FileWatchPoll", polled_fields);
static const struct field polled_data = { .type = T_OBJ, .of = &polled_schema };

static int poll_events(struct call *call, const void *in, struct err *err)
{
	const struct poll_request *request = in;
	auto_watcher struct watcher *watcher =
		sessions_find(&watchers_sessions, request->watcher_id, err);
	struct file_events_page page;
	if (!watcher)
		return -1;
	if (request->timeout &&
	    file_watch_news_wait(call, watcher->watch, WATCH_ACTIVE, request->cursor,
				 clock_ms() + request->timeout * 1000) == WAKE_LEFT)
		return wake_err(WAKE_LEFT, err);
	const struct watch_view *view = watch_lock(watcher->watch);
	file_events_page(view->events, request->cursor, (size_t)request->limit, false, call->arena,
			 &page);
	struct polled polled = {
		.watcher_id = watcher->base.id,
		.status = states[view->state],
		.reason = view->state == WATCH_ENDED ? arena_strdup(call->arena, view->why.msg)
						     : NULL,
		.cursor = page.cursor,
		.overflow = page.overflow,
		.has_more = page.cursor < file_events_last(view->events),
	};
	watch_unlock(watcher->watch);
	struct file_watch_news *infos = arena_alloc(call->arena, page.count * sizeof *infos);
	for (size_t i = 0; i < page.count; i++)
		infos[i] =
			file_watch_news_describe(call, watch_root(watcher->watch), &page.events[i]);
	polled.events = (struct list){ page.count, infos };
	return call_reply(call, &polled, err);
}

/* ---- events as a stream ---- */

struct stream_request {
	const char *watcher_id, *last_event_id;
	int64_t cursor;
};
static const struct field stream_fields[] = {
	STR(stream_request, watcher_id, PATH | REQUIRED, "Watcher."),
	INT(stream_request, cursor, QUERY | MIN, "Later events are sent.", .def = "0", .min = 0),
	NAMED("last-event-id", STR, stream_request, last_event_id, HEADER,
	      "The id of the last event that was received: the stream goes on after it."),
};
static const struct schema stream_schema = SCHEMA(stream_request, "FileWatchStream", stream_fields);

static int put_event(struct call *call, const char *name, const char *watcher, int64_t seq,
		     const void *data, struct err *err)
{
	char id[SESSION_ID_MAX * 4 + 32];
	snprintf(id, sizeof id, "%s:%lld", watcher, (long long)seq);
	return call_send(call, name, id, data, err);
}

struct file_watch_lost {
	const char *watcher_id, *message;
	int64_t cursor;
};
static const struct field lost_fields[] = {
	STR(file_watch_lost, watcher_id, 0, "Watcher identifier."),
	INT(file_watch_lost, cursor, 0, "Later events are still sent."),
	STR(file_watch_lost, message, 0, "What to do."),
};
static const struct schema lost_schema = SCHEMA(file_watch_lost, "FileWatchOverflow", lost_fields);
static const struct variant stream_events_table[] = {
	{ "watch_started", &info_schema, "First." },
	{ "file_change", &file_watch_news_schema },
	{ "overflow", &lost_schema, "Some were lost." },
	{ "watch_ended", &info_schema, "Last." },
};
static const struct schema stream_sends =
	TAGGED("FileWatchStreamEvent", "event", stream_events_table, .outside = true);

static int put_overflow(struct call *call, const char *watcher, int64_t cursor, struct err *err)
{
	struct file_watch_lost lost = {
		watcher, "Events were lost: look at the files themselves, then go on.", cursor
	};
	return put_event(call, "overflow", watcher, cursor, &lost, err);
}

/* Sends what came after the cursor, which moves on. */
static int put_page(struct call *call, struct watcher *watcher, const struct file_events_page *page,
		    struct err *err)
{
	if (page->overflow &&
	    put_overflow(call, watcher->base.id, page->cursor - (int64_t)page->count, err) < 0)
		return -1;
	for (size_t i = 0; i < page->count; i++) {
		const struct file_event *event = &page->events[i];
		struct file_watch_news info;
		int result;
		if (event->type == EVENT_OVERFLOW) {
			result = put_overflow(call, watcher->base.id, event->seq, err);
		} else {
			info = file_watch_news_describe(call, watch_root(watcher->watch), event);
			result = put_event(call, "file_change", watcher->base.id, event->seq, &info,
					   err);
		}
		if (result < 0)
			return -1;
	}
	return 0;
}

/* Where a stream begins: behind what the client has. */
static int64_t stream_cursor(const struct stream_request *request)
{
	const char *colon = request->last_event_id ? strrchr(request->last_event_id, ':') : NULL;
	const char *digits = colon ? colon + 1 : request->last_event_id;
	if (!digits || !*digits || strspn(digits, "0123456789") != strlen(digits) ||
	    strlen(digits) > 18)
		return request->cursor;
	return strtoll(digits, NULL, 10);
}

static int stream_events(struct call *call, const void *in, struct err *err)
{
	const struct stream_request *request = in;
	auto_watcher struct watcher *watcher =
		sessions_find(&watchers_sessions, request->watcher_id, err);
	if (!watcher)
		return -1;
	int64_t cursor = stream_cursor(request);
	struct watcher_info info = describe(watcher, call->arena);
	int result = put_event(call, "watch_started", watcher->base.id, cursor, &info, err);
	while (result == 0) {
		struct file_events_page page;
		struct arena arena = { 0 },
			     *whole = call->arena; /* it may last, and must not grow */
		const struct watch_view *view = watch_lock(watcher->watch);
		file_events_page(view->events, cursor, EVENTS_AT_ONCE, true, &arena, &page);
		bool ended = view->state == WATCH_ENDED &&
			     page.cursor == file_events_last(view->events);
		watch_unlock(watcher->watch);
		cursor = page.cursor;
		call->arena = &arena;
		result = put_page(call, watcher, &page, err);
		if (result == 0 && ended) {
			info = describe(watcher, &arena);
			result = put_event(call, "watch_ended", watcher->base.id, cursor, &info,
					   err);
		}
		call->arena = whole;
		arena_done(&arena);
		if (result < 0 || ended)
			return result;
		enum wake wake = file_watch_news_wait(call, watcher->watch, WATCH_ACTIVE, cursor,
						      clock_ms() + PING_MS);
		if (wake == WAKE_STOPPING)
			return 0;
		if (wake == WAKE_LEFT)
			return wake_err(wake, err);
		if (wake == WAKE_TIMEOUT)
			result = call_event_ping(call, err);
	}
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/file/watch", list_watchers, NULL, &listing_data, "List watchers",
	  .flags = BARE },
	{ "POST", "/v1/file/watch", create_watcher, &create_schema, &created_data,
	  "Watch a file or directory",
	  "Every change from then on is reported, by poll or as a stream of events. Events of "
	  "one file that come close together are reported as one. A directory that is renamed takes along "
	  "what is in it. A watcher that is not used ends after a day (--session-timeout).",
	  .flags = BARE },
	{ "GET", "/v1/file/watch/{watcher_id}/events", stream_events, &stream_schema, NULL,
	  "Stream events",
	  "The id of each Server-Sent Event is `{watcher_id}:{seq}`; sent back as "
	  "Last-Event-ID it resumes the stream.",
	  .flags = BARE, .type = "text/event-stream", .sends = &stream_sends },
	{ "POST", "/v1/file/watch/{watcher_id}/poll", poll_events, &poll_schema, &polled_data,
	  "Ask for events",
	  "Those after the cursor, which the answer moves on. `overflow` means that some were lost: "
	  "look at the files themselves, then go on from the cursor.",
	  .flags = BARE },
	{ "DELETE", "/v1/file/watch/{watcher_id}", stop_watcher, &named_schema, &stopped_data,
	  "Stop a watcher", .flags = BARE },
};
const struct route_group file_watch_group = { "file-watch", "What happens to files, as it happens.",
					      routes, COUNT(routes) };
