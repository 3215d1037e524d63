/* What happened in the sandbox: commands, code, files, tools, sessions and ports, from the journal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "api/ports.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "journal/journal.h"
#include "net/call.h"

enum {
	BATCH = 65536,   /* bytes that a stream holds at once, for however slow a reader */
	PORTS_MS = 1000, /* how often ports are looked at for one */
	PORTS_PER_PING = 15,
	PORT_KINDS = 1u << JOURNAL_PORT_OPENED | 1u << JOURNAL_PORT_CLOSED,
};

struct sandbox_events_request {
	const char *since, *last_event_id;
	struct list type;
	int64_t after;
	bool follow;
};
static const struct field events_fields[] = {
	LIST(sandbox_events_request, type, QUERY,
	     "Only events of these types; may be given several times.", .item = T_STR,
	     .choices = journal_names),
	INT(sandbox_events_request, after, QUERY | MIN | MAX,
	    "Only events with a higher number. Where some of these are gone, a `lost` event comes first.",
	    .min = 0, .max = 0x1p53),
	STR(sandbox_events_request, since, QUERY, "Only events from this time on, ISO 8601 in UTC.",
	    .example = "\"2026-01-31T12:00:00Z\"", .max_len = 40),
	BOOL(sandbox_events_request, follow, QUERY,
	     "Go on with what happens next, as Server-Sent Events; so does Accept: text/event-stream.",
	     .def = "false"),
	NAMED("last-event-id", STR, sandbox_events_request, last_event_id, HEADER,
	      "The id of the last event that was received: counts instead of `after`."),
};
static const struct schema events_schema =
	SCHEMA(sandbox_events_request, "JournalRequest", events_fields);
static const struct field events_data = { .type = T_LIST,
					  .item = T_OBJ,
					  .of = &journal_event_schema };

static int parse_since(const char *text, int64_t *ret_ms, struct err *err)
{
	struct tm t = { 0 };
	double fraction = 0;
	*ret_ms = 0;
	if (!text || !*text)
		return 0;
	const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
	char *end = (char *)at;
	if (at && *at == '.')
		fraction = strtod(at, &end);
	if (!at || end[*end == 'Z'])
		return err_set(err, ERR_INVALID,
			       "since '%.40s' is not a time such as 2026-01-31T12:00:00Z", text);
	*ret_ms = (int64_t)timegm(&t) * 1000 + (int64_t)(fraction * 1000);
	return 0;
}

static unsigned wanted_kinds(const struct list *types)
{
	const char *const *names = types->items;
	unsigned kinds = types->count ? 0 : JOURNAL_ALL;
	for (size_t i = 0; i < types->count; i++)
		for (size_t kind = 0; journal_names[kind]; kind++)
			if (!strcmp(journal_names[kind], names[i]))
				kinds |= 1u << kind;
	return kinds;
}

static int reader_of(const struct sandbox_events_request *request, struct journal_reader *ret,
		     struct err *err)
{
	const char *last = request->last_event_id;
	*ret = (struct journal_reader){
		.after = request->after == INT_ABSENT ? -1 : request->after,
		.kinds = wanted_kinds(&request->type),
		.fd = -1,
	};
	if (last && *last && strlen(last) <= 18 && strspn(last, "0123456789") == strlen(last))
		ret->after = strtoll(last, NULL, 10);
	return parse_since(request->since, &ret->since_ms, err);
}

static int send_batch(struct call *call, struct journal_reader *reader, size_t *ret_count,
		      struct err *err)
{
	struct arena arena = { 0 }; /* not the call's: it may go on for days */
	struct journal_item *items;
	int result = 0;
	*ret_count = journal_read(reader, &arena, BATCH, &items);
	for (size_t i = 0; i < *ret_count && result == 0; i++) {
		char id[24];
		snprintf(id, sizeof id, "%lld", (long long)items[i].seq);
		result = call_event(call, items[i].kind, id, items[i].json.data, items[i].json.len,
				    err);
	}
	arena_done(&arena);
	return result;
}

/* Looks at the ports now and then, if they are of interest; false once the reader has left. */
static bool wait_for_more(struct call *call, const struct journal_reader *reader)
{
	struct err ignored;
	if (!(reader->kinds & PORT_KINDS))
		return call_wait_events(call, reader->fd, INT64_MAX) == WAKE_READY;
	for (int i = 1;; i++) {
		enum wake wake = call_wait(call, reader->fd, clock_ms() + PORTS_MS);
		if (wake != WAKE_TIMEOUT)
			return wake == WAKE_READY;
		ports_look(call->server, PORTS_MS);
		if (i % PORTS_PER_PING == 0 && call_event_ping(call, &ignored) < 0)
			return false;
	}
}

static int follow(struct call *call, struct journal_reader *reader, struct err *err)
{
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	size_t count;
	bool more = true;
	if (fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "no descriptor to wait with");
	reader->fd = fd;
	journal_join(reader);
	int result = call_event_ping(call, err);
	while (result == 0 && more) {
		result = send_batch(call, reader, &count, err);
		if (result == 0 && !count)
			more = wait_for_more(call, reader);
	}
	journal_leave(reader);
	return result;
}

static int show_events(struct call *call, const void *in, struct err *err)
{
	const struct sandbox_events_request *request = in;
	struct journal_reader reader;
	struct journal_item *items;
	if (reader_of(request, &reader, err) < 0)
		return -1;
	if (reader.kinds & PORT_KINDS)
		ports_look(call->server, 0);
	if (request->follow || call->wants_events)
		return follow(call, &reader, err);
	size_t count = journal_read(&reader, call->arena, SIZE_MAX, &items);
	struct jw *jw = call_reply_begin(call, err);
	jw_open(jw, '[');
	for (size_t i = 0; i < count; i++) /* encoded when they were added */
		jw_raw(jw, items[i].json.data, items[i].json.len);
	jw_close(jw, ']');
	return call_reply_end(call, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/sandbox/events", show_events, &events_schema, &events_data,
	  "What happened in the sandbox",
	  "The last 2,048 events, or 512 KiB of them, oldest first; and as a stream what happens next. "
	  "They begin with the server. Texts are cut at 500 bytes, and what looks like a secret is "
	  "masked; the environment that a command was given is never shown. Each Server-Sent Event has "
	  "the event's number as id, its type as name and the event as data. A reader that is too slow "
	  "gets a `lost` event in the place of what it missed. Ports are looked at when events are asked for, and "
	  "once a second while a stream with such events is open: `at` is when a change was seen.",
	  .flags = EVENTS },
};
const struct route_group sandbox_events_group = { "events", "What happened in the sandbox.", routes,
						  COUNT(routes) };
