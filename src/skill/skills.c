#include "skill/skills.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/dir.h"
#include "base/err.h"
#include "config/config.h"
#include "document/documents.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/user.h"
#include "skill/skill.h"
#include "skill/skills_files.h"

/* Around what changes the registry, and not around what takes long. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* The directory of skills while a call looks at it, as the sandbox user. */
struct skills_store {
	struct call *call;
	struct user_view view;
	char path[PATH_MAX]; /* without any link in it */
	int fd;
};

static int dir_open(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "'%s'", path) : fd;
}

/* Ends with store_close() even when it fails. A directory that is missing is made, or has nothing. */
static int store_open(struct call *call, bool make, struct skills_store *store, struct err *err)
{
	const struct config *config = call->server->config;
	const struct user *user = user_sandbox(config->user, err);
	*store = (struct skills_store){ .call = call, .fd = -1 };
	if (!user || user_enter(user, &store->view, err) < 0)
		return -1;
	const char *path = config->skills && *config->skills
				   ? config->skills
				   : arena_printf(call->arena, "%s/.aiobox/skills", user->home);
	if (make && skills_files_make(path, err) < 0)
		return -1;
	if (!realpath(path, store->path))
		return !make && errno == ENOENT ? 0 : err_set(err, errno, "'%s'", path);
	store->fd = dir_open(store->path, err);
	return store->fd < 0 ? -1 : 0;
}

static void store_close(struct skills_store *store)
{
	if (store->fd >= 0)
		close(store->fd);
	user_leave(&store->view);
}

static void forget_json(void *value)
{
	json_decref(value);
}

/* ---- reading ---- */

/* Reads the SKILL.md of a directory. ENOENT where there is none. */
static int read_skill(struct arena *arena, int dir, struct skill *skill, struct text *ret_content,
		      struct err *err)
{
	auto_buf struct buf text = BUF(SKILL_FILE_MAX);
	size_t content;
	if (skills_files_read(dir, "SKILL.md", &text, err) < 0)
		return -1;
	if (skill_parse(text.data ? text.data : "", text.len, &skill->metadata, &content, err) < 0)
		return -1;
	arena_defer(arena, forget_json, skill->metadata);
	if (ret_content) {
		size_t len = text.len - content;
		*ret_content =
			(struct text){ arena_strndup(arena, len ? text.data + content : "", len),
				       len };
	}
	return 0;
}

/* Where an entry of the registry is: itself, or what it links to. */
static const char *entry_path(const struct skills_store *store, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(store->fd, name, target, sizeof target - 1);
	if (n > 0 && *target == '/')
		return arena_strndup(store->call->arena, target, (size_t)n);
	return arena_printf(store->call->arena, "%s/%s", store->path, name);
}

static int load(const struct skills_store *store, const char *name, struct skill *ret,
		struct text *ret_content, struct err *err)
{
	struct arena *arena = store->call->arena;
	struct err why;
	auto_close int dir = openat(store->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret = (struct skill){ arena_strdup(arena, name), entry_path(store, name), NULL, { 0 } };
	if (dir >= 0 && read_skill(arena, dir, ret, ret_content, &why) == 0)
		return 0;
	if (dir < 0 || why.code == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "there is no skill '%s'", name);
	*err = why;
	return -1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct skill *)a)->name, ((const struct skill *)b)->name);
}

/* Nothing is known about a skill whose file was damaged. */
static void know_nothing(struct arena *arena, struct skill *skill)
{
	skill->metadata = json_object();
	arena_defer(arena, forget_json, skill->metadata);
}

/* A skill whose file was damaged since is listed all the same. */
static void list_entry(const struct skills_store *store, const char *name, struct skill *to,
		       size_t *count)
{
	struct err err;
	int result = load(store, name, &to[*count], NULL, &err);
	if (result < 0 && err.code == ERR_NOT_FOUND)
		return;
	if (result < 0)
		know_nothing(store->call->arena, &to[*count]);
	(*count)++;
}

int skills_list(struct call *call, struct list *ret, struct err *err)
{
	struct skills_store store;
	struct skill *skills = arena_alloc(call->arena, SKILLS_MAX * sizeof *skills);
	size_t count = 0;
	int result = store_open(call, false, &store, err);
	DIR *list = result == 0 ? dir_open_at(store.fd, ".", 0) : NULL;
	for (const struct dirent *entry; list && count < SKILLS_MAX && (entry = readdir(list));)
		if (skill_name_valid(entry->d_name))
			list_entry(&store, entry->d_name, skills, &count);
	if (list)
		closedir(list);
	store_close(&store);
	qsort(skills, count, sizeof *skills, by_name);
	*ret = (struct list){ count, skills };
	return result;
}

int skills_find(struct call *call, const char *name, struct skill *ret, struct text *ret_content,
		struct err *err)
{
	struct skills_store store;
	if (!skill_name_valid(name))
		return err_set(err, ERR_NOT_FOUND, "there is no skill '%.100s'", name);
	int result = store_open(call, false, &store, err);
	if (result == 0)
		result = load(&store, name, ret, ret_content, err);
	store_close(&store);
	return result;
}

/* ---- finding out what a directory has ---- */

struct skills_found {
	struct skill skills[SKILLS_MAX];
	size_t count;
};

/* What a skill may be called: what was asked for, else what it says, else the last resort. */
struct naming {
	const char *asked, *last;
};

/* The skill in a directory, if there is one. */
static int look_at(struct arena *arena, int dir, const char *path, const struct naming *naming,
		   struct skills_found *found, struct err *err)
{
	struct skill skill = { .path = arena_strdup(arena, path) };
	struct err why;
	if (read_skill(arena, dir, &skill, NULL, &why) < 0) {
		if (why.code == ENOENT)
			return 0;
		return err_set(err, ERR_BAD_REQUEST, "'%s': %s", path, why.msg);
	}
	const char *own = json_string_value(json_object_get(skill.metadata, "name"));
	skill.name = arena_strdup(arena, naming->asked ? naming->asked
					 : own && *own ? own
						       : naming->last);
	if (!skill_name_valid(skill.name))
		return err_set(
			err, ERR_BAD_REQUEST,
			"'%s': '%.100s' is not a valid name for a skill: letters, digits, '-', '_' "
			"and '.', at most %d",
			path, skill.name, SKILL_NAME_MAX);
	for (size_t i = 0; i < found->count; i++)
		if (!strcmp(found->skills[i].name, skill.name))
			return err_set(err, ERR_CONFLICT, "two skills are called '%s'", skill.name);
	found->skills[found->count++] = skill;
	return 0;
}

static int look_below(struct arena *arena, int dir, const char *path, struct skills_found *found,
		      struct err *err)
{
	int result = 0;
	DIR *list = dir_open_at(dir, ".", 0);
	for (const struct dirent *entry; list && result == 0 && (entry = readdir(list));) {
		if (*entry->d_name == '.')
			continue;
		auto_close int below =
			openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		const char *at = arena_printf(arena, "%s/%s", path, entry->d_name);
		if (below >= 0 && found->count == SKILLS_MAX)
			result = err_set(err, ERR_BAD_REQUEST, "'%s' has too many skills", path);
		else if (below >= 0)
			result = look_at(arena, below, at, &(struct naming){ NULL, entry->d_name },
					 found, err);
	}
	if (list)
		closedir(list);
	return result;
}

/* All skills of a directory: itself, or else its subdirectories. */
static int look(struct arena *arena, int dir, const char *path, const struct naming *naming,
		struct skills_found *found, struct err *err)
{
	if (look_at(arena, dir, path, naming, found, err) < 0)
		return -1;
	if (!found->count && look_below(arena, dir, path, found, err) < 0)
		return -1;
	if (!found->count)
		return err_set(err, ERR_BAD_REQUEST,
			       "there is no SKILL.md, neither at the top nor in a directory there");
	return 0;
}

/* ---- registering ---- */

static bool is_within(const struct skills_store *store, const char *path)
{
	size_t len = strlen(store->path);
	return !strncmp(path, store->path, len) && path[len] == '/';
}

/* Whether the skill is in its place among the registered ones: nothing links to it. */
static bool is_in_place(const struct skills_store *store, const struct skill *skill)
{
	size_t len = strlen(store->path);
	return is_within(store, skill->path) && !strcmp(skill->path + len + 1, skill->name);
}

/* Refuses what could not be linked, before anything is. */
static int check_links(const struct skills_store *store, const struct skills_found *found,
		       struct err *err)
{
	for (size_t i = 0; i < found->count; i++) {
		struct stat st;
		const struct skill *skill = &found->skills[i];
		if (fstatat(store->fd, skill->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISLNK(st.st_mode) && !is_in_place(store, skill))
			return err_set(err, ERR_CONFLICT,
				       "there is another skill '%s', which has to be deleted first",
				       skill->name);
	}
	return 0;
}

static int link_all(const struct skills_store *store, const struct skills_found *found,
		    struct err *err)
{
	char work[64];
	if (check_links(store, found, err) < 0)
		return -1;
	for (size_t i = 0; i < found->count; i++) {
		const struct skill *skill = &found->skills[i];
		if (is_in_place(store, skill))
			continue;
		if (skills_files_stage(store->fd, work, sizeof work, err) < 0)
			return -1;
		(void)unlinkat(store->fd, work, AT_REMOVEDIR); /* only its name was wanted */
		if (symlinkat(skill->path, store->fd, work) < 0 ||
		    renameat(store->fd, work, store->fd, skill->name) < 0) {
			err_set(err, errno, "cannot register '%s'", skill->name);
			(void)unlinkat(store->fd, work, 0);
			return -1;
		}
	}
	return 0;
}

static struct list list_of(struct arena *arena, const struct skills_found *found)
{
	size_t size = found->count * sizeof *found->skills;
	struct skill *copy = arena_alloc(arena, size);
	memcpy(copy, found->skills, size);
	qsort(copy, found->count, sizeof *copy, by_name);
	return (struct list){ found->count, copy };
}

static int check_name(const char *name, struct err *err)
{
	if (!name || skill_name_valid(name))
		return 0;
	return err_set(
		err, ERR_BAD_REQUEST,
		"'%.100s' is not a valid name for a skill: letters, digits, '-', '_' and '.', at most %d",
		name, SKILL_NAME_MAX);
}

static int add_dir(const struct skills_store *store, const char *path, const char *name,
		   struct skills_found *found, struct err *err)
{
	char real[PATH_MAX];
	if (!realpath(path, real))
		return err_set(err, errno, "'%s'", path);
	auto_close int dir = dir_open(real, err);
	struct naming naming = { name, strrchr(real, '/') + 1 };
	if (dir < 0 || look(store->call->arena, dir, real, &naming, found, err) < 0)
		return -1;
	if (name && (found->count != 1 || strcmp(found->skills[0].path, real) != 0))
		return err_set(err, ERR_BAD_REQUEST,
			       "name is for one skill, and '%s' has a directory of them", path);
	pthread_mutex_lock(&changing);
	int result = link_all(store, found, err);
	pthread_mutex_unlock(&changing);
	return result;
}

int skills_add_dir(struct call *call, const char *path, const char *name, struct list *ret,
		   struct err *err)
{
	struct skills_store store;
	struct skills_found *found = arena_alloc(call->arena, sizeof *found);
	found->count = 0;
	if (check_name(name, err) < 0)
		return -1;
	if (*path != '/')
		return err_set(err, ERR_BAD_REQUEST, "path must be absolute");
	int result = store_open(call, true, &store, err);
	if (result == 0)
		result = add_dir(&store, path, name, found, err);
	store_close(&store);
	*ret = list_of(call->arena, found);
	return result;
}

/* ---- archives ---- */

/* A directory in which an archive is unpacked before it gets its name. */
struct stage {
	int base;            /* the directory it will be in */
	char path[PATH_MAX]; /* of base */
	char name[64];
};

/* What an archive is called, without its ".zip". */
static const char *stem_of(struct arena *arena, const struct upload *file)
{
	const char *slash = file->name ? strrchr(file->name, '/') : NULL;
	char *stem = arena_strdup(arena, slash ? slash + 1 : file->name ? file->name : "");
	char *dot = strrchr(stem, '.');
	if (dot && !strcasecmp(dot, ".zip"))
		*dot = 0;
	return stem;
}

/* Says the skills are where they will be. */
static void rebase(struct arena *arena, struct skills_found *found, const struct stage *stage,
		   const char *name)
{
	size_t old = strlen(stage->path) + 1 + strlen(stage->name);
	for (size_t i = 0; i < found->count; i++) {
		struct skill *skill = &found->skills[i];
		skill->path = arena_printf(arena, "%s/%s%s", stage->path, name, skill->path + old);
	}
}

/* Whether what is there may be replaced: it is ours, or has a skill, or is a directory of skills. */
static bool replaceable(const struct skills_store *store, const struct stage *stage,
			const char *name)
{
	if (!strcmp(stage->path, store->path))
		return true;
	DIR *list = dir_open_at(stage->base, name, O_NOFOLLOW);
	int dir = list ? dirfd(list) : -1;
	bool found = list && faccessat(dir, "SKILL.md", F_OK, 0) == 0;
	for (const struct dirent *entry; list && !found && (entry = readdir(list));) {
		auto_free char *file = xasprintf("%s/SKILL.md", entry->d_name);
		found = *entry->d_name != '.' && faccessat(dir, file, F_OK, 0) == 0;
	}
	if (list)
		closedir(list);
	return found;
}

/* Gives the directory its name. What is there and makes room has the stage's name afterwards, and goes
 * with it. */
static int publish(const struct skills_store *store, const struct stage *stage, const char *name,
		   struct err *err)
{
	if (renameat2(stage->base, stage->name, stage->base, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST)
		return err_set(err, errno, "cannot make '%s/%s'", stage->path, name);
	if (!replaceable(store, stage, name))
		return err_set(err, ERR_CONFLICT, "'%s/%s' exists, and is not a skill", stage->path,
			       name);
	if (renameat2(stage->base, stage->name, stage->base, name, RENAME_EXCHANGE) < 0)
		return err_set(err, errno, "cannot replace '%s/%s'", stage->path, name);
	return 0;
}

/* Registers what was unpacked. */
static int adopt(const struct skills_store *store, const struct stage *stage,
		 const struct upload *file, const char *name, struct skills_found *found,
		 struct err *err)
{
	struct arena *arena = store->call->arena;
	const char *path = arena_printf(arena, "%s/%s", stage->path, stage->name);
	auto_close int dir = dir_open(path, err);
	struct naming naming = { name, stem_of(arena, file) };
	if (dir < 0 || look(arena, dir, path, &naming, found, err) < 0)
		return -1;
	bool alone = found->count == 1 && !strcmp(found->skills[0].path, path);
	const char *final = alone ? found->skills[0].name : name ? name : naming.last;
	if (check_name(final, err) < 0)
		return -1;
	rebase(arena, found, stage, final);
	pthread_mutex_lock(&changing);
	int result = check_links(store, found, err);
	if (result == 0)
		result = publish(store, stage, final, err);
	if (result == 0)
		result = link_all(store, found, err);
	pthread_mutex_unlock(&changing);
	return result;
}

static int add_archive(struct skills_store *store, const struct upload *file, const char *path,
		       const char *name, struct skills_found *found, struct err *err)
{
	struct stage stage;
	const char *base = path ? path : store->path;
	if (skills_files_make(base, err) < 0)
		return -1;
	if (!realpath(base, stage.path))
		return err_set(err, errno, "'%s'", base);
	auto_close int fd = stage.base = dir_open(stage.path, err);
	if (fd < 0 || skills_files_stage(fd, stage.name, sizeof stage.name, err) < 0)
		return -1;
	const char *dir = arena_printf(store->call->arena, "%s/%s", stage.path, stage.name);
	int result = document_unpack(store->call, file->fd, dir, err);
	if (result < 0 && err->code == ERR_INVALID)
		err->code = ERR_BAD_REQUEST; /* 422 is for fields */
	if (result == 0)
		result = adopt(store, &stage, file, name, found, err);
	(void)skills_files_remove(fd, stage.name, NULL);
	return result;
}

int skills_add_archive(struct call *call, const struct upload *file, const char *path,
		       const char *name, struct list *ret, struct err *err)
{
	struct skills_store store;
	struct skills_found *found = arena_alloc(call->arena, sizeof *found);
	found->count = 0;
	if (check_name(name, err) < 0)
		return -1;
	if (path && *path != '/')
		return err_set(err, ERR_BAD_REQUEST, "path must be absolute");
	if (file->size > call->server->config->max_document)
		return err_set(err, ERR_TOO_LARGE, "the archive is larger than %lld MiB",
			       (long long)call->server->config->max_document >> 20);
	int result = store_open(call, true, &store, err);
	if (result == 0)
		result = add_archive(&store, file, path, name, found, err);
	store_close(&store);
	*ret = list_of(call->arena, found);
	return result;
}

/* ---- removing ---- */

/* Removes a skill that came in an archive of several, and with the last one what they were in. */
static void remove_below(const struct skills_store *store, char *path)
{
	(void)skills_files_remove(store->fd, path, NULL);
	for (char *slash; (slash = strrchr(path, '/'));) {
		*slash = 0;
		if (unlinkat(store->fd, path, AT_REMOVEDIR) < 0)
			break;
	}
}

/* The entry vanishes at once; its files follow. */
static int take_out(const struct skills_store *store, const char *name, struct err *err)
{
	char work[64], target[PATH_MAX];
	ssize_t n = readlinkat(store->fd, name, target, sizeof target - 1);
	target[n > 0 ? n : 0] = 0;
	if (skills_files_stage(store->fd, work, sizeof work, err) < 0)
		return -1;
	(void)unlinkat(store->fd, work, AT_REMOVEDIR);
	if (renameat(store->fd, name, store->fd, work) < 0)
		return err_set(err, errno, "cannot remove '%s'", name);
	if (n > 0 && is_within(store, target) && !strstr(target, "/../"))
		remove_below(store, target + strlen(store->path) + 1);
	return skills_files_remove(store->fd, work, err);
}

int skills_remove(struct call *call, const char *name, struct skill *ret, struct err *err)
{
	struct skills_store store;
	if (!skill_name_valid(name))
		return err_set(err, ERR_NOT_FOUND, "there is no skill '%.100s'", name);
	int result = store_open(call, false, &store, err);
	if (result == 0) {
		size_t count = 0;
		pthread_mutex_lock(&changing);
		list_entry(&store, name, ret, &count);
		if (!count && readlinkat(store.fd, name, &(char){ 0 }, 1) > 0) {
			know_nothing(call->arena, ret); /* a link whose skill has gone */
			count = 1;
		}
		result = count ? take_out(&store, name, err)
			       : err_set(err, ERR_NOT_FOUND, "there is no skill '%s'", name);
		pthread_mutex_unlock(&changing);
	}
	store_close(&store);
	return result;
}
