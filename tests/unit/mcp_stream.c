/* Messages on their way to a client: order, what is forgotten, and when it is over. */
#include "mcp/stream.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "tap.h"

static size_t count(struct mcp_stream *stream, uint64_t after, size_t *ret_bytes)
{
	size_t n = 0;
	*ret_bytes = 0;
	for (struct stream_message *m; (m = stream_next(stream, after)); n++) {
		CHECK(m->number > after);
		after = m->number;
		*ret_bytes += m->len;
		free(m);
	}
	return n;
}

static void test_order(void)
{
	struct mcp_stream *stream = stream_new(7, false);
	size_t bytes;
	CHECK(stream_id(stream) == 7);
	stream_expect(stream, 1);
	CHECK(!stream_look(stream, 0).over && stream_look(stream, 0).first_note == 0);
	stream_add(stream, "a", 1, false);
	stream_add(stream, "bc", 2, false);
	CHECK(stream_look(stream, 0).first_note == 1);
	stream_add(stream, "def", 3, true);
	struct stream_state state = stream_look(stream, 0);
	CHECK(state.over && state.last == 3);
	CHECK(count(stream, 0, &bytes) == 3 && bytes == 6);
	CHECK(count(stream, 2, &bytes) == 1 && bytes == 3);
	CHECK(count(stream, 3, &bytes) == 0);
	struct stream_message *m = stream_next(stream, 1);
	CHECK_STR(m->text, "bc");
	free(m);
	stream_forget(stream, 2);
	CHECK(count(stream, 0, &bytes) == 1 && bytes == 3);
	stream_forget(stream, 99);
	CHECK(count(stream, 0, &bytes) == 0);
	stream_add(stream, "g", 1, false);
	CHECK(count(stream, 0, &bytes) == 1 && stream_look(stream, 0).last == 4);
	stream_unref(stream);
}

static void test_skip_and_close(void)
{
	struct mcp_stream *stream = stream_new(1, false), *endless = stream_new(2, true);
	stream_expect(stream, 2);
	stream_skip(stream);
	CHECK(!stream_look(stream, 0).over);
	stream_skip(stream);
	CHECK(stream_look(stream, 0).over);
	CHECK(!stream_look(endless, 0).over);
	stream_expect(endless, 1);
	stream_add(endless, "x", 1, true);
	CHECK(!stream_look(endless, 0).over);
	stream_break(endless);
	CHECK(stream_look(endless, 0).broken && stream_look(endless, 0).broken);
	stream_mend(endless);
	CHECK(!stream_look(endless, 0).broken);
	stream_close(endless);
	CHECK(stream_look(endless, 0).over);
	stream_unref(stream);
	stream_unref(endless);
}

/* Nobody reads: the oldest notifications go, replies stay, and memory has an end. */
static void test_forgets_the_oldest(void)
{
	struct mcp_stream *stream = stream_new(1, true);
	size_t bytes, size = 100000;
	auto_free char *text = xcalloc(1, size + 1);
	memset(text, 'x', size);
	stream_expect(stream, 1);
	stream_add(stream, "reply", 5, true);
	for (int i = 0; i < 1000; i++)
		stream_add(stream, text, size, false);
	CHECK(count(stream, 0, &bytes) <= STREAM_BYTES_MAX / size + 1);
	CHECK(bytes <= STREAM_BYTES_MAX && bytes > STREAM_BYTES_MAX - 2 * size);
	struct stream_message *first = stream_next(stream, 0), *next = stream_next(stream, 1);
	CHECK(first->reply && first->number == 1);
	CHECK(next->number > 900); /* the newest are there */
	free(first);
	free(next);
	stream_unref(stream);
}

static void test_readers(void)
{
	struct mcp_stream *stream = stream_new(1, true);
	const struct wait now = { 0, -1, -1 };
	uint64_t first = stream_take(stream), second;
	struct stream_state state = stream_look(stream, first);
	CHECK(!state.taken && stream_wait(stream, &state, &now) == WAKE_TIMEOUT);
	stream_add(stream, "x", 1, false);
	CHECK(stream_wait(stream, &state, &now) == WAKE_READY);
	state = stream_look(stream, first);
	CHECK(stream_wait(stream, &state, &now) == WAKE_TIMEOUT);
	second = stream_take(stream);
	CHECK(stream_wait(stream, &state, &now) == WAKE_READY); /* told that it is taken */
	CHECK(stream_look(stream, first).taken && !stream_look(stream, second).taken);
	state = stream_look(stream, second);
	CHECK(stream_wait(stream, &state, &now) == WAKE_TIMEOUT);
	stream_add(stream, "y", 1, false);
	CHECK(stream_wait(stream, &state, &now) == WAKE_READY);
	stream_unref(stream);
}

int main(void)
{
	test_order();
	test_skip_and_close();
	test_forgets_the_oldest();
	test_readers();
	return tap_done();
}
