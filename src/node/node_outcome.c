#include "node/node_outcome.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"

enum {
	ITEMS_MAX = 2000, /* then pieces of the two streams are not told apart by time any more */
	NOTES_MAX = 4 << 20,
	TRACE_MAX = 1001,
};

/* One stream: all of it in one buffer, of which each output is a part. */
struct node_outcome_flow {
	struct buf text;
	size_t sent;  /* of it, to the caller */
	int64_t lost; /* bytes that had no room */
	size_t last;  /* its latest output, and one more; 0: none */
};

struct item {
	struct node_output output;
	size_t start, len; /* of a NODE_STREAM, in its flow */
};

struct outcome {
	struct arena *arena;
	const struct node_caller *caller;
	struct node_outcome_flow flows[2];
	struct item *items;
	size_t count, room;
};

static void outcome_done(void *arg)
{
	struct outcome *outcome = arg;
	for (int i = 0; i < 2; i++)
		buf_done(&outcome->flows[i].text);
	free(outcome->items);
}

struct outcome *outcome_new(struct arena *arena, const struct node_caller *caller)
{
	struct outcome *outcome = arena_alloc(arena, sizeof *outcome);
	*outcome = (struct outcome){ .arena = arena, .caller = caller };
	for (int i = 0; i < 2; i++)
		outcome->flows[i].text = BUF(NODE_OUTPUT_MAX + NOTES_MAX);
	arena_defer(arena, outcome_done, outcome);
	return outcome;
}

static struct item *add_item(struct outcome *outcome, enum node_output_type type)
{
	if (outcome->count == outcome->room) {
		outcome->room = outcome->room ? outcome->room * 2 : 8;
		outcome->items = xrealloc(outcome->items, outcome->room * sizeof(struct item));
	}
	struct item *item = &outcome->items[outcome->count++];
	*item = (struct item){ .output.type = type };
	return item;
}

/* Gives the caller what it has not got yet, without half a character unless it is the last. */
static int forward(struct outcome *outcome, enum node_stream stream, bool last, struct err *err)
{
	struct node_outcome_flow *flow = &outcome->flows[stream];
	if (!outcome->caller->write || flow->text.len == flow->sent)
		return 0;
	const char *from = flow->text.data + flow->sent;
	size_t len = flow->text.len - flow->sent;
	if (!last)
		len -= utf8_partial(from, len);
	flow->sent += len;
	return len ? outcome->caller->write(outcome->caller->arg, stream, from, len, err) : 0;
}

int outcome_output(struct outcome *outcome, enum node_stream stream, const char *data, size_t len,
		   struct err *err)
{
	struct node_outcome_flow *flow = &outcome->flows[stream];
	size_t used = outcome->flows[0].text.len + outcome->flows[1].text.len;
	size_t room = used < NODE_OUTPUT_MAX ? NODE_OUTPUT_MAX - used : 0;
	size_t kept = flow->lost ? 0 : len < room ? len : room;
	flow->lost += (int64_t)(len - kept);
	if (!kept)
		return 0;
	/* A stream's text has no gaps, so whatever is added to it belongs to its latest output: a new
	 * one is only begun when something else has come in between. */
	bool again = flow->last && (flow->last == outcome->count || outcome->count >= ITEMS_MAX);
	struct item *item = again ? &outcome->items[flow->last - 1]
				  : add_item(outcome, NODE_STREAM);
	if (!again) {
		item->output.stream = stream;
		item->start = flow->text.len;
		flow->last = outcome->count;
	}
	item->len += kept;
	buf_add(&flow->text, data, kept);
	return forward(outcome, stream, false, err);
}

void outcome_lost(struct outcome *outcome, enum node_stream stream, int64_t bytes)
{
	outcome->flows[stream].lost += bytes;
}

/* Text of stderr that is no output of its own: its error is. */
static void note(struct outcome *outcome, const char *text, size_t len)
{
	struct node_outcome_flow *flow = &outcome->flows[NODE_STDERR];
	flow->last = 0; /* not a part of an output */
	if (flow->text.len + len <= flow->text.cap)
		buf_add(&flow->text, text, len);
	if (flow->sent + len == flow->text.len)
		flow->sent =
			flow->text.len; /* nor of what is streamed: that has the error itself */
}

static void release(void *json)
{
	json_decref(json);
}

static const char *text_of(struct outcome *outcome, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? arena_strdup(outcome->arena, text) : "";
}

void outcome_value(struct outcome *outcome, const json_t *value)
{
	const json_t *text = json_object_get(value, "text");
	const char *json = json_string_value(json_object_get(value, "json"));
	if (!json_is_string(text))
		return;
	struct item *item = add_item(outcome, NODE_VALUE);
	size_t len = json_string_length(text);
	item->output.text =
		(struct text){ arena_strndup(outcome->arena, json_string_value(text), len), len };
	auto_free char *copy = json ? xstrdup(json) : NULL; /* which parsing changes */
	item->output.json = copy ? json_parse(copy, strlen(copy), NULL) : NULL;
	if (item->output.json)
		arena_defer(outcome->arena, release, item->output.json);
}

void outcome_error(struct outcome *outcome, const json_t *error, bool printed)
{
	const json_t *trace = json_object_get(error, "trace");
	size_t count = json_array_size(trace);
	count = count < TRACE_MAX ? count : TRACE_MAX;
	const char **lines = arena_alloc(outcome->arena, (count + 1) * sizeof *lines);
	auto_buf struct buf all = BUF(NOTES_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *line = json_string_value(json_array_get(trace, i));
		lines[i] = arena_strdup(outcome->arena, line ? line : "");
		buf_printf(&all, "%s\n", lines[i]);
	}
	struct item *item = add_item(outcome, NODE_ERROR);
	item->output.name = text_of(outcome, error, "name");
	item->output.message = text_of(outcome, error, "message");
	item->output.trace = (struct list){ count, lines };
	if (!printed && all.data)
		note(outcome, all.data, all.len);
}

/* Says what is missing, at the end of the stream that it is missing from. */
static void mark_lost(struct outcome *outcome)
{
	for (int i = 0; i < 2; i++) {
		struct node_outcome_flow *flow = &outcome->flows[i];
		if (!flow->lost)
			continue;
		auto_free char *mark =
			xasprintf("\n[%lld more bytes were left out: an execution gives at most "
				  "%d MiB]\n",
				  (long long)flow->lost, NODE_OUTPUT_MAX >> 20);
		buf_add(&flow->text, mark, strlen(mark));
		if (flow->last)
			outcome->items[flow->last - 1].len += strlen(mark);
	}
}

int outcome_finish(struct outcome *outcome, struct node_result *ret, struct err *err)
{
	mark_lost(outcome);
	struct node_output *outputs =
		arena_alloc(outcome->arena, (outcome->count + 1) * sizeof *outputs);
	for (size_t i = 0; i < outcome->count; i++) {
		struct item *item = &outcome->items[i];
		outputs[i] = item->output;
		if (item->output.type == NODE_STREAM)
			outputs[i].text =
				(struct text){ outcome->flows[item->output.stream].text.data +
						       item->start,
					       item->len };
	}
	ret->outputs = (struct list){ outcome->count, outputs };
	for (int i = 0; i < 2; i++) {
		const struct buf *text = &outcome->flows[i].text;
		*(i ? &ret->err : &ret->out) =
			(struct text){ text->data ? text->data : "", text->len };
	}
	return forward(outcome, NODE_STDOUT, true, err) < 0 ||
			       forward(outcome, NODE_STDERR, true, err) < 0
		       ? -1
		       : 0;
}
