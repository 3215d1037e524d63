#include "api/watch_news.h"

#include <string.h>

#include "api/file.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"

const char *const watch_news_types[] = { "create", "write", "remove", "rename", "chmod", NULL };

static const struct field event_fields[] = {
	INT(watch_news, seq, 0, "Its number: each event of a watcher has the next one."),
	ENUM(watch_news, type, 0, "What happened.", .choices = watch_news_types),
	STR(watch_news, path, 0, "Absolute path."),
	STR(watch_news, relative_path, 0,
	    "The path relative to what is watched; `.` is that itself."),
	STR(watch_news, old_path, NULLABLE, "Of a `rename`: the path before."),
	BOOL(watch_news, is_dir, 0,
	     "Whether it is a directory. One that is renamed takes all that is in it along, unsaid."),
	NUM(watch_news, timestamp, 0, "When it happened, in seconds since 1970."),
	NUM(watch_news, mtime, NULLABLE, "When the file was last changed, while there is one."),
	INT(watch_news, size, NULLABLE, "Its size in bytes."),
	INT(watch_news, inode, NULLABLE, "Its inode number."),
	STR(watch_news, path_b64, NULLABLE, "Base64 of the path when that is not UTF-8."),
	STR(watch_news, old_path_b64, NULLABLE, "The same for `old_path`."),
};
const struct schema watch_news_schema = SCHEMA(watch_news, "FileWatchEvent", event_fields);

static const char *whole_path(struct call *call, const char *root, const char *path)
{
	if (!strcmp(path, "."))
		return *root ? arena_strdup(call->arena, root) : "/";
	return arena_printf(call->arena, "%s/%s", root, path);
}

struct watch_news watch_news_describe(struct call *call, const char *root,
				      const struct event *event)
{
	const char *path = whole_path(call, root, event->path);
	const char *old = event->old_path ? whole_path(call, root, event->old_path) : NULL;
	return (struct watch_news){
		.seq = event->seq,
		.type = watch_news_types[event->type],
		.path = path,
		.relative_path = event->path,
		.old_path = old,
		.path_b64 = file_path_b64(call, path),
		.old_path_b64 = old ? file_path_b64(call, old) : NULL,
		.is_dir = event->is_dir,
		.timestamp = event->timestamp,
		.mtime = event->known ? event->mtime : NAN,
		.size = event->known ? event->size : INT_ABSENT,
		.inode = event->known ? (int64_t)event->inode : INT_ABSENT,
	};
}

enum wake watch_news_wait(struct call *call, struct watch *watch, enum watch_state state,
			  int64_t cursor, int64_t until_ms)
{
	struct wait wait = call_until(call, until_ms);
	enum wake wake = WAKE_READY;
	const struct watch_view *view = watch_lock(watch);
	while (view->state == state && events_last(view->events) == cursor && wake == WAKE_READY)
		wake = watch_wait(watch, &wait);
	watch_unlock(watch);
	return wake;
}

int watch_news_start(struct call *call, struct watch *watch, struct err *err)
{
	enum wake wake = watch_news_wait(call, watch, WATCH_STARTING, 0, INT64_MAX);
	const struct watch_view *view = watch_lock(watch);
	int result = wake_err(wake, err);
	if (result == 0 && view->state == WATCH_ENDED) {
		*err = view->why;
		result = -1;
	}
	watch_unlock(watch);
	return result;
}
