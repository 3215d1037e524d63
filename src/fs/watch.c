#include "fs/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/glob.h"
#include "base/own.h"
#include "base/thread.h"
#include "fs/changes.h"
#include "fs/temp.h"
#include "fs/watch_tree.h"
#include "proc/user.h"

enum {
	RELOCATIONS_MAX = 16,
	STARTS_MAX = 8,
};
#define MASK                                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_ONLYDIR | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK)

struct watch {
	pthread_t thread;
	pthread_mutex_t lock; /* of view and waiters, and of the ring of events */
	struct watch_view view;
	struct waiter *waiters;
	int stop_fd;
	bool running; /* there is a thread to be joined */

	/* The thread's own. */
	char *root, *only; /* the directory; the one name in it that counts, or NULL */
	bool recursive;
	size_t max_dirs;
	struct globs include, exclude;
	const struct user *user;
	struct file_events *events;
	struct watch_tree *tree;
	bool over; /* with why */
	struct err why;
	struct changes changes; /* what the kernel says */
	int parent_wd;
};

/* ---- telling ---- */

static void tell(struct watch *w, enum event_type type, bool is_dir, const char *path,
		 const char *old_path)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	file_events_add(w->events, type, is_dir, path, old_path, clock_ms(),
			(double)now.tv_sec + (double)now.tv_nsec / 1e9);
}

static void wake(struct watch *w)
{
	waiter_wake(w->waiters);
}

static void set_state(struct watch *w, enum watch_state state, const struct err *why)
{
	pthread_mutex_lock(&w->lock);
	w->view.state = state;
	if (why)
		w->view.why = *why;
	w->view.dirs = watch_tree_count(w->tree);
	wake(w);
	pthread_mutex_unlock(&w->lock);
}

/* The tree is gone, or is no longer where it was. */
static void finish(struct watch *w, const char *what)
{
	err_set(&w->why, ERR_NOT_FOUND, "'%s' was %s", w->root, what);
	tell(w, EVENT_REMOVE, true, ".", NULL);
	w->over = true;
}

static void complete(const struct watch *w, struct file_event *event)
{
	struct stat st;
	char path[PATH_MAX + NAME_MAX + 2];
	if (event->type == EVENT_REMOVE || event->type == EVENT_OVERFLOW)
		return;
	snprintf(path, sizeof path, "%s/%s", w->root, event->path);
	if (lstat(path, &st) < 0)
		return;
	event->known = true;
	event->mtime = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9;
	event->size = st.st_size;
	event->inode = st.st_ino;
}

/* Gives numbers to the events that have waited for long enough. */
static void publish(struct watch *w, int64_t now_ms)
{
	bool any = false;
	for (struct file_event *event; (event = file_events_take(w->events, now_ms)); any = true) {
		complete(w, event);
		pthread_mutex_lock(&w->lock);
		file_events_keep(w->events, event);
		pthread_mutex_unlock(&w->lock);
	}
	if (!any)
		return;
	pthread_mutex_lock(&w->lock);
	w->view.dirs = watch_tree_count(w->tree);
	wake(w);
	pthread_mutex_unlock(&w->lock);
}

/* ---- which paths count ---- */

static bool excluded(const struct watch *w, const char *path, bool is_dir)
{
	return (w->only && strcmp(path, w->only) != 0) || globs_match(&w->exclude, path, is_dir);
}

static bool included(const struct watch *w, const char *path, bool is_dir)
{
	return !w->include.count || globs_match(&w->include, path, is_dir);
}

/* ---- directories ---- */

static void mark_lost(struct watch *w, bool incomplete)
{
	pthread_mutex_lock(&w->lock);
	w->view.incomplete = w->view.incomplete || incomplete;
	pthread_mutex_unlock(&w->lock);
	tell(w, EVENT_OVERFLOW, false, "", NULL);
}

static void drop(struct watch *w, struct watch_dir *dir)
{
	for (bool more = true; more;) {
		int wd;
		more = watch_tree_prune(w->tree, dir, &wd);
		if (wd >= 0)
			(void)inotify_rm_watch(w->changes.fd, wd);
	}
}

/* Says that something has another name now, to those who may know of it. What is in a directory moves
 * with it unsaid, so its way is told whatever the patterns. */
static void tell_move(struct watch *w, const char *old_path, const char *path, bool is_dir)
{
	bool had = !excluded(w, old_path, is_dir) && (is_dir || included(w, old_path, false));
	bool has = !excluded(w, path, is_dir) && (is_dir || included(w, path, false));
	if (had && has)
		tell(w, EVENT_RENAME, is_dir, path, old_path);
	else if (had)
		tell(w, EVENT_REMOVE, is_dir, old_path, NULL);
	else if (has)
		tell(w, EVENT_CREATE, is_dir, path, NULL);
}

/* A name that a directory had before it was moved, and another one has now. */
struct vacated {
	struct watch_dir *parent;
	char *name; /* NULL: none */
};

static int changes_too_fast(const struct watch *w, struct err *err)
{
	return err_set(err, ERR_CONFLICT, "'%s' changes too fast", w->root);
}

static bool identify(const struct watch *w, const char *path, struct stat *ret)
{
	char whole[PATH_MAX * 2];
	snprintf(whole, sizeof whole, "%s/%s", w->root, path);
	return lstat(whole, ret) == 0 && S_ISDIR(ret->st_mode);
}

/* A directory that is known by another path was found here: it was moved, and the kernel's word for it
 * is still to come, if it comes at all. Another one may have its old name by now. */
static int relocate(struct watch *w, struct watch_dir *dir, struct watch_dir *parent,
		    const char *name, bool announce, struct vacated *ret, struct err *err)
{
	char old_path[PATH_MAX], path[PATH_MAX];
	struct stat before, now;
	const char *old_name;
	struct watch_dir *old_parent = watch_tree_place(dir, &old_name);
	if (!old_parent || !watch_tree_path(dir, NULL, old_path, sizeof old_path) ||
	    !watch_tree_path(parent, name, path, sizeof path))
		return 0;
	bool there = identify(w, old_path, &before);
	if (there && identify(w, path, &now) && before.st_ino == now.st_ino &&
	    before.st_dev == now.st_dev)
		return 0; /* mounted in both places */
	auto_free char *old = xstrdup(old_name);
	if (!watch_tree_move(w->tree, dir, parent, name))
		return changes_too_fast(w, err);
	if (announce)
		tell_move(w, old_path, path, true);
	if (!there)
		return 0;
	if (announce && included(w, old_path, true))
		tell(w, EVENT_CREATE, true, old_path, NULL);
	*ret = (struct vacated){ old_parent, TAKE(old) };
	return 0;
}

static int watch_one(struct watch *w, struct watch_dir *parent, const char *name, bool announce,
		     struct vacated *ret, struct err *err)
{
	char path[PATH_MAX * 2];
	int len = snprintf(path, sizeof path, "%s/", w->root);
	if (parent && !watch_tree_path(parent, name, path + len, sizeof path - (size_t)len))
		return 0;
	if (watch_tree_count(w->tree) >= w->max_dirs)
		return err_set(err, ERR_LIMIT,
			       "'%s' has more than %zu directories: exclude some, or raise "
			       "--max-watch-dirs",
			       w->root, w->max_dirs);
	int wd = inotify_add_watch(w->changes.fd, path,
				   MASK | IN_MASK_ADD | (parent ? IN_DONT_FOLLOW : 0));
	if (wd < 0 && (errno == ENOSPC || errno == ENOMEM))
		return err_set(err, ERR_LIMIT,
			       "the system does not allow to watch more directories: raise "
			       "fs.inotify.max_user_watches");
	if (wd < 0 && !parent)
		return err_set(err, errno, "'%s'", w->root);
	struct watch_dir *known = watch_tree_find(w->tree, wd);
	struct watch_dir *here = watch_tree_child(w->tree, parent, name);
	if (wd <
	    0) { /* gone, or a directory on the way to it has a new name that is not known yet */
		if (errno == ENOENT || errno == ENOTDIR)
			watch_tree_put_off(w->tree,
					   here ? here : watch_tree_add(w->tree, parent, name, -1));
		return 0;
	}
	if (known && known == here)
		return 0;
	if (known && here && watch_tree_below(known, here))
		return changes_too_fast(w, err);
	if (here && !known && !watch_tree_watched(here)) {
		watch_tree_watch(w->tree, here, wd);
		return 0;
	}
	if (here)
		drop(w, here);
	if (known)
		return relocate(w, known, parent, name, announce, ret, err);
	(void)watch_tree_add(w->tree, parent, name, wd);
	return 0;
}

/* Watches a directory, if it is there and may be read, and those that have moved into each other's
 * places. -1 with ERR_LIMIT when there are too many, with ERR_CONFLICT when it is not clear any more
 * what is where. */
static int watch_dir(struct watch *w, struct watch_dir *parent, const char *name, bool announce,
		     struct err *err)
{
	struct vacated next = { 0 };
	int result = watch_one(w, parent, name, announce, &next, err);
	for (int moved = 0; result == 0 && next.name; moved++) {
		auto_free char *vacated = TAKE(next.name);
		result = moved > RELOCATIONS_MAX
				 ? changes_too_fast(w, err)
				 : watch_one(w, next.parent, vacated, announce, &next, err);
	}
	return result;
}

static bool is_directory(const DIR *dir, const struct dirent *entry)
{
	struct stat st;
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dirfd((DIR *)dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* Reads one directory: what is in it is told, if it is to be, and its directories are watched. */
static int scan_one(struct watch *w, struct watch_dir *dir, bool announce, struct err *err)
{
	char path[PATH_MAX + NAME_MAX + 2];
	int len = snprintf(path, sizeof path, "%s/", w->root);
	if (!watch_tree_path(dir, NULL, path + len, sizeof path - (size_t)len))
		return 0;
	DIR *stream = opendir(path);
	int result = 0;
	if (!stream && (errno == ENOENT || errno == ENOTDIR))
		watch_tree_put_off(w->tree, dir);
	for (const struct dirent *entry; stream && result == 0 && (entry = readdir(stream));) {
		const char *name = entry->d_name;
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		bool is_dir = is_directory(stream, entry);
		if (!watch_tree_path(dir, name, path, sizeof path) || excluded(w, path, is_dir) ||
		    (!is_dir && temp_is_name(name)))
			continue;
		if (announce) {
			if (included(w, path, is_dir))
				tell(w, EVENT_CREATE, is_dir, path, NULL);
			watch_tree_see(w->tree, dir, name);
		}
		if (is_dir && w->recursive)
			result = watch_dir(w, dir, name, announce, err);
	}
	if (stream)
		closedir(stream);
	return result;
}

/* The same for all that is new below, too. */
static int scan(struct watch *w, bool announce, struct err *err)
{
	for (struct watch_dir *dir; (dir = watch_tree_next_new(w->tree));)
		if (scan_one(w, dir, announce, err) < 0)
			return -1;
	return 0;
}

static void stop_tree(struct watch *w)
{
	watch_tree_free(TAKE(w->tree));
	changes_close(&w->changes);
}

/* While somebody is in it, a directory that was removed does not say so itself. */
static void watch_parent(struct watch *w)
{
	char path[PATH_MAX];
	const char *slash = strrchr(w->root, '/');
	w->parent_wd = -1;
	if (!slash || snprintf(path, sizeof path, "%.*s/", (int)(slash - w->root), w->root) >=
			      (int)sizeof path)
		return;
	w->parent_wd = inotify_add_watch(w->changes.fd, path,
					 IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR | IN_MASK_ADD);
}

static int try_tree(struct watch *w, struct err *err)
{
	if (changes_open(&w->changes) < 0)
		return err_set(err, errno == EMFILE || errno == ENFILE ? ERR_LIMIT : errno,
			       "no more watches: the system allows no other inotify instance "
			       "(fs.inotify.max_user_instances)");
	w->tree = watch_tree_new();
	if (watch_dir(w, NULL, "", false, err) < 0)
		return -1;
	watch_parent(w);
	return w->recursive ? scan(w, false, err) : 0;
}

/* Watches all there is. When too much moves meanwhile, once more. */
static int start_tree(struct watch *w, struct err *err)
{
	int result = -1;
	for (int i = 0; i < STARTS_MAX && result < 0; i++) {
		stop_tree(w);
		result = try_tree(w, err);
		if (result < 0 && err->code != ERR_CONFLICT)
			break;
	}
	return result;
}

/* Begins anew with what there is now. Said afterwards: who looks at the tree then sees the rest. */
static void restart(struct watch *w)
{
	int result = start_tree(w, &w->why);
	bool limited = result < 0 && (w->why.code == ERR_LIMIT || w->why.code == ERR_CONFLICT);
	if (result < 0 && !limited)
		finish(w, "removed");
	else if (w->changes.fd < 0 || !watch_tree_root(w->tree))
		w->over = true;
	mark_lost(w, limited);
}

static void settle(struct watch *w, int result, const struct err *err)
{
	if (result < 0 && err->code == ERR_CONFLICT)
		restart(w);
	else if (result < 0)
		mark_lost(w, true);
}

/* Tries those directories again that could not be reached: what has come since may tell where they are,
 * or will tell that they are gone. */
static void catch_up(struct watch *w)
{
	struct err err;
	int result = 0;
	for (size_t left = watch_tree_put_off_count(w->tree); left && result == 0; left--) {
		struct watch_dir *dir = watch_tree_next_put_off(w->tree);
		const char *name;
		struct watch_dir *parent = dir ? watch_tree_place(dir, &name) : NULL;
		if (!parent)
			continue;
		auto_free char *copy = xstrdup(name);
		result = watch_tree_watched(dir) ? scan_one(w, dir, true, &err)
						 : watch_dir(w, parent, copy, true, &err);
		if (result == 0)
			result = scan(w, true, &err);
	}
	settle(w, result, &err);
}

/* A directory has appeared. */
static void enter(struct watch *w, struct watch_dir *parent, const char *name)
{
	struct err err;
	if (!w->recursive)
		return;
	int result = watch_dir(w, parent, name, true, &err);
	if (result == 0)
		result = scan(w, true, &err);
	settle(w, result, &err);
}

/* A directory has gone. */
static void leave(struct watch *w, struct watch_dir *parent, const char *name)
{
	struct watch_dir *dir = watch_tree_child(w->tree, parent, name);
	if (dir)
		drop(w, dir);
}

/* ---- what the kernel says ---- */

static void replaced(struct watch *w, struct watch_dir *dir, const char *name)
{
	char path[PATH_MAX];
	if (watch_tree_path(dir, name, path, sizeof path) && !excluded(w, path, false) &&
	    included(w, path, false))
		tell(w, EVENT_WRITE, false, path, NULL);
}

static void renamed(struct watch *w, struct watch_dir *from, const char *old_name,
		    struct watch_dir *to, const char *name, bool is_dir)
{
	char old_path[PATH_MAX], path[PATH_MAX];
	if (!watch_tree_path(from, old_name, old_path, sizeof old_path) ||
	    !watch_tree_path(to, name, path, sizeof path))
		return;
	(void)watch_tree_unsee(w->tree, from, old_name);
	if (watch_tree_unsee(w->tree, to, name) &&
	    is_dir) { /* a scan was quicker, and has told it */
		if (!excluded(w, old_path, true))
			tell(w, EVENT_REMOVE, true, old_path, NULL);
		leave(w, from, old_name);
		return;
	}
	tell_move(w, old_path, path, is_dir);
	if (!is_dir)
		return;
	bool gone = excluded(w, path, true);
	struct watch_dir *dir = watch_tree_child(w->tree, from, old_name);
	struct watch_dir *replaced = watch_tree_child(w->tree, to, name);
	if (dir && replaced && watch_tree_below(dir, replaced)) {
		restart(w);
		return;
	}
	if (replaced)
		drop(w, replaced);
	if (dir && gone)
		drop(w, dir);
	else if (dir && !watch_tree_move(w->tree, dir, to, name))
		restart(w);
	else if (!dir && !gone)
		enter(w, to, name);
}

static void moved_away(struct watch *w, struct watch_dir *dir, const struct change *change,
		       const char *path)
{
	bool is_dir = change->mask & IN_ISDIR;
	struct change mate;
	struct watch_dir *to = NULL;
	if (changes_mate(&w->changes, change->cookie, &mate))
		to = watch_tree_find(w->tree, mate.wd);
	if (!is_dir && temp_is_name(change->name)) {
		if (to)
			replaced(w, to, mate.name);
		return;
	}
	if (to) {
		renamed(w, dir, change->name, to, mate.name, is_dir);
		return;
	}
	(void)watch_tree_unsee(w->tree, dir, change->name);
	if (!excluded(w, path, is_dir) && (is_dir || included(w, path, false)))
		tell(w, EVENT_REMOVE, is_dir, path, NULL);
	if (is_dir)
		leave(w, dir, change->name);
}

/* Whether that is what the kernel calls a file without a name, and not the name of one. */
static bool is_nameless(const struct watch *w, const char *name, const char *path)
{
	char whole[PATH_MAX * 2];
	if (!temp_is_nameless(name))
		return false;
	snprintf(whole, sizeof whole, "%s/%s", w->root, path);
	return faccessat(AT_FDCWD, whole, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

/* About something in a watched directory. */
static void handle_entry(struct watch *w, struct watch_dir *dir, const struct change *change)
{
	char path[PATH_MAX];
	bool is_dir = change->mask & IN_ISDIR;
	if (!watch_tree_path(dir, change->name, path, sizeof path))
		return;
	if (change->mask & IN_MOVED_FROM) {
		moved_away(w, dir, change, path);
		return;
	}
	if (excluded(w, path, is_dir) || (!is_dir && temp_is_name(change->name)))
		return;
	bool told = included(w, path, is_dir);
	bool seen = change->mask & (IN_CREATE | IN_MOVED_TO | IN_DELETE) &&
		    watch_tree_unsee(w->tree, dir, change->name);
	if (change->mask & (IN_CREATE | IN_MOVED_TO)) {
		if (seen) /* the scan was quicker, and has told it */
			return;
		if (told)
			tell(w, EVENT_CREATE, is_dir, path, NULL);
		if (is_dir)
			enter(w, dir, change->name);
	} else if (change->mask & IN_DELETE) {
		if (told)
			tell(w, EVENT_REMOVE, is_dir, path, NULL);
		if (is_dir)
			leave(w, dir, change->name);
	} else if (told && change->mask & (IN_MODIFY | IN_ATTRIB) &&
		   (change->mask & IN_MODIFY || !is_nameless(w, change->name, path))) {
		tell(w, change->mask & IN_MODIFY ? EVENT_WRITE : EVENT_CHMOD, is_dir, path, NULL);
	}
}

/* About the tree itself. */
static void handle_root(struct watch *w, const struct change *change)
{
	struct stat st;
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/", w->root);
	if (change->mask & IN_UNMOUNT)
		finish(w, "unmounted");
	else if (change->mask & IN_DELETE_SELF || stat(path, &st) < 0)
		finish(w, "removed"); /* while somebody is in it, its end is not told */
	else if (change->mask & IN_MOVE_SELF)
		finish(w, "moved");
	else if (change->mask & IN_ATTRIB && !w->only)
		tell(w, EVENT_CHMOD, true, ".", NULL);
}

static void handle(struct watch *w, const struct change *change)
{
	if (change->mask & IN_Q_OVERFLOW) {
		restart(w);
		return;
	}
	struct watch_dir *dir = watch_tree_find(w->tree, change->wd);
	const char *slash = strrchr(w->root, '/');
	if (!dir) {
		if (change->wd == w->parent_wd && slash && !strcmp(slash + 1, change->name))
			handle_root(w, change);
		return;
	}
	if (*change->name)
		handle_entry(w, dir, change);
	else if (dir == watch_tree_root(w->tree))
		handle_root(w, change);
	else if (change->mask & IN_UNMOUNT)
		mark_lost(w, false);
	else if (change->mask & IN_IGNORED)
		watch_tree_forget(w->tree, dir);
}

/* ---- the thread ---- */

static void drain(struct watch *w)
{
	struct change change;
	if (!changes_more(&w->changes, 0)) /* what was seen lies before all that is to come */
		watch_tree_unsee_all(w->tree);
	while (!w->over && changes_take(&w->changes, &change))
		handle(w, &change);
	if (!w->over)
		catch_up(w);
}

static void serve(struct watch *w)
{
	while (!w->over) {
		publish(w, clock_ms());
		const struct wait wait = { file_events_due(w->events), -1, w->stop_fd };
		struct pollfd changes = { .fd = w->changes.fd, .events = POLLIN };
		if (wait_stream(&wait, &changes, 1) == WAKE_STOPPING)
			return;
		drain(w);
	}
}

static void *run(void *arg)
{
	struct watch *w = arg;
	struct user_view rights = { 0 };
	struct err err;
	int result = w->user ? user_enter(w->user, &rights, &err) : 0;
	if (result == 0)
		result = start_tree(w, &err);
	if (result == 0) {
		set_state(w, WATCH_ACTIVE, NULL);
		serve(w);
		publish(w, INT64_MAX - 1); /* the last ones wait no longer */
		err = w->why;
	}
	stop_tree(w);
	if (result < 0 || w->over)
		set_state(w, WATCH_ENDED, &err);
	return NULL;
}

/* A file is watched through its directory, because editors replace it. */
static int split_path(struct watch *w, const struct watch_spec *spec, struct err *err)
{
	struct stat st;
	w->root = xstrdup(spec->path);
	size_t len = strlen(w->root);
	while (len > 1 && w->root[len - 1] == '/')
		w->root[--len] = 0;
	struct user_view rights = { 0 };
	if (spec->user && user_enter(spec->user, &rights, err) < 0)
		return -1;
	int result = stat(w->root, &st), code = errno;
	user_leave(&rights);
	if (result < 0 && !spec->entry)
		return err_set(err, code, "'%s'", w->root);
	if (result == 0 && S_ISDIR(st.st_mode) && !spec->entry) {
		if (len == 1)
			w->root[0] = 0; /* "" and "/x" make "/x" */
		return 0;
	}
	char *slash = strrchr(w->root, '/');
	if (!slash || !slash[1])
		return err_set(err, ERR_BAD_REQUEST, "'%s' is not a file", spec->path);
	w->only = xstrdup(slash + 1);
	*slash = 0;
	w->recursive = false;
	return 0;
}

static int start_thread(struct watch *w, struct err *err)
{
	w->running = thread_start_joinable(&w->thread, run, w) == 0;
	return w->running ? 0 : err_set(err, ERR_LIMIT, "no thread for another watch");
}

struct watch *watch_start(const struct watch_spec *spec, struct err *err)
{
	struct watch *w = xcalloc(1, sizeof *w);
	pthread_mutex_init(&w->lock, NULL);
	w->changes = (struct changes){ .fd = -1 };
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->recursive = spec->recursive;
	w->max_dirs = spec->max_dirs;
	w->user = spec->user;
	w->view.events = w->events = file_events_new(spec->window_ms);
	if (w->stop_fd < 0) {
		err_set(err, ERR_LIMIT, "no descriptor for another watch");
	} else if (globs_compile(&w->include, &spec->include, err) == 0 &&
		   globs_compile(&w->exclude, &spec->exclude, err) == 0 &&
		   split_path(w, spec, err) == 0 && start_thread(w, err) == 0) {
		return w;
	}
	watch_free(w);
	return NULL;
}

void watch_stop(struct watch *watch)
{
	(void)eventfd_write(watch->stop_fd, 1);
	pthread_mutex_lock(&watch->lock);
	bool join = watch->running;
	watch->running = false;
	pthread_mutex_unlock(&watch->lock);
	if (!join)
		return;
	pthread_join(watch->thread, NULL);
	pthread_mutex_lock(&watch->lock);
	if (watch->view.state != WATCH_ENDED) {
		watch->view.state = WATCH_ENDED;
		err_set(&watch->view.why, ERR_NOT_FOUND, "the watch was stopped");
	}
	wake(watch);
	pthread_mutex_unlock(&watch->lock);
}

void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	if (watch->stop_fd >= 0) {
		watch_stop(watch);
		close(watch->stop_fd);
	}
	globs_done(&watch->include);
	globs_done(&watch->exclude);
	file_events_free(watch->events);
	pthread_mutex_destroy(&watch->lock);
	free(watch->root);
	free(watch->only);
	free(watch);
}

const char *watch_root(const struct watch *watch)
{
	return watch->root;
}

const struct watch_view *watch_lock(struct watch *watch)
{
	pthread_mutex_lock(&watch->lock);
	return &watch->view;
}

void watch_unlock(struct watch *watch)
{
	pthread_mutex_unlock(&watch->lock);
}

enum wake watch_wait(struct watch *watch, const struct wait *wait)
{
	return wait_change(wait, &watch->lock, &watch->waiters, NULL);
}
