#include "proc/tools.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "proc/child.h"
#include "proc/environment.h"
#include "proc/tools_rows.h"
#include "proc/user.h"

enum {
	DIRS_MAX = 64,
	PROGRAMS_MAX = 64,
	NAMES_MAX = 16,
	VERSION_LINE_MAX = 4096,
	ASK_MS = 5000,     /* what was too slow stays unknown for long: a busy machine counts too */
	KNOWN_MS = 300000, /* a shim starts another version one day without changing itself */
};

/* ---- where programs are ---- */

struct tools_search {
	const char *dirs[DIRS_MAX];
	struct stat stats[DIRS_MAX];
	size_t count;
};

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Once each: /bin is often /usr/bin. */
static void add_dir(struct tools_search *search, const char *dir)
{
	struct stat st;
	if (*dir != '/' || search->count == DIRS_MAX || stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	for (size_t i = 0; i < search->count; i++)
		if (same_file(&search->stats[i], &st))
			return;
	search->dirs[search->count] = dir;
	search->stats[search->count++] = st;
}

/* The PATH that whatever runs in the sandbox gets. */
static void search_init(struct tools_search *search, const struct tools_where *where,
			struct arena *arena)
{
	char **env = environment_make(arena, where->user, where->home, NULL);
	search->count = 0;
	while (*env && strncmp(*env, "PATH=", 5) != 0)
		env++;
	for (const char *at = *env ? *env + 5 : ""; *at; at += *at == ':') {
		size_t len = strcspn(at, ":");
		add_dir(search, arena_strndup(arena, at, len));
		at += len;
	}
}

static bool is_program(const char *path, struct stat *st)
{
	return stat(path, st) == 0 && S_ISREG(st->st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

static bool join(char *to, size_t room, const char *dir, const char *name)
{
	return (size_t)snprintf(to, room, "%s/%s", dir, name) < room;
}

char *tools_find(const struct tools_where *where, const char *name, size_t nth)
{
	struct arena arena = { 0 };
	struct user_view view;
	struct tools_search search;
	struct stat st;
	char path[4096], *found = NULL;
	if (user_enter(where->user, &view, NULL) < 0)
		return NULL;
	search_init(&search, where, &arena);
	for (size_t i = 0; i < search.count && !found; i++)
		if (join(path, sizeof path, search.dirs[i], name) && is_program(path, &st) &&
		    !nth--)
			found = xstrdup(path);
	user_leave(&view);
	arena_done(&arena);
	return found;
}

/* ---- running them ---- */

int tools_run(const struct tools_where *where, char *const argv[], int64_t until_ms,
	      struct buf *out, struct program_status *ret, struct err *err)
{
	struct arena arena = { 0 };
	struct child_spec spec = { .argv = argv,
				   .env = environment_make(&arena, where->user, where->home, NULL),
				   .dir = "/",
				   .user = where->user,
				   .wait = { until_ms, -1, where->stop_fd } };
	int result = child_run(&spec, out, ret, err);
	arena_done(&arena);
	return result;
}

/* ---- interpreters ---- */

static const char *const python_names[] = { "python3",    "python",     "python3.15", "python3.14",
					    "python3.13", "python3.12", "python3.11", "python3.10",
					    "python3.9",  "python3.8",  NULL };
static const char *const node_names[] = { "node", "nodejs", NULL };
static const char *const git_names[] = { "git", NULL }, *const gh_names[] = { "gh", NULL },
			 *const uv_names[] = { "uv", NULL };

static const struct {
	const char *label;
	const char *const *names;
} runtimes[TOOLS_RUNTIMES] = {
	[TOOLS_PYTHON] = { "Python", python_names },
	[TOOLS_NODEJS] = { "Node.js", node_names },
	[TOOLS_GIT] = { "Git", git_names },
	[TOOLS_GH] = { "gh", gh_names },
	[TOOLS_UV] = { "uv", uv_names },
};

/* A program whose version is asked for. */
struct tools_program {
	enum tools_runtime runtime;
	const char *path;
	struct stat st, key;
	const char *names[NAMES_MAX];
	size_t name_count;
	bool known;  /* what follows holds, until the program changes */
	bool broken; /* it does not start, or fails */
	const char *version;
	int64_t known_ms;

	const struct tools_where *where; /* for the thread that asks */
	char line[64];
};

struct tools_found {
	struct arena arena;
	struct tools_program programs[PROGRAMS_MAX];
	size_t count;
};

static bool same_content(const struct stat *a, const struct stat *b)
{
	return same_file(a, b) && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Names that lead to one file are one program; but the links in a virtual environment are a program
 * of their own, whatever they lead to. */
static void find_key(const char *dir, struct tools_program *program)
{
	char path[4096];
	if (!join(path, sizeof path, dir, "../pyvenv.cfg") || stat(path, &program->key) < 0)
		program->key = program->st;
}

/* "python3.12" as a script is a version manager's, which starts whatever was chosen: that is found
 * under the plain names, while most of these would only fail, and slowly. */
static bool is_shim(const char *path, const char *name)
{
	char start[2];
	if (!strchr(name, '.'))
		return false;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && read(fd, start, 2) == 2 && !memcmp(start, "#!", 2);
}

static struct tools_program *add_program(struct tools_found *found,
					 const struct tools_program *candidate)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->programs[i].runtime == candidate->runtime &&
		    same_file(&found->programs[i].key, &candidate->key))
			return &found->programs[i];
	if (found->count == PROGRAMS_MAX)
		return NULL;
	struct tools_program *program = &found->programs[found->count++];
	*program = *candidate;
	program->path = arena_strdup(&found->arena, candidate->path);
	return program;
}

/* All programs of a runtime, wherever they are; a command starts the first one of its name. */
static void find_programs(struct tools_found *found, enum tools_runtime runtime,
			  const struct tools_search *search)
{
	char path[4096];
	for (const char *const *name = runtimes[runtime].names; *name; name++) {
		bool first = true;
		for (size_t i = 0; i < search->count; i++) {
			struct tools_program candidate = { .runtime = runtime, .path = path };
			if (!join(path, sizeof path, search->dirs[i], *name) ||
			    !is_program(path, &candidate.st))
				continue;
			find_key(search->dirs[i], &candidate);
			struct tools_program *program =
				is_shim(path, *name) ? NULL : add_program(found, &candidate);
			if (program && first && program->name_count < NAMES_MAX)
				program->names[program->name_count++] = *name;
			first = false;
		}
	}
}

/* ---- their versions ---- */

/* The first "1.2…" of a line: "git version 2.39.5 (…)", "v20.1.0". */
static void find_version(const char *line, char *ret, size_t room)
{
	*ret = 0;
	for (const char *at = line; *at && *at != '\n'; at++) {
		size_t digits = strspn(at, "0123456789");
		bool starts = at == line || !isalnum((unsigned char)at[-1]) || at[-1] == 'v';
		if (digits && starts && at[digits] == '.' &&
		    isdigit((unsigned char)at[digits + 1])) {
			size_t len = 0;
			while (isalnum((unsigned char)at[len]) ||
			       (at[len] && strchr(".+-_", at[len])))
				len++;
			snprintf(ret, room, "%.*s", (int)len, at);
			return;
		}
		if (digits)
			at += digits - 1;
	}
}

static void *ask_version(void *arg)
{
	struct tools_program *program = arg;
	char *argv[] = { (char *)program->path, (char *)"--version", NULL };
	struct program_status end = { 0 };
	struct err err = { 0 };
	auto_buf struct buf out = BUF(VERSION_LINE_MAX);
	int result = tools_run(program->where, argv, clock_ms() + ASK_MS, &out, &end, &err);
	bool refused = result < 0 &&
		       (err.code == ENOENT || err.code == EACCES || err.code == EPERM ||
			err.code == ENOEXEC || err.code == ELOOP);
	program->broken = refused || (result == 0 && end.code != 0);
	program->known = result == 0 || refused || err.code == ERR_SLOW;
	program->known_ms = clock_ms();
	find_version(result == 0 && out.data ? out.data : "", program->line, sizeof program->line);
	return NULL;
}

static bool recall(struct tools_program *program, const struct tools_found *old)
{
	for (size_t i = 0; old && i < old->count; i++) {
		const struct tools_program *was = &old->programs[i];
		if (was->known && !strcmp(was->path, program->path) &&
		    same_content(&was->st, &program->st) &&
		    same_content(&was->key, &program->key) &&
		    clock_ms() - was->known_ms < KNOWN_MS) {
			program->known = true;
			program->known_ms = was->known_ms;
			program->broken = was->broken;
			memcpy(program->line, was->line, sizeof program->line);
		}
	}
	return program->known;
}

static void find_versions(struct tools_found *found, const struct tools_where *where,
			  const struct tools_found *old)
{
	pthread_t threads[PROGRAMS_MAX];
	bool started[PROGRAMS_MAX] = { false };
	for (size_t i = 0; i < found->count; i++) {
		struct tools_program *program = &found->programs[i];
		program->where = where;
		if (recall(program, old))
			continue;
		started[i] = thread_start_joinable(&threads[i], ask_version, program) == 0;
		if (!started[i])
			ask_version(program);
	}
	for (size_t i = 0; i < found->count; i++) {
		struct tools_program *program = &found->programs[i];
		if (started[i])
			pthread_join(threads[i], NULL);
		program->where = NULL;
		program->version = *program->line ? program->line : NULL;
	}
}

/* ---- the result ---- */

/* Two files of a directory with one version are one interpreter: a script for each of its names. */
static bool is_twin(const struct tools_program *a, const struct tools_program *b)
{
	size_t len = (size_t)(strrchr(a->path, '/') - a->path) + 1;
	return !b->broken && a->runtime == b->runtime && a->version && b->version &&
	       !strcmp(a->version, b->version) && !strncmp(a->path, b->path, len) &&
	       !strchr(b->path + len, '/');
}

static void add_names(const struct tools_program *program, const char **names, size_t *count)
{
	for (size_t i = 0; i < program->name_count; i++)
		names[(*count)++] = program->names[i];
}

static struct list list_specs(struct tools_found *found, enum tools_runtime runtime)
{
	struct tool_spec *specs = arena_alloc(&found->arena, found->count * sizeof *specs);
	bool taken[PROGRAMS_MAX] = { false };
	size_t count = 0;
	for (size_t i = 0; i < found->count; i++) {
		const struct tools_program *program = &found->programs[i];
		if (program->runtime != runtime || program->broken || taken[i])
			continue;
		const char **names =
			arena_alloc(&found->arena, found->count * NAMES_MAX * sizeof *names);
		size_t name_count = 0;
		add_names(program, names, &name_count);
		for (size_t k = i + 1; k < found->count; k++)
			if (is_twin(program, &found->programs[k])) {
				taken[k] = true;
				add_names(&found->programs[k], names, &name_count);
			}
		specs[count++] = (struct tool_spec){ program->version,
						     program->path,
						     { name_count, names } };
	}
	return (struct list){ count, specs };
}

/* A script whose interpreter is elsewhere, or nowhere, is there and cannot be started. */
static bool can_start(const char *path)
{
	char head[256];
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof head - 1);
	if (n < 3 || head[0] != '#' || head[1] != '!')
		return true;
	head[n] = 0;
	char *interpreter = head + 2 + strspn(head + 2, " \t");
	interpreter[strcspn(interpreter, " \t\n")] = 0;
	return faccessat(AT_FDCWD, interpreter, X_OK, AT_EACCESS) == 0;
}

/* The first of that name in the PATH counts, as for a shell. */
static bool is_found(const struct tools_row *row, const struct tools_search *search)
{
	char path[4096];
	struct stat st;
	if (row->needs && faccessat(AT_FDCWD, row->needs, F_OK, AT_EACCESS) < 0)
		return false;
	for (size_t i = 0; i < search->count; i++)
		if (join(path, sizeof path, search->dirs[i], row->name) && is_program(path, &st))
			return can_start(path);
	return false;
}

/* The rows of the table whose programs are there. */
static struct list list_categories(struct arena *arena, const struct tools_search *search)
{
	struct tool_category *categories = arena_alloc(arena, tools_row_count * sizeof *categories);
	struct installed_tool *tools = arena_alloc(arena, tools_row_count * sizeof *tools);
	size_t count = 0, used = 0;
	for (size_t i = 0; i < tools_row_count; i++) {
		const struct tools_row *row = &tools_rows[i];
		if (!is_found(row, search))
			continue;
		if (!count || strcmp(categories[count - 1].category, row->category) != 0)
			categories[count++] =
				(struct tool_category){ row->category, { 0, &tools[used] } };
		tools[used++] = (struct installed_tool){ row->name, row->description };
		categories[count - 1].tools.count++;
	}
	return (struct list){ count, categories };
}

struct tools *tools_look(const struct tools_where *where, const struct tools *old, struct err *err)
{
	struct user_view view;
	struct tools_search search;
	if (user_enter(where->user, &view, err) < 0)
		return NULL;
	struct tools *tools = xcalloc(1, sizeof *tools);
	struct tools_found *found = tools->found = xcalloc(1, sizeof *found);
	search_init(&search, where, &found->arena);
	for (size_t i = 0; i < TOOLS_RUNTIMES; i++)
		find_programs(found, (enum tools_runtime)i, &search);
	tools->categories = list_categories(&found->arena, &search);
	user_leave(&view);
	find_versions(found, where, old ? old->found : NULL);
	for (size_t i = 0; i < TOOLS_RUNTIMES; i++) {
		tools->runtimes[i].label = runtimes[i].label;
		tools->runtimes[i].specs = list_specs(found, (enum tools_runtime)i);
	}
	return tools;
}

void tools_free(struct tools *tools)
{
	if (!tools)
		return;
	arena_done(&tools->found->arena);
	free(tools->found);
	free(tools);
}
