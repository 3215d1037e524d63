/* MCP servers and their tools without MCP: as plain routes. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "mcp/exchange.h"
#include "mcp/hub.h"
#include "mcp/stream.h"
#include "mcp/tool.h"
#include "net/call.h"
#include "net/server.h"

/* ---- servers ---- */

struct servers_request {
	bool include_hidden;
};
static const struct field servers_fields[] = {
	BOOL(servers_request, include_hidden, QUERY, "Hidden servers too.", .def = "false"),
};
static const struct schema servers_schema =
	SCHEMA(servers_request, "McpServersRequest", servers_fields);
static const struct field names_data = { .type = T_LIST, .item = T_STR };

static const struct field info_fields[] = {
	STR(hub_info, name, 0, "Its name."),
	STR(hub_info, kind, 0, "`builtin`, `stdio` or `http`."),
	STR(hub_info, status, 0,
	    "`ready`; `idle`: started when needed; `starting`; `unavailable`; `disabled`."),
	STR(hub_info, reason, NULLABLE, "Why it is unavailable."),
	STR(hub_info, hint, NULLABLE, "What to do about it."),
};
static const struct schema info_schema = SCHEMA(hub_info, "McpServer", info_fields);
struct servers_extra {
	struct list servers;
};
static const struct field extra_fields[] = {
	LIST(servers_extra, servers, 0, "What is known of each.", .item = T_OBJ,
	     .of = &info_schema),
};
static const struct schema extra_schema = SCHEMA(servers_extra, "McpServers", extra_fields);

enum { SERVERS_MAX = 200 };

static struct hub_info builtin_info(struct call *call, const struct tool_entry *entry)
{
	char why[400];
	struct hub_info info = { .name = entry->table->server,
				 .kind = "builtin",
				 .status = "ready",
				 .hidden = entry->table->hidden };
	if (!tool_is_usable(entry, why, sizeof why)) {
		info.status = "unavailable";
		info.reason = arena_strdup(call->arena, why);
	}
	return info;
}

/* Built-in servers, then the others. */
static size_t all_servers(struct call *call, struct hub_info *infos)
{
	size_t count = 0, tools;
	const struct tool_entry *entries = tool_entries(call->server, &tools);
	for (size_t i = 0; i < tools; i++) {
		bool known = false;
		for (size_t j = 0; j < count; j++)
			known = known || !strcmp(infos[j].name, entries[i].table->server);
		if (!known && count < SERVERS_MAX)
			infos[count++] = builtin_info(call, &entries[i]);
	}
	return count + hub_list(call->arena, infos + count, SERVERS_MAX - count);
}

static int list_servers(struct call *call, const void *in, struct err *err)
{
	const struct servers_request *request = in;
	struct hub_info *infos = arena_alloc(call->arena, SERVERS_MAX * sizeof *infos);
	const char **names = arena_alloc(call->arena, SERVERS_MAX * sizeof *names);
	size_t count = all_servers(call, infos), shown = 0;
	for (size_t i = 0; i < count; i++)
		if (!infos[i].hidden || request->include_hidden) {
			infos[shown] = infos[i];
			names[shown++] = infos[i].name;
		}
	struct servers_extra extra = { { shown, infos } };
	call->extra = &extra;
	return call_reply(call, &(struct list){ shown, names }, err);
}

struct tool_request {
	const char *server_name, *tool_name;
	struct text arguments;
};
static const struct field list_fields[] = {
	STR(tool_request, server_name, PATH | REQUIRED, "Name of the server."),
};
static const struct schema list_schema = SCHEMA(tool_request, "McpToolsRequest", list_fields);
static const struct field call_fields[] = {
	STR(tool_request, server_name, PATH | REQUIRED, "Name of the server."),
	STR(tool_request, tool_name, PATH | REQUIRED, "Name of the tool."),
	TEXT(tool_request, arguments, OPTIONAL, "The tool's arguments."),
};
static const struct schema call_schema = SCHEMA(tool_request, "McpToolCall", call_fields);

struct tools_result {
	struct list tools;
	const char *next_cursor;
	json_t *meta;
};
static const struct field tools_fields[] = {
	LIST(tools_result, tools, 0,
	     "The tools, as MCP's tools/list has them: `name`, `description`, `inputSchema` and more.",
	     .item = T_JSON),
	NAMED("nextCursor", STR, tools_result, next_cursor, NULLABLE,
	      "Always null: all tools come at once."),
	NAMED("_meta", JSON, tools_result, meta, NULLABLE, "Always null."),
};
static const struct schema tools_schema = SCHEMA(tools_result, "ListToolsResult", tools_fields);
static const struct field tools_data = { .type = T_OBJ, .of = &tools_schema };

struct call_result {
	struct list content;
	json_t *structured, *meta;
	bool is_error;
};
static const struct field result_fields[] = {
	LIST(call_result, content, 0,
	     "What the tool gave, each with a `type`: `text`; `image` or `audio`, with `data` and `mimeType`; "
	     "`resource`; `resource_link`.",
	     .item = T_JSON),
	NAMED("structuredContent", JSON, call_result, structured, NULLABLE,
	      "The same as a structure, where the tool has one."),
	NAMED("isError", BOOL, call_result, is_error, 0, "Whether the tool failed."),
	NAMED("_meta", JSON, call_result, meta, NULLABLE, "What else the tool's server says."),
};
static const struct schema result_schema = SCHEMA(call_result, "CallToolResult", result_fields);
static const struct field result_data = { .type = T_OBJ, .of = &result_schema };

/* Something is wrong with a server: handled, and told. */
static int unavailable(struct call *call, const char *why, struct err *err)
{
	call->failed = true;
	call->message = arena_strdup(call->arena, why);
	return call_reply(call, NULL, err);
}

static bool is_builtin(struct call *call, const char *name)
{
	size_t count;
	const struct tool_entry *entries = tool_entries(call->server, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(entries[i].table->server, name))
			return true;
	return false;
}

static void put_tools(struct jw *jw, const char *name, struct call *call, const json_t *others)
{
	size_t count, i;
	json_t *tool;
	const struct tool_entry *entries = tool_entries(call->server, &count);
	jw_open(jw, '{');
	jw_key(jw, "tools");
	jw_open(jw, '[');
	for (i = 0; i < count && !others; i++)
		if (tool_wanted(&entries[i], name))
			jw_raw(jw, entries[i].json, entries[i].json_len);
	json_array_foreach(others, i, tool)
		jw_json(jw, tool);
	jw_close(jw, ']');
	jw_key_str(jw, "nextCursor", NULL);
	jw_key_str(jw, "_meta", NULL);
	jw_close(jw, '}');
}

static int list_tools(struct call *call, const void *in, struct err *err)
{
	const struct tool_request *request = in;
	json_t *others = NULL;
	struct err why;
	if (!is_builtin(call, request->server_name)) {
		if (!hub_has(request->server_name))
			return err_set(err, ERR_NOT_FOUND, "there is no MCP server '%.100s'",
				       request->server_name);
		others = hub_server_tools(call->server, request->server_name, &why);
		if (!others)
			return unavailable(call, why.msg, err);
	}
	put_tools(call_reply_begin(call, err), request->server_name, call, others);
	json_decref(others);
	return call_reply_end(call, err);
}

/* Puts an exchange's result into the envelope. */
static int put_result(struct call *call, json_t *result, struct err *err)
{
	struct jw *jw = call_reply_begin(call, err);
	jw_open(jw, '{');
	jw_key(jw, "content");
	jw_json(jw, json_object_get(result, "content"));
	jw_key(jw, "structuredContent");
	jw_json(jw, json_object_get(result, "structuredContent"));
	jw_key_bool(jw, "isError", json_is_true(json_object_get(result, "isError")));
	jw_key(jw, "_meta");
	jw_json(jw, json_object_get(result, "_meta"));
	jw_close(jw, '}');
	return call_reply_end(call, err);
}

/* Waits for a tool in a thread of its own, so that a caller who leaves ends it. */
static int await_tool(struct call *call, struct exchange *ex, struct mcp_stream *stream,
		      struct err *err)
{
	const struct wait wait = { INT64_MAX, call->sink->client_fd, -1 };
	enum wake wake = WAKE_READY;
	uint64_t turn = stream_take(stream);
	exchange_start(ex);
	for (struct stream_state state;
	     wake == WAKE_READY && !(state = stream_look(stream, turn)).over;)
		wake = stream_wait(stream, &state, &wait);
	if (wake != WAKE_READY)
		exchange_cancel(ex);
	return wake_err(wake, err);
}

static int reply_tool(struct call *call, const struct exchange *ex, struct mcp_stream *stream,
		      struct err *err)
{
	if (ex->error == RPC_PARAMS || ex->error == RPC_NO_METHOD)
		return err_set(err, ERR_NOT_FOUND, "%s", ex->reason);
	if (ex->error)
		return unavailable(call, ex->reason, err);
	struct stream_message *message = stream_next(stream, 0);
	json_t *value = message ? json_parse(message->text, message->len, NULL) : NULL;
	int result = value ? put_result(call, json_object_get(value, "result"), err)
			   : unavailable(call, "the call was cancelled", err);
	json_decref(value);
	free(message);
	return result;
}

static int call_tool(struct call *call, const void *in, struct err *err)
{
	const struct tool_request *request = in;
	json_t *args = request->arguments.len ? json_parse((char *)request->arguments.data,
							   request->arguments.len, err)
					      : json_object();
	if (!args)
		return err_set(err, ERR_INVALID, "the body must be a JSON object of arguments");
	if (!json_is_object(args)) {
		json_decref(args);
		return err_set(err, ERR_INVALID, "the body must be a JSON object of arguments");
	}
	if (!is_builtin(call, request->server_name) && !hub_has(request->server_name)) {
		json_decref(args);
		return err_set(err, ERR_NOT_FOUND, "there is no MCP server '%.100s'",
			       request->server_name);
	}
	struct exchange_from from = { .server = call->server,
				      .revision = MCP_NEWEST_SESSION,
				      .base_url = call->base_url,
				      .inside = call->inside,
				      .within = request->server_name };
	struct mcp_stream *stream = stream_new(1, false);
	json_t *message = json_pack("{s:i,s:s,s:{s:s,s:o}}", "id", 1, "method", "tools/call",
				    "params", "name", request->tool_name, "arguments", args);
	struct exchange *ex = exchange_new(&from, stream, message);
	int result = await_tool(call, ex, stream, err);
	if (result == 0)
		result = reply_tool(call, ex, stream, err);
	exchange_unref(ex);
	stream_unref(stream);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/mcp/servers", list_servers, &servers_schema, &names_data, "List MCP servers",
	  "Those that are built in, and those of the configuration. `servers` has for each whether "
	  "it is available, and if not, why.",
	  .extra = &extra_schema },
	{ "GET", "/v1/mcp/{server_name}/tools", list_tools, &list_schema, &tools_data,
	  "List a server's tools", "A server of the configuration is started for it." },
	{ "POST", "/v1/mcp/{server_name}/tools/{tool_name}", call_tool, &call_schema, &result_data,
	  "Call a tool",
	  "The body is the object of its arguments. `data.isError` is true when the tool failed.",
	  .flags = RAW | RUNS },
};
const struct route_group mcp_servers_group = { "mcp", "MCP servers and their tools, without MCP.",
					       routes, COUNT(routes) };
