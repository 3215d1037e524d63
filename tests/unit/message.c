#include "kernel/kernel_message.h"

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
	struct kernel_message_key *key = kernel_message_key_new("secret");
	for (int i = 0; i < 2; i++) { /* the second is no other than the first */
		kernel_message_sign(key, parts, signature);
		CHECK_STR(signature, known);
	}
	kernel_message_key_free(key);
	CHECK(!kernel_message_key_new(""));
	kernel_message_sign(NULL, parts, signature);
	CHECK_STR(signature, "");
}

static void round_trip(void)
{
	struct kernel_message_key *key = kernel_message_key_new("key"),
				  *other = kernel_message_key_new("another key");
	struct kernel_message_out out;
	struct message in;
	struct err err;
	struct buf content = BUF(100);
	buf_str(&content, "{\"code\":\"1+1\"}");
	kernel_message_make(&out, key, "session", "session_7", "execute_request", &content);
	CHECK(kernel_message_read(out.frames, MESSAGE_FRAMES, key, &in, &err) == 0);
	CHECK_STR(in.type, "execute_request");
	CHECK(!kernel_message_answers(&in, "session_7")); /* that is its own id */
	json_t *object = kernel_message_content(&in, &err);
	CHECK_STR(json_string_value(json_object_get(object, "code")), "1+1");
	json_decref(object);
	CHECK(kernel_message_read(out.frames, MESSAGE_FRAMES, other, &in, &err) < 0);
	CHECK(err.code == ERR_FORBIDDEN);
	CHECK(kernel_message_read(out.frames, MESSAGE_FRAMES, NULL, &in, &err) ==
	      0); /* nobody signs */
	out.signature[0] ^= 1;
	CHECK(kernel_message_read(out.frames, MESSAGE_FRAMES, key, &in, &err) < 0);
	out.frames[1].len = 0;
	CHECK(kernel_message_read(out.frames, MESSAGE_FRAMES, key, &in, &err) < 0);
	CHECK(err.code == ERR_FORBIDDEN);
	kernel_message_out_done(&out);
	kernel_message_key_free(key);
	kernel_message_key_free(other);
}

static int parse(const struct text *frames, size_t count, struct message *ret)
{
	struct err err;
	json_t *content = kernel_message_read(frames, count, NULL, ret, &err) < 0
				  ? NULL
				  : kernel_message_content(ret, &err);
	json_decref(content);
	return content ? 0 : -1;
}

static void framing(void)
{
	struct message message;
	struct text frames[] = { TEXT_OF("identity"),
				 TEXT_OF("kernel.x.stream"),
				 TEXT_OF("<IDS|MSG>"),
				 TEXT_OF(""),
				 TEXT_OF("{\"msg_type\" : \"stream\",\"msg_id\":5}"),
				 TEXT_OF("{\"msg_id\": \"p_11\"}"),
				 TEXT_OF("{}"),
				 TEXT_OF("{\"x\":1}"),
				 TEXT_OF("a buffer") };
	CHECK(parse(frames, 9, &message) == 0);
	CHECK_STR(message.type, "stream");
	CHECK(kernel_message_answers(&message, "p_11"));
	CHECK(!kernel_message_answers(&message, "p_1")); /* no part of an id is one */
	CHECK(!kernel_message_answers(&message, "11"));
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
	CHECK(parse(frames, 9, &message) == 0 && !kernel_message_answers(&message, "p_11"));
}

static const char *type_of(struct text header)
{
	static struct message message;
	const struct text frames[] = { TEXT_OF("<IDS|MSG>"), TEXT_OF(""),   header,
				       TEXT_OF("{}"),        TEXT_OF("{}"), TEXT_OF("{}") };
	CHECK(kernel_message_read(frames, 6, NULL, &message, NULL) == 0);
	return message.type;
}
#define TYPE_OF(literal) type_of((struct text)TEXT_OF(literal))

static void types(void)
{
	CHECK_STR(TYPE_OF("{\"username\":\"msg_type\",\"msg_type\":\"error\"}"), "error");
	CHECK_STR(TYPE_OF("{\"username\":\"\\\"msg_type\\\":\\\"a\\\"\",\"msg_type\":\"b\"}"), "b");
	CHECK_STR(TYPE_OF("{}"), "");
	CHECK_STR(TYPE_OF(""), "");
	CHECK_STR(TYPE_OF("{\"msg_type\""), "");
	CHECK_STR(TYPE_OF("{\"msg_type\":"), "");
	CHECK_STR(TYPE_OF("{\"msg_type\":7}"), "");
	CHECK_STR(TYPE_OF("{\"msg_type\":\"a\0b\"}"), "a");
	CHECK_STR(TYPE_OF("{\"msg_type\":\"0123456789012345678901234567890123456789012345678\"}"),
		  "");
}

int main(void)
{
	signing();
	round_trip();
	framing();
	types();
	return tap_done();
}
