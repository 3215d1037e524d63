#include "code/nodejs_programs.h"

#include <ctype.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/memo.h"
#include "base/own.h"
#include "code/nodejs_execute.h"
#include "code/packages.h"
#include "config/config.h"
#include "config/distribution.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/tools.h"
#include "proc/user.h"

enum { LOOK_MS = 2000 };

static const char *missing(struct arena *arena)
{
	const char *add = distribution_add();
	return distribution_has_glibc()
		       ? arena_printf(
				 arena,
				 "Node.js is not installed: run 'make deps', install it (%s nodejs "
				 "npm), or add it to the image of this box",
				 add)
		       : arena_printf(
				 arena,
				 "Node.js is not installed: the product's needs glibc, which the image "
				 "of this box lacks; add one to the image (%s nodejs npm)",
				 add);
}

/* ---- those that are there ---- */

struct catalog {
	struct memo_value memo;
	struct tools *tools;
	int64_t made_ms;
};

static bool catalog_fresh(const struct memo_value *value, void *arg)
{
	(void)arg;
	return clock_ms() - ((const struct catalog *)value)->made_ms < LOOK_MS;
}

static struct memo_value *catalog_make(const struct memo_value *old, void *arg, struct err *err)
{
	const struct catalog *before = (const struct catalog *)old;
	struct tools *tools = tools_look(arg, before ? before->tools : NULL, err);
	if (!tools)
		return NULL;
	struct catalog *catalog = xcalloc(1, sizeof *catalog);
	catalog->tools = tools;
	catalog->made_ms = clock_ms();
	return &catalog->memo;
}

static void catalog_free(struct memo_value *value)
{
	tools_free(((struct catalog *)value)->tools);
	free(value);
}

static struct memo memo = MEMO;
static const struct memo_how how = { catalog_fresh, catalog_make, catalog_free,
				     .old_will_do = true };

static void catalog_put(void *catalog)
{
	memo_put(&how, catalog);
}

/* All Node.js (struct tool_spec), for as long as the call lives; NULL with err. */
static const struct list *programs(struct call *call, const struct tools_where *where,
				   struct err *err)
{
	struct catalog *catalog = (struct catalog *)memo_get(&memo, &how, (void *)where, err);
	if (!catalog)
		return NULL;
	arena_defer(call->arena, catalog_put, catalog);
	return &catalog->tools->runtimes[TOOLS_NODEJS].specs;
}

static int find_where(struct call *call, struct tools_where *ret, struct err *err)
{
	const struct user *user = user_sandbox(call->server->config->user, err);
	*ret = (struct tools_where){ call->server->home, user, server_stop_fd(call->server) };
	return user ? 0 : -1;
}

/* ---- picking one ---- */

/* Whether --experimental-transform-types is known: from 22.7 on, until it is not needed any more. */
static bool transforms(const char *version)
{
	int major = 0, minor = 0;
	if (!version || sscanf(version, "%d.%d", &major, &minor) != 2)
		return false;
	return (major == 22 && minor >= 7) || (major > 22 && major < 26);
}

/* "node22", "v22" and "22" are "22"; NULL for what is no number. */
static const char *major_of(const char *version)
{
	if (!strncmp(version, "node", 4))
		version += 4;
	version += *version == 'v';
	return *version && strspn(version, "0123456789") == strlen(version) ? version : NULL;
}

static bool has_major(const struct tool_spec *spec, const char *major)
{
	size_t len = strlen(major);
	return spec->ver && !strncmp(spec->ver, major, len) && spec->ver[len] == '.';
}

/* "node20, node24" */
static const char *names_of(struct call *call, const struct list *all)
{
	const struct tool_spec *specs = all->items;
	const char *text = "";
	for (size_t i = 0; i < all->count; i++)
		if (specs[i].ver)
			text = arena_printf(call->arena, "%s%snode%.*s", text, *text ? ", " : "",
					    (int)strcspn(specs[i].ver, "."), specs[i].ver);
	return text;
}

static const struct tool_spec *find_version(struct call *call, const struct list *all,
					    const char *version, struct err *err)
{
	const struct tool_spec *specs = all->items;
	const char *major = version ? major_of(version) : NULL;
	if (version && !major) {
		err_set(err, ERR_INVALID, "version: '%.20s' is not like node22 or 22", version);
		return NULL;
	}
	for (size_t i = 0; i < all->count; i++)
		if (!major || has_major(&specs[i], major))
			return &specs[i];
	if (!all->count)
		err_set(err, ERR_UNAVAILABLE, "%s", missing(call->arena));
	else
		err_set(err, ERR_BAD_REQUEST, "version: node%s is not installed; installed: %s",
			major ? major : "", names_of(call, all));
	return NULL;
}

int nodejs_programs_pick(struct call *call, const char *version, bool typescript,
			 struct node_where *ret, struct err *err)
{
	struct tools_where where;
	if (find_where(call, &where, err) < 0)
		return -1;
	*ret = (struct node_where){ .home = where.home, .user = where.user };
	if (version && !*version)
		version = NULL;
	if (!version && !typescript) { /* the usual: nobody need be asked for a version */
		auto_free char *found = tools_find(&where, "node", 0);
		if (!found)
			return err_set(err, ERR_UNAVAILABLE, "%s", missing(call->arena));
		ret->program = arena_strdup(call->arena, found);
		return 0;
	}
	const struct list *all = programs(call, &where, err);
	const struct tool_spec *spec = all ? find_version(call, all, version, err) : NULL;
	if (!spec)
		return -1;
	ret->program = spec->bin;
	ret->transforms = transforms(spec->ver);
	return 0;
}

const char *nodejs_version(struct call *call)
{
	struct tools_where where;
	struct err ignored;
	if (find_where(call, &where, &ignored) < 0)
		return NULL;
	const struct list *all = programs(call, &where, &ignored);
	const struct tool_spec *specs = all ? all->items : NULL;
	return all && all->count ? specs[0].ver : NULL;
}

/* ---- info ---- */

static const struct field package_fields[] = {
	STR(package, name, REQUIRED, "Name."),
	STR(package, version, REQUIRED, "Installed version."),
};
static const struct schema package_schema = SCHEMA(package, "NodeJSPackageInfo", package_fields);

struct nodejs_programs_info {
	const char *node_version, *npm_version, *description, *runtime_directory,
		*global_npm_directory, *error, *current_version;
	struct list supported_languages, runtime_packages, global_packages, available_versions;
};
static const struct field info_fields[] = {
	STR(nodejs_programs_info, node_version, REQUIRED, "Of the Node.js that is used first."),
	STR(nodejs_programs_info, npm_version, REQUIRED, "Of npm; empty when there is none."),
	LIST(nodejs_programs_info, supported_languages, REQUIRED, "What /v1/nodejs/execute runs.",
	     .item = T_STR),
	STR(nodejs_programs_info, description, REQUIRED, "In a few words."),
	STR(nodejs_programs_info, runtime_directory, NULLABLE,
	    "Where the product's own packages are."),
	STR(nodejs_programs_info, global_npm_directory, NULLABLE,
	    "Where `npm install -g` puts packages."),
	LIST(nodejs_programs_info, runtime_packages, OPTIONAL, "The product's own.", .item = T_OBJ,
	     .of = &package_schema),
	LIST(nodejs_programs_info, global_packages, OPTIONAL, "Those of `npm install -g`.",
	     .item = T_OBJ, .of = &package_schema),
	STR(nodejs_programs_info, error, NULLABLE, "What is missing."),
	LIST(nodejs_programs_info, available_versions, OPTIONAL, "What `version` can be.",
	     .item = T_STR),
	STR(nodejs_programs_info, current_version, NULLABLE,
	    "The one that is used when none is asked for."),
};
static const struct schema info_schema =
	SCHEMA(nodejs_programs_info, "NodeJSRuntimeInfo", info_fields);
const struct field nodejs_programs_data = { .type = T_OBJ, .of = &info_schema };

/* What says which package a command belongs to. The user may have put any link in its way. */
static int open_manifest(const struct user *user, const char *command)
{
	struct user_view view;
	char real[PATH_MAX];
	int fd = -1;
	if (user_enter(user, &view, NULL) < 0)
		return -1;
	if (realpath(command, real)) {
		auto_free char *path = xasprintf("%s/package.json", dirname(dirname(real)));
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	user_leave(&view);
	return fd;
}

/* From its package: npm itself takes half a second to say so. */
static const char *npm_version(struct call *call, const struct tools_where *where)
{
	char text[65536];
	auto_free char *npm = tools_find(where, "npm", 0);
	auto_close int fd = npm ? open_manifest(where->user, npm) : -1;
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
	json_t *json = len > 0 ? json_parse(text, (size_t)len, NULL) : NULL;
	const char *version = json_string_value(json_object_get(json, "version"));
	const char *result = version ? arena_strdup(call->arena, version) : "";
	json_decref(json);
	return result;
}

static const char *short_name(struct call *call, const char *version)
{
	return arena_printf(call->arena, "node%.*s", (int)strcspn(version, "."), version);
}

int nodejs_programs_info(struct call *call, const void *in, struct err *err)
{
	static const char *const languages[] = { "javascript", "typescript" };
	(void)in;
	struct tools_where where;
	const char *dirs[PACKAGES_DIRS_MAX], *own;
	const struct list *all = find_where(call, &where, err) < 0 ? NULL
								   : programs(call, &where, err);
	if (!all)
		return -1;
	const struct tool_spec *specs = all->items;
	const char **versions = arena_alloc(call->arena, (all->count + 1) * sizeof *versions);
	struct nodejs_programs_info info = { .node_version = "",
					     .npm_version = npm_version(call, &where),
					     .supported_languages = { COUNT(languages), languages },
					     .description =
						     "JavaScript and TypeScript, run by Node.js",
					     .error = all->count ? NULL : missing(call->arena) };
	for (size_t i = 0; i < all->count; i++)
		if (specs[i].ver)
			versions[info.available_versions.count++] = short_name(call, specs[i].ver);
	info.available_versions.items = versions;
	if (all->count && specs[0].ver) {
		info.node_version = arena_printf(call->arena, "v%s", specs[0].ver);
		info.current_version = versions[0];
	}
	size_t count = packages_global_dirs(call->arena, &where, dirs);
	own = arena_printf(call->arena, "%s/node_modules", where.home);
	info.runtime_directory = own;
	info.global_npm_directory = count ? dirs[0] : NULL;
	if (packages_of(call->arena, &where, &own, 1, &info.runtime_packages, err) < 0 ||
	    packages_of(call->arena, &where, dirs, count, &info.global_packages, err) < 0)
		return -1;
	return call_reply(call, &info, err);
}
