#include "kernel/message.h"

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

#define TEXT_OF(literal)                     \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

/* HMAC-SHA256 of "{"a":1}{}{}{"b":2}" with the key "secret", as Python's hmac has it. */
static const char known[] = "9b14d94617bffb278285cea390d9dc17e01ec3188dba313f9548021906557a7b";

static void signing(void)
{
	static const struct text parts[] = { TEXT_OF("{\"a\":1}"), TEXT_OF("{}"), TEXT_OF("{}"),
					     TEXT_OF("{\"b\":2}") };
	char signature[MESSAGE_SIGNATURE];
	message_sign("secret", parts, signature);
	CHECK_STR(signature, known);
	message_sign("", parts, signature);
	CHECK_STR(signature, "");
}

static void round_trip(void)
{
	struct message_out out;
	struct message in;
	struct err err;
	struct buf content = BUF(100);
	buf_str(&content, "{\"code\":\"1+1\"}");
	message_make(&out, "key", "session", "session_7", "execute_request", &content);
	CHECK(message_parse(out.frames, MESSAGE_FRAMES, "key", &in, &err) == 0);
	CHECK_STR(in.type, "execute_request");
	CHECK_STR(in.id, "session_7");
	CHECK_STR(in.parent, "");
	CHECK_STR(json_string_value(json_object_get(in.content, "code")), "1+1");
	message_done(&in);
	CHECK(message_parse(out.frames, MESSAGE_FRAMES, "another key", &in, &err) < 0);
	CHECK(err.code == ERR_FORBIDDEN);
	CHECK(message_parse(out.frames, MESSAGE_FRAMES, "", &in, &err) == 0); /* nobody signs */
	message_done(&in);
	out.signature[0] ^= 1;
	CHECK(message_parse(out.frames, MESSAGE_FRAMES, "key", &in, &err) < 0);
	out.frames[1].len = 0;
	CHECK(message_parse(out.frames, MESSAGE_FRAMES, "key", &in, &err) < 0);
	CHECK(err.code == ERR_FORBIDDEN);
	message_out_done(&out);
}

static int parse(const struct text *frames, size_t count, struct message *ret)
{
	struct err err;
	int result = message_parse(frames, count, "", ret, &err);
	if (result == 0)
		message_done(ret);
	return result;
}

static void framing(void)
{
	struct message message;
	struct text frames[] = { TEXT_OF("identity"),
				 TEXT_OF("kernel.x.stream"),
				 TEXT_OF("<IDS|MSG>"),
				 TEXT_OF(""),
				 TEXT_OF("{\"msg_type\":\"stream\",\"msg_id\":5}"),
				 TEXT_OF("{\"msg_id\":\"p\"}"),
				 TEXT_OF("{}"),
				 TEXT_OF("{\"x\":1}"),
				 TEXT_OF("a buffer") };
	CHECK(parse(frames, 9, &message) == 0);
	CHECK_STR(message.type, "stream");
	CHECK_STR(message.id, "");
	CHECK_STR(message.parent, "p");
	CHECK(parse(frames + 2, 6, &message) == 0);
	for (size_t count = 0; count < 8; count++)
		CHECK(parse(frames, count, &message) < 0);
	CHECK(parse(frames + 3, 6, &message) < 0);
	frames[7] = (struct text)TEXT_OF("[1]");
	CHECK(parse(frames, 9, &message) < 0);
	frames[7] = (struct text)TEXT_OF("{\"x\":");
	CHECK(parse(frames, 9, &message) < 0);
	frames[7] = (struct text)TEXT_OF("");
	CHECK(parse(frames, 9, &message) < 0);
	frames[7] = (struct text)TEXT_OF("{}");
	frames[5] = (struct text)TEXT_OF("null");
	CHECK(parse(frames, 9, &message) < 0);
}

int main(void)
{
	signing();
	round_trip();
	framing();
	return tap_done();
}
