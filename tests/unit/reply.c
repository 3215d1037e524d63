#include "document/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

static void heads(void)
{
	size_t facts = 7, text = 7;
	struct err err;
	CHECK(reply_head((const unsigned char *)"AIOD\x02\x01\x00\x00\x03\x00\x00\x00", 3, &facts,
			 &text, &err) == 0);
	CHECK(facts == 258 && text == 3);
	CHECK(reply_head((const unsigned char *)"AIOD\x02\x01\x00\x00\x04\x00\x00\x00", 3, &facts,
			 &text, &err) == -1);
	CHECK(err.code == ERR_TOO_LARGE);
	CHECK(reply_head((const unsigned char *)"AIOX\x02\x01\x00\x00\x03\x00\x00\x00", 3, &facts,
			 &text, &err) == -1);
	CHECK(err.code == ERR_UNAVAILABLE);
	CHECK(reply_head((const unsigned char *)"AIOD\xff\xff\xff\xff\x03\x00\x00\x00", 3, &facts,
			 &text, &err) == -1);
	CHECK(err.code == ERR_UNAVAILABLE);
	CHECK(facts == 258 && text == 3);
}

/* The code of what some facts tell; 0 with the metadata as text. */
static int take(const char *json, char **ret)
{
	auto_free char *text = xstrdup(json);
	json_t *metadata = NULL;
	struct err err = { 0 };
	*ret = NULL;
	if (reply_facts(text, strlen(text), &metadata, &err) < 0) {
		*ret = xstrdup(err.msg);
		return err.code;
	}
	*ret = json_dumps(metadata, JSON_COMPACT);
	json_decref(metadata);
	return 0;
}

#define TAKES(json, want_code, want)                    \
	do {                                            \
		auto_free char *got = NULL;             \
		CHECK(take(json, &got) == (want_code)); \
		CHECK_STR(got, want);                   \
	} while (0)

static void facts_of(void)
{
	TAKES("{\"metadata\":{\"a\":1}}", 0, "{\"a\":1}");
	TAKES("{}", 0, "{}");
	TAKES("{\"metadata\":[1]}", 0, "{}");
	TAKES("{\"error\":\"too_large\",\"message\":\"big\"}", ERR_TOO_LARGE, "big");
	TAKES("{\"error\":\"missing\",\"message\":\"no\"}", ENOENT, "no");
	TAKES("{\"error\":\"denied\",\"message\":\"%s%n\"}", EACCES, "%s%n");
	TAKES("{\"error\":\"never heard of\"}", ERR_INVALID, "the document cannot be read");
	TAKES("[]", ERR_UNAVAILABLE, "the document worker does not make sense");
	TAKES("{", ERR_UNAVAILABLE, "the document worker does not make sense");
	TAKES("", ERR_UNAVAILABLE, "the document worker does not make sense");
}

int main(void)
{
	heads();
	facts_of();
	return tap_done();
}
