/* observe.h - the commands that show what boxes do: logs, events, top. Rows of boxes.c. */
#pragma once

struct ask;
struct schema;

extern const struct schema observe_logs_schema, observe_events_schema, observe_top_schema;
int observe_logs(struct ask *ask);
int observe_events(struct ask *ask);
int observe_top(struct ask *ask);
