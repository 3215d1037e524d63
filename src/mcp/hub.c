#include "mcp/hub.h"

#include <errno.h>
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
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/hub_check.h"
#include "mcp/hub_client.h"
#include "mcp/hub_config.h"
#include "mcp/revision.h"
#include "mcp/session.h"
#include "net/server.h"

enum {
	START_MS = 20000,    /* for a server to say what it can do */
	LIST_WAIT_MS = 4000, /* tools/list waits for servers that start, at most */
	PAGES_MAX = 50,
	TOOLS_MAX = 1000,
	RETRY_MS = 2000, /* after a failure, doubled with each further one, up to a minute */
	RETRY_MOST_MS = 60000,
	LOOK_MS = 2000,
};

enum state { IDLE, STARTING, READY, FAILED };

/* What a server offers. Many threads read it at once, none changes it. */
struct offer {
	_Atomic int refs;
	json_t *tools; /* as it told them, checked */
};

/* One server. It is kept, with what is known of it, when its program is not running. */
struct hub_server {
	struct hub_server *next;
	_Atomic int refs;
	struct hub_entry *entry; /* as configured */
	pthread_mutex_t lock;    /* of what follows */
	pthread_cond_t changed;
	enum state state;
	struct hub_client *client;
	struct offer *offer; /* NULL: never asked */
	_Atomic bool stale;
	_Atomic bool dropped; /* not in the configuration any more */
	int failures;
	bool missing;              /* its program was not there when we looked, */
	int64_t look_ms, retry_ms; /* and when to look, and to try, again */
	int64_t renew_ms;          /* when to ask again for tools that it did not name in time */
	char reason[512];
};

static struct {
	pthread_mutex_t lock;
	struct server *server;
	struct hub_server *first;
	struct timespec modified; /* of the file */
	bool read, ended;
} hub = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Threads that start servers. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t none;
	int count;
} starters = { .lock = PTHREAD_MUTEX_INITIALIZER, .none = PTHREAD_COND_INITIALIZER };

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

void hub_told(const char *name, const json_t *message, const struct hub_events *events)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *data = json_object_get(json_object_get(message, "params"), "data");
	if (!strcmp(method, "notifications/tools/list_changed"))
		events->tools_changed(events->arg);
	else if (!strcmp(method, "notifications/message") && json_is_string(data))
		session_log(RANK_INFO, name, json_string_value(data));
}

/* ---- life of a server ---- */

static void server_unref(struct hub_server *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	if (s->client)
		s->client->ops->unref(s->client);
	offer_unref(s->offer);
	hub_entry_free(s->entry);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s);
}

static struct hub_server *server_ref(struct hub_server *s)
{
	atomic_fetch_add(&s->refs, 1);
	return s;
}

static void server_release(struct hub_server **s)
{
	server_unref(*s);
}
#define auto_server __attribute__((cleanup(server_release)))

static struct hub_server *server_make(struct hub_entry *entry)
{
	struct hub_server *s = xcalloc(1, sizeof *s);
	pthread_condattr_t attr;
	s->refs = 1;
	s->entry = entry;
	entry->spec.abandoned = &s->dropped;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

static void tools_changed(void *arg)
{
	((struct hub_server *)arg)->stale = true;
	session_tell(NEWS_TOOLS, NULL);
}

static void ended(void *arg, struct hub_client *client)
{
	struct hub_server *s = arg;
	pthread_mutex_lock(&s->lock);
	bool current = s->client == client;
	if (current) {
		s->client = NULL;
		s->state = IDLE;
	}
	pthread_mutex_unlock(&s->lock);
	if (current)
		client->ops->unref(client);
}

static void release(void *arg)
{
	server_unref(arg);
}

/* ---- the configuration ---- */

static void drop_all(struct hub_server *first)
{
	for (struct hub_server *s = first, *next; s; s = next) {
		next = s->next;
		pthread_mutex_lock(&s->lock);
		struct hub_client *client = s->client;
		s->client = NULL;
		s->dropped = true;
		if (s->state != STARTING)
			s->state = IDLE;
		pthread_mutex_unlock(&s->lock);
		if (client)
			client->ops->unref(client);
		server_unref(s);
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
	pthread_mutex_lock(&starters.lock);
	while (starters.count)
		pthread_cond_wait(&starters.none, &starters.lock);
	pthread_mutex_unlock(&starters.lock);
	hub_stdio_count(0);
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
		server_unref(*at);
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

/* ---- starting ---- */

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

/* Connects, shakes hands and asks for the tools. */
static struct hub_client *connect_to(struct hub_server *s, json_t **ret_tools, struct err *err)
{
	struct hub_events events = { tools_changed, ended, release, server_ref(s) };
	const struct hub_spec *spec = &s->entry->spec;
	int64_t until_ms = clock_ms() + START_MS;
	struct hub_client *client =
		(spec->command ? hub_stdio_start : hub_http_start)(hub.server, spec, &events, err);
	if (!client) {
		atomic_fetch_sub(&s->refs, 1); /* the caller has another */
		return NULL;
	}
	json_t *params = json_pack("{s:s,s:{s:{}},s:{s:s,s:s}}", "protocolVersion",
				   mcp_revision_names[MCP_NEWEST_SESSION], "capabilities", "roots",
				   "clientInfo", "name", "aiobox", "version", AIO_VERSION);
	json_t *hello = client->ops->request(client, "initialize", params, NULL, START_MS, err);
	json_decref(params);
	bool ready = hello && client->ops->notify(client, "notifications/initialized", err) == 0;
	bool has_tools = json_object_get(json_object_get(hello, "capabilities"), "tools");
	json_decref(hello);
	*ret_tools = !ready ? NULL : has_tools ? fetch_tools(client, until_ms, err) : json_array();
	if (*ret_tools)
		return client;
	client->ops->unref(client);
	return NULL;
}

/* With the lock, state is STARTING and this thread's. Gives the lock up while it works. */
static void start_locked(struct hub_server *s)
{
	struct err err = { 0 };
	json_t *tools = NULL;
	struct hub_client *old = s->client;
	s->client = NULL;
	s->stale = false;
	pthread_mutex_unlock(&s->lock);
	if (old)
		old->ops->unref(old);
	struct hub_client *client = connect_to(s, &tools, &err);
	pthread_mutex_lock(&s->lock);
	s->client = client;
	s->state = client ? READY : FAILED;
	if (client && (s->dropped || !client->ops->alive(client))) {
		/* It ended meanwhile, or nobody wants it any more. */
		s->client = NULL;
		s->state = IDLE;
		pthread_mutex_unlock(&s->lock);
		client->ops->unref(client);
		pthread_mutex_lock(&s->lock);
		json_decref(tools);
	} else if (client) {
		offer_unref(s->offer);
		s->offer = offer_make(tools);
		s->failures = 0;
		*s->reason = 0;
	} else {
		int64_t pause = RETRY_MS;
		for (int i = 0; i < s->failures && pause < RETRY_MOST_MS; i++)
			pause *= 2;
		s->failures++;
		s->retry_ms = clock_ms() + (pause < RETRY_MOST_MS ? pause : RETRY_MOST_MS);
		snprintf(s->reason, sizeof s->reason, "%s", err.msg);
	}
	pthread_cond_broadcast(&s->changed);
}

/* Whether a program that is wanted is there at all. With the lock. */
static bool is_missing(struct hub_server *s)
{
	struct arena arena = { 0 };
	const char *command = s->entry->spec.command;
	if (!command || (s->missing && clock_ms() < s->look_ms))
		return s->missing;
	bool missing = s->missing = !hub_stdio_find(hub.server, command, &arena);
	arena_done(&arena);
	s->look_ms = clock_ms() + LOOK_MS;
	if (missing)
		snprintf(s->reason, sizeof s->reason, "the program '%s' is not installed%s%s",
			 command, s->entry->hint ? ": " : "", s->entry->hint ? s->entry->hint : "");
	return missing;
}

/* With the lock: whether it needs to be started, and may. Else *ret_why tells, where it may not. */
static bool may_start(struct hub_server *s, const char **ret_why)
{
	*ret_why = NULL;
	if (s->entry->problem)
		*ret_why = s->entry->problem;
	else if (s->dropped)
		*ret_why = "it was taken out of the configuration";
	else if (s->entry->disabled)
		*ret_why = "it is disabled in the configuration";
	else if (s->state == STARTING || (s->state == READY && s->client->ops->alive(s->client)))
		return false;
	else if (is_missing(s) || (s->state == FAILED && clock_ms() < s->retry_ms))
		*ret_why = s->reason;
	return !*ret_why;
}

static struct timespec moment(int64_t ms)
{
	return (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
}

/* A client that is ready, with a reference; NULL with err. */
static struct hub_client *ready_client(struct hub_server *s, int64_t until_ms, struct err *err)
{
	const char *why;
	struct hub_client *client = NULL;
	struct timespec until = moment(until_ms);
	pthread_mutex_lock(&s->lock);
	if (may_start(s, &why)) {
		s->state = STARTING;
		start_locked(s);
	}
	while (!why && s->state == STARTING)
		if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
			break;
	if (!why && s->state == READY && s->client && s->client->ops->alive(s->client)) {
		client = s->client;
		atomic_fetch_add(&client->refs, 1);
	} else {
		const char *reason = why                    ? why
				     : s->state == STARTING ? "it is still starting"
							    : s->reason;
		bool named = !strncmp(reason, "the MCP server ", 15);
		err_set(err, ERR_UNAVAILABLE, "%s%s%s%s", named ? "" : "the MCP server ",
			named ? "" : s->entry->spec.name, named ? "" : " is unavailable: ", reason);
	}
	pthread_mutex_unlock(&s->lock);
	return client;
}

/* ---- starting several at once ---- */

static void *starter(void *arg)
{
	auto_server struct hub_server *s = arg;
	pthread_mutex_lock(&s->lock);
	start_locked(s);
	bool ready = s->state == READY;
	char reason[512];
	snprintf(reason, sizeof reason, "%.100s: %.280s", s->entry->spec.name, s->reason);
	pthread_mutex_unlock(&s->lock);
	if (ready)
		session_tell(NEWS_TOOLS, NULL);
	else
		session_log(RANK_WARNING, "hub", reason);
	OPENSSL_thread_stop();
	pthread_mutex_lock(&starters.lock);
	if (--starters.count == 0)
		pthread_cond_broadcast(&starters.none);
	pthread_mutex_unlock(&starters.lock);
	return NULL;
}

/* With the server's lock. */
static void start_apart(struct hub_server *s)
{
	pthread_mutex_lock(&starters.lock);
	starters.count++;
	pthread_mutex_unlock(&starters.lock);
	s->state = STARTING;
	if (thread_start(starter, server_ref(s)) != 0) {
		s->state = IDLE;
		atomic_fetch_sub(&s->refs, 1);
		pthread_mutex_lock(&starters.lock);
		starters.count--;
		pthread_mutex_unlock(&starters.lock);
	}
}

static bool is_wanted(const struct hub_server *s, const char *only)
{
	return only && *only ? !strcmp(s->entry->spec.name, only) : !s->entry->hidden;
}

/* With the lock: whether its tools have to be asked for. */
static bool is_unknown(struct hub_server *s)
{
	const char *why;
	return (!s->offer || s->stale) && (s->state != READY || s->stale) && may_start(s, &why);
}

bool hub_would_wait(const char *only)
{
	struct hub_server **list = all();
	bool wait = false;
	for (struct hub_server **at = list; *at; at++) {
		pthread_mutex_lock(&(*at)->lock);
		wait = wait || (is_wanted(*at, only) &&
				(is_unknown(*at) || (*at)->stale || (*at)->state == STARTING));
		pthread_mutex_unlock(&(*at)->lock);
	}
	all_done(list);
	return wait;
}

/* Asks a server that said its tools have changed for the new ones. What is known stays until then. */
static void renew(struct hub_server *s, int64_t until_ms)
{
	struct err err;
	pthread_mutex_lock(&s->lock);
	bool wanted = s->stale && s->state == READY && s->client && clock_ms() >= s->renew_ms;
	struct hub_client *client = wanted ? s->client : NULL;
	if (client) {
		atomic_fetch_add(&client->refs, 1);
		s->stale = false;
	}
	pthread_mutex_unlock(&s->lock);
	if (!client)
		return;
	json_t *tools = fetch_tools(client, until_ms, &err);
	client->ops->unref(client);
	pthread_mutex_lock(&s->lock);
	if (tools) {
		offer_unref(s->offer);
		s->offer = offer_make(tools);
	} else {
		s->stale = true;
		s->renew_ms = clock_ms() + RETRY_MOST_MS;
	}
	pthread_mutex_unlock(&s->lock);
}

/* What is known of a server's tools by a moment, with a reference, or NULL. */
static struct offer *known_offer(struct hub_server *s, int64_t until_ms)
{
	struct timespec until = moment(until_ms);
	renew(s, until_ms);
	pthread_mutex_lock(&s->lock);
	while (s->state == STARTING && !s->offer)
		if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
			break;
	struct offer *offer = offer_ref(s->offer);
	pthread_mutex_unlock(&s->lock);
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
	for (struct hub_server **at = list; *at; at++) {
		pthread_mutex_lock(&(*at)->lock);
		if (is_wanted(*at, only) && is_unknown(*at))
			start_apart(*at);
		pthread_mutex_unlock(&(*at)->lock);
	}
	for (struct hub_server **at = list; *at; at++) {
		struct offer *offer = is_wanted(*at, only) ? known_offer(*at, until) : NULL;
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
	pthread_mutex_lock(&s->lock);
	json_t *tools = s->offer ? json_deep_copy(s->offer->tools) : NULL;
	pthread_mutex_unlock(&s->lock);
	struct hub_client *client = tools ? NULL : ready_client(s, clock_ms() + START_MS, err);
	if (!client)
		return tools;
	client->ops->unref(client);
	pthread_mutex_lock(&s->lock);
	tools = s->offer ? json_deep_copy(s->offer->tools) : json_array();
	pthread_mutex_unlock(&s->lock);
	return tools;
}

/* ---- the list of servers ---- */

size_t hub_list(struct arena *arena, struct hub_info *ret, size_t room)
{
	struct hub_server **list = all();
	size_t count = 0;
	for (struct hub_server **at = list; *at && count < room; at++) {
		static const char *const states[] = { "idle", "starting", "ready", "unavailable" };
		struct hub_server *s = *at;
		const char *why = NULL;
		pthread_mutex_lock(&s->lock);
		bool idle = may_start(s, &why) && s->state != FAILED;
		struct hub_info info = {
			.name = arena_strdup(arena, s->entry->spec.name),
			.kind = s->entry->spec.command ? "stdio" : "http",
			.status = s->entry->disabled ? "disabled"
				  : why              ? "unavailable"
				  : idle             ? "idle"
						     : states[s->state],
			.hidden = s->entry->hidden,
			.hint = s->entry->hint ? arena_strdup(arena, s->entry->hint) : NULL,
		};
		const char *reason = why ? why : s->state == FAILED ? s->reason : NULL;
		info.reason = reason ? arena_strdup(arena, reason) : NULL;
		if (!reason)
			info.hint = NULL;
		pthread_mutex_unlock(&s->lock);
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
	struct hub_client *client = ready_client(s, clock_ms() + START_MS, err);
	if (!client) {
		*ret_result = hub_check_failed(err->msg);
		return 0;
	}
	pthread_mutex_lock(&s->lock);
	bool known = pick_name(s, name, own, sizeof own);
	pthread_mutex_unlock(&s->lock);
	if (!known) {
		client->ops->unref(client);
		return exchange_fail(ex, RPC_PARAMS, "Unknown tool: %.100s", name);
	}
	json_t *params = json_pack("{s:s}", "name", own);
	json_object_set_new(params, "arguments",
			    json_is_object(args) ? json_deep_copy(args) : json_object());
	json_t *result =
		client->ops->request(client, "tools/call", params, ex, s->entry->timeout_ms, err);
	*ret_result = result ? hub_check_result(s->entry->spec.name, result)
			     : hub_check_failed(err->msg);
	json_decref(params);
	client->ops->unref(client);
	return 0;
}
