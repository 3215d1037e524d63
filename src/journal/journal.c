#include "journal/journal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "journal/mask.h"

enum { TEXTS_MAX = 4 };

/* ---- the kinds ---- */

static const struct field command_started_fields[] = {
	STR(journal_started, by, 0, "What runs it: `bash`, `shell`, or `exec` for `aio exec`."),
	STR(journal_started, session_id, NULLABLE, "Its session."),
	STR(journal_started, command_id, NULLABLE, "Its identifier, of `bash`."),
	NAMED("command", TEXT, journal_started, text, 0, "How it begins; secrets are masked."),
};
static const struct schema command_started_schema =
	SCHEMA(journal_started, "JournalCommandStarted", command_started_fields);
static const struct field code_started_fields[] = {
	NAMED("language", STR, journal_started, by, 0, "What it is written in."),
	STR(journal_started, session_id, NULLABLE, "Its session."),
	NAMED("code", TEXT, journal_started, text, 0, "How it begins; secrets are masked."),
};
static const struct schema code_started_schema =
	SCHEMA(journal_started, "JournalCodeStarted", code_started_fields);

struct journal_ended {
	const char *by, *session_id, *command_id, *status;
	int64_t exit_code, duration_ms;
};
static const struct field command_ended_fields[] = {
	STR(journal_ended, by, 0, "As when it began."),
	STR(journal_ended, session_id, NULLABLE, "Its session."),
	STR(journal_ended, command_id, NULLABLE, "Its identifier, of `bash`."),
	STR(journal_ended, status, 0, "As the route that ran it calls it: `completed`, `killed` …"),
	INT(journal_ended, exit_code, NULLABLE, "Its exit code; 128 and the number of a signal."),
	INT(journal_ended, duration_ms, 0, "How long it ran, in milliseconds."),
};
static const struct schema command_ended_schema =
	SCHEMA(journal_ended, "JournalCommandEnded", command_ended_fields);
static const struct field code_ended_fields[] = {
	NAMED("language", STR, journal_ended, by, 0, "What it is written in."),
	STR(journal_ended, session_id, NULLABLE, "Its session."),
	STR(journal_ended, status, 0,
	    "`ok`, `error`, `timeout`, or `cancelled`, when its caller has left."),
	INT(journal_ended, exit_code, NULLABLE, "Where there is one."),
	INT(journal_ended, duration_ms, 0, "How long it ran, in milliseconds."),
};
static const struct schema code_ended_schema =
	SCHEMA(journal_ended, "JournalCodeEnded", code_ended_fields);

static const struct field file_written_fields[] = {
	STR(journal_file, path, 0, "Its path."),
	STR(journal_file, operation, 0, "`write`, `append`, `replace`, `upload`, `create` …"),
	INT(journal_file, bytes, NULLABLE, "How many were written."),
};
static const struct schema file_written_schema =
	SCHEMA(journal_file, "JournalFileWritten", file_written_fields);

static const struct field tool_called_fields[] = {
	STR(journal_tool, server, NULLABLE, "The server that it was asked for by, if any."),
	STR(journal_tool, tool, 0, "Its name."),
	BOOL(journal_tool, failed, 0, "Whether it failed."),
	INT(journal_tool, duration_ms, 0, "How long it took, in milliseconds."),
};
static const struct schema tool_called_schema =
	SCHEMA(journal_tool, "JournalToolCalled", tool_called_fields);

static const struct field session_fields[] = {
	STR(journal_session, kind, 0, "`bash`, `shell`, `jupyter`, `nodejs`, `watch`, `mcp`."),
	STR(journal_session, session_id, OPTIONAL,
	    "Its identifier; null where that is a secret, of `mcp`."),
};
static const struct schema session_schema =
	SCHEMA(journal_session, "JournalSession", session_fields);

static const struct field service_fields[] = {
	STR(journal_service, name, 0, "Its name: `documents`, or `mcp/` and an MCP server's."),
	STR(journal_service, state, 0,
	    "`starting`, `ready`, `failed`, or `idle`: it does not run."),
	STR(journal_service, reason, NULLABLE, "Why it is idle, or has failed."),
};
static const struct schema service_schema =
	SCHEMA(journal_service, "JournalService", service_fields);

static const struct field journal_hook_fields[] = {
	STR(journal_hook, name, 0, "Its name, or the variable that it comes from."),
	STR(journal_hook, event, 0,
	    "When it runs: `init`, `pre_services`, `post_ready`, `shutdown`."),
	STR(journal_hook, status, 0,
	    "`completed`, `failed`, `timed_out`, or `cancelled`: the server was to stop."),
	INT(journal_hook, exit_code, NULLABLE, "Its exit code; 128 and the number of a signal."),
	INT(journal_hook, duration_ms, 0, "How long it ran, in milliseconds."),
	STR(journal_hook, output, NULLABLE,
	    "The last line that it printed, or why it did not start."),
};
static const struct schema hook_schema = SCHEMA(journal_hook, "JournalHook", journal_hook_fields);

static const struct field guardrail_fields[] = {
	STR(journal_guardrail, rule, 0, "The rule's name."),
	STR(journal_guardrail, message, 0, "What was measured."),
	STR(journal_guardrail, session_id, 0, "The observation."),
	STR(journal_guardrail, report_id, NULLABLE, "The report that was made of it, if one was."),
};
static const struct schema guardrail_schema =
	SCHEMA(journal_guardrail, "JournalGuardrail", guardrail_fields);

static const struct field page_fields[] = {
	STR(journal_page, url, 0, "Its address; what looks like a secret is masked."),
	STR(journal_page, tab, 0, "The tab's identifier."),
	BOOL(journal_page, failed, 0, "Whether it could not be loaded."),
};
static const struct schema page_schema = SCHEMA(journal_page, "JournalPage", page_fields);

static const struct field port_fields[] = {
	INT(journal_port, port, 0, "Its number: see `/proxy/{port}/`."),
	STR(journal_port, address, 0,
	    "The address that it listens on: `0.0.0.0` and `::` are all of them."),
	INT(journal_port, pid, NULLABLE, "The program's process."),
	STR(journal_port, command, NULLABLE, "How its command line begins; secrets are masked."),
};
static const struct schema port_schema = SCHEMA(journal_port, "JournalPort", port_fields);

struct journal_lost {
	int64_t after, next;
};
static const struct field lost_fields[] = {
	INT(journal_lost, after, 0, "The last event before the gap, which the reader has."),
	INT(journal_lost, next, 0,
	    "The first event behind it, or the number that the next one will have."),
};
static const struct schema lost_schema = SCHEMA(journal_lost, "JournalLost", lost_fields);

#define NAME(id, name, of, help)    name,
#define VARIANT(id, name, of, help) { name, &of##_schema, help },
const char *const journal_names[] = { JOURNAL_KINDS(NAME) NULL };
static const struct variant variants[] = { JOURNAL_KINDS(VARIANT) };
static const struct schema data_schema = TAGGED("JournalData", "type", variants, .outside = true);

const char *journal_help(const char *kind)
{
	for (size_t i = 0; i < COUNT(variants); i++)
		if (!strcmp(variants[i].tag, kind))
			return variants[i].help;
	return "";
}

union data {
	struct journal_started started;
	struct journal_ended ended;
	struct journal_file file;
	struct journal_tool tool;
	struct journal_session session;
	struct journal_service service;
	struct journal_page page;
	struct journal_guardrail guardrail;
	struct journal_hook hook;
	struct journal_port port;
};

struct event {
	int64_t seq;
	const char *at, *type;
	struct tagged data;
};
static const struct field event_fields[] = {
	INT(event, seq, 0, "Its number, rising."),
	STR(event, at, 0, "When, ISO 8601."),
	ENUM(event, type, 0, "What happened.", .choices = journal_names),
	UNION(event, data, 0, "More about it, by type.", .of = &data_schema),
};
const struct schema journal_event_schema = SCHEMA(event, "JournalEvent", event_fields);

/* ---- the ring ---- */

struct record {
	int64_t seq, at_ms;
	enum journal_kind kind;
	size_t len;
	char json[];
};

static struct {
	pthread_mutex_t lock;
	struct record *ring[JOURNAL_COUNT_MAX]; /* [seq % JOURNAL_COUNT_MAX] */
	int64_t first, next;                    /* equal: none is kept; 0: there never was one */
	size_t bytes;
	struct journal_reader *readers;
	struct jw jw;  /* the event being written */
	time_t second; /* of which `at` tells the time; formatting one takes longer than the rest */
	char at[32];
} journal = { .lock = PTHREAD_MUTEX_INITIALIZER, .jw.out.cap = SIZE_MAX / 16 };

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* With the lock. The first number is the time: a server that comes after this one has higher ones. */
static void begin(void)
{
	if (!journal.next)
		journal.first = journal.next = now_us();
}

/* With the lock, whose holder also reads the text. */
static struct text write_event(int64_t seq, int64_t at_ms, enum journal_kind kind, const void *data)
{
	enum { SECONDS_LEN = sizeof "2026-01-31T12:00:00" - 1 };
	time_t second = at_ms / 1000;
	struct tm t;
	if (second != journal.second) {
		strftime(journal.at, sizeof journal.at, "%FT%T", gmtime_r(&second, &t));
		journal.second = second;
	}
	snprintf(journal.at + SECONDS_LEN, sizeof journal.at - SECONDS_LEN, ".%03dZ",
		 (int)(at_ms % 1000));
	struct event event = {
		seq, journal.at, journal_names[kind], { journal_names[kind], data }
	};
	journal.jw.out.len = 0;
	journal.jw.comma = false;
	desc_encode(&journal_event_schema, &event, &journal.jw);
	return (struct text){ journal.jw.out.data, journal.jw.out.len };
}

static void drop_oldest(void)
{
	struct record **oldest = &journal.ring[journal.first++ % JOURNAL_COUNT_MAX];
	journal.bytes -= (*oldest)->len;
	free(TAKE(*oldest));
}

/* With the lock. */
static void keep(struct record *record)
{
	while (journal.next > journal.first && (journal.next - journal.first == JOURNAL_COUNT_MAX ||
						journal.bytes + record->len > JOURNAL_BYTES_MAX))
		drop_oldest();
	journal.ring[journal.next++ % JOURNAL_COUNT_MAX] = record;
	journal.bytes += record->len;
	for (struct journal_reader *r = journal.readers; r; r = r->next)
		if (r->asleep) { /* once: a reader that is busy costs nothing */
			r->asleep = false;
			(void)eventfd_write(r->fd, 1);
		}
}

/* Puts copies in the place of all texts of a struct, so that no kind can forget to mask one. */
static void mask_texts(const struct schema *schema, union data *data,
		       char texts[TEXTS_MAX][JOURNAL_TEXT_MAX])
{
	size_t used = 0;
	for (size_t i = 0; i < schema->count; i++) {
		void *at = (char *)data + schema->fields[i].at;
		enum desc_type type = schema->fields[i].type;
		struct text text = { 0 };
		if (type == T_STR && *(const char **)at)
			text = (struct text){ *(const char **)at, strlen(*(const char **)at) };
		else if (type == T_TEXT)
			text = *(struct text *)at;
		if (!text.data)
			continue;
		text.len = mask_text(text.data, text.len, texts[used], JOURNAL_TEXT_MAX);
		text.data = texts[used++];
		if (type == T_STR)
			*(const char **)at = text.data;
		else
			*(struct text *)at = text;
	}
}

void journal_add(enum journal_kind kind, const void *event)
{
	union data data;
	char texts[TEXTS_MAX][JOURNAL_TEXT_MAX];
	const struct schema *schema = variants[kind].of;
	memcpy(&data, event, schema->size);
	mask_texts(schema, &data, texts);
	pthread_mutex_lock(&journal.lock);
	begin();
	int64_t at_ms = now_us() / 1000;
	struct text json = write_event(journal.next, at_ms, kind, &data);
	struct record *record = xmalloc(sizeof *record + json.len);
	*record = (struct record){ journal.next, at_ms, kind, json.len };
	memcpy(record->json, json.data, json.len);
	keep(record);
	pthread_mutex_unlock(&journal.lock);
}

/* ---- what runs ---- */

struct journal_run {
	enum journal_kind kind;
	int64_t began_us;
	char by[64], session_id[260], command_id[32]; /* "": none */
};

struct journal_run *journal_begin(enum journal_kind kind, const struct journal_started *what)
{
	struct journal_run *run = xmalloc(sizeof *run);
	run->kind = kind;
	run->began_us = what->began_us ? what->began_us : clock_us();
	snprintf(run->by, sizeof run->by, "%s", what->by);
	snprintf(run->session_id, sizeof run->session_id, "%s",
		 what->session_id ? what->session_id : "");
	snprintf(run->command_id, sizeof run->command_id, "%s",
		 what->command_id ? what->command_id : "");
	journal_add(kind, what);
	return run;
}

void journal_end(struct journal_run *run, const char *status, int64_t exit_code)
{
	if (!run)
		return;
	struct journal_ended ended = { run->by,
				       *run->session_id ? run->session_id : NULL,
				       *run->command_id ? run->command_id : NULL,
				       status,
				       exit_code,
				       (clock_us() - run->began_us) / 1000 };
	journal_add(run->kind + 1, &ended);
	free(run);
}

/* ---- readers ---- */

/* With the lock: what comes in the place of events that are gone. -1 as `after` misses none. */
static bool find_gap(struct journal_reader *reader, struct arena *arena, struct journal_item *to)
{
	int64_t had = reader->after;
	bool gap = had >= 0 && (had + 1 < journal.first || had >= journal.next);
	if (had < 0 || gap)
		reader->after = journal.first - 1;
	if (!gap)
		return false;
	struct text json = write_event(reader->after, now_us() / 1000, JOURNAL_LOST,
				       &(struct journal_lost){ had, journal.first });
	*to = (struct journal_item){ reader->after,
				     journal_names[JOURNAL_LOST],
				     { arena_strndup(arena, json.data, json.len), json.len } };
	return true;
}

size_t journal_read(struct journal_reader *reader, struct arena *arena, size_t most,
		    struct journal_item **ret)
{
	size_t count = 0, bytes = 0;
	struct journal_item gap;
	pthread_mutex_lock(&journal.lock);
	begin();
	bool lost = find_gap(reader, arena, &gap);
	size_t left = (size_t)(journal.next - reader->after - 1);
	struct journal_item *items = arena_alloc(arena, (left + 1) * sizeof *items);
	if (lost) {
		items[count++] = gap;
		bytes = gap.json.len;
	}
	while (reader->after + 1 < journal.next && (!count || bytes < most)) {
		const struct record *r = journal.ring[++reader->after % JOURNAL_COUNT_MAX];
		if (!(reader->kinds & 1u << r->kind) || r->at_ms < reader->since_ms)
			continue;
		items[count++] =
			(struct journal_item){ r->seq,
					       journal_names[r->kind],
					       { arena_strndup(arena, r->json, r->len), r->len } };
		bytes += r->len;
	}
	reader->asleep = !count;
	pthread_mutex_unlock(&journal.lock);
	*ret = items;
	return count;
}

void journal_join(struct journal_reader *reader)
{
	pthread_mutex_lock(&journal.lock);
	reader->next = journal.readers;
	journal.readers = reader;
	pthread_mutex_unlock(&journal.lock);
}

void journal_leave(struct journal_reader *reader)
{
	pthread_mutex_lock(&journal.lock);
	struct journal_reader **at = &journal.readers;
	while (*at && *at != reader)
		at = &(*at)->next;
	if (*at)
		*at = reader->next;
	pthread_mutex_unlock(&journal.lock);
}
