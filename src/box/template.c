#include "box/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/files.h"
#include "box/ground.h"
#include "box/hidden.h"
#include "box/ids.h"
#include "box/live_copy.h"

#define LIVE   "/usr" /* shown as it is, but for what must be hidden */
#define PREFIX "machine-"

enum {
	VERSION = 2, /* of what is made here: a new one replaces what older programs made */
	GEM = 1000,
	SYSTEM_IDS = 1000, /* below: users that packages make, and own files as */
	TEXT_MAX = 1 << 20,
};

/* --- reading --------------------------------------------------------------------------------- */

static int read_place(const char *dir, char *line, struct template *template, struct err *err)
{
	struct template_place *place = &template->places[template->count];
	char *rest = line, *at = strsep(&rest, " \n");
	if (!*at)
		return 0;
	if (template->count == TEMPLATE_PLACES || *at != '/' || strlen(at) >= sizeof place->at)
		return err_set(err, ERR_INVALID, "'%s/layers' names too much, or '%s'", dir, at);
	template->count++;
	snprintf(place->at, sizeof place->at, "%s", at);
	for (char *layer; (layer = strsep(&rest, " \n"));) {
		if (!*layer)
			continue;
		if (place->count == TEMPLATE_LAYERS - 1)
			return err_set(err, ERR_INVALID, "'%s/layers' has too many layers", dir);
		place->layers[place->count++] = *layer == '/' ? xstrdup(layer)
							      : xasprintf("%s/%s", dir, layer);
	}
	return place->count ? 0 : err_set(err, ERR_INVALID, "'%s/layers': '%s'", dir, at);
}

int template_read(const char *dir, struct template *ret, struct err *err)
{
	char line[TEMPLATE_LAYERS * PATH_MAX / 4];
	*ret = (struct template){ 0 };
	auto_free char *path = xasprintf("%s/layers", dir);
	FILE *file = fopen(path, "re");
	if (!file && errno != ENOENT)
		return err_set(err, errno, "'%s'", path);
	int result = 0;
	if (!file) {
		snprintf(line, sizeof line, "/ root");
		result = read_place(dir, line, ret, err);
	}
	while (file && result == 0 && fgets(line, sizeof line, file))
		result = read_place(dir, line, ret, err);
	if (file)
		(void)fclose(file);
	if (result == 0 && (!ret->count || strcmp(ret->places[0].at, "/") != 0))
		result = err_set(err, ERR_INVALID, "'%s' has no layers for '/'", dir);
	if (result < 0)
		template_done(ret);
	return result;
}

void template_done(struct template *template)
{
	for (size_t i = 0; i < template->count; i++)
		for (size_t n = 0; n < template->places[i].count; n++)
			free(template->places[i].layers[n]);
	*template = (struct template){ 0 };
}

/* --- the machine's own directories ----------------------------------------------------------- */

/* Root in a box is root for the mode bits of these files too, so only what everyone may read. */
bool template_is_public(const struct stat *st)
{
	mode_t wanted = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
	return S_ISLNK(st->st_mode) || (st->st_mode & wanted) == wanted;
}

/* Of /etc: made anew, or what only this machine is to be known by. */
static const char *const own_files[] = {
	"passwd",  "passwd-",   "group",     "group-",      "shadow",        "shadow-",
	"gshadow", "gshadow-",  "subuid",    "subuid-",     "subgid",        "subgid-",
	"sudoers", "sudoers.d", "hosts",     "hostname",    "resolv.conf",   "machine-id",
	"fstab",   "mtab",      ".pwd.lock", "krb5.keytab", "ld.so.preload",
};

static bool keep_of_etc(const char *path, const struct stat *st)
{
	for (size_t i = 0; i < COUNT(own_files); i++)
		if (!strcmp(path, own_files[i]))
			return false;
	return template_is_public(st) && !S_ISCHR(st->st_mode) && !S_ISFIFO(st->st_mode);
}

static bool keep_public(const char *path, const struct stat *st)
{
	(void)path;
	return template_is_public(st) && !S_ISCHR(st->st_mode) && !S_ISFIFO(st->st_mode);
}

static int write_text(const char *root, const char *path, mode_t mode, const char *text,
		      struct err *err)
{
	auto_free char *full = xasprintf("%s/%s", root, path);
	auto_close int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
		return err_set(err, errno, "'%s'", full);
	return 0;
}

/* The users that packages know by name, and gem. No one of them has a password. */
static int write_users(const char *root, struct err *err)
{
	auto_buf struct buf passwd = BUF(TEXT_MAX), shadow = BUF(TEXT_MAX);
	FILE *file = fopen("/etc/passwd", "re");
	buf_str(&passwd, "root:x:0:0:root:/root:/bin/bash\n");
	buf_str(&shadow, "root:*:19000:0:99999:7:::\n");
	for (const struct passwd *user; file && (user = fgetpwent(file));) {
		bool system = user->pw_uid > 0 && user->pw_uid < SYSTEM_IDS;
		if ((!system && user->pw_uid != 65534) || !strcmp(user->pw_name, "gem"))
			continue;
		buf_printf(&passwd, "%s:x:%u:%u::%s:%s\n", user->pw_name, user->pw_uid,
			   user->pw_gid, user->pw_dir, user->pw_shell);
		buf_printf(&shadow, "%s:*:19000:0:99999:7:::\n", user->pw_name);
	}
	if (file)
		(void)fclose(file);
	buf_printf(&passwd, "gem:x:%d:%d:gem:/home/gem:/bin/bash\n", GEM, GEM);
	buf_str(&shadow, "gem:*:19000:0:99999:7:::\n");
	if (write_text(root, "etc/passwd", 0644, passwd.data, err) < 0)
		return -1;
	return write_text(root, "etc/shadow", 0600, shadow.data, err);
}

static int write_groups(const char *root, struct err *err)
{
	auto_buf struct buf groups = BUF(TEXT_MAX), shadow = BUF(TEXT_MAX);
	FILE *file = fopen("/etc/group", "re");
	buf_str(&groups, "root:x:0:\n");
	buf_str(&shadow, "root:*::\n");
	for (const struct group *group; file && (group = fgetgrent(file));) {
		bool system = group->gr_gid > 0 && group->gr_gid < SYSTEM_IDS;
		if ((!system && group->gr_gid != 65534) || !strcmp(group->gr_name, "gem"))
			continue;
		bool sudo = !strcmp(group->gr_name, "sudo");
		buf_printf(&groups, "%s:x:%u:%s\n", group->gr_name, group->gr_gid,
			   sudo ? "gem" : "");
		buf_printf(&shadow, "%s:*::%s\n", group->gr_name, sudo ? "gem" : "");
	}
	if (file)
		(void)fclose(file);
	buf_printf(&groups, "gem:x:%d:\n", GEM);
	buf_str(&shadow, "gem:*::\n");
	if (write_text(root, "etc/group", 0644, groups.data, err) < 0)
		return -1;
	return write_text(root, "etc/gshadow", 0600, shadow.data, err);
}

static const char sudoers[] =
	"Defaults env_reset\n"
	"Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"
	"root ALL=(ALL:ALL) ALL\n" GROUND_SUDOERS "@includedir /etc/sudoers.d\n";

static int write_etc(const char *root, struct err *err)
{
	auto_free char *etc = xasprintf("%s/etc", root), *dir = xasprintf("%s/etc/sudoers.d", root),
		       *mtab = xasprintf("%s/etc/mtab", root);
	if (files_copy("/etc", etc, keep_of_etc, err) < 0 || write_users(root, err) < 0 ||
	    write_groups(root, err) < 0)
		return -1;
	if (mkdir(dir, 0755) < 0 || symlink("/proc/self/mounts", mtab) < 0)
		return err_set(err, errno, "'%s'", dir);
	return write_text(root, "etc/sudoers", 0440, sudoers, err) < 0 ||
			       write_text(root, "etc/resolv.conf", 0644, "", err) < 0 ||
			       write_text(root, "etc/fstab", 0644, "", err) < 0 ||
			       write_text(root, "etc/machine-id", 0444, "", err) < 0 ||
			       write_text(root, "etc/hosts", 0644, "127.0.0.1 localhost\n", err) < 0
		       ? -1
		       : 0;
}

/* Directories of a box, in the order in which they can be made. */
static const struct dir {
	const char *path;
	mode_t mode;
	uid_t owner;
} dirs[] = {
	{ "boot", 0755 },
	{ "dev", 0755 },
	{ "etc", 0755 },
	{ "home", 0755 },
	{ "home/gem", 0755, GEM },
	{ "media", 0755 },
	{ "mnt", 0755 },
	{ "opt", 0755 },
	{ "proc", 0555 },
	{ "root", 0700 },
	{ "run", 0755 },
	{ "run/lock", 01777 },
	{ "srv", 0755 },
	{ "sys", 0555 },
	{ "tmp", 01777 },
	{ "usr", 0755 },
	{ "var", 0755 },
	{ "var/backups", 0755 },
	{ "var/cache", 0755 },
	{ "var/cache/apt", 0755 },
	{ "var/cache/apt/archives", 0755 },
	{ "var/cache/apt/archives/partial", 0700 },
	{ "var/cache/debconf", 0755 },
	{ "var/lib", 0755 },
	{ "var/lib/apt", 0755 },
	{ "var/lib/apt/lists", 0755 },
	{ "var/lib/apt/lists/partial", 0700 },
	{ "var/lib/misc", 0755 },
	{ "var/local", 0755 },
	{ "var/log", 0755 },
	{ "var/log/apt", 0755 },
	{ "var/mail", 0755 },
	{ "var/opt", 0755 },
	{ "var/spool", 0755 },
	{ "var/tmp", 01777 },
};

/* What else of the machine is copied: the package database and what packages prepared in /var. */
static const char *const copied[] = {
	"var/lib/dpkg", "var/lib/pam",       "var/lib/ucf",          "var/lib/xml-core",
	"var/lib/xkb",  "var/lib/sgml-base", "var/cache/fontconfig",
};

/* Links at the top, such as /bin, and where they point as they do here. */
static const char *const top_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static int make_root(const char *root, struct err *err)
{
	char to[PATH_MAX], from[PATH_MAX], target[PATH_MAX];
	for (size_t i = 0; i < COUNT(dirs); i++) {
		snprintf(to, sizeof to, "%s/%s", root, dirs[i].path);
		if (mkdir(to, 0700) < 0 || chown(to, dirs[i].owner, dirs[i].owner) < 0 ||
		    chmod(to, dirs[i].mode) < 0)
			return err_set(err, errno, "'%s'", to);
	}
	for (size_t i = 0; i < COUNT(top_links); i++) {
		snprintf(from, sizeof from, "/%s", top_links[i]);
		snprintf(to, sizeof to, "%s/%s", root, top_links[i]);
		ssize_t n = readlink(from, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		if (n > 0 && symlink(target, to) < 0)
			return err_set(err, errno, "'%s'", to);
	}
	for (size_t i = 0; i < COUNT(copied); i++) {
		snprintf(from, sizeof from, "/%s", copied[i]);
		snprintf(to, sizeof to, "%s/%s", root, copied[i]);
		if (access(from, F_OK) < 0)
			continue;
		if (mkdir(to, 0755) < 0 || files_copy(from, to, keep_public, err) < 0)
			return err_set(err, errno, "'%s'", to);
	}
	return write_etc(root, err);
}

/* --- what must be hidden --------------------------------------------------------------------- */

/* The directories on the way to a path of a layer, as they are in the live one. */
static int make_way(char *to, size_t top, struct err *err)
{
	char from[PATH_MAX];
	struct stat st;
	for (char *slash = strchr(to + top + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		snprintf(from, sizeof from, LIVE "%.4000s", to + top);
		if (stat(from, &st) < 0 || (mkdir(to, 0700) < 0 && errno != EEXIST) ||
		    chown(to, st.st_uid, st.st_gid) < 0 || chmod(to, st.st_mode & 07777) < 0)
			return err_set(err, errno, "'%s'", to);
		*slash = '/';
	}
	return 0;
}

/* The mark of an overlay for "not there". */
static int hide(const char *layer, const char *path, struct err *err)
{
	char to[PATH_MAX * 2];
	snprintf(to, sizeof to, "%s%s", layer, path + strlen(LIVE));
	if (make_way(to, strlen(layer), err) < 0) /* it may be gone, with what it was in */
		return access(path, F_OK) < 0 && errno == ENOENT ? 0 : -1;
	if (mknod(to, S_IFCHR, 0) < 0)
		return err_set(err, errno, "'%s'", to);
	return 0;
}

/* Where the product will be mounted: made here, and not in each box. */
static int make_point(const char *layer, struct err *err)
{
	char to[PATH_MAX * 2];
	snprintf(to, sizeof to, "%s%s", layer, &GROUND_HOME[strlen(LIVE)]);
	if (make_way(to, strlen(layer), err) < 0)
		return -1;
	if (mkdir(to, 0755) < 0 && errno != EEXIST)
		return err_set(err, errno, "'%s'", to);
	return 0;
}

static int make_hiding(const char *layer, struct err *err)
{
	if (mkdir(layer, 0755) < 0)
		return err_set(err, errno, "'%s'", layer);
	const struct buf *paths = hidden_paths();
	const char *end = paths->data + paths->len;
	for (const char *path = paths->data; path && path < end; path += strlen(path) + 1)
		if (hide(layer, path, err) < 0)
			return -1;
	return make_point(layer, err);
}

/* --- putting it together --------------------------------------------------------------------- */

/* Scripts of a Python environment name the place that it was made at. */
static int link_python(const char *root, const char *python, struct err *err)
{
	if (!python || !strncmp(python, LIVE "/", sizeof LIVE))
		return 0;
	auto_free char *path = xasprintf("%s%s", root, python);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "'%s'", path);
		*slash = '/';
	}
	if (symlink(GROUND_HOME "/.venv", path) < 0 && errno != EEXIST)
		return err_set(err, errno, "'%s'", path);
	return 0;
}

static bool is_overlay(const char *path)
{
	struct statfs st;
	return statfs(path, &st) == 0 && (uint64_t)st.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* An overlay, as the root of a container is, cannot be id-mapped: then it is copied, once. */
static int copy_live(const char *dir, struct err *err)
{
	auto_free char *to = xasprintf("%s/live", dir);
	if (mkdir(to, 0755) < 0)
		return err_set(err, errno, "'%s'", to);
	log_info("an overlay is the root here, as in a container: its " LIVE " is copied once");
	if (files_copy(LIVE, to, keep_public, err) < 0 || make_point(to, err) < 0)
		return -1;
	return write_text(dir, "layers", 0644, "/ root\n" LIVE " live\n", err);
}

static int show_live(const char *dir, struct err *err)
{
	auto_free char *layer = xasprintf("%s/hide", dir);
	if (make_hiding(layer, err) < 0)
		return -1;
	return write_text(dir, "layers", 0644, "/ root\n" LIVE " hide " LIVE "\n", err);
}

/* All but LIVE. */
static int build_root(const char *dir, const char *python, struct err *err)
{
	auto_free char *root = xasprintf("%s/root", dir);
	if (files_remove(dir, err) < 0)
		return -1;
	mode_t mask = umask(0);
	int result = mkdir(dir, 0755) < 0 || mkdir(root, 0755) < 0
			     ? err_set(err, errno, "'%s'", dir)
			     : make_root(root, err);
	if (result == 0)
		result = link_python(root, python, err);
	umask(mask);
	return result;
}

/* Has another process build it: that takes as long as looking through LIVE. */
static pid_t begin_root(const char *dir, const char *python)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(build_root(dir, python, NULL) == 0 ? 0 : 1);
	return pid;
}

/* Whether it did. If not, building it here finds out why. */
static bool finish_root(pid_t pid)
{
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && status == 0;
}

static int build(const char *dir, const char *python, bool has_root, struct err *err)
{
	int result = has_root ? 0 : build_root(dir, python, err);
	mode_t mask = umask(0);
	if (result == 0 && is_overlay(LIVE))
		result = copy_live(dir, err);
	else if (result == 0)
		result = show_live(dir, err);
	umask(mask);
	return result;
}

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	for (const unsigned char *at = data; len--; at++)
		hash = (hash ^ *at) * 1099511628211u;
	return hash;
}

/* What the template depends on: when it changes, another is made. */
static uint64_t hash_state(const char *python)
{
	static const char *const seen[] = { LIVE, "/etc/passwd", "/etc/group", "/etc/alternatives",
					    "/var/lib/dpkg/status" };
	uint64_t hash = 14695981039346656037u + VERSION;
	for (size_t i = 0; i < COUNT(seen); i++) {
		struct stat st = { 0 };
		(void)!stat(seen[i], &st);
		hash = mix(hash, &st.st_dev, sizeof st.st_dev);
		hash = mix(hash, &st.st_ino, sizeof st.st_ino);
		hash = mix(hash, &st.st_mtim, sizeof st.st_mtim);
	}
	return mix(hash, python, python ? strlen(python) : 0);
}

int template_hold(const char *dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/layers", dir);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -1; /* one without that file is never removed by us */
	if (fd < 0 || flock(fd, LOCK_SH) < 0)
		return err_set(err, errno, "'%s'", path);
	return TAKE_FD(fd);
}

/* Removes what was made for states of the machine that are no more. */
static void prune(const char *state, const char *current)
{
	DIR *dir = opendir(state);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0 ||
		    !strcmp(entry->d_name, current))
			continue;
		auto_free char *path = xasprintf("%s/%s", state, entry->d_name),
			       *layers = xasprintf("%s/layers", path);
		auto_close int fd = open(layers, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)files_remove(path, NULL);
	}
	if (dir)
		closedir(dir);
}

bool template_known(const char *state)
{
	bool found = false;
	DIR *dir = opendir(state);
	for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
		found = !strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1);
	if (dir)
		closedir(dir);
	return found;
}

int template_machine(const char *state, const char *python, char **ret, struct err *err)
{
	char name[64];
	if (!ids_mapped())
		return err_set(err, ERR_INVALID,
			       "a box of the machine's own programs takes root: name a template "
			       "('aio template import' makes one)");
	auto_free char *lock_path = xasprintf("%s/.machine", state),
		       *making = xasprintf("%s/.machine.new", state);
	auto_close int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_set(err, errno, "'%s'", lock_path);
	uint64_t hash = hash_state(python);
	pid_t builder = template_known(state) ? 0 : begin_root(making, python);
	int result = hidden_find(LIVE, lock, hash, err);
	bool has_root = finish_root(builder);
	if (result < 0)
		return -1;
	hash = mix(hash, hidden_paths()->data, hidden_paths()->len);
	snprintf(name, sizeof name, PREFIX "%016llx", (unsigned long long)hash);
	auto_free char *path = xasprintf("%s/%s", state, name);
	if (access(path, F_OK) < 0) {
		if (!builder)
			log_info("this machine's programs or settings have changed: "
				 "the template of boxes is made again");
		if (build(making, python, has_root, err) < 0)
			return -1;
		if (rename(making, path) < 0)
			return err_set(err, errno, "'%s'", path);
		prune(state, name);
	}
	*ret = TAKE(path);
	return 0;
}

/* Puts a layer above the live one, unless it is there. */
static void hide_live(struct template_place *place, const char *layer)
{
	for (size_t n = 0; n < place->count; n++) {
		if (strcmp(place->layers[n], LIVE) != 0)
			continue;
		if (n > 0 && !strcmp(place->layers[n - 1], layer))
			return;
		memmove(place->layers + n + 1, place->layers + n,
			(place->count - n) * sizeof *place->layers);
		place->layers[n] = xstrdup(layer);
		place->count++;
		return;
	}
}

static bool shows_live(const struct template *template)
{
	for (size_t i = 0; i < template->count; i++)
		for (size_t n = 0; n < template->places[i].count; n++)
			if (!strcmp(template->places[i].layers[n], LIVE))
				return true;
	return false;
}

int template_hide(struct template *template, const char *state, const char *python, int *ret_hold,
		  struct err *err)
{
	auto_free char *machine = NULL;
	*ret_hold = -1;
	if (!shows_live(template))
		return 0;
	if (template_machine(state, python, &machine, err) < 0)
		return -1;
	auto_free char *layer = xasprintf("%s/hide", machine);
	*ret_hold = template_hold(machine, err);
	if (*ret_hold < 0 || access(layer, F_OK) < 0) /* removed before it was held */
		return err_set(err, EAGAIN, "'%s' has just changed", machine);
	for (size_t i = 0; i < template->count; i++)
		hide_live(&template->places[i], layer);
	return 0;
}

/* An empty layer, as the one it will be a copy of, and its name in the line. */
static char *make_layer(const char *from, const char *origin, const char *dir, const char *name,
			struct buf *line, struct err *err)
{
	auto_free char *to = xasprintf("%s/%s", dir, name);
	uint32_t shift = ids_owner(dir) - ids_owner(origin);
	struct stat st;
	if (stat(from, &st) < 0 || mkdir(to, 0700) < 0 ||
	    chown(to, st.st_uid + shift, st.st_gid + shift) < 0 ||
	    chmod(to, st.st_mode & 07777) < 0) {
		err_set(err, errno, "'%s'", to);
		return NULL;
	}
	buf_printf(line, " %s", name);
	return TAKE(to);
}

/* Copies a layer of `origin` that is not the machine's own directory, and adds its name to the line. */
static int copy_layer(const char *from, const char *origin, const char *dir, const char *name,
		      struct buf *line, struct err *err)
{
	auto_free char *to = make_layer(from, origin, dir, name, line, err);
	return to ? files_copy(from, to, NULL, err) : -1;
}

/* A directory whose files are to have the ids from `owner` on. */
static int make_owned(const char *dir, uint32_t owner, struct err *err)
{
	if (mkdir(dir, 0755) < 0 || (owner && chown(dir, owner, owner) < 0))
		return err_set(err, errno, "'%s'", dir);
	return 0;
}

/* The layers of one place: what was written, whose copy is made later, and those below it. */
static int copy_place(const struct template_place *place, const char *base, const char *written,
		      const char *dir, size_t number, struct files_copy **ret, struct buf *lines,
		      struct err *err)
{
	char name[64];
	auto_free char *upper = xasprintf("%s/upper%zu", written, number);
	snprintf(name, sizeof name, "%zu", number);
	buf_str(lines, place->at);
	auto_free char *to = make_layer(upper, written, dir, name, lines, err);
	*ret = to ? files_copy_new(upper, to, err) : NULL;
	int result = *ret ? 0 : -1;
	for (size_t n = 0; n < place->count && result == 0; n++) {
		snprintf(name, sizeof name, "%zu.%zu", number, n);
		if (!strcmp(place->layers[n], LIVE))
			buf_printf(lines, " %s", place->layers[n]);
		else
			result = copy_layer(place->layers[n], base, dir, name, lines, err);
	}
	buf_str(lines, "\n");
	return result;
}

int template_snapshot(const char *base, const char *written, const struct live_copy_users *users,
		      files_keep *keep, const char *dir, struct err *err)
{
	struct template template;
	struct files_copy *copies[TEMPLATE_PLACES] = { 0 };
	auto_buf struct buf lines = BUF(TEXT_MAX);
	auto_close int hold = template_hold(base, NULL); /* nobody removes it meanwhile */
	(void)hold;
	if (template_read(base, &template, err) < 0)
		return -1;
	int result = make_owned(dir, ids_of_templates(), err);
	for (size_t i = 0; i < template.count && result == 0; i++)
		result = copy_place(&template.places[i], base, written, dir, i, &copies[i], &lines,
				    err);
	for (size_t i = 0; i < template.count && result == 0; i++)
		files_copy_keep(copies[i], keep);
	if (result == 0)
		result = live_copy(copies, template.count, users, err);
	if (result == 0)
		result = write_text(dir, "layers", 0644, lines.data, err);
	for (size_t i = 0; i < template.count; i++)
		files_copy_free(copies[i]);
	template_done(&template);
	if (result < 0)
		(void)files_remove(dir, NULL);
	return result;
}

static int copy_template(const char *from, const char *to, uint32_t owner, struct err *err)
{
	struct template template;
	auto_buf struct buf lines = BUF(TEXT_MAX);
	if (template_read(from, &template, err) < 0)
		return -1;
	int result = make_owned(to, owner, err);
	for (size_t i = 0; i < template.count && result == 0; i++) {
		const struct template_place *place = &template.places[i];
		buf_str(&lines, place->at);
		for (size_t n = 0; n < place->count && result == 0; n++) {
			char name[64];
			snprintf(name, sizeof name, "%zu.%zu", i, n);
			result = copy_layer(place->layers[n], from, to, name, &lines, err);
		}
		buf_str(&lines, "\n");
	}
	if (result == 0)
		result = write_text(to, "layers", 0644, lines.data, err);
	template_done(&template);
	return result;
}

char *template_of(const char *dir, uint32_t owner, struct err *err)
{
	if (ids_owner(dir) == owner)
		return xstrdup(dir);
	auto_free char *path = xasprintf("%s/ids-%u", dir, owner),
		       *making = xasprintf("%s.new", path);
	if (access(path, F_OK) == 0)
		return TAKE(path);
	auto_close int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) < 0) {
		err_set(err, errno, "'%s'", dir);
		return NULL;
	}
	if (access(path, F_OK) < 0) { /* else another made it meanwhile */
		if (files_remove(making, err) < 0 || copy_template(dir, making, owner, err) < 0)
			return NULL;
		if (rename(making, path) < 0) {
			err_set(err, errno, "'%s'", path);
			return NULL;
		}
	}
	return TAKE(path);
}
