/* file_watch_news.h - what a watch tells, as answers have it, and waiting for it. */
#pragma once
#include "base/desc.h"
#include "fs/watch.h"
#include "net/call.h"

struct err;

struct file_watch_news {
	int64_t seq;
	const char *type, *path, *relative_path, *old_path, *path_b64, *old_path_b64;
	bool is_dir;
	double timestamp, mtime;
	int64_t size, inode;
};
extern const struct schema file_watch_news_schema;
extern const char *const file_watch_news_types[]; /* by enum event_type; ends with NULL */

/* An event of a watch whose paths are relative to root. */
struct file_watch_news file_watch_news_describe(struct call *call, const char *root,
						const struct file_event *event);

/* Waits until a watch is in another state than `state`, or its newest event another than `cursor`. */
enum wake file_watch_news_wait(struct call *call, struct watch *watch, enum watch_state state,
			       int64_t cursor, int64_t until_ms);

/* Waits until all is watched. -1 with the reason when that fails. */
int file_watch_news_start(struct call *call, struct watch *watch, struct err *err);
