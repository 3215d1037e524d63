#include "api/file_watch_news.h"

#include <string.h>

#include "api/file.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"

const char *const file_watch_news_types[] = {
	"create", "write", "remove", "rename", "chmod", NULL
};

static const struct field event_fields[] = {
	INT(file_watch_news, seq, 0, "Its number: each event of a watcher has the next one."),
	ENUM(file_watch_news, type, 0, "What happened.", .choices = file_watch_news_types),
	STR(file_watch_news, path, 0, "Absolute path."),
	STR(file_watch_news, relative_path, 0,
	    "The path relative to what is watched; `.` is that itself."),
	STR(file_watch_news, old_path, NULLABLE, "Of a `rename`: the path before."),
	BOOL(file_watch_news, is_dir, 0,
	     "Whether it is a directory. One that is renamed takes all that is in it along, unsaid."),
	NUM(file_watch_news, timestamp, 0, "When it happened, in seconds since 1970."),
	NUM(file_watch_news, mtime, NULLABLE,
	    "When the file was last changed, while there is one."),
	INT(file_watch_news, size, NULLABLE, "Its size in bytes."),
	INT(file_watch_news, inode, NULLABLE, "Its inode number."),
	STR(file_watch_news, path_b64, NULLABLE, "Base64 of the path when that is not UTF-8."),
	STR(file_watch_news, old_path_b64, NULLABLE, "The same for `old_path`."),
};
const struct schema file_watch_news_schema =
	SCHEMA(file_watch_news, "FileWatchEvent", event_fields);

static const char *whole_path(struct call *call, const char *root, const char *path)
{
	if (!strcmp(path, "."))
		return *root ? arena_strdup(call->arena, root) : "/";
	return arena_printf(call->arena, "%s/%s", root, path);
}

struct file_watch_news file_watch_news_describe(struct call *call, const char *root,
						const struct file_event *event)
{
	const char *path = whole_path(call, root, event->path);
	const char *old = event->old_path ? whole_path(call, root, event->old_path) : NULL;
	return (struct file_watch_news){
		.seq = event->seq,
		.type = file_watch_news_types[event->type],
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

enum wake file_watch_news_wait(struct call *call, struct watch *watch, enum watch_state state,
			       int64_t cursor, int64_t until_ms)
{
	struct wait wait = call_until(call, until_ms);
	enum wake wake = WAKE_READY;
	const struct watch_view *view = watch_lock(watch);
	while (view->state == state && file_events_last(view->events) == cursor &&
	       wake == WAKE_READY)
		wake = watch_wait(watch, &wait);
	watch_unlock(watch);
	return wake;
}

int file_watch_news_start(struct call *call, struct watch *watch, struct err *err)
{
	enum wake wake = file_watch_news_wait(call, watch, WATCH_STARTING, 0, INT64_MAX);
	const struct watch_view *view = watch_lock(watch);
	int result = wake_err(wake, err);
	if (result == 0 && view->state == WATCH_ENDED) {
		*err = view->why;
		result = -1;
	}
	watch_unlock(watch);
	return result;
}
