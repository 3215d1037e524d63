#include "node/frame.h"

#include <string.h>

/* The length of the whole frame that is held, once its head is there; 0 before. */
static size_t whole(const struct frame_reader *reader)
{
	const unsigned char *at = reader->held;
	if (reader->count < FRAME_HEAD)
		return 0;
	return FRAME_HEAD +
	       ((size_t)at[1] | (size_t)at[2] << 8 | (size_t)at[3] << 16 | (size_t)at[4] << 24);
}

int frame_feed(struct frame_reader *reader, const char *data, size_t len, frame_fn *fn, void *arg)
{
	while (len) {
		size_t want = whole(reader);
		size_t missing = (want ? want : FRAME_HEAD) - reader->count;
		size_t n = len < missing ? len : missing;
		memcpy(reader->held + reader->count, data, n);
		reader->count += n;
		data += n;
		len -= n;
		want = whole(reader);
		if (want > FRAME_MAX)
			return -1;
		if (!want || reader->count < want)
			continue;
		reader->count = 0;
		if (fn(arg, (char)reader->held[0], (const char *)reader->held + FRAME_HEAD,
		       want - FRAME_HEAD) < 0)
			return -1;
	}
	return 0;
}
