/* What is in a directory, or below it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/timestamp.h"
#include "base/utf8.h"
#include "fs/file_user.h"
#include "net/call.h"

enum { ENTRIES_MAX = 500000, ASK_EVERY = 4096 };

struct file_list {
	const char *path, *path_b64;
	bool recursive, show_hidden;
	struct list file_types;
	int64_t max_depth;
	bool include_size, include_permissions;
	const char *sort_by;
	bool sort_desc, sudo;
};
static const char *const orders[] = { "name", "size", "modified", "type", NULL };
static const struct field list_fields[] = {
	STR(file_list, path, REQUIRED, "Directory to list.", .alias = "directory,file"),
	BOOL(file_list, recursive, OPTIONAL, "Also what is below it.", .def = "false"),
	BOOL(file_list, show_hidden, OPTIONAL, "Also names that begin with a dot.", .def = "true"),
	LIST(file_list, file_types, OPTIONAL, "Only files with these extensions, such as .py.",
	     .item = T_STR, .max_len = 1000),
	INT(file_list, max_depth, MIN, "How deep to go: 1 is the directory itself.", .min = 0),
	BOOL(file_list, include_size, OPTIONAL, "Tell the size of files.", .def = "true"),
	BOOL(file_list, include_permissions, OPTIONAL, "Tell the mode.", .def = "false"),
	ENUM(file_list, sort_by, OPTIONAL, "Order; type is directories first, then by extension.",
	     .def = "name", .choices = orders),
	BOOL(file_list, sort_desc, OPTIONAL, "The other way round.", .def = "false"),
	BOOL(file_list, sudo, OPTIONAL, "Look as root.", .def = "false"),
	FILE_B64(file_list),
};
static const struct schema list_schema = SCHEMA(file_list, "FileListRequest", list_fields);

struct file_info {
	const char *name, *path, *path_b64;
	bool is_directory;
	int64_t size;
	const char *modified_time, *permissions, *extension;
};
static const struct field info_fields[] = {
	STR(file_info, name, REQUIRED, "Name."),
	STR(file_info, path, REQUIRED, "Full path."),
	BOOL(file_info, is_directory, REQUIRED, "Whether it is, or leads to, a directory."),
	INT(file_info, size, NULLABLE, "Size in bytes; null for a directory."),
	STR(file_info, modified_time, NULLABLE, "When it was last modified."),
	STR(file_info, permissions, NULLABLE, "Mode, in octal: 644."),
	STR(file_info, extension, NULLABLE, "Extension with its dot, or \"\"."),
	STR(file_info, path_b64, NULLABLE, "The path's bytes, where they are not UTF-8."),
};
static const struct schema info_schema = SCHEMA(file_info, "FileInfo", info_fields);

struct file_list_listing {
	const char *path;
	struct each files;
	int64_t total_count, directory_count, file_count;
	bool truncated;
};
static const struct field listing_fields[] = {
	STR(file_list_listing, path, REQUIRED, "The directory."),
	EACH(file_list_listing, files, REQUIRED, "What is there.", .item = T_OBJ,
	     .of = &info_schema),
	INT(file_list_listing, total_count, REQUIRED, "How many are listed."),
	INT(file_list_listing, directory_count, REQUIRED, "How many of them are directories."),
	INT(file_list_listing, file_count, REQUIRED, "How many are not."),
	BOOL(file_list_listing, truncated, REQUIRED, "There are more than can be listed at once."),
};
static const struct schema listing_schema =
	SCHEMA(file_list_listing, "FileListResult", listing_fields);
static const struct field listing_data = FILE_RESULT(&listing_schema);

/* ---- looking ---- */

struct file_list_entry {
	const char *name; /* the end of path */
	const char *path; /* below the directory */
	struct timespec modified;
	int64_t size;
	mode_t mode;
};

struct file_list_scan {
	struct call *call;
	const struct file_list *r;
	const char *path;
	struct file_list_entry *entries;
	size_t count, room;
	struct below *dirs; /* still to be looked into, and those that were */
	size_t dir_count, dir_room;
	bool truncated;
};

struct below {
	const char *path;
	int64_t depth;
};

/* As Python's splitext has it: dots in front are no extension's. */
static const char *extension(const char *name)
{
	while (*name == '.')
		name++;
	const char *dot = strrchr(name, '.');
	return dot ? dot : "";
}

static bool is_wanted(const struct file_list *r, const char *name)
{
	const char *const *types = r->file_types.items;
	const char *end = extension(name);
	for (size_t i = 0; i < r->file_types.count; i++)
		if (!strcasecmp(end + (*end == '.'), types[i] + (*types[i] == '.')))
			return true;
	return !r->file_types.count;
}

/* What a link leads to, unless it leads nowhere. `*ret_link` says that it is one. */
static int look(int dir, const char *name, struct stat *st, bool *ret_link)
{
	struct stat target;
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -1;
	*ret_link = S_ISLNK(st->st_mode);
	if (*ret_link && fstatat(dir, name, &target, AT_NO_AUTOMOUNT) == 0)
		*st = target;
	return 0;
}

static void add_dir(struct file_list_scan *scan, const char *path, int64_t depth)
{
	if (scan->dir_count == scan->dir_room) {
		scan->dir_room = scan->dir_room ? scan->dir_room * 2 : 16;
		scan->dirs = xrealloc(scan->dirs, scan->dir_room * sizeof *scan->dirs);
	}
	scan->dirs[scan->dir_count++] = (struct below){ path, depth };
}

static const char *add(struct file_list_scan *scan, const char *below, const char *name,
		       const struct stat *st)
{
	if (scan->count == scan->room) {
		scan->room = scan->room ? scan->room * 2 : 64;
		scan->entries = xrealloc(scan->entries, scan->room * sizeof *scan->entries);
	}
	size_t dir = strlen(below), len = strlen(name);
	char *path = arena_alloc(scan->call->arena, dir + len + 2);
	memcpy(path, below, dir);
	path[dir] = '/';
	char *at = path + dir + (dir > 0);
	memcpy(at, name, len + 1);
	scan->entries[scan->count++] = (struct file_list_entry){ .name = at,
								 .path = path,
								 .modified = st->st_mtim,
								 .size = st->st_size,
								 .mode = st->st_mode };
	return path;
}

/* One name of the directory. False when there are too many, or nobody waits for them any more. */
static bool note(struct file_list_scan *scan, int dir, const struct below *in, const char *name)
{
	const struct file_list *r = scan->r;
	struct stat st;
	bool is_link;
	if (!strcmp(name, ".") || !strcmp(name, "..") || (!r->show_hidden && *name == '.') ||
	    look(dir, name, &st, &is_link) < 0)
		return true;
	if (!S_ISDIR(st.st_mode) && !is_wanted(r, name))
		return true;
	if (scan->count == ENTRIES_MAX) {
		scan->truncated = true;
		return false;
	}
	const char *path = add(scan, in->path, name, &st);
	/* Links are not followed: that they may go round in circles is one reason. */
	if (r->recursive && S_ISDIR(st.st_mode) && !is_link &&
	    (r->max_depth == INT_ABSENT || in->depth < r->max_depth))
		add_dir(scan, path, in->depth + 1);
	return scan->count % ASK_EVERY || call_wait(scan->call, -1, 0) == WAKE_TIMEOUT;
}

static int look_into(struct file_list_scan *scan, int top, struct below in, struct err *err)
{
	/* Not another one that has taken its place, nor one that a link leads to. */
	int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | (*in.path ? O_NOFOLLOW : 0);
	int fd = openat(top, *in.path ? in.path : ".", flags);
	if (fd < 0)
		return err_set(err, errno, "'%s'", in.path);
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_set(err, errno, "'%s'", in.path);
	}
	const struct dirent *entry;
	bool more = true;
	errno = 0;
	while (more && (entry = readdir(dir)))
		more = note(scan, fd, &in, entry->d_name);
	closedir(dir);
	if (!more && !scan->truncated)
		return wake_err(WAKE_LEFT, err);
	return 0;
}

/* What is below is left out where it cannot be looked into. */
static int look_around(struct file_list_scan *scan, const char *path, struct err *err)
{
	auto_leave struct user_view view = { 0 };
	struct err ignored = { 0 };
	if (file_user_enter(scan->call, scan->r->sudo, &view, err) < 0)
		return -1;
	auto_close int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return err_set(err, errno, "'%s'", path);
	if (look_into(scan, top, (struct below){ "", 1 }, err) < 0)
		return -1;
	for (size_t i = 0; i < scan->dir_count && !scan->truncated; i++)
		if (look_into(scan, top, scan->dirs[i], &ignored) < 0 && ignored.code == ERR_GONE) {
			*err = ignored;
			return -1;
		}
	return 0;
}

/* ---- order ---- */

static int by_name(const struct file_list_entry *a, const struct file_list_entry *b)
{
	int order = strcmp(a->name, b->name);
	return order ? order : strcmp(a->path, b->path);
}

static int by_size(const struct file_list_entry *a, const struct file_list_entry *b)
{
	return (a->size > b->size) - (a->size < b->size);
}

static int by_modified(const struct file_list_entry *a, const struct file_list_entry *b)
{
	if (a->modified.tv_sec != b->modified.tv_sec)
		return a->modified.tv_sec < b->modified.tv_sec ? -1 : 1;
	return (a->modified.tv_nsec > b->modified.tv_nsec) -
	       (a->modified.tv_nsec < b->modified.tv_nsec);
}

static int by_type(const struct file_list_entry *a, const struct file_list_entry *b)
{
	int order = S_ISDIR(b->mode) - S_ISDIR(a->mode);
	return order ? order : strcmp(extension(a->name), extension(b->name));
}

static const struct {
	const char *name;
	int (*compare)(const struct file_list_entry *a, const struct file_list_entry *b);
} comparisons[] = {
	{ "name", by_name },
	{ "size", by_size },
	{ "modified", by_modified },
	{ "type", by_type },
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct file_list *r = arg;
	int order = 0;
	for (size_t i = 0; i < COUNT(comparisons); i++)
		if (!strcmp(r->sort_by, comparisons[i].name))
			order = comparisons[i].compare(a, b);
	order = order ? order : by_name(a, b);
	return r->sort_desc ? -order : order;
}

/* ---- telling ---- */

/* Many files were made in the same second. */
struct second {
	time_t when;
	char text[40];
};

static const char *time_text(const struct timespec *when, struct second *last, char *to,
			     size_t room)
{
	struct tm tm;
	if (last->when != when->tv_sec || !*last->text) {
		last->when = when->tv_sec;
		*last->text = 0;
		if (gmtime_r(&when->tv_sec, &tm)) /* a file may have any number as its time */
			strftime(last->text, sizeof last->text, "%FT%T", &tm);
	}
	snprintf(to, room, "%s.%06ldZ", last->text, when->tv_nsec / 1000);
	return *last->text ? to : NULL;
}

static void write_entry(const struct file_list_scan *scan, const struct file_list_entry *e,
			struct second *last, const struct schema *of, struct jw *jw)
{
	char mode[16], full[2 * 4096], when[64];
	const char *path = full, *top = strcmp(scan->path, "/") != 0 ? scan->path : "";
	if ((size_t)snprintf(full, sizeof full, "%s/%s", top, e->path) >= sizeof full)
		path = arena_printf(scan->call->arena, "%s/%s", top, e->path);
	bool dir = S_ISDIR(e->mode);
	snprintf(mode, sizeof mode, "%03o", e->mode & 07777);
	struct file_info info = {
		.name = e->name,
		.path = path,
		.is_directory = dir,
		.size = dir || !scan->r->include_size ? INT_ABSENT : e->size,
		.modified_time = time_text(&e->modified, last, when, sizeof when),
		.permissions = scan->r->include_permissions ? mode : NULL,
		.extension = dir ? "" : extension(e->name),
		.path_b64 = file_path_b64(scan->call, path),
	};
	desc_encode(of, &info, jw);
}

static void write_entries(void *arg, const struct schema *of, struct jw *jw)
{
	const struct file_list_scan *scan = arg;
	struct second last = { 0 };
	for (size_t i = 0; i < scan->count && !jw_failed(jw); i++)
		write_entry(scan, &scan->entries[i], &last, of, jw);
}

static int tell(struct file_list_scan *scan, struct err *err)
{
	int64_t dirs = 0;
	for (size_t i = 0; i < scan->count; i++)
		dirs += S_ISDIR(scan->entries[i].mode);
	struct file_list_listing listing = {
		.path = scan->path,
		.files = { write_entries, scan },
		.total_count = (int64_t)scan->count,
		.directory_count = dirs,
		.file_count = (int64_t)scan->count - dirs,
		.truncated = scan->truncated,
	};
	return call_reply(scan->call, &listing, err);
}

static int list_path(struct call *call, const void *in, struct err *err)
{
	const struct file_list *r = in;
	struct err cause = { 0 };
	struct file_list_scan scan = { .call = call, .r = r };
	char *path = (char *)file_path(call, r->path, r->path_b64, &cause);
	int result = path ? look_around(&scan, path, &cause) : -1;
	for (size_t len = path ? strlen(path) : 0; len > 1 && path[len - 1] == '/';)
		path[--len] = 0;
	if (result == 0) {
		if (scan.count)
			qsort_r(scan.entries, scan.count, sizeof *scan.entries, compare, (void *)r);
		if (scan.truncated)
			call->hint = "There are more: list a directory further down, or without "
				     "recursive.";
		scan.path = path;
		result = tell(&scan, err);
	} else {
		result = file_error(call, "list", path ? path : r->path, &cause, err);
	}
	free(scan.entries);
	free(scan.dirs);
	return result;
}

static const struct route routes[] = {
	{ "POST", "/v1/file/list", list_path, &list_schema, &listing_data, "List a directory",
	  "Symbolic links to directories are not followed. Extensions choose among files only.",
	  .message = "Directory listed successfully" },
};

const struct route_group file_list_group = { "file", "Listing.", routes, COUNT(routes) };
