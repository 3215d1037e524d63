#include "mcp/hub_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { TOOL_BYTES_MAX = 65536, RESULT_MAX = 8 << 20 };

static bool is_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;
	return len && len <= HUB_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       len;
}

json_t *hub_check_tool(const json_t *tool)
{
	static const char *const kept[] = { "title", "annotations", "icons" };
	const char *name = json_string_value(json_object_get(tool, "name"));
	const char *about = json_string_value(json_object_get(tool, "description"));
	json_t *schema = json_object_get(tool, "inputSchema");
	const char *type = json_string_value(json_object_get(schema, "type"));
	if (!is_name(name) || json_dumpb(tool, NULL, 0, JSON_COMPACT) > TOOL_BYTES_MAX)
		return NULL;
	json_t *result = json_pack("{s:s,s:s}", "name", name, "description", about ? about : name);
	json_t *properties = json_object_get(schema, "properties");
	bool sound = json_is_object(schema) && type && !strcmp(type, "object") &&
		     (!properties || json_is_object(properties));
	if (sound)
		json_object_set(result, "inputSchema", schema);
	else
		json_object_set_new(result, "inputSchema", json_pack("{s:s}", "type", "object"));
	for (size_t i = 0; i < COUNT(kept); i++) {
		json_t *value = json_object_get(tool, kept[i]);
		bool fits = i == 0   ? json_is_string(value)
			    : i == 1 ? json_is_object(value)
				     : json_is_array(value);
		if (fits)
			json_object_set(result, kept[i], value);
	}
	return result;
}

json_t *hub_check_failed(const char *text)
{
	return json_pack("{s:[{s:s,s:s}],s:b}", "content", "type", "text", "text", text, "isError",
			 1);
}

json_t *hub_check_result(const char *server, json_t *result)
{
	const json_t *content = json_object_get(result, "content");
	const json_t *structured = json_object_get(result, "structuredContent");
	char text[200];
	size_t size = json_dumpb(result, NULL, 0, JSON_COMPACT);
	if (size > RESULT_MAX) {
		snprintf(text, sizeof text,
			 "the result of the MCP server %.60s has %zu bytes, more than %d: ask for "
			 "less",
			 server, size, RESULT_MAX);
		json_decref(result);
		return hub_check_failed(text);
	}
	size_t i;
	json_t *item;
	bool sound = json_is_array(content);
	json_array_foreach(content, i, item)
		sound = sound && json_is_string(json_object_get(item, "type"));
	if (!sound && json_is_object(structured)) {
		char *dump = json_dumps(structured, JSON_COMPACT);
		json_object_set_new(result, "content",
				    json_pack("[{s:s,s:s}]", "type", "text", "text", dump));
		free(dump);
		sound = true;
	}
	if (structured && !json_is_object(structured))
		json_object_del(result, "structuredContent");
	json_object_del(result, "resultType");
	if (sound)
		return result;
	json_decref(result);
	snprintf(text, sizeof text, "the MCP server %.60s gave a result without content", server);
	return hub_check_failed(text);
}
