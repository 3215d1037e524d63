#include "mcp/method.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "browser/chromium.h"
#include "config/config.h"
#include "config/reach.h"
#include "mcp/exchange.h"
#include "mcp/hub.h"
#include "mcp/page.h"
#include "mcp/prompt.h"
#include "mcp/resource.h"
#include "mcp/session.h"
#include "mcp/tool.h"
#include "net/server.h"

enum { COMPLETIONS_MAX = 100, HOUR_MS = 3600000, MINUTE_MS = 60000, NOW_MS = 0 };

static const char served[] =
	"A Linux system: run commands, code and programs, read and edit files; everything shares one "
	"file system. This server does not isolate what you do: unless you know that the system is "
	"yours to change (a container, a virtual machine), treat it as somebody's machine. ";

static const char sandboxed[] =
	"A Linux sandbox of your own: run commands, code and programs, read and edit files; "
	"everything shares one file system. ";

static const char instructions[] =
	"Start with sandbox_get_context to see what is installed. "
	"Use sandbox_execute_bash for one-off commands (cd and export do not last), "
	"sandbox_shell_exec for a terminal that remembers, sandbox_str_replace_editor for edits. Long "
	"commands: run_in_background, then sandbox_bash_output. The resource sandbox://mcp-servers "
	"lists further servers, and why any of them is unavailable.";

static const char browsing[] =
	"There is a web browser on a desktop: sandbox_browser_navigate opens a page and lists what can be "
	"clicked by index, sandbox_browser_get_markdown reads it, sandbox_browser_screenshot shows it; "
	"sandbox_browser_gui_screenshot and sandbox_browser_gui_execute_action are for the whole screen. "
	"Its downloads are files in ~/Downloads. ";

/* ---- the beginning ---- */

/* A model that believes it is in a sandbox does what it would not do to somebody's machine. */
static void put_instructions(struct exchange *ex)
{
	const struct config *config = ex->from.server->config;
	auto_free char *machine = xasprintf(
		"This is NOT a sandbox: commands, code and edits of files run as the user '%s' of this "
		"machine, without isolation. They can read, change and delete all that this user can, and "
		"reach its network. The workspace is %s: stay below it unless you are asked to leave it, "
		"and ask before you do what cannot be undone. ",
		config->user, config->workspace);
	char why[400];
	auto_buf struct buf text = BUF(65536);
	buf_printf(&text, "%s%s %s",
		   config->unisolated         ? machine
		   : getenv("AIO_SANDBOX_ID") ? sandboxed
					      : served,
		   instructions, chromium_is_usable(why, sizeof why) ? browsing : "");
	reach_explain(config->network, &text);
	jw_key(&ex->jw, "instructions");
	text.data[text.len - 1] = 0; /* a blank or a newline */
	jw_str(&ex->jw, text.data);
}

static void put_server_info(struct jw *jw)
{
	jw_open(jw, '{');
	jw_key_str(jw, "name", "aiobox");
	jw_key_str(jw, "title", "AIO Sandbox");
	jw_key_str(jw, "version", AIO_VERSION);
	jw_close(jw, '}');
}

static void put_capability(struct jw *jw, const char *name, const char *a, const char *b)
{
	jw_key(jw, name);
	jw_open(jw, '{');
	if (a)
		jw_key_bool(jw, a, true);
	if (b)
		jw_key_bool(jw, b, true);
	jw_close(jw, '}');
}

static void put_capabilities(struct exchange *ex)
{
	struct jw *jw = &ex->jw;
	jw_key(jw, "capabilities");
	jw_open(jw, '{');
	put_capability(jw, "tools", "listChanged", NULL);
	put_capability(jw, "resources", "subscribe", NULL);
	put_capability(jw, "prompts", NULL, NULL);
	put_capability(jw, "logging", NULL, NULL);
	if (ex->from.revision >= MCP_2025_03_26)
		put_capability(jw, "completions", NULL, NULL);
	jw_close(jw, '}');
}

static int initialize(struct exchange *ex, struct err *err)
{
	(void)err;
	const char *wanted = json_string_value(json_object_get(ex->params, "protocolVersion"));
	int revision = mcp_revision_find(wanted);
	if (revision < 0 || revision > MCP_NEWEST_SESSION)
		revision = MCP_NEWEST_SESSION;
	ex->from.revision = (enum mcp_revision)revision;
	if (ex->from.session)
		session_begin(ex->from.session, ex->from.revision,
			      json_object_get(ex->params, "capabilities"));
	jw_key_str(&ex->jw, "protocolVersion", mcp_revision_names[revision]);
	put_capabilities(ex);
	jw_key(&ex->jw, "serverInfo");
	put_server_info(&ex->jw);
	put_instructions(ex);
	return 0;
}

static int discover(struct exchange *ex, struct err *err)
{
	(void)err;
	jw_key(&ex->jw, "supportedVersions");
	jw_open(&ex->jw, '[');
	jw_str(&ex->jw, mcp_revision_names[MCP_2026_07_28]);
	jw_close(&ex->jw, ']');
	put_capabilities(ex);
	put_instructions(ex);
	jw_key(&ex->jw, "_meta");
	jw_open(&ex->jw, '{');
	jw_key(&ex->jw, "io.modelcontextprotocol/serverInfo");
	put_server_info(&ex->jw);
	jw_close(&ex->jw, '}');
	return 0;
}

static int ping(struct exchange *ex, struct err *err)
{
	(void)ex;
	(void)err;
	return 0;
}

static int set_level(struct exchange *ex, struct err *err)
{
	(void)err;
	const char *level = json_string_value(json_object_get(ex->params, "level"));
	for (int i = 0; level && exchange_levels[i]; i++)
		if (!strcmp(exchange_levels[i], level)) {
			if (ex->from.session)
				session_set_log_level(ex->from.session, i);
			return 0;
		}
	return exchange_fail(ex, RPC_PARAMS,
			     "level must be debug, info, notice, warning, error, "
			     "critical, alert or emergency");
}

/* ---- tools ---- */

struct method_listing {
	struct exchange *ex;
	size_t from, count;
};

static bool on_page(struct method_listing *listing)
{
	size_t i = listing->count++;
	return i >= listing->from && i < listing->from + PAGE_SIZE;
}

/* A tool of another server, under the name it has here. */
static void list_other(const char *server, const char *name, const json_t *tool, void *arg)
{
	(void)server;
	struct method_listing *listing = arg;
	struct jw *jw = &listing->ex->jw;
	const char *key;
	json_t *value;
	if (!on_page(listing))
		return;
	jw_open(jw, '{');
	jw_key_str(jw, "name", name);
	json_object_foreach((json_t *)tool, key, value) {
		if (!strcmp(key, "name"))
			continue;
		jw_key(jw, key);
		jw_json(jw, value);
	}
	jw_close(jw, '}');
}

static int list_tools(struct exchange *ex, struct err *err)
{
	(void)err;
	struct method_listing listing = { ex, 0, 0 };
	size_t count;
	if (page_start(ex, &listing.from) < 0)
		return -1;
	const struct tool_entry *entries = tool_entries(ex->from.server, &count);
	jw_key(&ex->jw, "tools");
	jw_open(&ex->jw, '[');
	for (size_t i = 0; i < count; i++)
		if (tool_wanted(&entries[i], ex->from.only) && on_page(&listing))
			jw_raw(&ex->jw, entries[i].json, entries[i].json_len);
	hub_tools(ex->from.server, ex->from.only, list_other, &listing);
	jw_close(&ex->jw, ']');
	page_end(ex, listing.from, listing.count);
	return 0;
}

static bool lists_slowly(const struct exchange *ex)
{
	return hub_would_wait(ex->from.only);
}

static const char *tool_name(const struct exchange *ex)
{
	return json_string_value(json_object_get(ex->params, "name"));
}

static bool calls_slowly(const struct exchange *ex)
{
	const char *name = tool_name(ex);
	return name && (ex->from.within || tool_is_slow(ex->from.server, name));
}

/* The samples of the guides look for a tool's failure under "error". */
static int fail_plainly(struct exchange *ex, json_t *result)
{
	const json_t *first = json_array_get(json_object_get(result, "content"), 0);
	const char *text = json_string_value(json_object_get(first, "text"));
	ex->error_data = result;
	return exchange_fail(ex, RPC_FAILED, "%s", text ? text : "the tool failed");
}

static int call_tool(struct exchange *ex, struct err *err)
{
	const char *name = tool_name(ex), *key;
	json_t *result = NULL, *value;
	if (!name)
		return exchange_fail(ex, RPC_PARAMS, "name is missing: it is the name of a tool");
	if (tool_call_named(ex, ex->from.within, name, json_object_get(ex->params, "arguments"),
			    &result, err) < 0)
		return -1;
	if (ex->from.bare && json_is_true(json_object_get(result, "isError")))
		return fail_plainly(ex, result);
	json_object_foreach(result, key, value) {
		if (!strcmp(key, "resultType")) {
			ex->result_type = arena_strdup(&ex->arena, json_string_value(value));
			continue;
		}
		jw_key(&ex->jw, key);
		jw_json(&ex->jw, value);
	}
	json_decref(result);
	return 0;
}

/* ---- subscriptions ---- */

static int subscribe(struct exchange *ex, struct err *err)
{
	const char *uri = json_string_value(json_object_get(ex->params, "uri"));
	if (!uri || strlen(uri) > 8192)
		return exchange_fail(ex, RPC_PARAMS, "uri is missing or too long");
	if (!ex->from.session)
		return exchange_fail(ex, RPC_FAILED,
				     "a subscription needs a session: send initialize first, and "
				     "Mcp-Session-Id with every request");
	return session_subscribe(ex->from.session, uri, err);
}

static int unsubscribe(struct exchange *ex, struct err *err)
{
	(void)err;
	const char *uri = json_string_value(json_object_get(ex->params, "uri"));
	if (!uri)
		return exchange_fail(ex, RPC_PARAMS, "uri is missing");
	if (ex->from.session)
		session_unsubscribe(ex->from.session, uri);
	return 0;
}

/* Lasts until the client leaves or the server stops. */
static int listen_to(struct exchange *ex, struct err *err)
{
	(void)err;
	if (!ex->from.listens)
		return exchange_fail(ex, RPC_INVALID, "this needs Accept: text/event-stream");
	struct session_listener *listener =
		session_listen(ex->stream, ex->id, json_object_get(ex->params, "notifications"));
	while (exchange_sleep(ex, 3600000))
		;
	session_unlisten(listener);
	return 0;
}

static bool always(const struct exchange *ex)
{
	(void)ex;
	return true;
}

/* ---- completion ---- */

static int complete(struct exchange *ex, struct err *err)
{
	(void)err;
	const json_t *ref = json_object_get(ex->params, "ref");
	const json_t *argument = json_object_get(ex->params, "argument");
	const char *type = json_string_value(json_object_get(ref, "type"));
	const char *name = json_string_value(json_object_get(argument, "name"));
	const char *value = json_string_value(json_object_get(argument, "value"));
	if (!type || !name || !value ||
	    (strcmp(type, "ref/prompt") != 0 && strcmp(type, "ref/resource") != 0))
		return exchange_fail(ex, RPC_PARAMS,
				     "ref must name a prompt or a resource template, and argument "
				     "its argument with a value");
	bool path = !strcmp(name, "path") || !strcmp(name, "directory");
	jw_key(&ex->jw, "completion");
	jw_open(&ex->jw, '{');
	jw_key(&ex->jw, "values");
	jw_open(&ex->jw, '[');
	size_t count = path ? resource_complete(ex, value, COMPLETIONS_MAX) : 0;
	jw_close(&ex->jw, ']');
	jw_key_int(&ex->jw, "total", (int64_t)count);
	jw_key_bool(&ex->jw, "hasMore", count == COMPLETIONS_MAX);
	jw_close(&ex->jw, '}');
	return 0;
}

/* ---- the table ---- */

static int refuse(struct exchange *ex, struct err *err)
{
	(void)err;
	const char *method = json_string_value(json_object_get(ex->message, "method"));
	if (ex->from.revision >= MCP_2026_07_28)
		ex->status = 404;
	return exchange_fail(ex, RPC_NO_METHOD, "Method not found: %.100s", method ? method : "");
}

static const struct method methods[] = {
	{ "initialize", initialize, METHOD_SESSION },
	{ "server/discover", discover, METHOD_MODERN | METHOD_CACHED, HOUR_MS },
	{ "ping", ping, METHOD_SESSION },
	{ "logging/setLevel", set_level, METHOD_SESSION },
	{ "tools/list", list_tools, METHOD_CACHED, MINUTE_MS, lists_slowly },
	{ "tools/call", call_tool, 0, 0, calls_slowly },
	{ "resources/list", resource_list, METHOD_CACHED, NOW_MS },
	{ "resources/templates/list", resource_templates, METHOD_CACHED, HOUR_MS },
	{ "resources/read", resource_read, METHOD_CACHED, NOW_MS },
	{ "resources/subscribe", subscribe, METHOD_SESSION },
	{ "resources/unsubscribe", unsubscribe, METHOD_SESSION },
	{ "subscriptions/listen", listen_to, METHOD_MODERN, 0, always },
	{ "prompts/list", prompt_list, METHOD_CACHED, HOUR_MS },
	{ "prompts/get", prompt_get },
	{ "completion/complete", complete },
};

const struct method *method_find(const struct exchange *ex)
{
	static const struct method unknown = { .name = "", .serve = refuse };
	const char *name = json_string_value(json_object_get(ex->message, "method"));
	unsigned other = ex->from.revision >= MCP_2026_07_28 ? METHOD_SESSION : METHOD_MODERN;
	for (size_t i = 0; name && i < COUNT(methods); i++)
		if (!strcmp(methods[i].name, name) && !(methods[i].flags & other))
			return &methods[i];
	return &unknown;
}

void method_notified(const struct exchange_from *from, const json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *params = json_object_get(message, "params");
	if (!method || !from->session)
		return;
	if (!strcmp(method, "notifications/cancelled"))
		session_cancel(from->session, json_object_get(params, "requestId"));
}
