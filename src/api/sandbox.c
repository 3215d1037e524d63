/* What the sandbox is: its system, its interpreters, its tools. Every value is looked up, and again
 * every LOOK_MS by whichever request comes then; in between the answer is kept whole. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "api/ports.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memo.h"
#include "code/packages.h"
#include "config/config.h"
#include "config/reach.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/listening.h"
#include "proc/tools.h"
#include "proc/user.h"

enum { LOOK_MS = 2000, TEXT_MAX = 4 << 20 };

static const char version[] = "v" AIO_VERSION ".0"; /* clients expect four parts */

/* ---- the answer ---- */

struct system_env {
	const char *os, *os_version, *arch, *distribution, *user, *home_dir, *workspace, *timezone,
		*network;
	struct list occupied_ports;
};
static const struct field system_fields[] = {
	STR(system_env, os, REQUIRED, "Name of the kernel."),
	STR(system_env, os_version, REQUIRED, "Release of the kernel."),
	STR(system_env, arch, REQUIRED, "Machine architecture."),
	STR(system_env, distribution, NULLABLE, "Name and version of the distribution."),
	STR(system_env, user, REQUIRED, "The sandbox user."),
	STR(system_env, home_dir, REQUIRED, "The user's home directory."),
	STR(system_env, workspace, NULLABLE, "Default directory of everything."),
	STR(system_env, timezone, REQUIRED, "Such as Europe/Berlin."),
	STR(system_env, network, NULLABLE, "What a box can reach: none, allow or full."),
	LIST(system_env, occupied_ports, REQUIRED,
	     "TCP ports that something listens on, but for this server's own.", .item = T_STR),
};
static const struct schema system_schema = SCHEMA(system_env, "SystemEnv", system_fields);

static const struct field spec_fields[] = {
	STR(tool_spec, ver, NULLABLE, "Version; null if the program does not tell."),
	STR(tool_spec, bin, NULLABLE, "Path of the program."),
	LIST(tool_spec, alias, OPTIONAL, "Commands that start it.", .item = T_STR),
};
static const struct schema spec_schema = SCHEMA(tool_spec, "ToolSpec", spec_fields);

struct runtime_env {
	struct list python, nodejs;
};
static const struct field runtime_fields[] = {
	LIST(runtime_env, python, REQUIRED, "Python interpreters, the one in use first.",
	     .item = T_OBJ, .of = &spec_schema),
	LIST(runtime_env, nodejs, REQUIRED, "Node.js, the one in use first.", .item = T_OBJ,
	     .of = &spec_schema),
};
static const struct schema runtime_schema = SCHEMA(runtime_env, "RuntimeEnv", runtime_fields);

static const struct field tool_fields[] = {
	STR(installed_tool, name, REQUIRED, "Command."),
	STR(installed_tool, description, NULLABLE, "What it does."),
};
static const struct schema tool_schema = SCHEMA(installed_tool, "AvailableTool", tool_fields);
static const struct field category_fields[] = {
	STR(tool_category, category, REQUIRED, "What they are for."),
	LIST(tool_category, tools, REQUIRED, "Those that are installed.", .item = T_OBJ,
	     .of = &tool_schema),
};
static const struct schema category_schema = SCHEMA(tool_category, "ToolCategory", category_fields);

struct detail {
	const struct system_env *system;
	const struct runtime_env *runtime;
	struct list utils;
};
static const struct field detail_fields[] = {
	OBJ(detail, system, REQUIRED, "The system.", .of = &system_schema),
	OBJ(detail, runtime, REQUIRED, "Interpreters.", .of = &runtime_schema),
	LIST(detail, utils, REQUIRED, "Tools by category.", .item = T_OBJ, .of = &category_schema),
};
static const struct schema detail_schema = SCHEMA(detail, "SandboxDetail", detail_fields);

struct sandbox_context {
	const char *home_dir, *workspace, *version;
	const struct detail *detail;
};
static const struct field context_fields[] = {
	STR(sandbox_context, home_dir, REQUIRED, "The sandbox user's home directory."),
	STR(sandbox_context, workspace, NULLABLE, "Default directory of everything."),
	STR(sandbox_context, version, REQUIRED, "Of this server."),
	OBJ(sandbox_context, detail, REQUIRED, "The text of `data` as a structure.",
	    .of = &detail_schema),
};
static const struct schema context_schema =
	SCHEMA(sandbox_context, "SandboxResponse", context_fields);
static const struct field context_data = {
	.type = T_STR,
	.help = "Text for an agent: the system, the interpreters and the tools that are there.",
};

/* ---- the system ---- */

/* The value of NAME=value in /etc/os-release. */
static char *os_release(struct arena *arena, const char *name)
{
	char line[1024], *found = NULL;
	size_t len = strlen(name);
	FILE *file = fopen("/etc/os-release", "re");
	while (file && !found && fgets(line, sizeof line, file)) {
		if (strncmp(line, name, len) != 0 || line[len] != '=')
			continue;
		char *value = line + len + 1;
		value += strspn(value, "\"'");
		value[strcspn(value, "\"'\n")] = 0;
		found = arena_strdup(arena, value);
	}
	if (file)
		fclose(file);
	return found;
}

/* The name of a zone, given as one or as a file below a zoneinfo directory. */
static const char *zone_name(struct arena *arena, const char *text)
{
	const char *below = strstr(text, "zoneinfo/");
	text += *text == ':';
	return arena_strdup(arena, below ? below + strlen("zoneinfo/") : text);
}

static const char *timezone_name(struct arena *arena, const struct config *config)
{
	char text[1024];
	if (config->time_zone && *config->time_zone)
		return zone_name(arena, config->time_zone);
	ssize_t len = readlink("/etc/localtime", text, sizeof text - 1);
	if (len > 0) {
		text[len] = 0;
		return zone_name(arena, text);
	}
	FILE *file = fopen("/etc/timezone", "re");
	char *line = file ? fgets(text, sizeof text, file) : NULL;
	if (file)
		fclose(file);
	text[line ? strcspn(text, " \t\n") : 0] = 0;
	return *text ? zone_name(arena, text) : "UTC";
}

static void note_port(void *arg, const struct listening *it)
{
	bool *listening = arg;
	listening[it->port] = true;
}

static struct list occupied_ports(const struct server *server, struct arena *arena)
{
	auto_free bool *listening = xcalloc(PORTS, sizeof *listening);
	size_t count = 0, used = 0;
	listening_each(note_port, listening);
	ports_forget_own(server, listening);
	for (unsigned port = 0; port < PORTS; port++)
		count += listening[port];
	const char **names = arena_alloc(arena, count * sizeof *names);
	for (unsigned port = 0; port < PORTS; port++)
		if (listening[port])
			names[used++] = arena_printf(arena, "%u", port);
	return (struct list){ count, names };
}

static void find_system(struct arena *arena, const struct server *server, const struct user *user,
			struct system_env *ret)
{
	const struct config *config = server->config;
	struct utsname uts;
	uname(&uts);
	*ret = (struct system_env){
		.os = arena_strdup(arena, uts.sysname),
		.os_version = arena_strdup(arena, uts.release),
		.arch = arena_strdup(arena, uts.machine),
		.distribution = os_release(arena, "PRETTY_NAME"),
		.user = user->name,
		.home_dir = user->home,
		.workspace = config->workspace,
		.timezone = timezone_name(arena, config),
		.network = reach_mode(config->network),
		.occupied_ports = occupied_ports(server, arena),
	};
}

/* ---- as text ---- */

static void put_names(struct buf *to, const struct list *names)
{
	const char *const *items = names->items;
	for (size_t i = 0; i < names->count; i++)
		buf_printf(to, "%s%s", i ? ", " : "", items[i]);
}

static void put_system(struct buf *to, const struct system_env *system)
{
	buf_printf(to, "System Environment (%s):\n- %s %s (%s)", version, system->os,
		   system->os_version, system->arch);
	if (system->distribution)
		buf_printf(to, ", %s", system->distribution);
	buf_printf(to, "\n- User: %s\n- Home directory: %s\n", system->user, system->home_dir);
	buf_printf(to, "- Workspace: %s\n- Timezone: %s\n- Occupied ports: ", system->workspace,
		   system->timezone);
	put_names(to, &system->occupied_ports);
	buf_str(to, system->occupied_ports.count ? "\n" : "none\n");
}

static void put_network(struct buf *to, const struct config *config)
{
	if (reach_mode(config->network))
		buf_str(to, "- ");
	reach_explain(config->network, to);
}

static void put_runtimes(struct buf *to, const struct tools *tools)
{
	buf_str(to, "\nDevelopment Environment:\n");
	for (size_t r = 0; r < TOOLS_RUNTIMES; r++) {
		const struct list *specs = &tools->runtimes[r].specs;
		if (!specs->count)
			buf_printf(to, "- %s: not installed\n", tools->runtimes[r].label);
		for (size_t i = 0; i < specs->count; i++) {
			const struct tool_spec *spec = (const struct tool_spec *)specs->items + i;
			buf_printf(to, "- %s%s%s: ", tools->runtimes[r].label, spec->ver ? " " : "",
				   spec->ver ? spec->ver : "");
			put_names(to, &spec->alias);
			buf_printf(to, spec->alias.count ? " (%s)\n" : "%s\n", spec->bin);
		}
	}
}

static void put_tools(struct buf *to, const struct list *categories)
{
	buf_str(to, "\nAvailable Tools:\n");
	for (size_t i = 0; i < categories->count; i++) {
		const struct tool_category *category =
			(const struct tool_category *)categories->items + i;
		const struct installed_tool *tools = category->tools.items;
		buf_printf(to, "- %s: ", category->category);
		for (size_t k = 0; k < category->tools.count; k++)
			buf_printf(to, "%s%s", k ? ", " : "", tools[k].name);
		buf_str(to, "\n");
	}
}

/* ---- looked up once, given many times ---- */

struct view {
	struct memo_value memo;
	int64_t looked_ms;
	struct tools *tools; /* for the next look: the versions it has learned */
	struct buf text, body;
};

/* A sink that keeps the answer. */
struct keeper {
	struct sink sink;
	struct buf *to;
};

static int keep_begin(struct sink *sink, const struct answer *answer, struct err *err)
{
	(void)answer;
	(void)err;
	sink->begun = true;
	return 0;
}

static int keep_write(struct sink *sink, const void *data, size_t len, struct err *err)
{
	if (buf_add(((struct keeper *)sink)->to, data, len) < 0)
		return err_set(err, ERR_LIMIT, "the description of the sandbox is too long");
	return 0;
}

/* Writes the answer that the route's tables describe. */
static int put_body(struct server *server, struct arena *arena,
		    const struct sandbox_context *context, struct view *view, struct err *err)
{
	struct keeper keeper = { { keep_begin, keep_write, NULL, -1, false }, &view->body };
	struct call call = { .route = &sandbox_group.routes[0],
			     .server = server,
			     .arena = arena,
			     .sink = &keeper.sink,
			     .extra = context };
	return call_reply(&call, &view->text.data, err);
}

static void view_free(struct memo_value *value)
{
	struct view *view = (struct view *)value;
	tools_free(view->tools);
	buf_done(&view->text);
	buf_done(&view->body);
	free(view);
}

static int fill(struct view *view, const struct view *old, struct server *server,
		struct arena *arena, struct err *err)
{
	struct user user;
	struct system_env system;
	if (user_find(server->config->user, &user, err) < 0)
		return -1;
	struct tools_where where = { server->home, &user, server_stop_fd(server) };
	view->tools = tools_look(&where, old ? old->tools : NULL, err);
	if (!view->tools)
		return -1;
	find_system(arena, server, &user, &system);
	struct runtime_env runtime = { view->tools->runtimes[TOOLS_PYTHON].specs,
				       view->tools->runtimes[TOOLS_NODEJS].specs };
	struct detail detail = { &system, &runtime, view->tools->categories };
	struct sandbox_context context = { system.home_dir, system.workspace, version, &detail };
	put_system(&view->text, &system);
	put_network(&view->text, server->config);
	put_runtimes(&view->text, view->tools);
	put_tools(&view->text, &detail.utils);
	return put_body(server, arena, &context, view, err);
}

static struct memo_value *view_make(const struct memo_value *old, void *arg, struct err *err)
{
	struct arena arena = { 0 };
	struct view *view = xcalloc(1, sizeof *view);
	view->text = view->body = BUF(TEXT_MAX);
	int result = fill(view, (const struct view *)old, arg, &arena, err);
	view->looked_ms = clock_ms();
	arena_done(&arena);
	if (result == 0)
		return &view->memo;
	view_free(&view->memo);
	return NULL;
}

static bool view_fresh(const struct memo_value *value, void *arg)
{
	(void)arg;
	return clock_ms() - ((const struct view *)value)->looked_ms < LOOK_MS;
}

static struct memo memo = MEMO;
static const struct memo_how how = { view_fresh, view_make, view_free, .old_will_do = true };

static struct view *view_get(struct server *server, struct err *err)
{
	return (struct view *)memo_get(&memo, &how, server, err);
}

int sandbox_text(struct server *server, struct buf *to, struct err *err)
{
	struct view *view = view_get(server, err);
	if (!view)
		return -1;
	int result = buf_add(to, view->text.data, view->text.len);
	memo_put(&how, &view->memo);
	return result == 0 ? 0
			   : err_set(err, ERR_LIMIT, "the description of the sandbox is too long");
}

static int context(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct view *view = view_get(call->server, err);
	if (!view)
		return -1;
	int result = call_text(call, "application/json", view->body.data, view->body.len, err);
	memo_put(&how, &view->memo);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/sandbox", context, NULL, &context_data, "Get the sandbox's environment",
	  "The system, interpreters with their versions, and the tools that are installed: in `data` "
	  "as text for an agent, in `detail` as a structure. What changes is seen within seconds.",
	  .extra = &context_schema, .message = "Environment information retrieved" },
	{ "GET", "/v1/sandbox/packages/python", packages_python, NULL, &packages_data,
	  "List Python packages",
	  "What the sandbox's Python finds: the first `python3` of `GET /v1/sandbox`, which is the "
	  "product's own virtual environment where there is one." },
	{ "GET", "/v1/sandbox/packages/nodejs", packages_nodejs, NULL, &packages_data,
	  "List Node.js packages",
	  "The packages in the product's `node_modules` and in the global ones, where `npm install "
	  "-g` puts them: `lib/node_modules` below NPM_CONFIG_PREFIX, below the prefix of every "
	  "Node.js that is found, and below /usr/local." },
};
const struct route_group sandbox_group = { "sandbox",
					   "What the sandbox is and what is installed in it.",
					   routes, COUNT(routes) };
