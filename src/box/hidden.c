#include "box/hidden.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/template.h"

enum {
	TOLD = IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW,
	PATHS_MAX = 64 << 20,
	TRIES = 20,
};

/* The walk has no argument. */
static struct {
	struct buf paths;
	dev_t dev;
	bool ready;
	uint64_t generation, state; /* that they were found in */
	int watch;                  /* of inotify; -1: not yet, or there is none */
	char **dirs;                /* by the number of their watch */
	int dir_count;
} hidden = { .paths = { .cap = PATHS_MAX }, .watch = -1 };

const struct buf *hidden_paths(void)
{
	return &hidden.paths;
}

/* --- what happens ---------------------------------------------------------------------------- */

/* Where a machine allows too few watches, the rest is not watched: see docs/security.md. */
static void watch(const char *path)
{
	int number = hidden.watch < 0 ? -1 : inotify_add_watch(hidden.watch, path, TOLD);
	if (number < 0)
		return;
	if (number >= hidden.dir_count) {
		int count = number * 2 + 64;
		hidden.dirs = xrealloc(hidden.dirs, (size_t)count * sizeof *hidden.dirs);
		memset(hidden.dirs + hidden.dir_count, 0,
		       (size_t)(count - hidden.dir_count) * sizeof *hidden.dirs);
		hidden.dir_count = count;
	}
	free(hidden.dirs[number]);
	hidden.dirs[number] = xstrdup(path);
}

static bool is_hidden(const char *path)
{
	const char *at = hidden.paths.data, *end = at ? at + hidden.paths.len : at;
	for (; at < end; at += strlen(at) + 1)
		if (!strcmp(at, path))
			return true;
	return false;
}

/* A file that everyone may read, and might before, is nothing to us. */
static bool matters(const struct inotify_event *event)
{
	char path[PATH_MAX + NAME_MAX + 2];
	struct stat st;
	if (event->mask & (IN_Q_OVERFLOW | IN_ISDIR) || event->wd < 0 ||
	    event->wd >= hidden.dir_count || !hidden.dirs[event->wd])
		return true;
	if (event->mask & IN_IGNORED || !event->len)
		return false;
	snprintf(path, sizeof path, "%s/%s", hidden.dirs[event->wd], event->name);
	return lstat(path, &st) == 0 && template_is_public(&st) == is_hidden(path);
}

/* Whether there was something since anybody last looked. */
static bool has_changed(void)
{
	union {
		struct inotify_event event;
		char room[65536];
	} got;
	bool changed = false;
	for (ssize_t n; hidden.watch >= 0 && (n = read(hidden.watch, &got, sizeof got)) > 0;)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (void *)(got.room + at);
			changed = changed || matters(event);
			at += (ssize_t)(sizeof *event + event->len);
		}
	return changed;
}

/* --- what others have found ------------------------------------------------------------------- */

/* How the file begins. The paths follow. */
struct note {
	uint64_t generation; /* rises with each change that was seen */
	uint64_t listed;     /* that the paths are of; 0: of none */
	uint64_t state, len;
};

static struct note read_note(int fd)
{
	struct note note = { 0 };
	(void)!pread(fd, &note, sizeof note, 0);
	return note;
}

static bool load(int fd, const struct note *note)
{
	if (note->len > PATHS_MAX)
		return false;
	auto_free char *paths = xmalloc(note->len + 1);
	if (pread(fd, paths, note->len, sizeof *note) != (ssize_t)note->len)
		return false;
	buf_done(&hidden.paths);
	hidden.paths = (struct buf){ .cap = PATHS_MAX };
	buf_add(&hidden.paths, paths, note->len);
	hidden.generation = note->generation;
	hidden.state = note->state;
	return true;
}

/* What is not stored, the next one looks for again. */
static void store(int fd)
{
	const struct note note = { hidden.generation, hidden.generation, hidden.state,
				   hidden.paths.len };
	if (pwrite(fd, hidden.paths.data, note.len, sizeof note) == (ssize_t)note.len)
		(void)!pwrite(fd, &note, sizeof note, 0);
}

/* --- looking --------------------------------------------------------------------------------- */

static int look_at(const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (type == FTW_NS)
		return FTW_CONTINUE;
	if (st->st_dev != hidden.dev) /* what is mounted there is not seen in a box */
		return FTW_SKIP_SUBTREE;
	bool shown = template_is_public(st) && !S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode);
	if (S_ISDIR(st->st_mode) && (shown || at->level == 0))
		watch(path); /* first: what is made in it from now on is told */
	if (shown || at->level == 0)
		return FTW_CONTINUE;
	buf_add(&hidden.paths, path, strlen(path) + 1);
	return FTW_SKIP_SUBTREE;
}

/* A process that has not looked itself has no watches yet, so that it must. */
static bool is_known(int fd, const struct note *note, uint64_t state)
{
	if (!hidden.ready)
		return false;
	if (hidden.generation == note->generation && hidden.state == state)
		return true;
	return note->listed == note->generation && note->state == state && load(fd, note);
}

int hidden_find(const char *live, int fd, uint64_t state, struct err *err)
{
	struct stat st;
	struct note note = read_note(fd);
	if (hidden.watch < 0)
		hidden.watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (!has_changed() && is_known(fd, &note, state))
		return 0;
	note.generation++;
	if (pwrite(fd, &note.generation, sizeof note.generation, 0) != sizeof note.generation)
		return err_set(err, errno, "a note of what has changed in '%s'", live);
	if (stat(live, &st) < 0)
		return err_set(err, errno, "'%s'", live);
	hidden.dev = st.st_dev;
	hidden.ready = false;
	int tries = 0, result;
	do { /* a directory that goes just then, as packages do, ends the walk */
		buf_done(&hidden.paths);
		hidden.paths = (struct buf){ .cap = PATHS_MAX };
		result = nftw(live, look_at, 64, FTW_PHYS | FTW_ACTIONRETVAL);
	} while (result != 0 && errno == ENOENT && ++tries < TRIES);
	if (result != 0 || hidden.paths.full)
		return err_set(err, errno ? errno : EIO, "looking through '%s'", live);
	hidden.ready = true;
	hidden.generation = note.generation;
	hidden.state = state;
	store(fd);
	return 0;
}
