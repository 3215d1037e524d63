/* sse_reader.h - Server-Sent Events as they arrive, in pieces of any size. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { SSE_ID_ROOM = 64 };

struct sse_reader {
	struct buf line, data;
	char id[SSE_ID_ROOM]; /* of the last event that had one and is whole; a longer one is none */
	char next_id[SSE_ID_ROOM];
	bool has_id, has_next_id, has_data, after_cr;
	/* Called with the data of each event; the text may be changed. False stops. */
	bool (*take)(void *arg, char *data, size_t len);
	void *arg;
};

void sse_reader_init(struct sse_reader *events, size_t cap, bool (*take)(void *, char *, size_t),
		     void *arg);
void sse_reader_done(struct sse_reader *events);

/* False when `take` said so, or when an event is larger than the cap. */
bool sse_reader_feed(struct sse_reader *events, const char *data, size_t len);
