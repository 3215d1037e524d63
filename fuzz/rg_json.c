/* A line of ripgrep's, beside a complete reader of JSON: what both take, they understand alike. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fs/rg_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* Valid text, once, without what the two may see differently. */
static void compare(const json_t *all, const struct rg_message *m)
{
	const json_t *data = json_object_get(all, "data");
	const json_t *text = json_object_get(json_object_get(data, "lines"), "text");
	const char *value = json_string_value(text);
	if (value && !json_object_get(json_object_get(data, "lines"), "bytes") && !m->text.full)
		must(m->text.len == json_string_length(text) &&
		     !memcmp(m->text.data, value, m->text.len));
	const json_t *line = json_object_get(data, "line_number");
	if (json_is_integer(line))
		must(m->line == json_integer_value(line));
	const char *type = json_string_value(json_object_get(all, "type"));
	if (m->type == RG_MATCH)
		must(type && !strcmp(type, "match"));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct rg_message m;
	auto_free char *line = xstrndup((const char *)input, size);
	rg_message_init(&m, 4096);
	int result = rg_json_parse((const char *)input, size, &m, NULL);
	json_t *all = json_loadb((const char *)input, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
				 NULL);
	if (all && result == 0)
		compare(all, &m);
	/* What is JSON, and not too deep or odd, is taken. */
	if (all && json_is_object(all) && size < 30)
		must(result == 0 || strstr(line, "bytes") || strchr(line, '"'));
	json_decref(all);
	(void)rg_json_parse("{\"type\":\"end\"}", 14, &m, NULL); /* the buffers serve again */
	must(m.type == RG_END && m.text.len == 0);
	rg_message_done(&m);
	return 0;
}
