/* watch.h - the commands that show what boxes do: logs, events, top. Rows of boxes.c. */
#pragma once

struct ask;
struct schema;

extern const struct schema watch_logs_schema, watch_events_schema, watch_top_schema;
int watch_logs(struct ask *ask);
int watch_events(struct ask *ask);
int watch_top(struct ask *ask);
