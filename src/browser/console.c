/* A ring of entries. A page may write without end, and of any size: texts are cut, and what is too much in
 * number or bytes goes, the oldest first. */
#include "browser/console.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/desc.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "base/utf8.h"
#include "browser/cdp_params.h"
#include "browser/tab.h"
#include "browser/tab_events.h"

enum { STACK_FRAMES = 20, URL_SHOWN = 2000 };

struct console_kept {
	struct console_kept *next;
	char type[32], level[16], source[32];
	char *text, *stack, *url;
	int64_t line, column;
	double time_ms;
	size_t bytes;
};

struct tab_console {
	struct console_kept *first, **end;
	size_t count, bytes;
	uint64_t gone; /* entries that are not kept any more */
};

static void free_kept(struct console_kept *kept)
{
	free(kept->text);
	free(kept->stack);
	free(kept->url);
	free(kept);
}

static void drop_first(struct tab_console *console)
{
	struct console_kept *first = console->first;
	console->first = first->next;
	if (!console->first)
		console->end = &console->first;
	console->count--;
	console->gone++;
	console->bytes -= first->bytes;
	free_kept(first);
}

static void clear(struct tab_console *console)
{
	while (console && console->first)
		drop_first(console);
}

static void free_console(struct tab *tab)
{
	clear(tab->console);
	free(TAKE(tab->console));
}

/* ---- adding ---- */

static char *cut(const char *text, size_t max)
{
	return xstrndup(text, utf8_fit(text, max));
}

static void add(struct tab *tab, struct console_kept *kept)
{
	struct tab_console *console = tab->console;
	if (!console) {
		console = tab->console = xcalloc(1, sizeof *console);
		console->end = &console->first;
	}
	kept->bytes = sizeof *kept + strlen(kept->text) + strlen(kept->url) +
		      (kept->stack ? strlen(kept->stack) : 0);
	*console->end = kept;
	console->end = &kept->next;
	console->count++;
	console->bytes += kept->bytes;
	while (console->count > CONSOLE_COUNT_MAX || console->bytes > CONSOLE_BYTES_MAX)
		drop_first(console);
}

static struct console_kept *make(const char *type, const char *level, const char *source,
				 const char *text, double time_ms)
{
	struct console_kept *kept = xcalloc(1, sizeof *kept);
	snprintf(kept->type, sizeof kept->type, "%s", type);
	snprintf(kept->level, sizeof kept->level, "%s", level);
	snprintf(kept->source, sizeof kept->source, "%s", source);
	kept->text = cut(text, CONSOLE_TEXT_MAX);
	kept->line = kept->column = INT_ABSENT;
	kept->time_ms = time_ms;
	return kept;
}

/* Of an object with url, lineNumber and columnNumber. */
static void set_place(struct console_kept *kept, const json_t *place)
{
	kept->url = cut(cdp_text(place, "url"), URL_SHOWN);
	if (json_object_get(place, "lineNumber"))
		kept->line = cdp_int(place, "lineNumber");
	if (json_object_get(place, "columnNumber"))
		kept->column = cdp_int(place, "columnNumber");
}

/* ---- values as text ---- */

static void put_preview(const json_t *preview, struct buf *to);

static void put_property(const json_t *property, bool named, struct buf *to)
{
	const json_t *inner = json_object_get(property, "valuePreview");
	const char *type = cdp_text(property, "type");
	if (named)
		buf_printf(to, "%s: ", cdp_text(property, "name"));
	if (inner)
		put_preview(inner, to);
	else if (!strcmp(type, "string"))
		buf_printf(to, "\"%s\"", cdp_text(property, "value"));
	else
		buf_str(to, !strcmp(type, "function") ? "function" : cdp_text(property, "value"));
}

/* As the console of the browser shows an object: {a: 1}, [1, 2], Map(1). */
static void put_preview(const json_t *preview, struct buf *to)
{
	const json_t *properties = json_object_get(preview, "properties"), *property;
	const char *kind = cdp_text(preview, "subtype"), *name = cdp_text(preview, "description");
	bool list = !strcmp(kind, "array") || !strcmp(kind, "typedarray");
	size_t i;
	if (*kind && !list) {
		buf_str(to, name);
		return;
	}
	if (!list && strcmp(name, "Object") != 0)
		buf_printf(to, "%s ", name);
	buf_str(to, list ? "[" : "{");
	json_array_foreach(properties, i, property) {
		buf_str(to, i ? ", " : "");
		put_property(property, !list, to);
	}
	buf_str(to, cdp_true(preview, "overflow") ? i ? ", …" : "…" : "");
	buf_str(to, list ? "]" : "}");
}

static void put_value(const json_t *value, struct buf *to)
{
	const json_t *plain = json_object_get(value, "value"),
		     *preview = json_object_get(value, "preview");
	if (json_is_string(plain)) {
		size_t len = json_string_length(plain);
		(void)buf_add(to, json_string_value(plain),
			      len < CONSOLE_TEXT_MAX ? len : CONSOLE_TEXT_MAX);
	} else if (preview) {
		put_preview(preview, to);
	} else if (plain) {
		auto_free char *text = json_dumps(plain, JSON_ENCODE_ANY);
		buf_str(to, text ? text : "");
	} else {
		const char *other = cdp_text(value, "unserializableValue");
		const char *words = cdp_text(value, "description");
		buf_str(to, *other ? other : *words ? words : cdp_text(value, "type"));
	}
}

static void put_stack(const json_t *trace, struct buf *to)
{
	const json_t *frame;
	size_t i;
	json_array_foreach(json_object_get(trace, "callFrames"), i, frame) {
		const char *name = cdp_text(frame, "functionName");
		if (i == STACK_FRAMES)
			break;
		buf_printf(to, "%s    at %s (%s:%lld:%lld)", i ? "\n" : "",
			   *name ? name : "<anonymous>", cdp_text(frame, "url"),
			   (long long)cdp_int(frame, "lineNumber") + 1,
			   (long long)cdp_int(frame, "columnNumber") + 1);
	}
}

static void set_stack(struct console_kept *kept, const json_t *trace)
{
	auto_buf struct buf text = BUF(CONSOLE_TEXT_MAX);
	put_stack(trace, &text);
	if (text.data && *text.data)
		kept->stack = cut(text.data, CONSOLE_TEXT_MAX - 4);
}

/* ---- what is reported ---- */

static const char *level_of(const char *type)
{
	static const char *const rows[][2] = { { "error", "error" },     { "assert", "error" },
					       { "warning", "warning" }, { "debug", "debug" },
					       { "verbose", "debug" },   { "info", "info" } };
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcmp(type, rows[i][0]))
			return rows[i][1];
	return "log";
}

static void called(struct tab *tab, const char *session, const json_t *params)
{
	const char *type = cdp_text(params, "type");
	const json_t *trace = json_object_get(params, "stackTrace"), *value;
	auto_buf struct buf text = BUF(2 * CONSOLE_TEXT_MAX + 4096);
	size_t i;
	(void)session;
	json_array_foreach(json_object_get(params, "args"), i, value) {
		buf_str(&text, i ? " " : "");
		put_value(value, &text);
	}
	struct console_kept *kept = make(type, level_of(type), "console",
					 text.data ? text.data : "",
					 json_number_value(json_object_get(params, "timestamp")));
	set_place(kept, json_array_get(json_object_get(trace, "callFrames"), 0));
	add(tab, kept);
}

static void thrown(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *details = json_object_get(params, "exceptionDetails");
	const json_t *exception = json_object_get(details, "exception");
	const json_t *trace = json_object_get(details, "stackTrace");
	const char *words = cdp_text(exception, "description");
	auto_buf struct buf text = BUF(2 * CONSOLE_TEXT_MAX + 4096);
	(void)session;
	if (*words)
		buf_add(&text, words, strcspn(words, "\n"));
	else if (exception)
		put_value(exception, &text);
	struct console_kept *kept = make("exception", "error", "exception",
					 text.data ? text.data : cdp_text(details, "text"),
					 json_number_value(json_object_get(params, "timestamp")));
	set_place(kept, *cdp_text(details, "url")
				? details
				: json_array_get(json_object_get(trace, "callFrames"), 0));
	set_stack(kept, trace);
	add(tab, kept);
}

/* What the browser itself says: a request that failed, what a policy forbids. */
static void logged(struct tab *tab, const char *session, const json_t *params)
{
	const json_t *entry = json_object_get(params, "entry");
	const char *level = cdp_text(entry, "level");
	(void)session;
	struct console_kept *kept = make(level, level_of(level), cdp_text(entry, "source"),
					 cdp_text(entry, "text"),
					 json_number_value(json_object_get(entry, "timestamp")));
	set_place(kept, entry);
	add(tab, kept);
}

static const struct tab_event rows[] = {
	{ "Runtime.consoleAPICalled", called },
	{ "Runtime.exceptionThrown", thrown },
	{ "Log.entryAdded", logged },
};
static const struct tab_enable enable[] = { { "Log.enable", NULL }, { NULL, NULL } };
const struct tab_events console_events = {
	.rows = rows, .count = COUNT(rows), .enable = enable, .free = free_console
};

/* ---- reading ---- */

static const char *time_text(struct arena *arena, double ms)
{
	double seconds = isfinite(ms) && ms > 0 && ms < 1e15 ? floor(ms / 1000) : 0;
	struct timespec when = { (time_t)seconds, (long)((ms - seconds * 1000) * 1e6) };
	if (when.tv_nsec < 0 || when.tv_nsec > 999999999)
		when.tv_nsec = 0;
	return timestamp_text(arena, &when);
}

static struct console_entry copy(const struct console_kept *kept, struct arena *arena)
{
	struct console_place *location = arena_alloc(arena, sizeof *location);
	*location =
		(struct console_place){ arena_strdup(arena, kept->url), kept->line, kept->column };
	return (struct console_entry){
		.type = arena_strdup(arena, kept->type),
		.level = arena_strdup(arena, kept->level),
		.source = arena_strdup(arena, kept->source),
		.text = arena_strdup(arena, kept->text),
		.stack = kept->stack ? arena_strdup(arena, kept->stack) : NULL,
		.location = location,
		.timestamp = time_text(arena, kept->time_ms),
	};
}

size_t console_list(struct tab *tab, struct arena *arena, struct console_entry **ret,
		    uint64_t *ret_end)
{
	size_t count = 0;
	pthread_mutex_lock(&tab->lock);
	const struct tab_console *console = tab->console;
	*ret = arena_alloc(arena, ((console ? console->count : 0) + 1) * sizeof **ret);
	for (const struct console_kept *kept = console ? console->first : NULL; kept;
	     kept = kept->next)
		(*ret)[count++] = copy(kept, arena);
	*ret_end = console ? console->gone + console->count : 0;
	pthread_mutex_unlock(&tab->lock);
	return count;
}

void console_forget(struct tab *tab, uint64_t end)
{
	pthread_mutex_lock(&tab->lock);
	while (tab->console && tab->console->first && tab->console->gone < end)
		drop_first(tab->console);
	pthread_mutex_unlock(&tab->lock);
}
