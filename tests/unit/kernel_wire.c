#include "kernel/kernel_wire.h"

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

static bool is(const struct text *part, const char *text)
{
	return part->len == strlen(text) && !memcmp(part->data, text, part->len);
}

static struct kernel_wire sample(size_t buffers)
{
	static const char bytes[] = "\0\1\xff";
	struct kernel_wire m = { .channel = "shell",
				 .parts = { { "{\"msg_id\":\"i\",\"msg_type\":\"t\"}", 29 },
					    { "{}", 2 },
					    { "{\"m\":1}", 7 },
					    { "{\"c\":\"\xc3\xa9\"}", 10 } },
				 .buffer_count = buffers };
	for (size_t i = 0; i < buffers; i++)
		m.buffers[i] = (struct text){ bytes, i % 4 };
	return m;
}

static bool same(const struct kernel_wire *a, const struct kernel_wire *b)
{
	bool equal = !strcmp(a->channel, b->channel) && a->buffer_count == b->buffer_count;
	for (size_t i = 0; i < KERNEL_WIRE_PARTS && equal; i++)
		equal = a->parts[i].len == b->parts[i].len &&
			!memcmp(a->parts[i].data, b->parts[i].data, a->parts[i].len);
	for (size_t i = 0; i < a->buffer_count && equal; i++)
		equal = a->buffers[i].len == b->buffers[i].len &&
			!memcmp(a->buffers[i].data, b->buffers[i].data, a->buffers[i].len);
	return equal;
}

static void both_ways(size_t buffers)
{
	const struct kernel_wire m = sample(buffers);
	struct kernel_wire got;
	struct buf out = BUF(4096), keep = BUF(0);
	bool binary;
	CHECK(kernel_wire_write_v1(&out, &m));
	CHECK(kernel_wire_read_v1(out.data, out.len, &got, NULL) == 0 && same(&m, &got));
	for (size_t len = 0; len < out.len; len++) { /* no more is read than is there */
		auto_free char *part = xmalloc(len + 1);
		memcpy(part, out.data, len);
		if (kernel_wire_read_v1(part, len, &got, NULL) == 0)
			CHECK(!"a message that was cut");
	}
	out.len = 0;
	CHECK(kernel_wire_write_json(&out, &m, &binary) && binary == (buffers > 0));
	CHECK(kernel_wire_read_json(out.data, out.len, binary, &keep, &got, NULL) == 0 &&
	      same(&m, &got));
	buf_done(&keep);
	buf_done(&out);
}

static void objects(void)
{
	static const char text[] =
		"{\"header\":{\"msg_type\":\"a\"},\"content\":{\"x\":[1,\"\\u00e9\"]}}";
	struct kernel_wire got;
	struct buf keep = BUF(0), out = BUF(4096);
	bool binary;
	CHECK(kernel_wire_read_json(text, strlen(text), false, &keep, &got, NULL) == 0);
	CHECK_STR(got.channel, "shell");
	CHECK(is(&got.parts[0], "{\"msg_type\":\"a\"}") && is(&got.parts[1], "{}") &&
	      is(&got.parts[3], "{\"x\":[1,\"\xc3\xa9\"]}") && !got.buffer_count);
	CHECK(kernel_wire_write_json(&out, &got, &binary));
	CHECK_STR(out.data,
		  "{\"header\":{\"msg_type\":\"a\"},\"parent_header\":{},\"metadata\":{},"
		  "\"content\":{\"x\":[1,\"\xc3\xa9\"]},\"msg_id\":\"\",\"msg_type\":\"a\","
		  "\"channel\":\"shell\",\"buffers\":[]}");
	buf_done(&keep);
	buf_done(&out);
}

static void wrong(void)
{
	static const char *const texts[] = { "",
					     "[]",
					     "{",
					     "1",
					     "{\"channel\":\"achannelofalongname\"}",
					     "{\"channel\":\"a\\tb\"}" };
	static const char cut[] = "\0\0\0\2\0\0\0\x0c\0\0\0\1", much[] = "\xff\xff\xff\xff\0\0\0\0";
	struct kernel_wire got, m = sample(0);
	struct buf keep = BUF(0), out = BUF(4096), small = BUF(20);
	bool binary;
	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK(kernel_wire_read_json(texts[i], strlen(texts[i]), false, &keep, &got, NULL) <
		      0);
	CHECK(kernel_wire_read_json(cut, sizeof cut - 1, true, &keep, &got, NULL) < 0);
	CHECK(kernel_wire_read_json(much, sizeof much - 1, true, &keep, &got, NULL) < 0);
	CHECK(kernel_wire_write_v1(&out, &m));
	out.data[8] = 1; /* the channel would begin among the offsets */
	CHECK(kernel_wire_read_v1(out.data, out.len, &got, NULL) < 0);
	out.len = 0;
	memset(m.channel, 'x', sizeof m.channel - 1);
	CHECK(kernel_wire_write_v1(&out, &m) &&
	      kernel_wire_read_v1(out.data, out.len, &got, NULL) == 0);
	CHECK(!kernel_wire_write_v1(&small, &m));
	m.parts[3] = (struct text){ "{\"\xff\":1}", 7 };
	CHECK(!kernel_wire_write_json(&out, &m, &binary));
	buf_done(&keep);
	buf_done(&out);
	buf_done(&small);
}

static void members(void)
{
	static const char text[] =
		"{\"a\" : \"1\", \"b\":2, \"c\":\"three\", \"e\":\"\\\"\", \"d\":\"x";
	const struct text part = { text, sizeof text - 1 };
	char got[4];
	kernel_wire_member(&part, "a", got, sizeof got);
	CHECK_STR(got, "1");
	kernel_wire_member(&part, "b", got, sizeof got);
	CHECK_STR(got, "");
	kernel_wire_member(&part, "c", got, sizeof got);
	CHECK_STR(got, "");
	kernel_wire_member(&part, "e", got, sizeof got);
	CHECK_STR(got, "");
	kernel_wire_member(&part, "d", got, sizeof got);
	CHECK_STR(got, "");
}

int main(void)
{
	both_ways(0);
	both_ways(1);
	both_ways(KERNEL_WIRE_BUFFERS);
	objects();
	wrong();
	members();
	return tap_done();
}
