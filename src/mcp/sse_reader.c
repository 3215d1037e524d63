#include "mcp/sse_reader.h"

#include <string.h>

void sse_reader_init(struct sse_reader *events, size_t cap, bool (*take)(void *, char *, size_t),
		     void *arg)
{
	*events =
		(struct sse_reader){ .line = BUF(cap), .data = BUF(cap), .take = take, .arg = arg };
}

void sse_reader_done(struct sse_reader *events)
{
	buf_done(&events->line);
	buf_done(&events->data);
}

/* The value of a line's field, where it has that name. */
static const char *value_of(const struct buf *line, const char *name, size_t *ret_len)
{
	size_t at = strlen(name);
	if (line->len < at || memcmp(line->data, name, at) != 0 ||
	    (line->len > at && line->data[at] != ':'))
		return NULL;
	at += line->len > at;
	at += at < line->len && line->data[at] == ' ';
	*ret_len = line->len - at;
	return line->data + at;
}

static void take_id(struct sse_reader *events, const char *id, size_t len)
{
	len = len < sizeof events->next_id && !memchr(id, 0, len) ? len : 0;
	memcpy(events->next_id, id, len);
	events->next_id[len] = 0;
	events->has_next_id = true;
}

/* A line is a field; an empty one ends the event. Of the fields only the data and the id matter. */
static bool take_line(struct sse_reader *events)
{
	struct buf *line = &events->line;
	const char *value;
	size_t len;
	bool go_on = true;
	if (!line->len) {
		if (events->has_data)
			go_on = events->take(events->arg, events->data.data, events->data.len);
		events->data.len = 0;
		events->has_data = false;
		if (events->has_next_id) {
			memcpy(events->id, events->next_id, sizeof events->id);
			events->has_id = true;
			events->has_next_id = false;
		}
	} else if ((value = value_of(line, "data", &len))) {
		if (events->has_data)
			go_on = buf_str(&events->data, "\n") == 0;
		go_on = go_on && buf_add(&events->data, value, len) == 0;
		events->has_data = true;
	} else if ((value = value_of(line, "id", &len))) {
		take_id(events, value, len);
	}
	line->len = 0;
	return go_on;
}

bool sse_reader_feed(struct sse_reader *events, const char *data, size_t len)
{
	for (const char *end = data + len; data < end;) {
		if (events->after_cr && *data == '\n')
			data++;
		events->after_cr = false;
		size_t n = 0;
		while (data + n < end && data[n] != '\n' && data[n] != '\r')
			n++;
		if (n && buf_add(&events->line, data, n) < 0)
			return false;
		data += n;
		if (data >= end)
			break;
		events->after_cr = *data++ == '\r';
		if (!take_line(events))
			return false;
	}
	return true;
}
