#include "code/packages.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/json.h"
#include "base/memo.h"
#include "config/config.h"
#include "config/distribution.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/child.h"
#include "proc/tools.h"
#include "proc/user.h"

enum {
	PACKAGES_MAX = 20000,
	DIRS_MAX = 64,
	LISTING_MAX = 16 << 20,
	MANIFEST_MAX = 1 << 20,
	ASK_MS = 10000,
	SETTLE_S = 2, /* an installer is done with a directory this long after its last change */
};

static const struct field package_fields[] = {
	STR(package, name, REQUIRED, "Name."),
	STR(package, version, REQUIRED, "Installed version."),
};
static const struct schema package_schema = SCHEMA(package, "PackageInfo", package_fields);
const struct field packages_data = { .type = T_LIST, .item = T_OBJ, .of = &package_schema };

static int by_name(const void *a, const void *b)
{
	const struct package *x = a, *y = b;
	int order = strcasecmp(x->name, y->name);
	if (!order)
		order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->version, y->version);
}

/* Sorts the packages and drops what is there twice. */
static struct list tidy(struct package *packages, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(packages, count, sizeof *packages, by_name);
	for (size_t i = 0; i < count; i++)
		if (!kept || by_name(&packages[kept - 1], &packages[i]) != 0)
			packages[kept++] = packages[i];
	return (struct list){ kept, packages };
}

static int refuse(struct call *call, const char *message, struct err *err)
{
	call->failed = true;
	call->message = message;
	return call_reply(call, NULL, err);
}

static int find_where(struct server *server, struct user *user, struct tools_where *ret,
		      struct err *err)
{
	*ret = (struct tools_where){ server->home, user, server_stop_fd(server) };
	return user_find(server->config->user, user, err);
}

/* ---- Python ---- */

/* Isolated from the directory and the variables it happens to be started with, so the user's own
 * packages, which a plain start finds, are asked for. The first of a name is the one imported. */
static const char python_lister[] =
	"import importlib.metadata as metadata, json, re, site, sys\n"
	"path = list(sys.path)\n"
	"if sys.prefix == sys.base_prefix:\n"
	"    path.insert(0, site.getusersitepackages())\n"
	"found = {}\n"
	"for package in metadata.distributions(path=path):\n"
	"    try:\n"
	"        name, version = package.metadata.get('Name'), package.metadata.get('Version')\n"
	"    except Exception:\n"
	"        continue\n"
	"    if name and version:\n"
	"        found.setdefault(re.sub('[-_.]+', '-', name).lower(), [name, version])\n"
	"print(json.dumps({'path': path, 'packages': list(found.values())}))\n";

/* What a file or directory was like; all zeroes when there was none. */
struct packages_stamp {
	const char *path;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

static struct packages_stamp stamp_of(const char *path)
{
	struct stat st;
	struct packages_stamp stamp = { .path = path };
	if (stat(path, &st) == 0) {
		stamp.dev = st.st_dev;
		stamp.ino = st.st_ino;
		stamp.size = st.st_size;
		stamp.changed = st.st_mtim;
	}
	return stamp;
}

static bool stamp_holds(const struct packages_stamp *was)
{
	struct packages_stamp now = stamp_of(was->path);
	return now.dev == was->dev && now.ino == was->ino && now.size == was->size &&
	       now.changed.tv_sec == was->changed.tv_sec &&
	       now.changed.tv_nsec == was->changed.tv_nsec;
}

/* One listing of one interpreter. */
struct packages_listing {
	struct memo_value memo;
	struct arena arena;
	const char *problem; /* NULL: all is well */
	struct list packages;
	int64_t started_us;
	bool settled; /* no directory had just been changed: stamps will tell of the next change */
	struct packages_stamp python, dirs[DIRS_MAX];
	size_t dir_count;
};

struct python_ask {
	const struct tools_where *where;
	const char *python;
	int64_t arrived_us;
};

static bool listing_fresh(const struct memo_value *value, void *arg)
{
	const struct packages_listing *listing = (const struct packages_listing *)value;
	const struct python_ask *ask = arg;
	if (strcmp(listing->python.path, ask->python) != 0)
		return false;
	if (listing->started_us >= ask->arrived_us)
		return true;
	if (listing->problem || !listing->settled || !stamp_holds(&listing->python))
		return false;
	for (size_t i = 0; i < listing->dir_count; i++)
		if (!stamp_holds(&listing->dirs[i]))
			return false;
	return true;
}

static void take_dirs(struct packages_listing *listing, const json_t *path, time_t started)
{
	size_t count = json_array_size(path);
	listing->settled = json_is_array(path) && count <= DIRS_MAX;
	for (size_t i = 0; i < count && i < DIRS_MAX; i++) {
		const char *dir = json_string_value(json_array_get(path, i));
		if (!dir)
			continue;
		struct packages_stamp stamp = stamp_of(arena_strdup(&listing->arena, dir));
		if (stamp.changed.tv_sec >= started - SETTLE_S)
			listing->settled = false;
		listing->dirs[listing->dir_count++] = stamp;
	}
}

static void take_packages(struct packages_listing *listing, const json_t *from)
{
	size_t count = json_array_size(from), used = 0;
	count = count < PACKAGES_MAX ? count : PACKAGES_MAX;
	struct package *packages = arena_alloc(&listing->arena, count * sizeof *packages);
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(from, i);
		const char *name = json_string_value(json_array_get(item, 0));
		const char *version = json_string_value(json_array_get(item, 1));
		if (name && version)
			packages[used++] =
				(struct package){ arena_strdup(&listing->arena, name),
						  arena_strdup(&listing->arena, version) };
	}
	listing->packages = tidy(packages, used);
}

static int ask_python(struct packages_listing *listing, const struct python_ask *ask,
		      struct err *err)
{
	char *argv[] = { (char *)ask->python, (char *)"-I", (char *)"-c", (char *)python_lister,
			 NULL };
	time_t started = time(NULL);
	struct program_status end = { 0 };
	auto_buf struct buf out = BUF(LISTING_MAX);
	if (tools_run(ask->where, argv, clock_ms() + ASK_MS, &out, &end, err) < 0)
		return -1;
	if (end.code != 0 || !out.len)
		return err_set(err, ERR_UNAVAILABLE,
			       "it ended with code %d (Python 3.8 or newer is wanted)", end.code);
	json_t *said = json_parse(out.data, out.len, err);
	if (!said)
		return -1;
	take_dirs(listing, json_object_get(said, "path"), started);
	take_packages(listing, json_object_get(said, "packages"));
	json_decref(said);
	return 0;
}

static struct memo_value *listing_make(const struct memo_value *old, void *arg, struct err *err)
{
	(void)old;
	(void)err;
	const struct python_ask *ask = arg;
	struct packages_listing *listing = xcalloc(1, sizeof *listing);
	struct err problem;
	listing->started_us = clock_us();
	listing->python = stamp_of(arena_strdup(&listing->arena, ask->python));
	if (ask_python(listing, ask, &problem) < 0)
		listing->problem = arena_printf(&listing->arena,
						"%s does not list its packages: %s", ask->python,
						problem.msg);
	return &listing->memo;
}

static void listing_free(struct memo_value *value)
{
	arena_done(&((struct packages_listing *)value)->arena);
	free(value);
}

static struct memo memo = MEMO;
static const struct memo_how how = { listing_fresh, listing_make, listing_free,
				     .old_will_do = false };

int packages_python(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct user user;
	struct tools_where where;
	if (find_where(call->server, &user, &where, err) < 0)
		return -1;
	auto_free char *python = tools_find(&where, "python3", 0);
	if (!python)
		return refuse(
			call,
			arena_printf(
				call->arena,
				"Python is not installed: run 'make deps', or install python3 (%s "
				"python3)",
				distribution_add()),
			err);
	struct python_ask ask = { &where, python, clock_us() };
	struct packages_listing *listing =
		(struct packages_listing *)memo_get(&memo, &how, &ask, err);
	if (!listing)
		return -1;
	int result = listing->problem ? refuse(call, listing->problem, err)
				      : call_reply(call, &listing->packages, err);
	memo_put(&how, &listing->memo);
	return result;
}

/* ---- Node.js ---- */

struct packages_collection {
	struct arena *arena;
	struct package *packages;
	size_t count, room;
};

static json_t *read_manifest(int dir, const char *folder)
{
	char path[PATH_MAX];
	struct stat st;
	snprintf(path, sizeof path, "%s/package.json", folder);
	auto_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MANIFEST_MAX)
		return NULL;
	auto_free char *text = xmalloc((size_t)st.st_size + 1);
	ssize_t len = read(fd, text, (size_t)st.st_size);
	if (len <= 0)
		return NULL;
	text[len] = 0;
	return json_parse(text, (size_t)len, NULL);
}

static void collect_package(struct packages_collection *to, int dir, const char *folder)
{
	json_t *manifest = read_manifest(dir, folder);
	const char *name = json_string_value(json_object_get(manifest, "name"));
	const char *version = json_string_value(json_object_get(manifest, "version"));
	if (name && version && to->count < PACKAGES_MAX) {
		if (to->count == to->room) {
			to->room = to->room ? to->room * 2 : 64;
			to->packages = xrealloc(to->packages, to->room * sizeof *to->packages);
		}
		to->packages[to->count++] = (struct package){ arena_strdup(to->arena, name),
							      arena_strdup(to->arena, version) };
	}
	json_decref(manifest);
}

/* The packages of a node_modules directory, and of the scopes ("@types") in it. */
static void collect(struct packages_collection *to, int at, const char *path, bool scopes)
{
	DIR *dir = dir_open_at(at, path, 0);
	if (!dir)
		return;
	int fd = dirfd(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (*entry->d_name == '@' && scopes)
			collect(to, fd, entry->d_name, false);
		else if (*entry->d_name != '.')
			collect_package(to, fd, entry->d_name);
	}
	closedir(dir);
}

/* Where `npm install -g` puts packages, without asking npm, which is slow: "lib/node_modules" below
 * its prefix, which is configured, that of a Node.js ("/usr" of "/usr/bin/node"), or Debian's. */
static size_t find_prefixes(struct arena *arena, const struct tools_where *where,
			    const char *prefixes[PACKAGES_DIRS_MAX])
{
	const char *configured = getenv("NPM_CONFIG_PREFIX");
	size_t count = 0;
	for (size_t nth = 0; count < PACKAGES_DIRS_MAX - 2; nth++) {
		char real[PATH_MAX];
		auto_free char *node = tools_find(where, "node", nth);
		if (!node)
			break;
		if (realpath(node, real))
			prefixes[count++] = arena_strdup(arena, dirname(dirname(real)));
	}
	if (count && configured && *configured == '/')
		prefixes[count++] = configured;
	if (count)
		prefixes[count++] = "/usr/local";
	return count;
}

size_t packages_global_dirs(struct arena *arena, const struct tools_where *where,
			    const char *dirs[PACKAGES_DIRS_MAX])
{
	size_t count = find_prefixes(arena, where, dirs);
	for (size_t i = 0; i < count; i++)
		dirs[i] = arena_printf(arena, "%s/lib/node_modules", dirs[i]);
	return count;
}

int packages_of(struct arena *arena, const struct tools_where *where, const char *const *dirs,
		size_t count, struct list *ret, struct err *err)
{
	struct user_view view;
	struct packages_collection all = { .arena = arena };
	if (user_enter(where->user, &view, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		collect(&all, AT_FDCWD, dirs[i], true);
	user_leave(&view);
	struct list found = tidy(all.packages, all.count);
	struct package *kept = arena_alloc(arena, (found.count + 1) * sizeof *kept);
	if (found.count)
		memcpy(kept, found.items, found.count * sizeof *kept);
	free(all.packages);
	*ret = (struct list){ found.count, kept };
	return 0;
}

int packages_nodejs(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct user user;
	struct tools_where where;
	struct list packages;
	const char *dirs[PACKAGES_DIRS_MAX + 1];
	if (find_where(call->server, &user, &where, err) < 0)
		return -1;
	size_t count = packages_global_dirs(call->arena, &where, dirs + 1);
	if (!count)
		return refuse(
			call,
			arena_printf(
				call->arena,
				"Node.js is not installed: run 'make deps', or install it (%s nodejs "
				"npm)",
				distribution_add()),
			err);
	dirs[0] = arena_printf(call->arena, "%s/node_modules", where.home);
	if (packages_of(call->arena, &where, dirs, count + 1, &packages, err) < 0)
		return -1;
	return call_reply(call, &packages, err);
}
