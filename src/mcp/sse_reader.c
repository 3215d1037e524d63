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

/* A line is a field; an empty one ends the event. Of the fields only the data matters to us. */
static bool take_line(struct sse_reader *events)
{
	struct buf *line = &events->line;
	bool go_on = true;
	if (!line->len) {
		if (events->has_data)
			go_on = events->take(events->arg, events->data.data, events->data.len);
		events->data.len = 0;
		events->has_data = false;
	} else if (line->len >= 4 && !memcmp(line->data, "data", 4) &&
		   (line->len == 4 || line->data[4] == ':')) {
		size_t at = line->len == 4 ? 4 : 5;
		at += at < line->len && line->data[at] == ' ';
		if (events->has_data)
			go_on = buf_str(&events->data, "\n") == 0;
		go_on = go_on && buf_add(&events->data, line->data + at, line->len - at) == 0;
		events->has_data = true;
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
