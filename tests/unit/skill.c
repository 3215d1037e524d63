#include "skill/skill.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

/* The front matter of a text as JSON, its keys sorted; the error where there is one. */
static char *front(const char *text, const char *content)
{
	json_t *metadata;
	size_t at;
	struct err err;
	if (skill_parse(text, strlen(text), &metadata, &at, &err) < 0)
		return xstrdup(err.msg);
	char *json = json_dumps(metadata, JSON_COMPACT | JSON_SORT_KEYS);
	CHECK_STR(text + at, content);
	json_decref(metadata);
	return json;
}

#define GIVES(text, json, content)                          \
	do {                                                \
		auto_free char *got = front(text, content); \
		CHECK_STR(got, json);                       \
	} while (0)

static void parsing(void)
{
	GIVES("", "{}", "");
	GIVES("text", "{}", "text");
	GIVES("\n---\na: 1\n---\n", "{}", "\n---\na: 1\n---\n");
	GIVES("---\n---\n", "{}", "");
	GIVES("---\n---", "{}", "");
	GIVES("---\na: 1\n---\ntext\n", "{\"a\":1}", "text\n");
	GIVES("---  \r\na: x y\r\n---\r\n\r\n\r\ntext", "{\"a\":\"x y\"}", "text");
	GIVES("\xef\xbb\xbf---\na: 1\n...\ntext", "{\"a\":1}", "text");
	GIVES("\xef\xbb\xbftext", "{}", "text");
	GIVES("---\na: '---'\n---\n---\n", "{\"a\":\"---\"}", "---\n");
	GIVES("----\na: 1\n---\n", "{}", "----\na: 1\n---\n");
}

static void values(void)
{
	GIVES("---\na: ~\nb:\nc: null\nd: 'null'\n---\n",
	      "{\"a\":null,\"b\":null,\"c\":null,\"d\":\"null\"}", "");
	GIVES("---\na: true\nb: False\nc: yes\n---\n", "{\"a\":true,\"b\":false,\"c\":\"yes\"}",
	      "");
	GIVES("---\na: 0\nb: -7\nc: +7\nd: 007\ne: 1.50\nf: 1e3\ng: 0.5\nh: 0x1f\n---\n",
	      "{\"a\":0,\"b\":-7,\"c\":7,\"d\":\"007\",\"e\":1.5,\"f\":1000.0,\"g\":0.5,\"h\":\"0x1f\"}",
	      "");
	GIVES("---\na: 1e999\nb: '-'\nc: 1.2.3\nd: 1-2\ne: .\n---\n",
	      "{\"a\":\"1e999\",\"b\":\"-\",\"c\":\"1.2.3\",\"d\":\"1-2\",\"e\":\".\"}", "");
	GIVES("---\na: {b: [1, {c: d}], e: []}\na2: >-\n  x\n  y\n---\n",
	      "{\"a\":{\"b\":[1,{\"c\":\"d\"}],\"e\":[]},\"a2\":\"x y\"}", "");
	GIVES("---\na: 1\na: 2\n---\n", "{\"a\":2}", "");
	GIVES("---\n1: x\ntrue: y\n---\n", "{\"1\":\"x\",\"true\":\"y\"}", "");
}

static void refusing(void)
{
	GIVES("---", "SKILL.md: the front matter does not end with ---", "");
	GIVES("---\na: 1\n--- x\n", "SKILL.md: the front matter does not end with ---", "");
	GIVES("---\n- 1\n---\n", "SKILL.md: the front matter is not a list of keys and values", "");
	GIVES("---\nword\n---\n", "SKILL.md: the front matter is not a list of keys and values",
	      "");
	GIVES("---\na: &x 1\nb: *x\n---\n",
	      "SKILL.md: front matter: line 2: aliases are not supported", "");
	GIVES("---\n? [a]\n: 1\n---\n", "SKILL.md: front matter: line 1: a key that is not text",
	      "");
	auto_free char *bad = front("---\nb: 1\na: [\n---\n", "");
	CHECK(!strncmp(bad, "SKILL.md: front matter: line ", 29));
	auto_free char *bytes = front("---\na: \xff\n---\n", "");
	CHECK(!strncmp(bytes, "SKILL.md: front matter: ", 24));
}

static void names(void)
{
	static const char *const good[] = { "a", "A1", "pdf-tools", "a.b_c-d", "0" };
	static const char *const bad[] = { "",    ".",   "..",   "-a",       "a-", "a--b", "a..b",
					   "a/b", "a b", "a\nb", "\xc3\xa4", ".a", "a." };
	char name[SKILL_NAME_MAX + 2];
	for (size_t i = 0; i < COUNT(good); i++)
		CHECK(skill_name_valid(good[i]));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!skill_name_valid(bad[i]));
	memset(name, 'x', sizeof name);
	name[SKILL_NAME_MAX + 1] = 0;
	CHECK(!skill_name_valid(name));
	name[SKILL_NAME_MAX] = 0;
	CHECK(skill_name_valid(name));
}

int main(void)
{
	parsing();
	values();
	refusing();
	names();
	return tap_done();
}
