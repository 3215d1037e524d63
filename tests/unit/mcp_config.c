/* The file of other MCP servers. */
#include "mcp/hub_config.h"

#include <stdlib.h>

#include "base/desc.h"
#include "base/own.h"
#include "tap.h"

static struct hub_entry *parse(const char *text)
{
	auto_free char *copy = xstrdup(text);
	return hub_config_parse(copy, strlen(copy));
}

static void free_all(struct hub_entry *entry)
{
	for (struct hub_entry *next; entry; entry = next) {
		next = entry->next;
		hub_entry_free(entry);
	}
}

static void test_good(void)
{
	struct hub_entry *a = parse(
		"{\"mcpServers\":{\"one\":{\"command\":\"p\",\"args\":[\"x\",\"y\"],\"env\":{\"A\":"
		"\"b\"},\"cwd\":\"/d\",\"timeout\":2.5,\"hidden\":true},\"two\":{\"type\":\"http\","
		"\"url\":\"https://h/p\",\"headers\":{\"K\":\"v\"},\"disabled\":true}}}");
	struct hub_entry *b = a->next;
	CHECK(!a->problem && a->hidden && !a->disabled && a->timeout_ms == 2500);
	CHECK_STR(a->spec.name, "one");
	CHECK_STR(a->spec.command, "p");
	CHECK_STR(a->spec.args[1], "y");
	CHECK(!a->spec.args[2] && a->spec.env_count == 1 && !a->spec.url);
	CHECK_STR(a->spec.env[0].value, "b");
	CHECK_STR(a->spec.cwd, "/d");
	CHECK(b && !b->next && !b->problem && b->disabled && b->timeout_ms == 60000);
	CHECK_STR(b->spec.url, "https://h/p");
	CHECK_STR(b->spec.headers[0].name, "K");
	free_all(a);
}

static void test_empty_is_absent(void)
{
	struct hub_entry *a =
		parse("{\"mcpServers\":{\"a\":{\"command\":\"x\",\"url\":\"\",\"cwd\":\"\"}}}");
	CHECK(!a->problem && !a->spec.url && !a->spec.cwd);
	CHECK_STR(a->spec.command, "x");
	free_all(a);
}

static void test_bad(void)
{
	static const char *const wrong[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"mcpServers\":[]}",
		"{\"mcpServers\":{\"a b\":{\"command\":\"x\"}}}",
		"{\"mcpServers\":{\"\":{\"command\":\"x\"}}}",
		"{\"mcpServers\":{\"a\":[]}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"\"}}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":{}}}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":[]}}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"A=B\":\"c\"}}}}",
		"{\"mcpServers\":{\"a\":{\"url\":\"file:///etc/passwd\"}}}",
		"{\"mcpServers\":{\"a\":{\"url\":\"http://user:pw@h/\"}}}",
		"{\"mcpServers\":{\"a\":{\"command\":\"x\\u0000y\"}}}",
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct hub_entry *entry = parse(wrong[i]);
		CHECK(entry && entry->problem);
		free_all(entry);
	}
}

int main(void)
{
	test_good();
	test_empty_is_absent();
	test_bad();
	return tap_done();
}
