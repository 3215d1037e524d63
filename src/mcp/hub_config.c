#include "mcp/hub_config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "config/config.h"
#include "mcp/bridge.h"
#include "net/server.h"
#include "proc/user.h"

enum { FILE_MAX = 1 << 20, SERVERS_MAX = 100, NAME_MAX_LEN = 64, ITEMS_MAX = 1000 };

/* Servers that are there once their program is: the first of the commands that is installed. */
static const struct known {
	const char *name, *commands[2], *args[4], *hint;
	const char *unless; /* a route that does the same */
} known[] = {
	{ "markitdown",
	  { "markitdown-mcp" },
	  { NULL },
	  "install it with: pip install markitdown-mcp",
	  "POST /v1/util/convert_to_markdown" },
	{ "chrome_devtools",
	  { "chrome-devtools-mcp" },
	  { "--headless", "--isolated" },
	  "install it with: npm install -g chrome-devtools-mcp; it needs Chrome or Chromium" },
	{ "playwright",
	  { "playwright-mcp", "mcp-server-playwright" },
	  { "--headless", "--isolated" },
	  "install it with: npm install -g @playwright/mcp; it needs a browser: npx playwright "
	  "install chromium" },
	{ "arxiv",
	  { "arxiv-mcp-server" },
	  { NULL },
	  "install it with: pip install arxiv-mcp-server; it needs access to arxiv.org" },
};

/* ---- an entry ---- */

static void free_pairs(const struct pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free((char *)pairs[i].name);
		free((char *)pairs[i].value);
	}
	free((struct pair *)pairs);
}

void hub_entry_free(struct hub_entry *entry)
{
	if (!entry)
		return;
	struct hub_spec *spec = &entry->spec;
	for (size_t i = 0; spec->args && spec->args[i]; i++)
		free(spec->args[i]);
	free((void *)spec->args);
	free((char *)spec->name);
	free((char *)spec->command);
	free((char *)spec->cwd);
	free((char *)spec->url);
	free_pairs(spec->env, spec->env_count);
	free_pairs(spec->headers, spec->header_count);
	free(entry->problem);
	free(entry->hint);
	free(entry);
}

static struct hub_entry *make(const char *name)
{
	struct hub_entry *entry = xcalloc(1, sizeof *entry);
	entry->spec.name = xstrdup(name);
	entry->timeout_ms = 60000;
	return entry;
}

static void set_problem(struct hub_entry *entry, const char *text)
{
	if (!entry->problem)
		entry->problem = xstrdup(text);
}

/* ---- the file ---- */

/* One that is empty is as if it was not there. */
static char *copy_string(struct hub_entry *entry, const json_t *from, const char *key)
{
	const json_t *value = json_object_get(from, key);
	char text[100];
	if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
		return NULL;
	if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
		return xstrdup(json_string_value(value));
	snprintf(text, sizeof text, "'%s' must be a string", key);
	set_problem(entry, text);
	return NULL;
}

/* A header must not bring a second one with it. */
static struct pair *copy_pairs(struct hub_entry *entry, const json_t *from, const char *key,
			       size_t *ret_count)
{
	json_t *object = json_object_get(from, key), *value;
	const char *name;
	char text[100];
	*ret_count = 0;
	if (!object || json_is_null(object))
		return NULL;
	struct pair *pairs = xcalloc(json_object_size(object) + 1, sizeof *pairs);
	json_object_foreach(object, name, value) {
		const char *plain = json_string_value(value);
		if (!plain || !*name || strpbrk(name, "=:\r\n ") || strpbrk(plain, "\r\n")) {
			snprintf(text, sizeof text, "'%s' must be an object of strings", key);
			set_problem(entry, text);
			continue;
		}
		pairs[(*ret_count)++] = (struct pair){ xstrdup(name), xstrdup(plain) };
	}
	if (!json_is_object(object)) {
		snprintf(text, sizeof text, "'%s' must be an object of strings", key);
		set_problem(entry, text);
	}
	return pairs;
}

static char **copy_args(struct hub_entry *entry, const json_t *from)
{
	const json_t *list = json_object_get(from, "args");
	size_t count = json_array_size(list), i;
	json_t *value;
	if (list && (!json_is_array(list) || count > ITEMS_MAX)) {
		set_problem(entry, "'args' must be a list of strings");
		return NULL;
	}
	char **args = xcalloc(count + 1, sizeof *args);
	json_array_foreach(list, i, value) {
		if (!json_is_string(value))
			set_problem(entry, "'args' must be a list of strings");
		args[i] = xstrdup(json_is_string(value) ? json_string_value(value) : "");
	}
	return args;
}

static void check(struct hub_entry *entry)
{
	struct hub_spec *spec = &entry->spec;
	struct url_parts parts;
	struct err err;
	size_t len = strlen(spec->name);
	if (!len || len > NAME_MAX_LEN ||
	    strspn(spec->name,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != len)
		set_problem(entry,
			    "its name may have letters, digits, '_' and '-', and 64 of them");
	if (!spec->command == !spec->url)
		set_problem(entry, "it needs either 'command' or 'url'");
	if (spec->url &&
	    (url_split(spec->url, &parts, &err) < 0 || strncmp(parts.scheme, "http", 4) != 0))
		set_problem(entry, "'url' must be an http: or https: URL");
	if (spec->cwd && *spec->cwd != '/')
		set_problem(entry, "'cwd' must be an absolute path");
}

static struct hub_entry *parse_one(const char *name, const json_t *from)
{
	struct hub_entry *entry = make(name);
	struct hub_spec *spec = &entry->spec;
	if (!json_is_object(from)) {
		set_problem(entry, "it must be an object");
		return entry;
	}
	spec->command = copy_string(entry, from, "command");
	spec->url = copy_string(entry, from, "url");
	spec->cwd = copy_string(entry, from, "cwd");
	spec->args = copy_args(entry, from);
	spec->env = copy_pairs(entry, from, "env", &spec->env_count);
	spec->headers = copy_pairs(entry, from, "headers", &spec->header_count);
	entry->disabled = json_is_true(json_object_get(from, "disabled"));
	entry->hidden = json_is_true(json_object_get(from, "hidden"));
	double timeout = json_number_value(json_object_get(from, "timeout"));
	if (timeout > 0 && timeout <= 86400)
		entry->timeout_ms = (int64_t)(timeout * 1000);
	check(entry);
	return entry;
}

struct hub_entry *hub_config_parse(char *text, size_t len)
{
	struct hub_entry *first = NULL, **at = &first;
	struct err err;
	const char *name;
	json_t *value, *file = json_parse(text, len, &err);
	json_t *servers = json_object_get(file, "mcpServers");
	if (!servers)
		servers = json_object_get(file, "servers");
	if (!json_is_object(servers)) {
		first = make("mcp-servers.json");
		first->problem = file ? xstrdup("the file has no object \"mcpServers\"")
				      : xasprintf("the file is not JSON: %s", err.msg);
		json_decref(file);
		return first;
	}
	size_t count = 0;
	json_object_foreach(servers, name, value) {
		if (count++ >= SERVERS_MAX)
			break;
		*at = parse_one(name, value);
		at = &(*at)->next;
	}
	json_decref(file);
	return first;
}

/* ---- the whole ---- */

const char *hub_config_path(const struct config *config)
{
	return config->mcp_servers;
}

static struct hub_entry *read_file(struct server *server)
{
	auto_buf struct buf text = BUF(FILE_MAX);
	struct err err;
	struct user_view view;
	const struct user *user = user_sandbox(server->config->user, &err);
	if (!user || user_enter(user, &view, &err) < 0)
		return NULL;
	auto_close int fd =
		open(hub_config_path(server->config), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	user_leave(&view);
	ssize_t n = fd < 0 ? 0 : 1;
	while (n > 0) {
		char *room = buf_grow(&text, 4096);
		n = room ? read(fd, room, 4096) : 0;
		text.len += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 || !text.len ? NULL : hub_config_parse(text.data, text.len);
}

static struct hub_entry *make_known(struct server *server, const struct known *row)
{
	struct arena arena = { 0 };
	struct hub_entry *entry = make(row->name);
	const char *command = row->commands[0];
	for (size_t i = 0; i < COUNT(row->commands) && row->commands[i]; i++)
		if (hub_stdio_find(server, row->commands[i], &arena)) {
			command = row->commands[i];
			break;
		}
	arena_done(&arena);
	char **args = xcalloc(COUNT(row->args) + 1, sizeof *args);
	for (size_t i = 0; i < COUNT(row->args) && row->args[i]; i++)
		args[i] = xstrdup(row->args[i]);
	entry->spec.command = xstrdup(command);
	entry->spec.args = args;
	entry->hint = xstrdup(row->hint);
	return entry;
}

struct hub_entry *hub_config_read(struct server *server)
{
	struct hub_entry *first = read_file(server), *last = first;
	while (last && last->next)
		last = last->next;
	for (size_t i = 0; i < COUNT(known); i++) {
		bool named = known[i].unless && bridge_find(server->groups, known[i].unless);
		for (struct hub_entry *at = first; at && !named; at = at->next)
			named = !strcmp(at->spec.name, known[i].name);
		if (named)
			continue;
		struct hub_entry *entry = make_known(server, &known[i]);
		if (last)
			last->next = entry;
		else
			first = entry;
		last = entry;
	}
	for (struct hub_entry *at = first; at; at = at->next)
		at->spec.idle_ms = server->config->mcp_idle_ms;
	return first;
}
