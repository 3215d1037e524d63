/* What happened to boxes. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/wait.h"
#include "host/history.h"
#include "host/host.h"
#include "host/sandboxes.h"
#include "net/call.h"
#include "net/route.h"

struct host_events {
	const char *id;
	int64_t after;
	bool follow;
};
/* clang-format off */
#define EVENTS_FIELDS                                                                               \
	INT(host_events, after, QUERY | MIN | MAX, "Only those with a higher number.", .def = "0",       \
	    .min = 0, .max = 0x1p53),                                                               \
	BOOL(host_events, follow, QUERY,                                                                 \
	     "Go on with what happens next, as Server-Sent Events; so does Accept: text/event-stream.", \
	     .def = "false")
/* clang-format on */
static const struct field events_fields[] = {
	STR(host_events, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
	EVENTS_FIELDS,
};
static const struct field host_events_fields[] = { EVENTS_FIELDS };
static const struct schema host_events_schema =
	SCHEMA(host_events, "HostEventsRequest", host_events_fields);
static const struct schema events_schema =
	SCHEMA(host_events, "SandboxEventsRequest", events_fields);

/* As it is documented; events are encoded when they are added. */
struct host_event {
	int64_t seq;
	const char *at, *type;
	struct tagged data;
	const char *sandbox;
};
/* clang-format off */
#define EVENT_FIELDS                                                                          \
	INT(host_event, seq, REQUIRED, "Its number, rising."),                                \
	STR(host_event, at, REQUIRED, "When, ISO 8601."),                                     \
	ENUM(host_event, type, REQUIRED, "What happened.", .choices = history_names),         \
	UNION(host_event, data, NULLABLE, "More about it, by type.", .of = &history_data_schema)
/* clang-format on */
static const struct field event_fields[] = { EVENT_FIELDS };
static const struct field host_event_fields[] = {
	EVENT_FIELDS,
	STR(host_event, sandbox, REQUIRED, "Id of the sandbox."),
};
static const struct schema event_schema = SCHEMA(host_event, "SandboxEvent", event_fields);
static const struct schema host_event_schema = SCHEMA(host_event, "HostEvent", host_event_fields);
static const struct field events_data = { .type = T_LIST, .item = T_OBJ, .of = &event_schema };
static const struct field host_events_data = { .type = T_LIST,
					       .item = T_OBJ,
					       .of = &host_event_schema };

struct written {
	int64_t seq;
	const char *type;
	struct text json;
};

/* sandbox: NULL in the history of one. */
static struct written write_event(struct arena *arena, const struct box_event *event,
				  const char *sandbox)
{
	struct jw jw;
	jw_init(&jw, 65536);
	jw_open(&jw, '{');
	jw_key_int(&jw, "seq", event->seq);
	jw_key_str(&jw, "at", sandbox_when(arena, event->at_ms));
	jw_key_str(&jw, "type", event->type);
	jw_key(&jw, "data");
	jw_raw(&jw, event->data ? event->data : "null", strlen(event->data ? event->data : "null"));
	if (sandbox)
		jw_key_str(&jw, "sandbox", sandbox);
	jw_close(&jw, '}');
	struct written written = { event->seq,
				   arena_strdup(arena, event->type),
				   { arena_strndup(arena, jw.out.data, jw.out.len), jw.out.len } };
	jw_done(&jw);
	return written;
}

/* Those after a number, oldest first: of a box, or (NULL) of all. */
static size_t events_since(struct call *call, struct arena *arena, const struct box *box,
			   int64_t after, struct written **ret)
{
	struct boxes *boxes = &host_of(call->server)->boxes;
	size_t count = 0;
	pthread_mutex_lock(&boxes->lock);
	int64_t next = box ? box->next_seq : boxes->next_seq;
	int64_t first = next - (box ? BOX_EVENTS_MAX : BOXES_EVENTS_MAX);
	if (first <= after)
		first = after + 1;
	int64_t room = next > first ? next - first : 0;
	struct written *list = arena_alloc(arena, (size_t)(room + 1) * sizeof *list);
	for (int64_t seq = first; seq < next; seq++) {
		const struct boxes_event *of_all = &boxes->events[seq % BOXES_EVENTS_MAX];
		const struct box_event *event = box ? &box->events[seq % BOX_EVENTS_MAX]
						    : &of_all->event;
		if (event->seq == seq)
			list[count++] = write_event(arena, event, box ? NULL : of_all->id);
	}
	pthread_mutex_unlock(&boxes->lock);
	*ret = list;
	return count;
}

static int send_events(struct call *call, const struct box *box, int64_t *after, struct err *err)
{
	struct written *list;
	struct arena arena = { 0 }; /* not the call's: it may go on for days */
	size_t count = events_since(call, &arena, box, *after, &list);
	int result = 0;
	for (size_t i = 0; i < count && result == 0; i++) {
		char id[24];
		snprintf(id, sizeof id, "%lld", (long long)list[i].seq);
		result = call_event(call, list[i].type, id, list[i].json.data, list[i].json.len,
				    err);
		*after = list[i].seq;
	}
	arena_done(&arena);
	return result;
}

/* Waits until there is an event beyond `seen`, or a box is deleted. */
static enum wake wait_events(struct call *call, struct box *box, int64_t seen)
{
	struct boxes *boxes = &host_of(call->server)->boxes;
	struct waiter **watchers = box ? &box->watchers : &boxes->watchers;
	struct wait wait = call_until_ping(call, INT64_MAX);
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&boxes->lock);
	while (wake == WAKE_READY && (box ? box->next_seq : boxes->next_seq) == seen &&
	       !(box && box->state == BOX_DELETED))
		wake = wait_change(&wait, &boxes->lock, watchers, NULL);
	pthread_mutex_unlock(&boxes->lock);
	return wake;
}

static int follow(struct call *call, struct box *box, int64_t after, struct err *err)
{
	struct boxes *boxes = &host_of(call->server)->boxes;
	int result = call_event_ping(call, err);
	while (result == 0) {
		/* Read before the events: a box is deleted after its last one, "deleted", was added. */
		pthread_mutex_lock(&boxes->lock);
		int64_t seen = box ? box->next_seq : boxes->next_seq;
		bool last = box && box->state == BOX_DELETED;
		pthread_mutex_unlock(&boxes->lock);
		result = send_events(call, box, &after, err);
		if (result < 0 || last)
			break;
		enum wake wake = wait_events(call, box, seen);
		if (wake > WAKE_TIMEOUT)
			break;
		if (wake == WAKE_TIMEOUT)
			result = call_event_ping(call, err);
	}
	return result;
}

static int reply_events(struct call *call, struct box *box, const struct host_events *request,
			struct err *err)
{
	if (request->follow || call->wants_events)
		return follow(call, box, request->after, err);
	struct written *list;
	size_t count = events_since(call, call->arena, box, request->after, &list);
	struct jw *jw = call_reply_begin(call, err);
	jw_open(jw, '[');
	for (size_t i = 0; i < count; i++)
		jw_raw(jw, list[i].json.data, list[i].json.len);
	jw_close(jw, ']');
	return call_reply_end(call, err);
}

static int show_events(struct call *call, const void *in, struct err *err)
{
	const struct host_events *request = in;
	struct box *box = sandbox_find(call, request->id, err);
	return box ? reply_events(call, box, request, err) : -1;
}

static int show_all_events(struct call *call, const void *in, struct err *err)
{
	return reply_events(call, NULL, in, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/sandboxes/{id}/events", show_events, &events_schema, &events_data,
	  "What happened to it", .flags = EVENTS },
	{ "GET", "/v1/events", show_all_events, &host_events_schema, &host_events_data,
	  "What happened to all sandboxes, to those that are gone too", .flags = EVENTS },
};
const struct route_group events_group = {
	"sandboxes", "Sandboxes of this host: for those who have its own token.", routes,
	COUNT(routes)
};
