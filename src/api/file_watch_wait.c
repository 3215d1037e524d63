/* Waiting for one file, without a watcher. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/file.h"
#include "api/file_watch_news.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "fs/file_user.h"

enum { EVENTS_AT_ONCE = 256, WAIT_WINDOW_MS = 50, LINKS_MAX = 40 };

struct file_watch_wait_request {
	const char *path, *path_b64;
	int64_t timeout;
	struct list event_types;
};
static const struct field wait_fields[] = {
	STR(file_watch_wait_request, path, REQUIRED, "File to wait for: this very path."),
	INT(file_watch_wait_request, timeout, MIN | MAX, "Seconds to wait at most.", .def = "30",
	    .min = 1, .max = 300),
	LIST(file_watch_wait_request, event_types, OPTIONAL,
	     "What to wait for. With `create`, a file that is there is an answer.", .item = T_STR,
	     .choices = file_watch_news_types, .max_len = 100,
	     .def = "[\"create\",\"write\",\"remove\",\"rename\",\"chmod\"]"),
	FILE_B64(file_watch_wait_request),
};
static const struct schema wait_schema =
	SCHEMA(file_watch_wait_request, "FileWatchWaitRequest", wait_fields);

struct waited {
	const struct file_watch_news *event;
	bool timed_out;
};
static const struct field waited_fields[] = {
	OBJ(waited, event, NULLABLE, "The first one that came; null when none did.",
	    .of = &file_watch_news_schema),
	BOOL(waited, timed_out, 0, "None came in time."),
};
static const struct schema waited_schema = SCHEMA(waited, "FileWatchWait", waited_fields);
static const struct field waited_data = { .type = T_OBJ, .of = &waited_schema };

static bool wanted(const struct file_watch_wait_request *request, enum event_type type)
{
	if (!request->event_types.items)
		return true;
	for (size_t i = 0; i < request->event_types.count; i++)
		if (!strcmp(((const char *const *)request->event_types.items)[i],
			    file_watch_news_types[type]))
			return true;
	return false;
}

static bool exists(const struct user *user, const char *path, struct stat *ret)
{
	struct user_view rights;
	if (user_enter(user, &rights, NULL) < 0)
		return false;
	bool there = lstat(path, ret) == 0;
	user_leave(&rights);
	return there;
}

static bool leads_somewhere(const struct user *user, const char *path)
{
	struct user_view rights;
	struct stat st;
	if (user_enter(user, &rights, NULL) < 0)
		return false;
	bool there = stat(path, &st) == 0;
	user_leave(&rights);
	return there;
}

/* Where the symbolic link at a path leads; NULL: there is none. */
static const char *target_of(struct call *call, const struct user *user, const char *path)
{
	struct user_view rights;
	char target[PATH_MAX];
	if (user_enter(user, &rights, NULL) < 0)
		return NULL;
	ssize_t len = readlink(path, target, sizeof target - 1);
	user_leave(&rights);
	if (len <= 0)
		return NULL;
	target[len] = 0;
	int dir = *target == '/' ? 0 : (int)(strrchr(path, '/') + 1 - path);
	return arena_printf(call->arena, "%.*s%s", dir, path, target);
}

/* The beginning of a path up to the first directory that is not there, or all of it. Where a link
 * leads to nothing, what it leads to is missing. */
static const char *next_missing(struct call *call, const struct user *user, const char *path)
{
	char *copy = arena_strdup(call->arena, path);
	int links = 0;
	for (char *slash = copy; (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		if (!leads_somewhere(user, copy)) {
			const char *target = target_of(call, user, copy);
			if (!target || ++links > LINKS_MAX)
				return copy;
			slash = copy = arena_printf(call->arena, "%s/", target);
		} else {
			*slash = '/';
		}
	}
	return links ? arena_strndup(call->arena, copy, strlen(copy) - 1) : copy;
}

static const struct file_watch_news *created_event(struct call *call, const char *path,
						   const struct stat *st)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const char *slash = strrchr(path, '/');
	struct file_event event = { .type = EVENT_CREATE,
				    .path = slash + 1,
				    .is_dir = S_ISDIR(st->st_mode),
				    .known = true,
				    .timestamp = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
				    .mtime = (double)st->st_mtim.tv_sec +
					     (double)st->st_mtim.tv_nsec / 1e9,
				    .size = st->st_size,
				    .inode = st->st_ino };
	struct file_watch_news *info = arena_alloc(call->arena, sizeof *info);
	*info = file_watch_news_describe(call,
					 arena_strndup(call->arena, path, (size_t)(slash - path)),
					 &event);
	return info;
}

/* The first wanted event that a watch of the path has: NULL when there was none before its end. */
static const struct file_watch_news *first_event(struct call *call,
						 const struct file_watch_wait_request *request,
						 struct watch *watch, int64_t until_ms,
						 struct err *err)
{
	int64_t cursor = 0;
	for (;;) {
		enum wake wake = file_watch_news_wait(call, watch, WATCH_ACTIVE, cursor, until_ms);
		struct file_events_page page;
		if (wake != WAKE_READY) {
			wake_err(wake, err);
			return NULL;
		}
		const struct watch_view *view = watch_lock(watch);
		file_events_page(view->events, cursor, EVENTS_AT_ONCE, false, call->arena, &page);
		bool ended = view->state == WATCH_ENDED &&
			     page.cursor == file_events_last(view->events);
		watch_unlock(watch);
		for (size_t i = 0; i < page.count; i++) {
			if (!wanted(request, page.events[i].type) ||
			    !strcmp(page.events[i].path, "."))
				continue;
			struct file_watch_news *info = arena_alloc(call->arena, sizeof *info);
			*info = file_watch_news_describe(call, watch_root(watch), &page.events[i]);
			return info;
		}
		cursor = page.cursor;
		if (ended || page.overflow) {
			err_set(err, ERR_CONFLICT, "look again");
			return NULL;
		}
	}
}

/* Waits for the next thing on the way to the path. NULL with ERR_CONFLICT: look again. */
static const struct file_watch_news *wait_step(struct call *call,
					       const struct file_watch_wait_request *request,
					       const char *path, const struct user *user,
					       int64_t until_ms, struct err *err)
{
	const struct file_watch_news *event = NULL;
	struct stat st;
	const char *next = next_missing(call, user, path);
	bool last = !strcmp(next, path);
	struct watch_spec spec = { .path = next,
				   .entry = true,
				   .window_ms = WAIT_WINDOW_MS,
				   .max_dirs = 1,
				   .user = user };
	struct watch *watch = watch_start(&spec, err);
	if (!watch)
		return NULL;
	int result = file_watch_news_start(call, watch, err);
	if (result < 0) {
		if (err->code == ENOENT)
			err_set(err, ERR_CONFLICT, "look again");
	} else if (last && wanted(request, EVENT_CREATE) && exists(user, path, &st)) {
		event = created_event(call, path, &st);
	} else if (!last && leads_somewhere(user, next)) {
		err_set(err, ERR_CONFLICT, "look again");
	} else {
		static const struct file_watch_wait_request any;
		event = first_event(call, last ? request : &any, watch, until_ms, err);
		if (event && !last) {
			event = NULL;
			err_set(err, ERR_CONFLICT, "look again");
		}
	}
	watch_free(watch);
	return event;
}

static int wait_for_file(struct call *call, const void *in, struct err *err)
{
	const struct file_watch_wait_request *request = in;
	const struct user *user;
	int64_t until = clock_ms() + request->timeout * 1000;
	const char *given = file_path(call, request->path, request->path_b64, err);
	if (!given || file_user_of(call, false, &user, err) < 0)
		return -1;
	char *path = arena_strdup(call->arena, given);
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/';)
		path[--len] = 0;
	struct waited waited = { 0 };
	if (!path[1])
		return err_set(err, ERR_BAD_REQUEST, "'/' is not a file that can be waited for");
	do {
		err->code = 0;
		waited.event = wait_step(call, request, path, user, until, err);
	} while (!waited.event && err->code == ERR_CONFLICT && clock_ms() < until);
	if (err->code == ERR_CONFLICT)
		err->code = ERR_SLOW;
	if (!waited.event && err->code != ERR_SLOW)
		return -1;
	waited.timed_out = !waited.event;
	return call_reply(call, &waited, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/watch/wait", wait_for_file, &wait_schema, &waited_data,
	  "Wait for a file",
	  "Answers with the first event of this very path, without a watcher. Its directories need not "
	  "exist yet.",
	  .flags = BARE },
};
const struct route_group file_watch_wait_group = { "file-watch", "Waiting for a file.", routes,
						   COUNT(routes) };
