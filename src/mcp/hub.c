#include "mcp/hub.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/hub_check.h"
#include "mcp/hub_client.h"
#include "mcp/hub_config.h"
#include "mcp/revision.h"
#include "mcp/session.h"
#include "net/server.h"
#include "service/service.h"

enum {
	START_MS = 20000,    /* for a server to say what it can do */
	LIST_WAIT_MS = 4000, /* tools/list waits for servers that start, at most */
	PAGES_MAX = 50,
	TOOLS_MAX = 1000,
	RENEW_MS = 60000, /* until tools are asked for again that were not named in time */
};

/* What a server offers. Many threads read it at once, none changes it. */
struct offer {
	_Atomic int refs;
	json_t *tools; /* as it told them, checked */
};

/* One server: a service, and what is known of it when that is not running. Lives as long as the
 * service does. */
struct hub_server {
	struct hub_server *next;
	struct hub_entry *entry; /* as configured */
	struct service *service;
	struct service_row row;
	char name[HUB_NAME_MAX], title[HUB_NAME_MAX];
	_Atomic bool stale;
	pthread_mutex_t lock; /* of what follows */
	struct offer *offer;  /* NULL: never asked */
	int64_t renew_ms;     /* when to ask again for tools that it did not name in time */
};

static struct {
	pthread_mutex_t lock;
	struct server *server;
	struct hub_server *first;
	struct timespec modified; /* of the file */
	bool read, ended;
} hub = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- offers ---- */

static struct offer *offer_make(json_t *tools)
{
	struct offer *offer = xcalloc(1, sizeof *offer);
	offer->refs = 1;
	offer->tools = tools;
	return offer;
}

static struct offer *offer_ref(struct offer *offer)
{
	if (offer)
		atomic_fetch_add(&offer->refs, 1);
	return offer;
}

static void offer_unref(struct offer *offer)
{
	if (!offer || atomic_fetch_sub(&offer->refs, 1) > 1)
		return;
	json_decref(offer->tools);
	free(offer);
}

/* ---- messages ---- */

json_t *hub_result(const char *name, const json_t *answer, struct err *err)
{
	json_t *result = json_object_get(answer, "result");
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	if (json_is_object(result))
		return json_incref(result);
	err_set(err, ERR_BAD_REQUEST, "the MCP server %s answered with an error: %.400s", name,
		message ? message : "it has no message");
	return NULL;
}

json_t *hub_answer(struct server *server, const json_t *request)
{
	const char *method = json_string_value(json_object_get(request, "method"));
	json_t *id = json_object_get(request, "id");
	if (!strcmp(method, "ping"))
		return json_pack("{s:s,s:O,s:{}}", "jsonrpc", "2.0", "id", id, "result");
	if (!strcmp(method, "roots/list"))
		return json_pack("{s:s,s:O,s:{s:[{s:o,s:s}]}}", "jsonrpc", "2.0", "id", id,
				 "result", "roots", "uri",
				 json_sprintf("file://%s", server->config->workspace), "name",
				 "workspace");
	return json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
			 RPC_NO_METHOD, "message", "Method not found");
}

void hub_told(const struct hub_client *client, const json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *data = json_object_get(json_object_get(message, "params"), "data");
	if (!strcmp(method, "notifications/tools/list_changed"))
		client->tools_changed(client->run->arg);
	else if (!strcmp(method, "notifications/message") && json_is_string(data))
		session_log(RANK_INFO, client->spec->name, json_string_value(data));
}

/* ---- tools ---- */

static json_t *fetch_tools(struct hub_client *client, int64_t until_ms, struct err *err)
{
	json_t *tools = json_array(), *cursor = NULL;
	for (int page = 0; page < PAGES_MAX; page++) {
		json_t *params = cursor ? json_pack("{s:o}", "cursor", cursor) : json_object();
		json_t *result = client->ops->request(client, "tools/list", params, NULL,
						      until_ms - clock_ms(), err),
		       *tool;
		size_t i;
		json_decref(params);
		if (!result) {
			json_decref(tools);
			return NULL;
		}
		json_array_foreach(json_object_get(result, "tools"), i, tool) {
			json_t *sound = json_array_size(tools) < TOOLS_MAX ? hub_check_tool(tool)
									   : NULL;
			if (sound)
				json_array_append_new(tools, sound);
		}
		cursor = json_object_get(result, "nextCursor");
		cursor = json_is_string(cursor) ? json_incref(cursor) : NULL;
		json_decref(result);
		if (!cursor)
			return tools;
	}
	json_decref(cursor);
	return tools;
}

/* Takes the tools over. Whether they are other ones than before. */
static bool set_offer(struct hub_server *s, json_t *tools)
{
	pthread_mutex_lock(&s->lock);
	bool same = s->offer && json_equal(s->offer->tools, tools);
	offer_unref(s->offer);
	s->offer = offer_make(tools);
	pthread_mutex_unlock(&s->lock);
	return !same;
}

static void tools_changed(void *arg)
{
	((struct hub_server *)arg)->stale = true;
	session_tell(NEWS_TOOLS, NULL);
}

/* ---- a server as a service ---- */

static const char *find_program(void *arg, struct arena *arena, struct err *err)
{
	const char *command = ((const struct hub_server *)arg)->entry->spec.command;
	const char *path = hub_stdio_find(hub.server, command, arena);
	if (!path)
		err_set(err, ERR_UNAVAILABLE, "the program '%s' is not installed", command);
	return path;
}

static int prepare(struct service_run *run, struct service_start *start, struct err *err)
{
	const struct hub_server *s = run->arg;
	return hub_stdio_prepare(hub.server, &s->entry->spec, run, start, err);
}

/* Shakes hands and asks for the tools. */
static int open_client(struct service_run *run, const struct wait *wait, struct err *err)
{
	struct hub_server *s = run->arg;
	const struct hub_spec *spec = &s->entry->spec;
	const struct hub_client from = {
		.run = run, .server = hub.server, .spec = spec, .tools_changed = tools_changed
	};
	s->stale = false;
	struct hub_client *client = (spec->command ? hub_stdio_open : hub_http_open)(&from, err);
	if (!client)
		return -1;
	run->value = client;
	json_t *params = json_pack("{s:s,s:{s:{}},s:{s:s,s:s}}", "protocolVersion",
				   mcp_revision_names[MCP_NEWEST_SESSION], "capabilities", "roots",
				   "clientInfo", "name", "aiobox", "version", AIO_VERSION);
	json_t *hello = client->ops->request(client, "initialize", params, NULL, START_MS, err);
	json_decref(params);
	bool ready = hello && client->ops->notify(client, "notifications/initialized", err) == 0;
	bool has_tools = json_object_get(json_object_get(hello, "capabilities"), "tools");
	json_decref(hello);
	json_t *tools = !ready      ? NULL
			: has_tools ? fetch_tools(client, wait->until_ms, err)
				    : json_array();
	OPENSSL_thread_stop();
	if (!tools)
		return -1;
	if (set_offer(s, tools))
		session_tell(NEWS_TOOLS, NULL);
	return 0;
}

static void close_client(struct service_run *run)
{
	struct hub_client *client = run->value;
	if (client && client->ops->close)
		client->ops->close(client);
}

static void free_client(struct service_run *run)
{
	struct hub_client *client = run->value;
	client->ops->free(client);
}

static void log_failure(void *arg, const char *reason)
{
	const struct hub_server *s = arg;
	char text[400];
	snprintf(text, sizeof text, "%.100s: %.280s", s->entry->spec.name, reason);
	session_log(RANK_WARNING, "hub", text);
}

static void server_free(void *arg)
{
	struct hub_server *s = arg;
	offer_unref(s->offer);
	hub_entry_free(s->entry);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct hub_server *server_make(struct hub_entry *entry)
{
	struct hub_server *s = xcalloc(1, sizeof *s);
	bool program = entry->spec.command;
	s->entry = entry;
	pthread_mutex_init(&s->lock, NULL);
	snprintf(s->name, sizeof s->name, "mcp/%s", entry->spec.name);
	snprintf(s->title, sizeof s->title, "the MCP server %s", entry->spec.name);
	s->row = (struct service_row){
		.name = s->name,
		.title = s->title,
		.refused = entry->problem    ? entry->problem
			   : entry->disabled ? "it is disabled in the configuration"
					     : NULL,
		.find = program ? find_program : NULL,
		.install = entry->hint,
		.prepare = prepare,
		.open = open_client,
		.close = close_client,
		.free = free_client,
		.failed = log_failure,
		.done = server_free,
		.start_ms = START_MS,
		.grace_ms = HUB_GRACE_MS,
		.idle_ms = program ? entry->spec.idle_ms : 0,
	};
	s->service = service_add(&s->row, s);
	return s;
}

static struct hub_server *server_ref(struct hub_server *s)
{
	service_ref(s->service);
	return s;
}

static void server_release(struct hub_server **s)
{
	if (*s)
		service_unref((*s)->service);
}
#define auto_server __attribute__((cleanup(server_release)))

/* ---- the configuration ---- */

static void drop_all(struct hub_server *first)
{
	for (struct hub_server *s = first, *next; s; s = next) {
		next = s->next;
		service_remove(s->service, "it was taken out of the configuration");
	}
}

/* Reads the file when it was never read, or has changed since. */
static void refresh(void)
{
	struct stat st = { 0 };
	struct hub_server *old = NULL;
	pthread_mutex_lock(&hub.lock);
	bool exists = hub.server && stat(hub_config_path(hub.server->config), &st) == 0;
	bool same = hub.read && hub.modified.tv_sec == (exists ? st.st_mtim.tv_sec : 0) &&
		    hub.modified.tv_nsec == (exists ? st.st_mtim.tv_nsec : 0);
	bool again = hub.read && !same;
	if (hub.server && !hub.ended && !same) {
		struct hub_server **at = &hub.first;
		old = hub.first;
		hub.first = NULL;
		hub.read = true;
		hub.modified = exists ? st.st_mtim : (struct timespec){ 0 };
		struct hub_entry *entries = hub_config_read(hub.server);
		for (struct hub_entry *entry = entries, *next; entry; entry = next) {
			next = entry->next;
			*at = server_make(entry);
			at = &(*at)->next;
		}
	}
	pthread_mutex_unlock(&hub.lock);
	drop_all(old);
	if (again)
		session_tell(NEWS_TOOLS, NULL);
}

void hub_setup(struct server *server)
{
	hub.server = server;
}

void hub_end(void)
{
	pthread_mutex_lock(&hub.lock);
	struct hub_server *first = hub.first;
	hub.first = NULL;
	hub.ended = true;
	pthread_mutex_unlock(&hub.lock);
	drop_all(first);
}

/* All servers, with references, in an array that ends with NULL. */
static struct hub_server **all(void)
{
	size_t count = 0;
	refresh();
	pthread_mutex_lock(&hub.lock);
	for (struct hub_server *s = hub.first; s; s = s->next)
		count++;
	struct hub_server **list = xcalloc(count + 1, sizeof *list);
	count = 0;
	for (struct hub_server *s = hub.first; s; s = s->next)
		list[count++] = server_ref(s);
	pthread_mutex_unlock(&hub.lock);
	return list;
}

static void all_done(struct hub_server **list)
{
	for (struct hub_server **at = list; *at; at++)
		service_unref((*at)->service);
	free(list);
}

static struct hub_server *find(const char *name)
{
	struct hub_server *found = NULL;
	refresh();
	pthread_mutex_lock(&hub.lock);
	for (struct hub_server *s = hub.first; s && !found; s = s->next)
		if (!strcmp(s->entry->spec.name, name))
			found = server_ref(s);
	pthread_mutex_unlock(&hub.lock);
	return found;
}

bool hub_has(const char *name)
{
	auto_server struct hub_server *s = find(name);
	return s != NULL;
}

/* A lease of one that is ready; NULL with err. */
static struct service_run *use(struct hub_server *s, int64_t until_ms, struct err *err)
{
	const struct wait wait = { until_ms, -1, server_stop_fd(hub.server) };
	struct service_run *run = service_use(s->service, &wait, err);
	if (!run)
		err->code = ERR_UNAVAILABLE;
	return run;
}

static bool is_wanted(const struct hub_server *s, const char *only)
{
	return only && *only ? !strcmp(s->entry->spec.name, only) : !s->entry->hidden;
}

/* Whether its tools have to be asked for. */
static bool is_unknown(struct hub_server *s)
{
	pthread_mutex_lock(&s->lock);
	bool unknown = !s->offer || s->stale;
	pthread_mutex_unlock(&s->lock);
	return unknown;
}

bool hub_would_wait(const char *only)
{
	struct hub_server **list = all();
	bool wait = false;
	for (struct hub_server **at = list; *at; at++)
		wait |= is_wanted(*at, only) && is_unknown(*at) &&
			(service_begin((*at)->service) || (*at)->stale);
	all_done(list);
	return wait;
}

/* Asks a server that said its tools have changed for the new ones. What is known stays until then. */
static void renew(struct hub_server *s, int64_t until_ms)
{
	struct err err;
	struct service_run *run = s->stale ? service_current(s->service) : NULL;
	pthread_mutex_lock(&s->lock);
	bool due = run && clock_ms() >= s->renew_ms;
	pthread_mutex_unlock(&s->lock);
	if (due) {
		s->stale = false;
		json_t *tools = fetch_tools(run->value, until_ms, &err);
		if (tools) {
			(void)set_offer(s, tools);
		} else {
			s->stale = true;
			pthread_mutex_lock(&s->lock);
			s->renew_ms = clock_ms() + RENEW_MS;
			pthread_mutex_unlock(&s->lock);
		}
	}
	service_release(run);
}

/* What is known of its tools, with a reference; NULL: it was never asked. */
static struct offer *known_offer(struct hub_server *s)
{
	pthread_mutex_lock(&s->lock);
	struct offer *offer = offer_ref(s->offer);
	pthread_mutex_unlock(&s->lock);
	return offer;
}

/* The same; one that was never asked is started and waited for. NULL with err. */
static struct offer *await_offer(struct hub_server *s, int64_t until_ms, struct err *err)
{
	struct offer *offer = known_offer(s);
	struct service_run *run = offer ? NULL : use(s, until_ms, err);
	if (run)
		offer = known_offer(s);
	service_release(run);
	return offer;
}

/* "server_tool", but for a tool whose name begins so already. */
static const char *listed_name(const char *server, const char *tool, char *to, size_t room)
{
	size_t len = strlen(server);
	bool named = !strncmp(tool, server, len) && tool[len] == '_';
	snprintf(to, room, "%s%s%s", named ? "" : server, named ? "" : "_", tool);
	return to;
}

void hub_tools(struct server *server, const char *only, hub_each_tool *fn, void *arg)
{
	(void)server;
	struct hub_server **list = all();
	int64_t until = clock_ms() + LIST_WAIT_MS;
	struct err ignored;
	for (struct hub_server **at = list; *at; at++)
		if (is_wanted(*at, only) && is_unknown(*at))
			(void)service_begin((*at)->service);
	for (struct hub_server **at = list; *at; at++) {
		if (!is_wanted(*at, only))
			continue;
		renew(*at, until);
		struct offer *offer = await_offer(*at, until, &ignored);
		json_t *tool;
		const char *name = (*at)->entry->spec.name;
		char listed[2 * HUB_NAME_MAX + 2];
		size_t i;
		json_array_foreach(offer ? offer->tools : NULL, i, tool) {
			const char *own = json_string_value(json_object_get(tool, "name"));
			fn(name, listed_name(name, own, listed, sizeof listed), tool, arg);
		}
		offer_unref(offer);
	}
	all_done(list);
}

json_t *hub_server_tools(struct server *server, const char *name, struct err *err)
{
	(void)server;
	auto_server struct hub_server *s = find(name);
	if (!s) {
		err_set(err, ERR_NOT_FOUND, "there is no MCP server '%.100s'", name);
		return NULL;
	}
	renew(s, clock_ms() + LIST_WAIT_MS);
	struct offer *offer = await_offer(s, clock_ms() + START_MS, err);
	json_t *tools = offer ? json_deep_copy(offer->tools) : NULL;
	offer_unref(offer);
	return tools;
}

/* ---- the list of servers ---- */

size_t hub_list(struct arena *arena, struct hub_info *ret, size_t room)
{
	struct hub_server **list = all();
	size_t count = 0;
	for (struct hub_server **at = list; *at && count < room; at++) {
		static const char *const states[] = { "idle", "starting", "ready", "unavailable" };
		const struct hub_entry *entry = (*at)->entry;
		char why[512];
		enum service_state state = service_look((*at)->service, why, sizeof why);
		struct hub_info info = {
			.name = arena_strdup(arena, entry->spec.name),
			.kind = entry->spec.command ? "stdio" : "http",
			.status = entry->disabled ? "disabled" : states[state],
			.reason = *why ? arena_strdup(arena, why) : NULL,
			.hint = *why && entry->hint ? arena_strdup(arena, entry->hint) : NULL,
			.hidden = entry->hidden,
		};
		ret[count++] = info;
	}
	all_done(list);
	return count;
}

/* ---- calling ---- */

/* A server may keep its own name before a tool's, or not: whichever it has. With the lock. */
static bool pick_name(struct hub_server *s, const char *asked, char *own, size_t room)
{
	size_t i;
	json_t *tool;
	json_array_foreach(s->offer ? s->offer->tools : NULL, i, tool) {
		const char *name = json_string_value(json_object_get(tool, "name"));
		if (!strcmp(name, own) || !strcmp(name, asked)) {
			snprintf(own, room, "%s", name);
			return true;
		}
	}
	return false;
}

/* Which server a tool is of, by its listed name, and what the server itself calls it. A name may begin
 * with those of several: the one that is known to have such a tool, else the longest. */
static struct hub_server *find_tool(const char *server, const char *name, char *ret, size_t room)
{
	struct hub_server *found = NULL;
	bool known = false;
	size_t longest = 0;
	refresh();
	pthread_mutex_lock(&hub.lock);
	for (struct hub_server *s = hub.first; s; s = s->next) {
		const char *own = s->entry->spec.name;
		size_t len = strlen(own);
		bool prefixed = !strncmp(name, own, len) && name[len] == '_';
		char its[2 * HUB_NAME_MAX + 2];
		if (server ? strcmp(server, own) != 0 : !prefixed)
			continue;
		snprintf(its, sizeof its, "%s", prefixed ? name + len + 1 : name);
		pthread_mutex_lock(&s->lock);
		bool has = pick_name(s, name, its, sizeof its);
		pthread_mutex_unlock(&s->lock);
		if (found && (has == known ? len <= longest : known))
			continue;
		found = s;
		known = has;
		longest = len;
		snprintf(ret, room, "%s", its);
	}
	if (found)
		server_ref(found);
	pthread_mutex_unlock(&hub.lock);
	return found;
}

int hub_call(struct exchange *ex, const char *server, const char *name, const json_t *args,
	     json_t **ret_result, struct err *err)
{
	char own[2 * HUB_NAME_MAX + 2];
	auto_server struct hub_server *s =
		strlen(name) < sizeof own ? find_tool(server, name, own, sizeof own) : NULL;
	if (!s)
		return exchange_fail(ex, RPC_PARAMS, "Unknown tool: %.100s", name);
	struct service_run *run = use(s, clock_ms() + START_MS, err);
	if (!run) {
		*ret_result = hub_check_failed(err->msg);
		return 0;
	}
	pthread_mutex_lock(&s->lock);
	bool known = pick_name(s, name, own, sizeof own);
	pthread_mutex_unlock(&s->lock);
	if (!known) {
		service_release(run);
		return exchange_fail(ex, RPC_PARAMS, "Unknown tool: %.100s", name);
	}
	json_t *params = json_pack("{s:s}", "name", own);
	json_object_set_new(params, "arguments",
			    json_is_object(args) ? json_deep_copy(args) : json_object());
	struct hub_client *client = run->value;
	json_t *result =
		client->ops->request(client, "tools/call", params, ex, s->entry->timeout_ms, err);
	*ret_result = result ? hub_check_result(s->entry->spec.name, result)
			     : hub_check_failed(err->msg);
	json_decref(params);
	service_release(run);
	return 0;
}
