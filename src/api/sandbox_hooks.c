/* Hooks: commands that run when the sandbox ends. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "hook/hooks.h"
#include "net/call.h"

static const struct field hook_fields[] = {
	STR(shutdown_hook, name, REQUIRED, "Its name."),
	STR(shutdown_hook, event, 0, "When it runs: `shutdown`."),
	STR(shutdown_hook, command, REQUIRED, "The shell command."),
	NUM(shutdown_hook, timeout, 0, "Its time in seconds."),
	INT(shutdown_hook, priority, 0, "Lower ones run earlier, equal ones side by side."),
	STR(shutdown_hook, source, 0, "`env` or `api`."),
};
static const struct schema hook_schema = SCHEMA(shutdown_hook, "SandboxHook", hook_fields);
static const struct field hook_data = { .type = T_OBJ, .of = &hook_schema };
static const struct field hooks_data = { .type = T_LIST, .item = T_OBJ, .of = &hook_schema };

/* ---- registering ---- */

static const struct field register_fields[] = {
	STR(shutdown_hook, name, REQUIRED,
	    "A name of letters, digits, `_` and `-`. The hook that has it already is replaced.",
	    .max_len = HOOKS_NAME_MAX),
	STR(shutdown_hook, event, 0, "When it runs: `shutdown` is the only event.",
	    .def = HOOKS_SHUTDOWN, .max_len = 64),
	STR(shutdown_hook, command, REQUIRED,
	    "A shell command. It runs as the sandbox user, in the workspace.",
	    .max_len = HOOKS_COMMAND_MAX),
	NUM(shutdown_hook, timeout, ABOVE | MAX,
	    "Its time in seconds; never more than what is left of the time for all.", .def = "10",
	    .min = 0, .max = 86400),
	INT(shutdown_hook, priority, MIN | MAX, "Lower ones run earlier, equal ones side by side.",
	    .def = "100", .min = INT32_MIN, .max = INT32_MAX),
};
static const struct schema register_schema =
	SCHEMA(shutdown_hook, "RegisterHookRequest", register_fields);

static int register_hook(struct call *call, const void *in, struct err *err)
{
	struct shutdown_hook hook = *(const struct shutdown_hook *)in;
	if (!hook.command[strspn(hook.command, " \t\r\n")])
		return err_set(err, ERR_INVALID, "the command is empty");
	if (hooks_add(&hook, err) < 0)
		return -1;
	hook.source = "api";
	return call_reply(call, &hook, err);
}

/* ---- listing, removing ---- */

struct hooks_wanted {
	const char *event;
};
static const struct field wanted_fields[] = {
	STR(hooks_wanted, event, QUERY, "Only hooks of this event.", .def = HOOKS_SHUTDOWN),
};
static const struct schema wanted_schema = SCHEMA(hooks_wanted, "HooksWanted", wanted_fields);

static int list_hooks(struct call *call, const void *in, struct err *err)
{
	const struct hooks_wanted *request = in;
	struct list list = hooks_list(call->arena);
	if (*request->event && strcmp(request->event, HOOKS_SHUTDOWN) != 0)
		list.count = 0;
	return call_reply(call, &list, err);
}

struct hook_one {
	const char *name;
};
static const struct field one_fields[] = { STR(hook_one, name, PATH | REQUIRED, "Its name.") };
static const struct schema one_schema = SCHEMA(hook_one, "HookName", one_fields);
static const struct field removed_data = { .type = T_JSON, .flags = NULLABLE };

static int remove_hook(struct call *call, const void *in, struct err *err)
{
	const struct hook_one *request = in;
	if (hooks_remove(request->name, err) < 0)
		return -1;
	return call_reply(call, NULL, err);
}

/* ---- for the host ---- */

/* A host that is to end this box waits for the end of the answer, which begins before the hooks do. */
static int run_hooks(struct call *call, const void *in, struct err *err)
{
	(void)in;
	if (call_event_ping(call, err) < 0)
		return -1;
	const struct wait wait = call_until(call, INT64_MAX);
	hooks_shutdown_now(call->server, &wait);
	return call_event(call, "done", NULL, "", 0, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/sandbox/hooks", register_hook, &register_schema, &hook_data,
	  "Register a hook",
	  "A command that runs when the sandbox ends in order: when its server is asked to end, or "
	  "when its host deletes or stops it. It runs while the API still works. A hook of the same "
	  "name that came from the API is replaced. Hooks are kept in memory: they end with the "
	  "server. At most 50 can be registered." },
	{ "GET", "/v1/sandbox/hooks", list_hooks, &wanted_schema, &hooks_data, "List hooks",
	  "In the order in which they run." },
	{ "DELETE", "/v1/sandbox/hooks/{name}", remove_hook, &one_schema, &removed_data,
	  "Remove a hook", "One that comes from the environment cannot be removed: 409." },
	{ "POST", "/.aio/run-shutdown-hooks", run_hooks, NULL, NULL, "Run the shutdown hooks",
	  .flags = INTERNAL | BARE | EVENTS },
};
const struct route_group sandbox_hooks_group = { "sandbox",
						 "What the sandbox is and what is installed in it.",
						 routes, COUNT(routes) };
