#include "observe/live.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/wait.h"
#include "config/config.h"
#include "journal/journal.h"
#include "net/server.h"
#include "observe/observation.h"

enum { SPAN_MS = 200 };

static const struct field event_fields[] = {
	STR(live_event, ts, REQUIRED, "When."),
	STR(live_event, type, REQUIRED, "What happened, as `GET /v1/sandbox/events` has it."),
	STR(live_event, message, 0, "The same in words."),
	JSON(live_event, data, 0, "More about it, by type."),
};
static const struct schema event_schema = SCHEMA(live_event, "ObservationEvent", event_fields);

static const struct field live_fields[] = {
	STR(live, captured_at, REQUIRED, "When."),
	ENUM(live, mode, REQUIRED, "What observes the sandbox meanwhile.",
	     .choices = observation_modes),
	OBJ(live, cgroup, REQUIRED, "What the commands of the sandbox use.",
	    .of = &sample_cgroup_schema),
	LIST(live, disk, 0, "Disks.", .item = T_OBJ, .of = &sample_disk_schema),
	LIST(live, top_processes, 0, "Processes that use most CPU and memory, the first most.",
	     .item = T_OBJ, .of = &sample_process_schema),
	LIST(live, recent_events, 0, "The latest events, oldest first.", .item = T_OBJ,
	     .of = &event_schema),
};
const struct schema live_schema = SCHEMA(live, "ObservationLiveSnapshot", live_fields);

static void forget_json(void *value)
{
	json_decref(value);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static struct live_event event_of(const struct journal_item *item, struct arena *arena)
{
	json_t *event = json_parse((char *)item->json.data, item->json.len, NULL);
	json_t *data = json_object_get(event, "data");
	if (event)
		arena_defer(arena, forget_json, event);
	const char *message = text_of(data, "message");
	return (struct live_event){ text_of(event, "at"), item->kind,
				    *message ? message : journal_help(item->kind), data };
}

static struct list recent_events(struct arena *arena)
{
	struct journal_reader reader = { .after = -1, .kinds = JOURNAL_ALL, .fd = -1 };
	struct journal_item *items;
	size_t count = journal_read(&reader, arena, SIZE_MAX, &items);
	size_t first = count > LIVE_EVENTS ? count - LIVE_EVENTS : 0;
	struct live_event *list = arena_alloc(arena, (LIVE_EVENTS + 1) * sizeof *list);
	for (size_t i = first; i < count; i++)
		list[i - first] = event_of(&items[i], arena);
	return (struct list){ count - first, list };
}

int live_take(const struct server *server, size_t rows, const struct wait *wait,
	      struct arena *arena, struct live *ret, struct err *err)
{
	struct sampler sampler = { .workspace = server->config->workspace };
	struct sample *sample = arena_alloc(arena, sizeof *sample);
	sampler_take(&sampler, arena, sample);
	struct wait span = *wait;
	int64_t until_ms = clock_ms() + SPAN_MS;
	span.until_ms = until_ms < wait->until_ms ? until_ms : wait->until_ms;
	enum wake wake = wait_fd(&span, -1, 0);
	sampler.disk = true;
	sampler.top = rows;
	if (wake == WAKE_TIMEOUT)
		sampler_take(&sampler, arena, sample);
	sampler_done(&sampler);
	if (wake != WAKE_TIMEOUT)
		return wake_err(wake, err);
	*ret = (struct live){
		.captured_at = sample->ts,
		.mode = observation_mode(),
		.cgroup = &sample->cgroup,
		.disk = sample->disk,
		.top_processes = sample->top,
		.recent_events = recent_events(arena),
	};
	return 0;
}
