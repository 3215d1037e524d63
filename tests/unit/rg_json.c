#include "fs/rg_json.h"

#include "tap.h"

static struct rg_message m;

static int parse(const char *line)
{
	return rg_json_parse(line, strlen(line), &m, NULL);
}

static void messages(void)
{
	CHECK(parse("{\"type\":\"begin\",\"data\":{\"path\":{\"text\":\"./a/b\"}}}") == 0);
	CHECK(m.type == RG_BEGIN);
	CHECK_STR(m.path.data, "./a/b");
	CHECK(parse("{\"type\":\"match\",\"data\":{\"path\":{\"bytes\":\"YS//\"},\"lines\":{\"text\":"
		    "\"x \\u20ac\\n\"},\"line_number\":12,\"absolute_offset\":7,\"submatches\":[{"
		    "\"match\":{\"text\":\"x\"},\"start\":3,\"end\":4},{\"start\":9}]}}") == 0);
	CHECK(m.type == RG_MATCH && m.line == 12 && m.start == 3);
	CHECK_STR(m.path.data, "a/\xff");
	CHECK_STR(m.text.data, "x \xe2\x82\xac\n");
	CHECK(parse("{\"type\":\"context\",\"data\":{\"lines\":{\"bytes\":\"/w==\"},\"line_number\":"
		    "null,\"submatches\":[]}}") == 0);
	CHECK(m.type == RG_CONTEXT && m.line == 0 && m.start == -1 && m.path.len == 0);
	CHECK_STR(m.text.data, "\xff");
	CHECK(parse("{\"type\":\"end\",\"data\":{\"binary_offset\":null,\"stats\":{\"a\":[1,{}]}}}") ==
	      0);
	CHECK(m.type == RG_END && !m.binary);
	CHECK(parse("{\"type\":\"end\",\"data\":{\"binary_offset\":0}}") == 0 && m.binary);
	CHECK(parse("{\"data\":{\"elapsed_total\":{\"nanos\":1}},\"type\":\"summary\"}") == 0);
	CHECK(m.type == RG_SUMMARY);
	CHECK(parse(" { \"type\" : \"later\" , \"data\" : true } ") == 0 && m.type == RG_OTHER);
	CHECK(parse("{}") == 0 && m.type == RG_OTHER);
}

static void strings(void)
{
	CHECK(parse("{\"data\":{\"lines\":{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\"}}}") ==
	      0);
	CHECK_STR(m.text.data, "\"\\/\b\f\n\r\tA\xc3\xa9");
	CHECK(parse("{\"data\":{\"lines\":{\"text\":\"\\ud83d\\ude00|\\ud83d|\\ude00\"}}}") == 0);
	CHECK_STR(m.text.data, "\xf0\x9f\x98\x80|\xef\xbf\xbd|\xef\xbf\xbd");
	CHECK(parse("{\"data\":{\"lines\":{\"text\":\"a\\u0000b\"}}}") == 0 && m.text.len == 3);
}

static void refusals(void)
{
	static const char *const bad[] = {
		"",
		"x",
		"[]",
		"null",
		"{",
		"{\"type\"",
		"{\"type\":",
		"{\"type\":\"begin\"",
		"{\"type\":\"begin\"}x",
		"{\"type\":\"begin\",}",
		"{\"a\":1 \"b\":2}",
		"{\"a\":tru}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":[1,]}",
		"{\"a\":[1 2]}",
		"{\"data\":{\"lines\":{\"bytes\":\"*\"}}}",
		"{\"data\":{\"line_number\":\"1\"}}",
		"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!CHECK(parse(bad[i]) < 0))
			printf("# %s\n", bad[i]);
}

int main(void)
{
	rg_message_init(&m, 1 << 20);
	messages();
	strings();
	refusals();
	rg_message_done(&m);
	return tap_done();
}
