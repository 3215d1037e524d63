#include "fs/place.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { LINKS_MAX = 40 }; /* as many as the kernel follows */

/* ---- one holder at a time ---- */

struct place_lock {
	struct place_lock *next;
	size_t users; /* the holder and those who wait */
	bool held;
	char key[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct place_lock *locks;

static struct place_lock *lock(const char *key)
{
	pthread_mutex_lock(&mutex);
	struct place_lock *it = locks;
	while (it && strcmp(it->key, key) != 0)
		it = it->next;
	if (!it) {
		it = xcalloc(1, sizeof *it + strlen(key) + 1);
		memcpy(it->key, key, strlen(key) + 1);
		it->next = locks;
		locks = it;
	}
	it->users++;
	while (it->held)
		pthread_cond_wait(&freed, &mutex);
	it->held = true;
	pthread_mutex_unlock(&mutex);
	return it;
}

static void unlock(struct place_lock *it)
{
	pthread_mutex_lock(&mutex);
	it->held = false;
	bool last = --it->users == 0;
	if (last) {
		struct place_lock **at = &locks;
		while (*at != it)
			at = &(*at)->next;
		*at = it->next;
	} else {
		pthread_cond_broadcast(&freed);
	}
	pthread_mutex_unlock(&mutex);
	if (last)
		free(it);
}

/* A file with several names is one place. */
static void key_of(const struct place *place, char *to, size_t room)
{
	if (place->exists && place->st.st_nlink > 1 && !S_ISDIR(place->st.st_mode))
		snprintf(to, room, "%llx:%llx", (unsigned long long)place->st.st_dev,
			 (unsigned long long)place->st.st_ino);
	else
		snprintf(to, room, "%s", place->path);
}

/* ---- where it is ---- */

/* Puts the target of the link at `path` in its place: relative to its directory, or alone. */
static int follow(char path[PATH_MAX], struct err *err)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t len = readlink(path, target, sizeof target - 1);
	if (len < 0)
		return err_set(err, errno, "'%s'", path);
	target[len] = 0;
	const char *slash = strrchr(path, '/');
	int dir = *target == '/' || !slash ? 0 : (int)(slash + 1 - path);
	int all = snprintf(joined, sizeof joined, "%.*s%s", dir, path, target);
	if (all >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "'%s'", path);
	memcpy(path, joined, (size_t)all + 1);
	return 0;
}

static int find(const char *path, struct place *ret, struct err *err)
{
	struct stat name;
	ret->exists = stat(path, &ret->st) == 0;
	if (!ret->exists && errno != ENOENT)
		return err_set(err, errno, "'%s'", path);
	if (strlen(path) >= sizeof ret->path)
		return err_set(err, ENAMETOOLONG, "'%s'", path);
	memcpy(ret->path, path, strlen(path) + 1);
	int links = 0;
	while (lstat(ret->path, &name) == 0 && S_ISLNK(name.st_mode)) {
		if (++links > LINKS_MAX)
			return err_set(err, ELOOP, "'%s'", path);
		if (follow(ret->path, err) < 0)
			return -1;
	}
	/* A link of /proc leads to a file that may have no name at all. */
	ret->exact = !ret->exists ||
		     (lstat(ret->path, &name) == 0 && name.st_ino == ret->st.st_ino &&
		      name.st_dev == ret->st.st_dev);
	if (!ret->exact)
		memcpy(ret->path, path, strlen(path) + 1);
	return 0;
}

int place_hold(const char *path, struct place *ret, struct err *err)
{
	char key[PATH_MAX], again[PATH_MAX];
	ret->lock = NULL;
	if (find(path, ret, err) < 0)
		return -1;
	for (;;) {
		key_of(ret, key, sizeof key);
		ret->lock = lock(key);
		/* Whoever held it may have made, moved or removed the file. */
		if (find(path, ret, err) < 0) {
			place_release(ret);
			return -1;
		}
		key_of(ret, again, sizeof again);
		if (!strcmp(key, again))
			return 0;
		place_release(ret);
	}
}

void place_release(struct place *place)
{
	if (place->lock)
		unlock(place->lock);
	place->lock = NULL;
}
