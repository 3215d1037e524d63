/* Files by their names: find, glob. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "fs/file_user.h"
#include "fs/walk.h"
#include "net/call.h"
#include "net/server.h"

enum { SEARCH_MS = 60000, FOUND_MAX = 100000, SLACK = 1024 };

enum order { BY_PATH, BY_NAME, BY_SIZE, BY_MODIFIED };
static const char *const orders[] = { "path", "name", "size", "modified", NULL };

struct file_find_found {
	char *path; /* relative */
	bool is_dir, known;
	int64_t size;
	struct timespec modified;
};

/* What to look for, and what was found. */
struct hunt {
	struct glob *glob;
	struct globs exclude;
	bool hidden, files_only, metadata, follow, descending;
	enum order order;
	size_t most; /* to be shown */
	struct wait wait;
	enum wake stopped; /* why the walk was; WAKE_READY: it was not */
	struct file_find_found *items;
	size_t count, room, total;
};

static void hunt_done(struct hunt *hunt)
{
	for (size_t i = 0; i < hunt->count; i++)
		free(hunt->items[i].path);
	free(hunt->items);
	glob_free(hunt->glob);
	globs_done(&hunt->exclude);
}

/* ---- order ---- */

static const char *name_of(const struct file_find_found *found)
{
	const char *slash = strrchr(found->path, '/');
	return slash ? slash + 1 : found->path;
}

static int compare(const void *left, const void *right, void *arg)
{
	const struct hunt *hunt = arg;
	const struct file_find_found *a = left, *b = right;
	int result = 0;
	if (hunt->order == BY_NAME)
		result = strcmp(name_of(a), name_of(b));
	else if (hunt->order == BY_SIZE)
		result = (a->size > b->size) - (a->size < b->size);
	else if (hunt->order == BY_MODIFIED && a->modified.tv_sec != b->modified.tv_sec)
		result = a->modified.tv_sec < b->modified.tv_sec ? -1 : 1;
	else if (hunt->order == BY_MODIFIED)
		result = (a->modified.tv_nsec > b->modified.tv_nsec) -
			 (a->modified.tv_nsec < b->modified.tv_nsec);
	if (!result)
		result = strcmp(a->path, b->path);
	return hunt->descending ? -result : result;
}

/* Sorts, and keeps what can be shown. */
static void prune(struct hunt *hunt)
{
	if (hunt->count)
		qsort_r(hunt->items, hunt->count, sizeof *hunt->items, compare, hunt);
	while (hunt->count > hunt->most)
		free(hunt->items[--hunt->count].path);
}

/* ---- looking ---- */

static void keep(struct hunt *hunt, const struct walk_entry *entry, bool is_dir,
		 const struct stat *st)
{
	if (hunt->count == hunt->room) {
		hunt->room = hunt->room ? hunt->room * 2 : 256;
		hunt->items = xrealloc(hunt->items, hunt->room * sizeof *hunt->items);
	}
	hunt->items[hunt->count++] = (struct file_find_found){
		.path = xstrdup(entry->path),
		.is_dir = is_dir,
		.known = st,
		.size = st ? st->st_size : 0,
		.modified = st ? st->st_mtim : (struct timespec){ 0 },
	};
	hunt->total++;
	if (hunt->count > 2 * hunt->most + SLACK)
		prune(hunt);
}

static enum walk_next visit(const struct walk_entry *entry, void *arg)
{
	struct hunt *hunt = arg;
	struct stat st;
	hunt->stopped = wait_check(&hunt->wait);
	if (hunt->stopped != WAKE_READY)
		return WALK_STOP;
	unsigned match = glob_match(hunt->glob, entry->path, hunt->hidden);
	if (!match)
		return WALK_ON;
	bool is_dir = entry->type == DT_DIR, known = false;
	if (hunt->metadata || entry->type == DT_LNK) {
		known = fstatat(entry->dir_fd, entry->name, &st, 0) == 0 ||
			fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
		is_dir = known ? S_ISDIR(st.st_mode) : is_dir;
	}
	if (globs_match(&hunt->exclude, entry->path, is_dir))
		return WALK_ON;
	if (match & GLOB_YES && !(is_dir && hunt->files_only))
		keep(hunt, entry, is_dir, known ? &st : NULL);
	return match & GLOB_BELOW && is_dir && (entry->type == DT_DIR || hunt->follow) ? WALK_INTO
										       : WALK_ON;
}

/* A pattern that is absolute is about the whole tree, whatever the directory. */
static int compile(struct hunt *hunt, struct arena *arena, const char **root, const char *pattern,
		   bool by_name, struct err *err)
{
	bool absolute = *pattern == '/';
	if (!*pattern)
		return err_set(err, ERR_PATTERN, "the pattern is empty");
	if (by_name && !strchr(pattern, '/'))
		pattern = arena_printf(arena, "**/%s", pattern);
	hunt->glob = glob_compile(pattern, err);
	if (!hunt->glob)
		return -1;
	if (absolute)
		*root = "/";
	/* Through links only as deep as the pattern is: no ring of them is without end. */
	hunt->follow = !glob_recursive(hunt->glob);
	return 0;
}

static int look(struct call *call, struct hunt *hunt, const char *root, bool sudo, struct err *err)
{
	struct user_view view;
	hunt->wait = call_until(call, clock_ms() + SEARCH_MS);
	if (file_user_enter(call, sudo, &view, err) < 0)
		return -1;
	int result = walk_tree(root, !glob_recursive(hunt->glob), visit, hunt, err);
	user_leave(&view);
	if (result == 0 && hunt->stopped > WAKE_TIMEOUT)
		return wake_err(hunt->stopped, err);
	if (hunt->stopped != WAKE_READY)
		call->hint = "The search took too long and ended early: narrow it down.";
	prune(hunt);
	return result;
}

static const char *whole_path(struct call *call, const char *root, const char *path)
{
	size_t len = strlen(root);
	return arena_printf(call->arena, "%s%s%s", root, root[len - 1] == '/' ? "" : "/", path);
}

static bool truncated(const struct hunt *hunt)
{
	return hunt->total > hunt->count || hunt->stopped != WAKE_READY;
}

/* ---- find ---- */

struct find_request {
	const char *path, *path_b64, *glob;
	bool sudo;
};
static const struct field find_fields[] = {
	STR(find_request, path, REQUIRED, "Directory to search.", .alias = "file,directory"),
	STR(find_request, glob, REQUIRED,
	    "Pattern of names, at any depth; with a slash, of paths below `path`. `**` stands for any "
	    "directories. Hidden names match where the pattern has the dot.",
	    .alias = "pattern"),
	BOOL(find_request, sudo, OPTIONAL, "Look as root.", .def = "false"),
	FILE_B64(find_request),
};
static const struct schema find_schema = SCHEMA(find_request, "FileFindRequest", find_fields);

struct find_result {
	const char *path;
	struct list files, files_b64;
	bool truncated;
};
static const struct field find_result_fields[] = {
	STR(find_result, path, REQUIRED, "The directory."),
	LIST(find_result, files, 0, "Absolute paths of the files, sorted.", .item = T_STR),
	LIST(find_result, files_b64, 0,
	     "Base64 of those paths among them that are not UTF-8, in the same order.",
	     .item = T_STR),
	BOOL(find_result, truncated, 0, "There are more than are shown."),
};
static const struct schema find_result_schema =
	SCHEMA(find_result, "FileFindResult", find_result_fields);
static const struct field find_data = FILE_RESULT(&find_result_schema);

static int find_files(struct call *call, const void *in, struct err *err)
{
	const struct find_request *r = in;
	struct hunt hunt = { .files_only = true, .most = FOUND_MAX };
	const char *path = file_path(call, r->path, r->path_b64, err), *root = path;
	int result = path ? compile(&hunt, call->arena, &root, r->glob, true, err) : -1;
	if (result == 0)
		result = look(call, &hunt, root, r->sudo, err);
	if (result < 0 || !root) {
		struct err cause = *err;
		hunt_done(&hunt);
		return file_error(call, "find", path ? path : r->path, &cause, err);
	}
	const char **files = arena_alloc(call->arena, hunt.count * sizeof *files);
	const char **coded = arena_alloc(call->arena, hunt.count * sizeof *coded);
	size_t coded_count = 0;
	for (size_t i = 0; i < hunt.count; i++) {
		files[i] = whole_path(call, root, hunt.items[i].path);
		coded[coded_count] = file_path_b64(call, files[i]);
		coded_count += coded[coded_count] != NULL;
	}
	struct find_result answer = {
		path, { hunt.count, files }, { coded_count, coded }, truncated(&hunt)
	};
	call->message = arena_printf(call->arena, "Search completed, found %zu files", hunt.total);
	hunt_done(&hunt);
	return call_reply(call, &answer, err);
}

/* ---- glob ---- */

struct glob_request {
	const char *path, *path_b64, *pattern, *sort_by;
	struct list exclude;
	bool include_hidden, files_only, include_metadata, sort_desc, sudo;
	int64_t max_results;
};
static const struct field glob_fields[] = {
	STR(glob_request, path, REQUIRED, "Directory to begin in.", .alias = "file,directory"),
	STR(glob_request, pattern, REQUIRED,
	    "Pattern of paths below it: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any directories.",
	    .alias = "glob"),
	LIST(glob_request, exclude, OPTIONAL,
	     "Patterns of what to leave out: of names, or with a slash of paths.", .item = T_STR,
	     .max_len = GLOB_SET_MAX),
	BOOL(glob_request, include_hidden, OPTIONAL,
	     "Let wildcards match names that begin with a dot, too.", .def = "false"),
	BOOL(glob_request, files_only, OPTIONAL, "No directories.", .def = "true"),
	BOOL(glob_request, include_metadata, OPTIONAL, "Tell sizes and times.", .def = "true"),
	INT(glob_request, max_results, MIN | MAX, "Most files in the answer.", .def = "5000",
	    .min = 1, .max = 50000),
	STR(glob_request, sort_by, OPTIONAL, "`path`, `name`, `size` or `modified`.",
	    .def = "path"),
	BOOL(glob_request, sort_desc, OPTIONAL, "The last first.", .def = "false"),
	BOOL(glob_request, sudo, OPTIONAL, "Look as root.", .def = "false"),
	FILE_B64(glob_request),
};
static const struct schema glob_schema = SCHEMA(glob_request, "FileGlobRequest", glob_fields);

struct glob_info {
	const char *path, *name, *modified_time, *path_b64;
	bool is_directory;
	int64_t size;
};
static const struct field info_fields[] = {
	STR(glob_info, path, REQUIRED, "Absolute path."),
	STR(glob_info, name, REQUIRED, "Its last part."),
	BOOL(glob_info, is_directory, 0, "Whether it is a directory, or a link to one."),
	INT(glob_info, size, NULLABLE, "Size in bytes."),
	STR(glob_info, modified_time, NULLABLE, "When it was last changed."),
	STR(glob_info, path_b64, NULLABLE, "Base64 of the path when that is not UTF-8."),
};
static const struct schema info_schema = SCHEMA(glob_info, "GlobFileInfo", info_fields);

struct glob_answer {
	const char *path, *pattern;
	struct list files;
	int64_t total_count;
	bool truncated;
};
static const struct field glob_answer_fields[] = {
	STR(glob_answer, path, REQUIRED, "The directory."),
	STR(glob_answer, pattern, REQUIRED, "The pattern."),
	LIST(glob_answer, files, 0, "What matches.", .item = T_OBJ, .of = &info_schema),
	INT(glob_answer, total_count, 0, "How many match, shown or not."),
	BOOL(glob_answer, truncated, 0, "There are more than are shown."),
};
static const struct schema glob_answer_schema =
	SCHEMA(glob_answer, "FileGlobResult", glob_answer_fields);
static const struct field glob_data = FILE_RESULT(&glob_answer_schema);

static struct glob_info describe(struct call *call, const char *root,
				 const struct file_find_found *found, bool metadata)
{
	const char *path = whole_path(call, root, found->path);
	bool told = metadata && found->known;
	return (struct glob_info){
		.path = path,
		.name = strrchr(path, '/') + 1,
		.modified_time = told ? timestamp_text(call->arena, &found->modified) : NULL,
		.path_b64 = file_path_b64(call, path),
		.is_directory = found->is_dir,
		.size = told ? found->size : INT_ABSENT,
	};
}

static int prepare(struct hunt *hunt, const struct glob_request *r, struct err *err)
{
	*hunt = (struct hunt){
		.hidden = r->include_hidden,
		.files_only = r->files_only,
		.descending = r->sort_desc,
		.most = (size_t)r->max_results,
	};
	while (orders[hunt->order] && strcmp(orders[hunt->order], r->sort_by) != 0)
		hunt->order++;
	if (!orders[hunt->order])
		return err_set(err, ERR_INVALID,
			       "sort_by: '%.30s' is not path, name, size or modified", r->sort_by);
	hunt->metadata = r->include_metadata || hunt->order >= BY_SIZE;
	return globs_compile(&hunt->exclude, &r->exclude, err);
}

static int glob_files(struct call *call, const void *in, struct err *err)
{
	const struct glob_request *r = in;
	struct hunt hunt;
	const char *path = file_path(call, r->path, r->path_b64, err), *root = path;
	int result = prepare(&hunt, r, path ? err : NULL);
	if (result == 0)
		result = path ? compile(&hunt, call->arena, &root, r->pattern, false, err) : -1;
	if (result == 0)
		result = look(call, &hunt, root, r->sudo, err);
	if (result < 0 || !root) {
		struct err cause = *err;
		hunt_done(&hunt);
		return file_error(call, "glob", path ? path : r->path, &cause, err);
	}
	struct glob_info *infos = arena_alloc(call->arena, hunt.count * sizeof *infos);
	for (size_t i = 0; i < hunt.count; i++)
		infos[i] = describe(call, root, &hunt.items[i], r->include_metadata);
	struct glob_answer answer = {
		path, r->pattern, { hunt.count, infos }, (int64_t)hunt.total, truncated(&hunt)
	};
	call->message = arena_printf(call->arena, "Search completed, found %zu files", hunt.total);
	hunt_done(&hunt);
	return call_reply(call, &answer, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/find", find_files, &find_schema, &find_data, "Find files by name",
	  "`**`, and a name at any depth, do not lead through symbolic links, nor into /proc and the like." },
	{ "POST", "/v1/file/glob", glob_files, &glob_schema, &glob_data,
	  "Find files by a pattern of their path" },
};
const struct route_group file_find_group = { "file", "Finding.", routes, COUNT(routes) };
