#include "mcp/tool.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "config/config.h"
#include "journal/journal.h"
#include "mcp/bridge.h"
#include "mcp/exchange.h"
#include "mcp/hub.h"
#include "mcp/session.h"
#include "net/route.h"
#include "net/server.h"

enum { SCHEMA_MAX = 1 << 20, SCHEMAS_MAX = 64 };

const struct tool_table *tool_extra;

/* ---- schemas ---- */

struct mentioned {
	const struct schema *all[SCHEMAS_MAX];
	size_t count;
};

static bool note(const struct schema *schema, void *arg)
{
	struct mentioned *mentioned = arg;
	for (size_t i = 0; i < mentioned->count; i++)
		if (mentioned->all[i] == schema)
			return false;
	if (mentioned->count == SCHEMAS_MAX)
		return false;
	mentioned->all[mentioned->count++] = schema;
	return true;
}

/* The document's references point to its components; a tool's schema stands alone. */
static json_t *relocate(json_t *value)
{
	static const char from[] = "#/components/schemas/";
	const char *key, *ref = json_string_value(json_object_get(value, "$ref"));
	size_t i;
	json_t *child;
	void *next;
	if (ref && !strncmp(ref, from, sizeof from - 1))
		json_object_set_new(value, "$ref",
				    json_sprintf("#/$defs/%s", ref + sizeof from - 1));
	json_object_del(value, "discriminator"); /* OpenAPI's, not JSON Schema's */
	json_object_foreach_safe(value, next, key, child)
		relocate(child);
	json_array_foreach(value, i, child)
		relocate(child);
	return value;
}

static json_t *parse(struct jw *jw)
{
	json_t *value = json_parse(jw->out.data, jw->out.len, NULL);
	jw_done(jw);
	return value;
}

static json_t *place_schema(const struct schema *schema, unsigned place, bool answer)
{
	struct jw jw;
	jw_init(&jw, SCHEMA_MAX);
	desc_schema(schema, place, answer, &jw);
	return parse(&jw);
}

static json_t *definition(const struct mentioned *mentioned, size_t which, bool answer)
{
	struct jw jw;
	jw_init(&jw, SCHEMA_MAX);
	desc_schema_among(mentioned->all[which], mentioned->all, mentioned->count, answer, &jw);
	return parse(&jw);
}

/* Adds what the schemas that one mentions are, below "$defs". */
static void put_definitions(json_t *to, const struct schema *schema, bool answer)
{
	struct mentioned mentioned = { 0 };
	desc_walk(schema, note, &mentioned);
	json_t *definitions = json_object();
	for (size_t i = 1; i < mentioned.count; i++)
		json_object_set_new(definitions, mentioned.all[i]->name,
				    definition(&mentioned, i, answer));
	if (json_object_size(definitions))
		json_object_set(to, "$defs", definitions);
	json_decref(definitions);
}

/* The arguments of a tool: the fields of a request, wherever they stand in it. */
static json_t *input_schema(const struct schema *schema)
{
	static const unsigned places[] = { PATH, QUERY };
	if (!schema)
		return json_pack("{s:s,s:{}}", "type", "object", "properties");
	json_t *all = place_schema(schema, 0, false);
	if (schema->variants) {
		json_object_set_new(all, "type", json_string("object"));
	} else {
		for (size_t i = 0; i < COUNT(places); i++) {
			json_t *some = place_schema(schema, places[i], false);
			json_object_update(json_object_get(all, "properties"),
					   json_object_get(some, "properties"));
			json_t *required = json_object_get(some, "required");
			if (required && !json_object_get(all, "required"))
				json_object_set(all, "required", required);
			else if (required)
				json_array_extend(json_object_get(all, "required"), required);
			json_decref(some);
		}
	}
	json_object_del(all, "title");
	put_definitions(all, schema, false);
	return relocate(all);
}

/* What is structured must be an object: anything else becomes its member "result". */
static json_t *output_schema(const struct schema *own, const struct field *data)
{
	const struct schema *of = own ? own : data ? data->of : NULL;
	json_t *all;
	if (own || (data && data->type == T_OBJ)) {
		all = place_schema(of, 0, true);
		json_object_del(all, "title");
	} else if (data && data->type == T_LIST) {
		struct jw jw;
		jw_init(&jw, SCHEMA_MAX);
		desc_field_schema(data, true, &jw);
		all = json_pack("{s:s,s:{s:o},s:[s]}", "type", "object", "properties", "result",
				parse(&jw), "required", "result");
	} else {
		return NULL;
	}
	if (of) {
		struct schema around = { .name = "",
					 .fields = &(struct field){ .of = of },
					 .count = 1 };
		put_definitions(all, own || data->type == T_OBJ ? of : &around, true);
	}
	return relocate(all);
}

/* ---- the registry ---- */

static struct {
	pthread_mutex_t lock;
	struct tool_entry *entries;
	size_t count;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static char *dump(const json_t *value)
{
	struct jw jw;
	jw_init(&jw, SCHEMA_MAX);
	jw_json(&jw, value);
	return jw.out.data;
}

static json_t *annotations(const struct tool *tool)
{
	unsigned f = tool->flags;
	json_t *hints = json_pack("{s:s,s:b,s:b}", "title", tool->title, "readOnlyHint",
				  !!(f & TOOL_READS), "openWorldHint", !!(f & TOOL_OUTSIDE));
	if (!(f & TOOL_READS)) {
		json_object_set_new(hints, "destructiveHint", json_boolean(f & TOOL_DESTROYS));
		json_object_set_new(hints, "idempotentHint", json_boolean(f & TOOL_REPEATABLE));
	}
	return hints;
}

static void describe(struct tool_entry *entry)
{
	const struct tool *tool = entry->tool;
	const struct schema *in = tool->in ? tool->in : entry->route ? entry->route->in : NULL;
	json_t *input = tool->schema_json ? json_loads(tool->schema_json, 0, NULL)
					  : input_schema(tool->call && !tool->in ? NULL : in);
	json_t *output =
		tool->out || (!tool->call && entry->route)
			? output_schema(tool->out, entry->route ? entry->route->data : NULL)
			: NULL;
	json_t *all = json_pack("{s:s,s:s,s:s,s:O,s:o}", "name", entry->name, "title", tool->title,
				"description", tool->help, "inputSchema", input, "annotations",
				annotations(tool));
	if (output)
		json_object_set(all, "outputSchema", output);
	entry->json = dump(all);
	entry->json_len = strlen(entry->json);
	json_decref(all);
	json_decref(input);
	json_decref(output);
}

static char *name_in(const struct tool_table *table, const struct tool *tool)
{
	const char *name = table->by_alias ? tool->aliases : tool->name;
	return xstrndup(name, strcspn(name, ","));
}

static void add_table(struct server *server, const struct tool_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct tool *tool = &table->tools[i];
		const struct route *route = tool->route ? bridge_find(server->groups, tool->route)
							: NULL;
		if (tool->route && !route)
			continue;
		registry.entries =
			xrealloc(registry.entries, (registry.count + 1) * sizeof *registry.entries);
		struct tool_entry *entry = &registry.entries[registry.count++];
		*entry = (struct tool_entry){
			.tool = tool, .table = table, .name = name_in(table, tool), .route = route
		};
		describe(entry);
	}
}

const struct tool_entry *tool_entries(struct server *server, size_t *ret_count)
{
	pthread_mutex_lock(&registry.lock);
	if (!registry.entries) {
		for (const struct tool_table *const *table = tool_tables; *table; table++)
			add_table(server, *table);
		if (tool_extra)
			add_table(server, tool_extra);
	}
	pthread_mutex_unlock(&registry.lock);
	*ret_count = registry.count;
	return registry.entries;
}

void tool_forget_all(void)
{
	for (size_t i = 0; i < registry.count; i++)
		free(registry.entries[i].json), free(registry.entries[i].name);
	free(registry.entries);
	registry.entries = NULL;
	registry.count = 0;
}

static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		if (n == len && !strncmp(at, name, n))
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

static bool is_of(const struct tool_entry *entry, const char *server)
{
	return !server || !strcmp(entry->table->server, server);
}

static const struct tool_entry *find_exactly(struct server *server, const char *of,
					     const char *name)
{
	size_t count;
	const struct tool_entry *entries = tool_entries(server, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(entries[i].name, name) && is_of(&entries[i], of))
			return &entries[i];
	for (size_t i = 0; i < count; i++)
		if (is_listed(entries[i].tool->aliases, name) && is_of(&entries[i], of))
			return &entries[i];
	return NULL;
}

/* A name is known with and without the server's name before it. */
const struct tool_entry *tool_find(struct server *server, const char *of, const char *name)
{
	char longer[160];
	const struct tool_entry *found = find_exactly(server, of, name);
	if (!found && !strncmp(name, "sandbox_", 8))
		found = find_exactly(server, of, name + 8);
	if (!found && snprintf(longer, sizeof longer, "sandbox_%s", name) < (int)sizeof longer)
		found = find_exactly(server, of, longer);
	return found;
}

bool tool_is_usable(const struct tool_entry *entry, char *ret_why, size_t room)
{
	*ret_why = 0;
	return !entry->table->is_usable || entry->table->is_usable(ret_why, room);
}

bool tool_wanted(const struct tool_entry *entry, const char *only)
{
	char why[400];
	const struct tool_table *table = entry->table;
	if (only && *only ? strcmp(table->server, only) != 0
			  : table->by_alias || entry->tool->flags & TOOL_ALIAS)
		return false;
	return tool_is_usable(entry, why, sizeof why);
}

/* ---- what a tool gives ---- */

void tool_text(struct tool_use *use, const char *text, size_t len)
{
	struct jw jw;
	jw_init(&jw, len * 6 + 2); /* any bytes become UTF-8 */
	jw_text(&jw, text, len);
	json_array_append_new(use->content,
			      json_pack("{s:s,s:o}", "type", "text", "text", parse(&jw)));
}

void tool_image(struct tool_use *use, const char *type, const void *data, size_t len)
{
	auto_buf struct buf coded = BUF(len / 3 * 4 + 8);
	base64_encode(&coded, data, len);
	bool sound = !strncmp(type, "audio/", 6);
	json_array_append_new(use->content,
			      json_pack("{s:s,s:s,s:s}", "type", sound ? "audio" : "image", "data",
					coded.data ? coded.data : "", "mimeType", type));
}

static void put_json_text(struct tool_use *use, const json_t *value)
{
	struct jw jw;
	jw_init(&jw, STREAM_REPLY_MAX);
	jw_json(&jw, value);
	if (!jw_failed(&jw))
		tool_text(use, jw.out.data, jw.out.len);
	jw_done(&jw);
}

void tool_structured(struct tool_use *use, json_t *value)
{
	json_decref(use->structured);
	use->structured = value;
	put_json_text(use, value);
}

/* Base64 as MCP has it: without the lines that others break it into. */
static json_t *one_line(const char *coded)
{
	auto_free char *copy = xstrdup(coded);
	char *to = copy;
	for (const char *at = coded; *at; at++)
		if (!strchr("\r\n", *at))
			*to++ = *at;
	return json_stringn(copy, (size_t)(to - copy));
}

void tool_restructure(struct tool_use *use, json_t *value)
{
	json_t *rest = use->content;
	use->content = json_array();
	tool_structured(use, value);
	json_array_remove(rest, 0);
	json_array_extend(use->content, rest);
	json_decref(rest);
}

void tool_pictures(struct tool_use *use, const json_t *data)
{
	static const char *const types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };
	for (size_t i = 0; i < COUNT(types); i++) {
		const char *coded = json_string_value(json_object_get(data, types[i]));
		if (coded)
			json_array_append_new(use->content,
					      json_pack("{s:s,s:o,s:s}", "type", "image", "data",
							one_line(coded), "mimeType", types[i]));
	}
}

int tool_failed(struct tool_use *use, const char *format, ...)
{
	char text[1200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	use->failed = true;
	tool_text(use, text, strlen(text));
	return 0;
}

json_t *tool_path(struct tool_use *use, const char *path)
{
	const char *workspace = use->ex->from.server->config->workspace;
	if (!path || *path == '/' || *path == '~')
		return path ? json_string(path) : NULL;
	if (!strcmp(path, ".") || !*path)
		return json_string(workspace);
	return json_sprintf("%s/%s", workspace, !strncmp(path, "./", 2) ? path + 2 : path);
}

/* ---- through a route ---- */

static void take_envelope(struct tool_use *use, const json_t *envelope)
{
	const json_t *data = json_object_get(envelope, "data");
	const char *message = json_string_value(json_object_get(envelope, "message"));
	const char *hint = json_string_value(json_object_get(envelope, "hint"));
	use->failed = json_is_false(json_object_get(envelope, "success"));
	if (use->failed) {
		tool_failed(use, "%s", message ? message : "failed");
		if (json_is_object(data))
			put_json_text(use, data);
	} else if (json_is_string(data)) {
		tool_text(use, json_string_value(data), json_string_length(data));
	} else if (json_is_object(data)) {
		tool_structured(use, json_deep_copy(data));
	} else if (json_is_array(data)) {
		tool_structured(use, json_pack("{s:O}", "result", data));
	} else {
		tool_text(use, message ? message : "done", strlen(message ? message : "done"));
	}
	if (hint)
		tool_text(use, hint, strlen(hint));
}

/* Calls a route; NULL, with the failure told in `use`, or the JSON it answered. What is not JSON is
 * put into `use`: *ret_taken. */
static json_t *ask_route(struct tool_use *use, const struct route *route, const json_t *args,
			 bool *ret_taken, struct err *err)
{
	struct bridge_answer answer;
	json_t *value = NULL;
	*ret_taken = true;
	if (bridge_call(use->ex, route, args, &answer, err) < 0) {
		tool_failed(use, "%s", err->msg);
		return NULL;
	}
	const char *data = answer.body.data ? answer.body.data : "";
	if (!strncmp(answer.type, "application/json", 16)) {
		value = json_parse(answer.body.data, answer.body.len, err);
		*ret_taken = !value;
		if (!value)
			tool_failed(use, "the answer could not be read: %s", err->msg);
	} else if (!strncmp(answer.type, "image/", 6) || !strncmp(answer.type, "audio/", 6)) {
		tool_image(use, answer.type, data, answer.body.len);
	} else {
		tool_text(use, data, answer.body.len);
	}
	buf_done(&answer.body);
	return value;
}

int tool_route(struct tool_use *use, const char *route, json_t *args, struct err *err)
{
	const struct route *found = bridge_find(use->ex->from.server->groups, route);
	bool taken = true;
	json_t *value = NULL;
	if (!found)
		tool_failed(use, "this sandbox has no %s", route);
	else
		value = ask_route(use, found, args, &taken, err);
	if (!taken && found->flags & BARE)
		tool_structured(use, json_is_object(value) ? json_deep_copy(value)
							   : json_pack("{s:O}", "result", value));
	else if (!taken)
		take_envelope(use, value);
	json_decref(value);
	json_decref(args);
	return 0;
}

/* A hint alone does not say what it is for: the message does. */
static const char *hint_of(struct arena *arena, const json_t *envelope)
{
	const char *message = json_string_value(json_object_get(envelope, "message"));
	const char *hint = json_string_value(json_object_get(envelope, "hint"));
	return hint && message ? arena_printf(arena, "%s. %s", message, hint) : hint;
}

json_t *tool_ask(struct tool_use *use, const char *route, json_t *args, struct err *err)
{
	const struct route *found = bridge_find(use->ex->from.server->groups, route);
	bool taken = true;
	json_t *value = NULL, *data = NULL;
	if (!found)
		tool_failed(use, "this sandbox has no %s", route);
	else
		value = ask_route(use, found, args, &taken, err);
	if (!taken && json_is_false(json_object_get(value, "success")))
		take_envelope(use, value);
	else if (!taken)
		data = json_incref(found->flags & BARE ? value : json_object_get(value, "data"));
	use->hint = data && !(found->flags & BARE) ? hint_of(use->arena, value) : NULL;
	json_decref(value);
	json_decref(args);
	return data;
}

int tool_file(struct tool_use *use, const char *route, const json_t *args, const char *type,
	      struct bridge_answer *ret, struct err *err)
{
	const struct route *found = bridge_find(use->ex->from.server->groups, route);
	if (!found || bridge_call(use->ex, found, args, ret, err) < 0) {
		tool_failed(use, "%s", found ? err->msg : "this sandbox has no such route");
		return -1;
	}
	if (!strncmp(ret->type, type, strlen(type)))
		return 0;
	json_t *envelope = json_parse(ret->body.data, ret->body.len, NULL);
	take_envelope(use, envelope);
	use->failed = true;
	json_decref(envelope);
	buf_done(&ret->body);
	return -1;
}

/* ---- calling ---- */

static bool is_named(const json_t *args, const char *key)
{
	const json_t *id = json_object_get(args, key);
	return id && !json_is_null(id) && !(json_is_string(id) && !json_string_length(id));
}

/* The arguments of a route; it knows a session by either name. */
static json_t *route_arguments(const struct tool *tool, const struct tool_use *use)
{
	json_t *args = json_deep_copy(use->args);
	const char *own = session_own(use->ex->from.session);
	if (tool->flags & TOOL_OWN && own && !is_named(args, "id") && !is_named(args, "session_id"))
		json_object_set_new(args, "id", json_string(own));
	return args;
}

int tool_run(const struct tool_entry *entry, struct tool_use *use)
{
	const struct tool *tool = entry->tool;
	struct err err = { 0 };
	void *in = NULL;
	if (!tool->call)
		return tool_route(use, tool->route, route_arguments(tool, use), &err);
	if (tool->in && bridge_decode(tool->in, use->args, use->arena, &in, &err) < 0)
		return tool_failed(use, "%s", err.msg);
	if (tool->call(use, in, &err) < 0 && !use->ex->error)
		return tool_failed(use, "%s", err.msg);
	return use->ex->error ? -1 : 0;
}

bool tool_is_slow(struct server *server, const char *name)
{
	const struct tool_entry *entry = tool_find(server, NULL, name);
	return !entry || entry->tool->flags & TOOL_SLOW;
}

static json_t *result_of(struct tool_use *use)
{
	if (use->whole)
		return use->whole;
	json_t *result = json_pack("{s:O}", "content", use->content);
	if (use->structured && use->ex->from.revision >= MCP_2025_06_18)
		json_object_set(result, "structuredContent", use->structured);
	if (use->failed)
		json_object_set_new(result, "isError", json_true());
	return result;
}

static int call_named(struct exchange *ex, const char *server, const char *name, const json_t *args,
		      json_t **ret_result, struct err *err)
{
	const struct tool_entry *entry = tool_find(ex->from.server, server, name);
	if (!entry)
		return hub_call(ex, server, name, args, ret_result, err);
	json_t *none = json_object();
	struct tool_use use = { .ex = ex,
				.arena = &ex->arena,
				.args = json_is_object(args) ? args : none,
				.content = json_array() };
	int result = 0;
	if (args && !json_is_object(args) && !json_is_null(args))
		tool_failed(&use, "Invalid arguments: they must be an object");
	else
		result = tool_run(entry, &use);
	if (result == 0)
		*ret_result = result_of(&use);
	else
		json_decref(use.whole);
	json_decref(use.structured);
	json_decref(use.content);
	json_decref(none);
	return result;
}

int tool_call_named(struct exchange *ex, const char *server, const char *name, const json_t *args,
		    json_t **ret_result, struct err *err)
{
	int64_t began = clock_ms();
	int result = call_named(ex, server, name, args, ret_result, err);
	bool failed = result < 0 || json_is_true(json_object_get(*ret_result, "isError"));
	journal_add(JOURNAL_TOOL_CALLED,
		    &(struct journal_tool){ server, name, failed, clock_ms() - began });
	return result;
}
