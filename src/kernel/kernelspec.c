#include "kernel/kernelspec.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "config/distribution.h"
#include "config/home.h"
#include "proc/child.h"
#include "proc/tools.h"
#include "proc/user.h"

enum { SPECS_MAX = 100, SPEC_SIZE_MAX = 65536, ARGS_MAX = 64, ASK_MS = 10000 };

struct specs {
	const struct tools_where *where;
	struct arena *arena;
	struct kernelspec *all;
	size_t count;
	const char *bare; /* a Python that would do, had it ipykernel; or NULL */
};

/* ---- reading them ---- */

static const char *string_of(struct arena *arena, const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));
	return value ? arena_strdup(arena, value) : NULL;
}

/* argv is [python, (-X…,) -m, ipykernel_launcher or ipykernel, -f, {connection_file}]. */
static bool is_ipykernel(const struct kernelspec *spec)
{
	const char *const *argv = spec->argv.items;
	size_t at = 1;
	while (at < spec->argv.count && !strncmp(argv[at], "-X", 2))
		at++;
	return spec->argv.count == at + 4 && !strcmp(argv[at], "-m") &&
	       !strncmp(argv[at + 1], "ipykernel", 9) && !strcmp(argv[at + 2], "-f");
}

static bool known(const struct specs *specs, const char *name)
{
	for (size_t i = 0; i < specs->count; i++)
		if (!strcasecmp(specs->all[i].name, name))
			return true;
	return false;
}

/* The program as a path: a bare name is looked for where commands are. */
static const char *program(const struct specs *specs, const char *name)
{
	if (strchr(name, '/'))
		return arena_strdup(specs->arena, name);
	auto_free char *found = tools_find(specs->where, name, 0);
	return found ? arena_strdup(specs->arena, found) : NULL;
}

static void take_env(const json_t *json, struct arena *arena, struct kernelspec *spec)
{
	json_t *object = json_object_get(json, "env");
	struct pair *pairs = arena_alloc(arena, (json_object_size(object) + 1) * sizeof *pairs);
	const char *key;
	json_t *value;
	size_t count = 0;
	json_object_foreach(object, key, value)
		if (json_is_string(value))
			pairs[count++] =
				(struct pair){ arena_strdup(arena, key),
					       arena_strdup(arena, json_string_value(value)) };
	spec->env = (struct list){ count, pairs };
}

static void take(struct specs *specs, const char *name, const char *dir, const json_t *json)
{
	struct arena *arena = specs->arena;
	const json_t *given = json_object_get(json, "argv");
	const char **argv = arena_alloc(arena, ARGS_MAX * sizeof *argv);
	size_t count = json_array_size(given);
	const char *display = string_of(arena, json, "display_name");
	const char *language = string_of(arena, json, "language");
	const char *mode = json_string_value(json_object_get(json, "interrupt_mode"));
	if (!count || count > ARGS_MAX)
		return;
	for (size_t i = 0; i < count; i++) {
		const char *arg = json_string_value(json_array_get(given, i));
		const char *rest = arg ? strstr(arg, "{resource_dir}") : NULL;
		if (!arg)
			return;
		argv[i] = rest ? arena_printf(arena, "%.*s%s%s", (int)(rest - arg), arg, dir,
					      rest + strlen("{resource_dir}"))
			       : arena_strdup(arena, arg);
	}
	argv[0] = program(specs, argv[0]);
	if (!argv[0])
		return; /* what it needs is gone */
	struct kernelspec *spec = &specs->all[specs->count++];
	*spec = (struct kernelspec){ .name = name,
				     .display = display ? display : name,
				     .language = language ? language : "",
				     .argv = { count, argv },
				     .by_message = mode && !strcmp(mode, "message") };
	take_env(json, arena, spec);
	spec->python = is_ipykernel(spec) && !spec->env.count;
}

static json_t *read_spec(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_buf struct buf text = BUF(SPEC_SIZE_MAX);
	char *room = fd < 0 ? NULL : buf_grow(&text, SPEC_SIZE_MAX);
	ssize_t n = room ? read(fd, room, SPEC_SIZE_MAX) : -1;
	return n > 0 ? json_parse(room, (size_t)n, NULL) : NULL;
}

static void look_in(struct specs *specs, const char *folder)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir)) && specs->count < SPECS_MAX;) {
		const char *name = entry->d_name;
		if (*name == '.' || known(specs, name))
			continue;
		const char *place = arena_printf(specs->arena, "%s/%s", folder, name);
		json_t *json = read_spec(arena_printf(specs->arena, "%s/kernel.json", place));
		if (json)
			take(specs, arena_strdup(specs->arena, name), place, json);
		json_decref(json);
	}
	closedir(dir);
}

static void add_python(struct specs *specs, const char *name, const char *python)
{
	const char **argv = arena_alloc(specs->arena, 5 * sizeof *argv);
	argv[0] = arena_strdup(specs->arena, python);
	argv[1] = "-m";
	argv[2] = "ipykernel_launcher";
	argv[3] = "-f";
	argv[4] = "{connection_file}";
	specs->all[specs->count++] = (struct kernelspec){
		.name = arena_strdup(specs->arena, name),
		.display = "Python 3 (ipykernel)",
		.language = "python",
		.argv = { 5, argv },
		.python = true,
	};
}

/* Bash, by a kernel of ours. */
static void add_bash(struct specs *specs, const char *python)
{
	const char *script =
		arena_printf(specs->arena, "%s/share/kernel/bash.py", specs->where->home);
	if (known(specs, "bash") || !program(specs, "bash"))
		return;
	const char **argv = arena_alloc(specs->arena, 4 * sizeof *argv);
	argv[0] = python;
	argv[1] = script;
	argv[2] = "-f";
	argv[3] = "{connection_file}";
	specs->all[specs->count++] = (struct kernelspec){
		.name = "bash",
		.display = "Bash",
		.language = "bash",
		.argv = { 4, argv },
	};
}

/* Jupyter's own order: JUPYTER_PATH, the user's, the environment's, the system's. */
static void look(struct specs *specs)
{
	const struct tools_where *where = specs->where;
	struct arena *arena = specs->arena;
	char own[PATH_MAX];
	const char *path = getenv("JUPYTER_PATH"), *data = getenv("JUPYTER_DATA_DIR");
	struct user_view view;
	specs->all = arena_alloc(arena, (SPECS_MAX + 3) * sizeof *specs->all);
	bool usable = home_python(where->home, own, sizeof own);
	if (usable)
		add_python(specs, "python3", own);
	if (user_enter(where->user, &view, NULL) < 0) /* they are the user's own files */
		return;
	char *rest = arena_strdup(arena, path ? path : "");
	for (char *one; (one = strsep(&rest, ":"));)
		if (*one)
			look_in(specs, arena_printf(arena, "%s/kernels", one));
	look_in(specs,
		data ? arena_printf(arena, "%s/kernels", data)
		     : arena_printf(arena, "%s/.local/share/jupyter/kernels", where->user->home));
	look_in(specs, arena_printf(arena, "%s/.venv/share/jupyter/kernels", where->home));
	look_in(specs, "/usr/local/share/jupyter/kernels");
	look_in(specs, "/usr/share/jupyter/kernels");
	user_leave(&view);
	if (usable)
		add_bash(specs, arena_strdup(arena, own));
}

struct list kernelspec_list(const struct tools_where *where, struct arena *arena)
{
	struct specs specs = { .where = where, .arena = arena };
	look(&specs);
	return (struct list){ specs.count, specs.all };
}

/* ---- finding one ---- */

enum python { PYTHON_OTHER, PYTHON_BARE, PYTHON_READY };

/* Runs a Python to see whether it is that version, and has ipykernel. */
static enum python ask_python(const struct tools_where *where, const char *python,
			      const char *wanted)
{
	char *argv[] = { (char *)python, (char *)"-c",
			 (char *)"import sys; print('%d.%d' % sys.version_info[:2], flush=True)\n"
				 "import ipykernel",
			 NULL };
	auto_buf struct buf out = BUF(4096);
	struct program_status end;
	if (tools_run(where, argv, clock_ms() + ASK_MS, &out, &end, NULL) < 0 || !out.len ||
	    strcspn(out.data, "\n") != strlen(wanted) || strncmp(out.data, wanted, strlen(wanted)))
		return PYTHON_OTHER;
	return end.code == 0 ? PYTHON_READY : PYTHON_BARE;
}

/* Whether our own Python, of which its environment tells, is version 3.X. */
static bool own_is(const struct tools_where *where, struct arena *arena, const char *wanted)
{
	FILE *file = fopen(arena_printf(arena, "%s/.venv/pyvenv.cfg", where->home), "re");
	char line[256], version[32];
	bool same = false;
	while (file && !same && fgets(line, sizeof line, file))
		same = sscanf(line, "version = %31s", version) == 1 &&
		       !strncmp(version, wanted, strlen(wanted)) && version[strlen(wanted)] == '.';
	if (file)
		(void)fclose(file);
	return same;
}

/* What was found by asking; the programs stay. */
static struct {
	pthread_mutex_t lock;
	char *python[16];
} found = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool remembered(const char *python)
{
	bool result = false;
	pthread_mutex_lock(&found.lock);
	for (size_t i = 0; i < COUNT(found.python) && found.python[i] && !result; i++)
		if (!strcmp(found.python[i], python))
			result = true;
	pthread_mutex_unlock(&found.lock);
	return result;
}

static void remember(const char *python)
{
	size_t i = 0;
	pthread_mutex_lock(&found.lock);
	while (i < COUNT(found.python) && found.python[i])
		i++;
	if (i < COUNT(found.python))
		found.python[i] = xstrdup(python);
	pthread_mutex_unlock(&found.lock);
}

/* python3.X: our own if it is that version, else another that has ipykernel. */
static bool find_version(struct specs *specs, const char *name)
{
	const char *wanted = name + strlen("python");
	const struct kernelspec *own = specs->count ? &specs->all[0] : NULL;
	if (own && !strcmp(own->name, "python3") && own_is(specs->where, specs->arena, wanted)) {
		add_python(specs, name, *(const char *const *)own->argv.items);
		return true;
	}
	for (size_t nth = 0; nth < 8; nth++) {
		auto_free char *python = tools_find(specs->where, name, nth);
		if (!python)
			return false;
		if (!remembered(python)) {
			enum python what = ask_python(specs->where, python, wanted);
			if (what == PYTHON_BARE && !specs->bare)
				specs->bare = arena_strdup(specs->arena, python);
			if (what != PYTHON_READY)
				continue;
			remember(python);
		}
		add_python(specs, name, python);
		return true;
	}
	return false;
}

/* "3.11", "3.11.4" and "python3.11" are python3.11. */
static const char *default_name(struct arena *arena)
{
	const char *version = getenv("PYTHON_VERSION");
	int major, minor;
	if (!version || !*version)
		return "python3";
	if (!strncmp(version, "python", 6))
		version += 6;
	if (sscanf(version, "%d.%d", &major, &minor) == 2)
		return arena_printf(arena, "python%d.%d", major, minor);
	return "python3";
}

static void say_missing(const struct specs *specs, const char *name, struct err *err)
{
	auto_buf struct buf names = BUF(300);
	char needs[256];
	for (size_t i = 0; i < specs->count; i++)
		(void)buf_printf(&names, "%s%s", i ? ", " : "", specs->all[i].name);
	if (specs->count)
		err_set(err, ERR_BAD_REQUEST, "there is no kernel '%.60s'; there is: %s", name,
			names.data);
	else if (!distribution_has_glibc())
		err_set(err, ERR_UNAVAILABLE,
			"no Jupyter kernel is installed: the product's needs glibc, which the image of this "
			"box lacks; add a Python with ipykernel to the image ('%s python3 py3-pip', then "
			"'pip install ipykernel')",
			distribution_add());
	else if (home_python_needs(specs->where->home, needs, sizeof needs), *needs)
		err_set(err, ERR_UNAVAILABLE,
			"no Jupyter kernel is installed: add the package python3 to the image of this box "
			"(the product has ipykernel for %s), or any Python with 'pip install ipykernel'",
			needs);
	else
		err_set(err, ERR_UNAVAILABLE,
			"no kernel is installed: 'make deps' installs ipykernel into .venv");
}

const char *kernelspec_name(const char *name)
{
	return strcasecmp(name, "python") ? name : "python3";
}

static bool is_version(const char *name)
{
	return !strncmp(name, "python3.", 8) && name[8] &&
	       strspn(name + 8, "0123456789") == strlen(name + 8);
}

static const struct kernelspec *find(struct specs *specs, const char *name)
{
	const char *wanted = kernelspec_name(name);
	for (size_t i = 0; i < specs->count; i++)
		if (!strcasecmp(specs->all[i].name, wanted))
			return &specs->all[i];
	if (is_version(wanted) && find_version(specs, wanted))
		return &specs->all[specs->count - 1];
	return NULL;
}

/* Callers that name the Pythons of another machine can go on with the one that is here. */
static const struct kernelspec *stand_in(struct specs *specs, const char *name)
{
	const struct kernelspec *own = find(specs, "python3");
	if (!own)
		return NULL;
	struct kernelspec *spec = arena_alloc(specs->arena, sizeof *spec);
	*spec = *own;
	spec->notice =
		specs->bare
			? arena_printf(
				  specs->arena,
				  "%s has no ipykernel ('%s -m pip install ipykernel' installs it); python3 is used instead.",
				  specs->bare, name)
			: arena_printf(specs->arena,
				       "%s is not installed; python3 is used instead.", name);
	return spec;
}

const struct kernelspec *kernelspec_find(const struct tools_where *where, const char *name,
					 struct arena *arena, struct err *err)
{
	struct specs specs = { .where = where, .arena = arena };
	bool given = name && *name;
	look(&specs);
	const struct kernelspec *spec = find(&specs, given ? name : default_name(arena));
	if (!spec && !given)
		spec = find(&specs, "python3");
	if (!spec && given && is_version(name))
		spec = stand_in(&specs, name);
	if (!spec)
		say_missing(&specs, given ? name : "python3", err);
	return spec;
}

const struct kernelspec *kernelspec_for(const struct tools_where *where, const char *language,
					struct arena *arena)
{
	struct list list = kernelspec_list(where, arena);
	const struct kernelspec *specs = list.items;
	for (size_t i = 0; i < list.count; i++)
		if (!strcasecmp(specs[i].language, language))
			return &specs[i];
	return NULL;
}
