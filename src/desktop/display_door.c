#include "desktop/display_door.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/pump.h"
#include "proc/user.h"

enum { QUEUE = 64 };

/* Of one wait for somebody. */
struct door_watch {
	struct source source; /* first */
};

static struct {
	pthread_mutex_t lock; /* of what follows; the pump is taken under it */
	int fd;               /* it listens; -1: there is none */
	struct sockaddr_un at;
	dev_t dev;
	ino_t ino; /* of its name */
	bool (*knock)(void);
	struct door_watch *watch; /* NULL: the X server is there, or on its way */
} door = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* ---- who connects; called by the pump ---- */

static void turn_away(int fd)
{
	int client;
	for (int i = 0; i < QUEUE && (client = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++)
		close(client);
}

/* Takes its place, or gives it up: the X server may have come and gone before knock() returns. */
static bool place(struct door_watch *from, struct door_watch *to)
{
	pthread_mutex_lock(&door.lock);
	bool placed = door.watch == from && door.fd >= 0;
	if (placed)
		door.watch = to;
	pthread_mutex_unlock(&door.lock);
	return placed;
}

static bool watch_ready(struct source *source)
{
	struct door_watch *w = (struct door_watch *)source;
	if (!place(w, NULL) || door.knock())
		return false;
	turn_away(source->fd);
	return place(NULL, w);
}

static void watch_done(struct source *source)
{
	free(source);
}

/* With the lock. */
static int watch(struct err *err)
{
	if (door.fd < 0 || door.watch)
		return 0;
	struct door_watch *w = xcalloc(1, sizeof *w);
	w->source = (struct source){ .fd = fcntl(door.fd, F_DUPFD_CLOEXEC, 0),
				     .ready = watch_ready,
				     .done = watch_done };
	if (w->source.fd >= 0 && pump_add(&w->source, err) == 0) {
		door.watch = w;
		return 0;
	}
	own_close(&w->source.fd);
	free(w);
	return -1;
}

/* ---- the socket ---- */

/* What one that was killed has left. */
static bool is_stale(void)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd >= 0 && connect(fd, (const struct sockaddr *)&door.at, sizeof door.at) < 0 &&
	       errno == ECONNREFUSED;
}

/* As the user. */
static int make(int number, struct err *err)
{
	struct stat st;
	(void)mkdir("/tmp/.X11-unix", 01777);
	door.at.sun_family = AF_UNIX;
	snprintf(door.at.sun_path, sizeof door.at.sun_path, "/tmp/.X11-unix/X%d", number);
	if (is_stale())
		(void)unlink(door.at.sun_path);
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&door.at, sizeof door.at) < 0 ||
	    listen(fd, QUEUE) < 0 || lstat(door.at.sun_path, &st) < 0)
		return err_set(err, errno, "no socket '%s'", door.at.sun_path);
	door.dev = st.st_dev;
	door.ino = st.st_ino;
	door.fd = TAKE_FD(fd);
	return 0;
}

/* With the lock. */
static bool is_ours(void)
{
	struct stat st;
	return door.fd >= 0 && lstat(door.at.sun_path, &st) == 0 && st.st_dev == door.dev &&
	       st.st_ino == door.ino;
}

/* With the lock. */
static void close_it(void)
{
	if (door.watch)
		pump_drop(&TAKE(door.watch)->source);
	own_close(&door.fd);
	door.fd = -1;
}

int door_open(const struct user *user, int number, bool (*knock)(void), struct err *err)
{
	struct user_view view;
	if (user_enter(user, &view, err) < 0)
		return -1;
	pthread_mutex_lock(&door.lock);
	door.knock = knock;
	if (!is_ours())
		close_it();
	int result = door.fd < 0 ? make(number, err) : 0;
	pthread_mutex_unlock(&door.lock);
	user_leave(&view);
	pthread_mutex_lock(&door.lock);
	if (result == 0)
		result = watch(err); /* not as the user: the pump may start with it */
	pthread_mutex_unlock(&door.lock);
	return result;
}

bool door_is_open(void)
{
	pthread_mutex_lock(&door.lock);
	bool is = door.fd >= 0;
	pthread_mutex_unlock(&door.lock);
	return is;
}

int door_fd(void)
{
	pthread_mutex_lock(&door.lock);
	int fd = is_ours() ? fcntl(door.fd, F_DUPFD_CLOEXEC, 0) : -1;
	pthread_mutex_unlock(&door.lock);
	return fd;
}

void door_close(void)
{
	pthread_mutex_lock(&door.lock);
	if (is_ours())
		(void)unlink(door.at.sun_path);
	close_it();
	pthread_mutex_unlock(&door.lock);
}
