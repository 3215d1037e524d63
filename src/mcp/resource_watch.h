/* resource_watch.h - files whose changes somebody wants to hear of, by their "file://" URI. */
#pragma once

struct err;

/* Counts: as many removals as additions end the watch. Watching what is no file URI, or does not
 * exist yet, is fine. Every change is told with session_tell(NEWS_UPDATED, uri). */
int resource_watch_add(const char *uri, struct err *err);
void resource_watch_remove(const char *uri);
