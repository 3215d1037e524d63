/* Skills: directories with a SKILL.md that tells an agent how to do something. */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/command.h"
#include "proc/tools.h"
#include "proc/user.h"
#include "skill/skills.h"

enum { INSTALL_MS = 300000, INSTALL_OUTPUT_MAX = 65536 };

/* ---- what a skill looks like in an answer ---- */

struct install {
	struct list command;
	bool success;
	struct text out, err;
};
static const struct field install_fields[] = {
	LIST(install, command, REQUIRED, "Executed dependency command.", .item = T_STR),
	BOOL(install, success, REQUIRED, "Whether the command succeeded."),
	NAMED("stdout", TEXT, install, out, NULLABLE, "The end of what it printed."),
	NAMED("stderr", TEXT, install, err, NULLABLE, "The end of what it printed as errors."),
};
static const struct schema install_schema =
	SCHEMA(install, "DependencyCommandResult", install_fields);

static const struct field skill_fields[] = {
	STR(skill, name, REQUIRED, "Skill name."),
	STR(skill, path, REQUIRED, "Absolute path to the skill directory."),
	JSON(skill, metadata, OPTIONAL, "Metadata parsed from SKILL.md front matter."),
	LIST(skill, dependency_commands, OPTIONAL,
	     "What was run to install what the skill needs, when it was registered.", .item = T_OBJ,
	     .of = &install_schema),
};
static const struct schema skill_schema = SCHEMA(skill, "SkillMetadata", skill_fields);
static const struct field skill_data = { .type = T_OBJ, .of = &skill_schema };

/* ---- installing what a skill needs ---- */

static const struct skills_recipe {
	const char *file, *program;
	const char *arguments[6];
} recipes[] = {
	{ "requirements.txt", "python3", { "-m", "pip", "install", "-r", "requirements.txt" } },
	{ "package.json", "npm", { "install", "--no-audit", "--no-fund" } },
};

static struct text tail(struct arena *arena, const struct output *output)
{
	char *data = arena_alloc(arena, INSTALL_OUTPUT_MAX + 1);
	int64_t from = output->size > INSTALL_OUTPUT_MAX ? output->size - INSTALL_OUTPUT_MAX : 0;
	size_t len = output_read(output, from, data, INSTALL_OUTPUT_MAX);
	data[len] = 0;
	return (struct text){ data, len };
}

/* Waits for the end, which is brought about when the caller leaves or the server stops. */
static void await(struct call *call, struct command *command, struct install *ret)
{
	struct wait wait = call_until(call, INT64_MAX);
	enum wake wake = WAKE_READY;
	const struct command_view *view = command_lock(command);
	while (view->state == COMMAND_RUNNING && wake == WAKE_READY)
		wake = command_wait(command, &wait);
	if (wake != WAKE_READY) {
		command_unlock(command);
		(void)command_signal(command, SIGKILL, NULL);
		command_lock(command);
	}
	ret->success = view->state == COMMAND_COMPLETED && view->exit_code == 0;
	ret->out = tail(call->arena, &view->out[COMMAND_STDOUT]);
	ret->err = tail(call->arena, &view->out[COMMAND_STDERR]);
	command_unlock(command);
	command_abandon(command);
}

static struct text say(struct arena *arena, const char *message)
{
	return (struct text){ arena_strdup(arena, message), strlen(message) };
}

static void install(struct call *call, const char *dir, const struct skills_recipe *recipe,
		    struct install *ret)
{
	struct err err;
	const struct user *user = user_sandbox(call->server->config->user, &err);
	const struct tools_where where = { call->server->home, user, server_stop_fd(call->server) };
	auto_free char *path = user ? tools_find(&where, recipe->program, 0) : NULL;
	const char **argv = arena_alloc(call->arena, (COUNT(recipe->arguments) + 2) * sizeof *argv);
	size_t count = 0;
	argv[count++] = recipe->program;
	for (size_t i = 0; i < COUNT(recipe->arguments) && recipe->arguments[i]; i++)
		argv[count++] = recipe->arguments[i];
	argv[count] = NULL;
	*ret = (struct install){ .command = { count, argv }, .out = say(call->arena, "") };
	if (!path) {
		ret->err = say(call->arena,
			       arena_printf(call->arena, "%s is not installed", recipe->program));
		return;
	}
	struct spawn spawn = {
		.path = path,
		.argv = (char *const *)argv,
		.cwd = dir,
		.fds = { -1, -1, -1 },
	};
	spawn_sandboxed(&spawn, call->arena, user, call->server->home, NULL, NULL);
	struct command *command = command_start(&spawn, clock_ms() + INSTALL_MS, &err);
	if (!command) {
		ret->err = say(call->arena, err.msg);
		return;
	}
	command_input_close(command);
	await(call, command, ret);
	command_unref(command);
}

static void install_all(struct call *call, struct skill *skill)
{
	struct install *done = arena_alloc(call->arena, COUNT(recipes) * sizeof *done);
	size_t count = 0;
	for (size_t i = 0; i < COUNT(recipes); i++) {
		struct stat st;
		const char *file = arena_printf(call->arena, "%s/%s", skill->path, recipes[i].file);
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
			install(call, skill->path, &recipes[i], &done[count++]);
	}
	skill->dependency_commands = (struct list){ count, done };
}

/* ---- registering ---- */

struct registration {
	struct upload *file;
	const char *path, *name;
};
static const struct field registration_fields[] = {
	FILE_FIELD(registration, file, OPTIONAL,
		   "A zip archive with a SKILL.md at its top, or with directories that have one."),
	STR(registration, path, OPTIONAL,
	    "With an archive: the directory to unpack it in, as a new directory; where registered "
	    "skills are when absent. Alone: an existing directory with a SKILL.md, or with "
	    "directories that have one.",
	    .max_len = 4000),
	STR(registration, name, OPTIONAL, "What the skill is to be called, and its new directory.",
	    .max_len = 256),
};
static const struct schema registration_schema =
	SCHEMA(registration, "Body_register_skills", registration_fields);

struct registered {
	int64_t count;
	struct list registered;
};
static const struct field registered_fields[] = {
	INT(registered, count, REQUIRED, "Number of registered skills."),
	LIST(registered, registered, OPTIONAL, "Registered skills and metadata.", .item = T_OBJ,
	     .of = &skill_schema),
};
static const struct schema registered_schema =
	SCHEMA(registered, "SkillRegistrationResult", registered_fields);
static const struct field registered_data = { .type = T_OBJ, .of = &registered_schema };

static const char *given(const char *text)
{
	return text && *text ? text : NULL;
}

static int register_skills(struct call *call, const void *in, struct err *err)
{
	const struct registration *request = in;
	const char *path = given(request->path), *name = given(request->name);
	struct list skills = { 0 };
	int result;
	if (request->file && request->file->size) /* SDKs send an empty file with a path alone */
		result = skills_add_archive(call, request->file, path, name, &skills, err);
	else if (path)
		result = skills_add_dir(call, path, name, &skills, err);
	else
		result = err_set(err, ERR_BAD_REQUEST, "a file, a path or both are needed");
	if (result < 0)
		return -1;
	for (size_t i = 0; i < skills.count; i++)
		install_all(call, &((struct skill *)skills.items)[i]);
	struct registered registered = { (int64_t)skills.count, skills };
	return call_reply(call, &registered, err);
}

/* ---- reading ---- */

struct wanted {
	const char *names;
};
static const struct field wanted_fields[] = {
	STR(wanted, names, QUERY, "Names of skills, separated by commas; all when absent."),
};
static const struct schema wanted_schema = SCHEMA(wanted, "SkillsWanted", wanted_fields);

struct skills_collection {
	struct list skills;
};
static const struct field collection_fields[] = {
	LIST(skills_collection, skills, OPTIONAL, "Collection of skill metadata entries.",
	     .item = T_OBJ, .of = &skill_schema),
};
static const struct schema collection_schema =
	SCHEMA(skills_collection, "SkillMetadataCollection", collection_fields);
static const struct field collection_data = { .type = T_OBJ, .of = &collection_schema };

/* Whether a name is among those between commas. */
static bool is_wanted(const char *names, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = names; at; at = strchr(at, ',')) {
		at += strspn(at, ", ");
		size_t item = strcspn(at, ",");
		while (item && at[item - 1] == ' ')
			item--;
		if (item == len && !memcmp(at, name, len))
			return true;
	}
	return false;
}

static int list_skills(struct call *call, const void *in, struct err *err)
{
	const struct wanted *request = in;
	struct skills_collection all;
	if (skills_list(call, &all.skills, err) < 0)
		return -1;
	struct skill *skills = (struct skill *)all.skills.items;
	size_t count = 0;
	for (size_t i = 0; i < all.skills.count; i++)
		if (!given(request->names) || is_wanted(request->names, skills[i].name))
			skills[count++] = skills[i];
	all.skills.count = count;
	return call_reply(call, &all, err);
}

struct skills_one {
	const char *name;
};
static const struct field one_fields[] = { STR(skills_one, name, PATH | REQUIRED, "Skill name.") };
static const struct schema one_schema = SCHEMA(skills_one, "SkillName", one_fields);

struct content {
	const char *name, *path;
	struct text content;
};
static const struct field content_fields[] = {
	STR(content, name, REQUIRED, "Skill name."),
	STR(content, path, REQUIRED, "Absolute path to the skill directory."),
	TEXT(content, content, REQUIRED, "Skill content excluding front matter."),
};
static const struct schema content_schema = SCHEMA(content, "SkillContentResult", content_fields);
static const struct field content_data = { .type = T_OBJ, .of = &content_schema };

static int get_content(struct call *call, const void *in, struct err *err)
{
	const struct skills_one *request = in;
	struct skill skill;
	struct content content;
	if (skills_find(call, request->name, &skill, &content.content, err) < 0)
		return -1;
	content.name = skill.name;
	content.path = skill.path;
	return call_reply(call, &content, err);
}

/* ---- removing ---- */

static int delete_skill(struct call *call, const void *in, struct err *err)
{
	const struct skills_one *request = in;
	struct skill skill;
	if (skills_remove(call, request->name, &skill, err) < 0)
		return -1;
	return call_reply(call, &skill, err);
}

struct cleared {
	int64_t count;
	struct list removed;
};
static const struct field cleared_fields[] = {
	INT(cleared, count, 0, "How many were removed."),
	LIST(cleared, removed, 0, "Their names.", .item = T_STR),
};
static const struct schema cleared_schema = SCHEMA(cleared, "SkillsCleared", cleared_fields);
static const struct field cleared_data = { .type = T_OBJ, .of = &cleared_schema };

/* What somebody else deletes at the same time is gone just as well. */
static int clear_skills(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct list skills;
	if (skills_list(call, &skills, err) < 0)
		return -1;
	const struct skill *all = skills.items;
	const char **names = arena_alloc(call->arena, (skills.count + 1) * sizeof *names);
	size_t count = 0;
	for (size_t i = 0; i < skills.count; i++) {
		struct skill skill;
		int result = skills_remove(call, all[i].name, &skill, err);
		if (result < 0 && err->code != ERR_NOT_FOUND)
			return -1;
		if (result == 0)
			names[count++] = all[i].name;
	}
	return call_reply(call, &(struct cleared){ (int64_t)count, { count, names } }, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/skills/register", register_skills, &registration_schema, &registered_data,
	  "Register skills",
	  "From a directory, which stays where it is, or from a zip archive. What requirements.txt or "
	  "package.json of a skill asks for is installed; see dependency_commands for how that went." },
	{ "GET", "/v1/skills/metadatas", list_skills, &wanted_schema, &collection_data,
	  "List skills with their metadata" },
	{ "GET", "/v1/skills/{name}/content", get_content, &one_schema, &content_data,
	  "Get the text of a skill" },
	{ "DELETE", "/v1/skills/{name}", delete_skill, &one_schema, &skill_data, "Delete a skill",
	  "The files of a skill that came from an archive go too, unless they were unpacked in a "
	  "directory of the caller's choice. A directory that was registered by its path stays." },
	{ "DELETE", "/v1/skills", clear_skills, NULL, &cleared_data, "Delete all skills" },
};
const struct route_group skills_group = { "skills", "Instructions for agents.", routes,
					  COUNT(routes) };
