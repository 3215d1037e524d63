#include "cli/observe.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"
#include "cli/ask.h"
#include "cli/size_text.h"
#include "cli/table.h"

static json_int_t whole(const json_t *object, const char *key)
{
	return (json_int_t)json_number_value(json_object_get(object, key));
}

/* ---- logs ---- */

struct logs_flags {
	int64_t bytes;
	bool follow;
};
static const struct field logs_fields[] = {
	BOOL(logs_flags, follow, OPTIONAL,
	     "Go on with what it writes next, until Ctrl+C. Also -f."),
	INT(logs_flags, bytes, SIZED, "How much of its end.", .def = "1M"),
};
const struct schema observe_logs_schema = SCHEMA(logs_flags, "LogsFlags", logs_fields);

static void print_piece(void *arg, const char *data, size_t len)
{
	(void)arg;
	fwrite(data, 1, len, stdout);
	fflush(stdout);
}

int observe_logs(struct ask *ask)
{
	bool follow = json_is_true(json_object_get(ask->fields, "follow"));
	json_int_t bytes = whole(ask->fields, "bytes");
	auto_buf struct buf path = BUF(512);
	buf_str(&path, "/v1/sandboxes/");
	url_encode(&path, ask->argv[0]);
	buf_printf(&path, "/logs?bytes=%lld&follow=%s", bytes ? (long long)bytes : 1 << 20,
		   follow ? "true" : "false");
	if (!ask->remote.json)
		return remote_stream(&ask->remote, path.data, print_piece, NULL, &ask->err);
	if (follow)
		return err_set(&ask->err, ERR_INVALID, "--json cannot go on with --follow");
	json_t *log = remote_call(&ask->remote, "GET", path.data, NULL, &ask->err);
	if (!log)
		return -1;
	json_t *answer = json_pack("{ssso}", "id", ask->argv[0], "log",
				   json_is_string(log) ? json_incref(log) : json_string(""));
	ask_print(answer);
	json_decref(answer);
	json_decref(log);
	return 0;
}

/* ---- events ---- */

struct events_flags {
	bool follow, inside;
};
static const struct field events_fields[] = {
	BOOL(events_flags, follow, OPTIONAL,
	     "Go on with what happens next, until Ctrl+C. Also -f."),
	BOOL(events_flags, inside, OPTIONAL,
	     "What happened in the box instead: commands, code, files written, tools, sessions."),
};
const struct schema observe_events_schema = SCHEMA(events_flags, "EventsFlags", events_fields);

/* "2026-01-31T12:00:00.000Z" in the time of here. */
static void local_time(const char *when, char *to, size_t room)
{
	struct tm t = { 0 }, here;
	snprintf(to, room, "-");
	if (!when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &t))
		return;
	time_t at = timegm(&t);
	strftime(to, room, "%Y-%m-%d %H:%M:%S", localtime_r(&at, &here));
}

/* The time has a column of its own, and a name that was only looked up has no port. */
static bool is_telling(const char *name, const json_t *value)
{
	return !json_is_null(value) && strcmp(name, "time") != 0 &&
	       (strcmp(name, "port") != 0 || json_integer_value(value) != 0);
}

/* name=value …; what a box chose of it does nothing to a terminal. */
static void details(json_t *data, struct buf *to)
{
	const char *name;
	json_t *value;
	json_object_foreach(data, name, value) {
		if (!is_telling(name, value))
			continue;
		auto_free char *dump = json_dumps(value, JSON_ENCODE_ANY);
		size_t len = strlen(dump), quote = json_is_string(value) && !strpbrk(dump, " =\\");
		buf_printf(to, "%s%s=%.*s", to->len ? " " : "", name, (int)(len - 2 * quote),
			   dump + quote);
	}
	ask_make_plain(to->data, to->len, false);
}

/* A text of an event, as it may be printed. */
static const char *plain_text(json_t *event, const char *key)
{
	const char *value = ask_text(event, key);
	if (!value)
		return "-";
	auto_free char *copy = xstrdup(value);
	ask_make_plain(copy, strlen(copy), false);
	json_object_set_new(event, key, json_string(copy));
	return ask_text(event, key);
}

static void event_row(const struct ask *ask, json_t *event, const char *cells[4], char *when,
		      size_t room, struct buf *more)
{
	bool named = ask_text(event, "sandbox");
	local_time(ask_text(event, "at"), when, room);
	details(json_object_get(event, "data"), more);
	cells[0] = when;
	cells[1] = named ? plain_text(event, "sandbox") : ask->argv[0];
	cells[2] = plain_text(event, "type");
	cells[3] = more->len ? more->data : "";
}

static void show_event(const struct ask *ask, json_t *event)
{
	auto_buf struct buf more = BUF(65536);
	const char *cells[4];
	char when[32];
	if (ask->remote.json) {
		json_dumpf(event, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		event_row(ask, event, cells, when, sizeof when, &more);
		printf("%s  %-14s  %-*s  %s\n", cells[0], cells[1], ask->remote.box[0] ? 15 : 9,
		       cells[2], cells[3]);
	}
	fflush(stdout);
}

struct following {
	const struct ask *ask;
	struct buf line;
};

/* Server-Sent Events, of which each is one line of data. */
static void take_events(void *arg, const char *data, size_t len)
{
	struct following *following = arg;
	struct buf *line = &following->line;
	for (const char *end; (end = memchr(data, '\n', len));
	     len -= (size_t)(end + 1 - data), data = end + 1) {
		buf_add(line, data, (size_t)(end - data));
		json_t *event = line->len > 6 && !memcmp(line->data, "data: ", 6)
					? json_parse(line->data + 6, line->len - 6, NULL)
					: NULL;
		if (event)
			show_event(following->ask, event);
		json_decref(event);
		line->len = 0;
		line->full = false; /* one that was too long is passed over */
	}
	buf_add(line, data, len);
}

static int show_events(const struct ask *ask, json_t *list)
{
	static const char *const titles[] = { "TIME", "BOX", "EVENT", "DETAILS" };
	struct table *table = table_new(titles, COUNT(titles));
	json_t *event;
	size_t i;
	if (ask->remote.json)
		ask_print(list);
	json_array_foreach(list, i, event) {
		auto_buf struct buf more = BUF(65536);
		const char *cells[COUNT(titles)];
		char when[32];
		event_row(ask, event, cells, when, sizeof when, &more);
		table_row(table, cells);
	}
	if (!ask->remote.json)
		table_print(table);
	table_free(table);
	return 0;
}

static int print_events(const struct ask *ask, const char *path, bool follow, struct err *err)
{
	if (follow) {
		struct following following = { ask, BUF(1 << 20) };
		int result = remote_stream(&ask->remote, path, take_events, &following, err);
		buf_done(&following.line);
		return result;
	}
	json_t *list = remote_call(&ask->remote, "GET", path, NULL, err);
	int result = list ? show_events(ask, list) : -1;
	json_decref(list);
	return result;
}

int observe_events(struct ask *ask)
{
	bool follow = json_is_true(json_object_get(ask->fields, "follow"));
	bool inside = json_is_true(json_object_get(ask->fields, "inside"));
	char **box = ask->remote.box;
	auto_buf struct buf path = BUF(512);
	if (inside && !ask->argc)
		return err_set(&ask->err, ERR_INVALID, "--inside needs a BOX");
	if (inside && remote_box(&ask->remote, ask->argv[0], box, &ask->err) < 0)
		return -1;
	buf_str(&path, inside ? "/v1/sandbox" : ask->argc ? "/v1/sandboxes/" : "/v1");
	if (ask->argc && !inside)
		url_encode(&path, ask->argv[0]);
	buf_str(&path, follow ? "/events?follow=true" : "/events");
	int result = print_events(ask, path.data, follow, &ask->err);
	for (int i = 0; i < 3; i++)
		free(TAKE(box[i]));
	return result;
}

/* ---- top ---- */

struct top_flags {
	bool once;
};
static const struct field top_fields[] = {
	BOOL(top_flags, once, OPTIONAL,
	     "Print it once; on a terminal it is renewed every two seconds, until Ctrl+C."),
};
const struct schema observe_top_schema = SCHEMA(top_flags, "TopFlags", top_fields);

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The metrics of every box, each with its id. */
static json_t *measure(struct ask *ask)
{
	json_t *list = ask_boxes(ask), *box, *all = list ? json_array() : NULL;
	size_t i;
	json_array_foreach(list, i, box) {
		char *argv[] = { (char *)ask_text(box, "id") };
		struct ask one = *ask;
		one.argv = argv;
		json_t *m = ask_box(&one, "GET", "/metrics", NULL);
		if (!m)
			continue; /* deleted meanwhile */
		json_object_set(m, "id", json_object_get(box, "id"));
		json_object_set_new(m, "at", json_real(now_s()));
		json_array_append_new(all, m);
	}
	json_decref(list);
	return all;
}

/* Adds to each box the share of a core that it used since `before`, which has the seconds of CPU time
 * of each, and when that was; it gets those of now. */
static void add_shares(json_t *all, json_t *before)
{
	json_t *m;
	size_t i;
	json_array_foreach(all, i, m) {
		json_t *earlier = json_object_get(before, ask_text(m, "id"));
		double used = json_number_value(json_object_get(m, "cpu_seconds"));
		double at = json_number_value(json_object_get(m, "at"));
		double more = used - json_number_value(json_array_get(earlier, 0));
		double passed = at - json_number_value(json_array_get(earlier, 1));
		json_object_del(m, "at");
		if (earlier && passed > 0 && more >= 0) /* it may have started anew */
			json_object_set_new(m, "cpu_percent", json_real(100 * more / passed));
		json_object_set_new(before, ask_text(m, "id"), json_pack("[ff]", used, at));
	}
}

static void show_top(const json_t *all)
{
	static const char *const titles[] = { "ID",       "STATE", "CPU",     "TIME",
					      "MEMORY",   "PEAK",  "PIDS",    "DISK",
					      "RECEIVED", "SENT",  "REQUESTS" };
	static const char *const keys[] = { "memory", "memory_peak", "disk", "network_received",
					    "network_sent" };
	struct table *table = table_new(titles, COUNT(titles));
	json_t *m;
	size_t i;
	json_array_foreach(all, i, m) {
		char cpu[32], share[32] = "-", pids[32], requests[32], sizes[COUNT(keys)][16];
		const json_t *percent = json_object_get(m, "cpu_percent");
		for (size_t n = 0; n < COUNT(keys); n++)
			size_text((double)whole(m, keys[n]), sizes[n], sizeof sizes[n]);
		if (percent)
			snprintf(share, sizeof share, "%.0f%%", json_number_value(percent));
		snprintf(cpu, sizeof cpu, "%.2fs",
			 json_number_value(json_object_get(m, "cpu_seconds")));
		snprintf(pids, sizeof pids, "%lld", (long long)whole(m, "pids"));
		snprintf(requests, sizeof requests, "%lld", (long long)whole(m, "requests"));
		const char *cells[] = { ask_text(m, "id"),
					ask_text(m, "state"),
					share,
					cpu,
					sizes[0],
					sizes[1],
					pids,
					sizes[2],
					sizes[3],
					sizes[4],
					requests };
		table_row(table, cells);
	}
	table_print(table);
	table_free(table);
	fflush(stdout);
}

int observe_top(struct ask *ask)
{
	enum { FIRST_MS = 500, RENEW_MS = 2000 };
	bool live = isatty(STDOUT_FILENO) && !ask->remote.json &&
		    !json_is_true(json_object_get(ask->fields, "once"));
	json_t *before = json_object(), *all = measure(ask);
	int result = all ? 1 : -1;
	add_shares(all, before); /* what share of the time is used takes two looks */
	for (int pause = FIRST_MS; result > 0; pause = RENEW_MS) {
		json_decref(all);
		(void)poll(NULL, 0, pause);
		all = measure(ask);
		add_shares(all, before);
		if (all && ask->remote.json)
			ask_print(all);
		fputs(all && live ? "\033[H\033[2J" : "", stdout);
		if (all && !ask->remote.json)
			show_top(all);
		result = !all ? -1 : live;
	}
	json_decref(all);
	json_decref(before);
	return result;
}
