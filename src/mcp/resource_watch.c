/* One inotify descriptor, drained by the pump while anything is watched. A file is watched through
 * its directory, because programs replace files as often as they write to them. */
#include "mcp/resource_watch.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "mcp/resource.h"
#include "mcp/session.h"
#include "proc/pump.h"

enum {
	EVENTS = IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
		 IN_ATTRIB,
};

struct watched_resource {
	struct watched_resource *next;
	char *uri, *dir;
	const char *name; /* in the directory; "" for the directory itself */
	int wd, users;
};

static struct {
	pthread_mutex_t lock;
	struct watched_resource *first;
	struct source *current; /* the pump's; it closes the descriptor in the end */
	int fd;                 /* its descriptor while anything is watched, else -1 */
} watches = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* ---- what the pump calls ---- */

enum { TOLD_MAX = 512 }; /* as many events as are read at once */

/* With the lock: adds the URIs that an event is about, to be freed. One change makes several events. */
static void add_concerned(const struct inotify_event *event, char *uris[TOLD_MAX], size_t *count)
{
	for (struct watched_resource *at = watches.first; at && *count < TOLD_MAX; at = at->next) {
		if (at->wd != event->wd ||
		    (*at->name && (!event->len || strcmp(at->name, event->name) != 0)))
			continue;
		bool known = false;
		for (size_t i = 0; i < *count && !known; i++)
			known = !strcmp(uris[i], at->uri);
		if (!known)
			uris[(*count)++] = xstrdup(at->uri);
	}
}

static bool ready(struct source *source)
{
	char data[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(source->fd, data, sizeof data);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	char *uris[TOLD_MAX];
	size_t count = 0;
	pthread_mutex_lock(&watches.lock);
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const struct inotify_event *)(data + at);
		add_concerned(event, uris, &count);
		at += (ssize_t)(sizeof *event + event->len);
	}
	pthread_mutex_unlock(&watches.lock);
	for (size_t i = 0; i < count; i++) {
		session_tell(NEWS_UPDATED, uris[i]);
		free(uris[i]);
	}
	return true;
}

static void done(struct source *source)
{
	free(source);
}

/* ---- adding and removing ---- */

/* With the lock. The source is the pump's own until done(). */
static int open_inotify(struct err *err)
{
	if (watches.fd >= 0)
		return 0;
	struct source *source = xcalloc(1, sizeof *source);
	*source = (struct source){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
				   .ready = ready,
				   .done = done };
	if (source->fd < 0) {
		free(source);
		return err_set(err, ERR_LIMIT, "no inotify for subscriptions: %s", strerror(errno));
	}
	int fd = source->fd;
	if (pump_add(source, err) < 0) {
		close(fd);
		free(source);
		return -1;
	}
	watches.fd = fd;
	watches.current = source;
	return 0;
}

static struct watched_resource *find(const char *uri)
{
	struct watched_resource *at = watches.first;
	while (at && strcmp(at->uri, uri) != 0)
		at = at->next;
	return at;
}

static struct watched_resource *make(const char *uri, struct err *err)
{
	char path[PATH_MAX];
	struct watched_resource *watch = xcalloc(1, sizeof *watch);
	watch->uri = xstrdup(uri);
	watch->wd = -1;
	watch->name = "";
	if (resource_path(uri, path, sizeof path, NULL) < 0)
		return watch; /* nothing that inotify knows */
	watch->dir = xstrdup(path);
	char *slash = strrchr(watch->dir, '/');
	if (slash && slash[1]) {
		watch->name = slash + 1;
		*slash = 0;
	}
	if (open_inotify(err) < 0) {
		free(watch->uri);
		free(watch->dir);
		free(watch);
		return NULL;
	}
	watch->wd = inotify_add_watch(watches.fd, *watch->dir ? watch->dir : "/", EVENTS);
	return watch;
}

int resource_watch_add(const char *uri, struct err *err)
{
	pthread_mutex_lock(&watches.lock);
	struct watched_resource *watch = find(uri);
	if (!watch && (watch = make(uri, err))) {
		watch->next = watches.first;
		watches.first = watch;
	}
	if (watch)
		watch->users++;
	pthread_mutex_unlock(&watches.lock);
	return watch ? 0 : -1;
}

/* With the lock: whether another watch uses the same directory. */
static bool shared(const struct watched_resource *watch)
{
	for (struct watched_resource *at = watches.first; at; at = at->next)
		if (at != watch && at->wd == watch->wd)
			return true;
	return false;
}

void resource_watch_remove(const char *uri)
{
	pthread_mutex_lock(&watches.lock);
	struct watched_resource **at = &watches.first;
	while (*at && strcmp((*at)->uri, uri) != 0)
		at = &(*at)->next;
	struct watched_resource *watch = *at;
	if (watch && --watch->users == 0) {
		*at = watch->next;
		if (watch->wd >= 0 && !shared(watch))
			inotify_rm_watch(watches.fd, watch->wd);
		free(watch->uri);
		free(watch->dir);
		free(watch);
	}
	if (!watches.first && watches.fd >= 0) {
		pump_drop(watches.current);
		watches.fd = -1;
	}
	pthread_mutex_unlock(&watches.lock);
}
