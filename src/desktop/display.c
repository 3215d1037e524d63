#include "desktop/display.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "config/config.h"
#include "desktop/display_door.h"
#include "desktop/gui.h"
#include "desktop/x.h"
#include "desktop/x_image.h"
#include "net/dial.h"
#include "net/server.h"
#include "proc/limits.h"
#include "proc/stage.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	COOKIE = 16,
	START_MS = 20000,
	GRACE_MS = 2000,
	PIDS = 8,
	SHELL_ARGS = 4, /* before the X server's own */
	ALIVE_MS = 1000,
	END_MS = 2000, /* from its end until it is known how that came */
};

static struct {
	struct server *server;
	struct service *display, *windows;
	unsigned char cookie[COOKIE]; /* of all X servers that there are, one after the other */
	char dir[PATH_MAX], xauth[PATH_MAX + 16], rfb[PATH_MAX + 16], name[16];
	int number;
	_Atomic unsigned size; /* of the screen when it starts: its width above, its height below */
} desktop;

/* Of a run of the X server. */
struct display {
	struct x *x;
	struct x_image *image;
	struct gui *gui;
};

/* ---- the X server ---- */

static const char *find(const char *const *places, const char *what, const char *package,
			struct err *err)
{
	for (; *places; places++)
		if (access(*places, X_OK) == 0)
			return *places;
	err_set(err, ERR_UNAVAILABLE,
		"%s is not installed: install the package %s (make deps does), or, in a box of an "
		"image, use an image that has it",
		what, package);
	return NULL;
}

static const char *find_xvnc(void *arg, struct arena *arena, struct err *err)
{
	static const char *const places[] = { "/usr/bin/Xvnc", "/usr/bin/Xtigervnc",
					      "/usr/local/bin/Xvnc", NULL };
	(void)arg;
	(void)arena;
	return find(places, "the X server Xvnc", "tigervnc-standalone-server", err);
}

/* The cookie as Xlib wants it in a file: for any address and any display of this machine. */
static int write_cookie(struct err *err)
{
	static const char method[] = "MIT-MAGIC-COOKIE-1";
	unsigned char record[2 + 2 + 2 + 2 + sizeof method - 1 + 2 + COOKIE] = {
		0xff, 0xff, 0, 0, 0, 0, 0, sizeof method - 1
	};
	memcpy(record + 8, method, sizeof method - 1);
	record[8 + sizeof method] = COOKIE;
	memcpy(record + sizeof record - COOKIE, desktop.cookie, COOKIE);
	auto_free char *path = xasprintf("%s.new", desktop.xauth);
	(void)unlink(path);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, record, sizeof record) != (ssize_t)sizeof record ||
	    rename(path, desktop.xauth) < 0) /* a program may be reading it just now */
		return err_set(err, errno, "write '%s'", desktop.xauth);
	return 0;
}

/* What a server that was killed has left would keep the next one from starting: its lock names a process,
 * whose number may be another's by now. */
static int clear_stale(struct err *err)
{
	const struct dial_wait wait = { .all = { INT64_MAX, -1, -1 }, .connect_ms = 500 };
	char path[64];
	snprintf(path, sizeof path, "/tmp/.X11-unix/X%d", desktop.number);
	auto_close int fd = dial_unix(path, &wait, NULL);
	if (fd >= 0)
		return err_set(err, ERR_CONFLICT,
			       "another X server is display :%d: end it, or choose another number "
			       "by --display",
			       desktop.number);
	(void)unlink(path);
	return 0;
}

static void clear_lock(void)
{
	char path[64];
	snprintf(path, sizeof path, "/tmp/.X%d-lock", desktop.number);
	(void)unlink(path);
}

/* Without it Xvnc would start, and have no socket that programs find. */
static int check_sockets(const struct user *user, struct err *err)
{
	static const char dir[] = "/tmp/.X11-unix";
	struct stat st;
	if (stat(dir, &st) < 0 || user->uid == 0 || st.st_uid == user->uid || st.st_mode & S_IWOTH)
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
		       "the sandbox user may not write to %s: run 'chmod 1777 %s' as root", dir,
		       dir);
}

/* As the user. With a door, the socket is there. */
static int prepare_files(const struct user *user, bool door, struct err *err)
{
	struct user_view view;
	if (user_enter(user, &view, err) < 0)
		return -1;
	int result = limits_need_room("/tmp", "its directory", err);
	if (result == 0 && !door)
		result = check_sockets(user, err);
	if (result == 0 && !door)
		result = clear_stale(err);
	if (result == 0) {
		clear_lock();
		result = write_cookie(err);
	}
	user_leave(&view);
	return result;
}

/* An X server takes a socket from whoever starts it as programs of systemd do: its descriptor is 3, and a
 * variable has the number of its process. */
#define TAKE_DOOR "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\""

/* Whether this one was built for that. */
static bool takes_door(const char *path)
{
	static const char name[] = "sd_listen_fds";
	enum { OVERLAP = sizeof name - 1, MOST = 32 << 20 };
	char data[OVERLAP + (64 << 10)];
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;
	memset(data, 0, OVERLAP);
	for (size_t all = 0;
	     all < MOST && (n = read(fd, data + OVERLAP, sizeof data - OVERLAP)) > 0;
	     all += (size_t)n) {
		if (memmem(data, OVERLAP + (size_t)n, name, sizeof name - 1))
			return true;
		memmove(data, data + n, OVERLAP);
	}
	return false;
}

static char *const *xvnc_args(const struct service_start *start, bool door)
{
	const unsigned size = desktop.size;
	char *geometry = arena_printf(start->arena, "%ux%u", size >> 16, size & 0xffff);
	char *argv[] = { (char *)"/bin/sh",
			 (char *)"-c",
			 (char *)TAKE_DOOR,
			 (char *)"sh",
			 (char *)start->program.spawn.path,
			 desktop.name,
			 (char *)"-displayfd",
			 (char *)(door ? "4" : "3"),
			 (char *)"-rfbunixpath",
			 desktop.rfb,
			 (char *)"-rfbunixmode",
			 (char *)"384", /* 0600 */
			 (char *)"-rfbport",
			 (char *)"-1",
			 (char *)"-SecurityTypes",
			 (char *)"None",
			 (char *)"-auth",
			 desktop.xauth,
			 (char *)"-nolisten",
			 (char *)"tcp",
			 (char *)"-noreset",
			 (char *)"-geometry",
			 geometry,
			 (char *)"-depth",
			 (char *)"24",
			 (char *)"-dpi",
			 (char *)"96",
			 (char *)"-AlwaysShared",
			 (char *)"-AcceptSetDesktopSize=1",
			 (char *)"-BlacklistThreshold=1000000000", /* callers have been checked */
			 (char *)"-extension", /* it would load Mesa and LLVM: 50 MiB */
			 (char *)"GLX",
			 NULL };
	char **copy = arena_alloc(start->arena, sizeof argv);
	memcpy(copy, argv, sizeof argv);
	return door ? copy : copy + SHELL_ARGS;
}

/* Who comes by the door. */
static bool begin_desktop(void)
{
	char why[2];
	if (service_begin(desktop.windows))
		return true;
	enum service_state state = service_look(desktop.display, why, sizeof why);
	return state == SERVICE_STARTING || state == SERVICE_READY;
}

/* In a box, where no other X server can be. Outside, the number of the display may become another's. */
static void open_door(void)
{
	const struct config *config = desktop.server->config;
	struct err err = { 0 };
	const struct user *user = config->network ? user_sandbox(config->user, &err) : NULL;
	struct user_view view;
	if (!user || user_enter(user, &view, &err) < 0)
		return;
	int result = write_cookie(&err);
	user_leave(&view);
	if (result < 0 || door_open(user, desktop.number, begin_desktop, &err) < 0)
		log_warn("graphical programs do not start the desktop: %s", err.msg);
}

static int prepare_xvnc(struct service_run *run, struct service_start *start, struct err *err)
{
	const struct server *server = run->arg;
	const struct user *user = user_sandbox(server->config->user, err);
	struct display *display = xcalloc(1, sizeof *display);
	struct spawn *spawn = &start->program.spawn;
	int ready[2];
	run->value = display;
	if (!user)
		return -1;
	if (!takes_door(spawn->path))
		door_close();
	const int socket = door_fd(), own = socket >= 0;
	if (own)
		spawn->fds[3] = socket;
	if (prepare_files(user, own, err) < 0)
		return -1;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_set(err, ERR_LIMIT, "no pipe for the desktop");
	run->in = ready[0];
	spawn->fds[3 + own] = ready[1];
	spawn->extras = (size_t)(1 + own);
	spawn->argv = xvnc_args(start, own);
	spawn->path = spawn->argv[0];
	spawn->cwd = "/";
	start->program.group = true;
	start->ready = (struct ready){ .how = READY_LINE, .fd = run->in };
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL, NULL);
	return 0;
}

static int open_display(struct service_run *run, const struct wait *wait, struct err *err)
{
	struct display *display = run->value;
	display->x = x_open(desktop.number, desktop.cookie, wait, err);
	if (!display->x)
		return -1;
	display->image = x_image_new(display->x);
	display->gui = gui_new(display->x);
	return 0;
}

static void free_display(struct service_run *run)
{
	struct display *display = run->value;
	if (display && display->x) {
		gui_free(display->gui);
		x_image_free(display->image);
		x_free(display->x);
	}
	free(display);
	if (door_is_open())
		open_door(); /* for the next one */
}

/* ---- the window manager ---- */

static const char *find_openbox(void *arg, struct arena *arena, struct err *err)
{
	static const char *const places[] = { "/usr/bin/openbox", "/usr/local/bin/openbox", NULL };
	(void)arg;
	(void)arena;
	return find(places, "the window manager openbox", "openbox", err);
}

static int prepare_openbox(struct service_run *run, struct service_start *start, struct err *err)
{
	const struct server *server = run->arg;
	const struct user *user = user_sandbox(server->config->user, err);
	struct spawn *spawn = &start->program.spawn;
	if (!user)
		return -1;
	char *argv[] = { (char *)spawn->path, (char *)"--sm-disable", (char *)"--config-file",
			 arena_printf(start->arena, "%s/share/desktop/openbox.xml", server->home),
			 NULL };
	char **copy = arena_alloc(start->arena, sizeof argv);
	memcpy(copy, argv, sizeof argv);
	struct service_run *display = service_current(desktop.display);
	if (!display)
		return err_set(err, ERR_UNAVAILABLE, "its X server has just ended");
	run->value = service_run_ref(display);
	service_release(display);
	spawn->argv = copy;
	spawn->cwd = "/";
	start->program.group = true;
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL, NULL);
	return 0;
}

static const struct display *display_of(const struct service_run *run)
{
	return ((const struct service_run *)run->value)->value;
}

static int open_windows(struct service_run *run, const struct wait *wait, struct err *err)
{
	const struct wait moment = { clock_ms() + END_MS, -1, run->end_fd };
	char why[500];
	if (x_wait_manager(display_of(run)->x, program_fd(run->program), wait, err) == 0)
		return 0;
	if (!program_ended(run->program) || program_wait(run->program, &moment, NULL) != WAKE_READY)
		return -1;
	service_why(run, why, sizeof why);
	return err_set(err, ERR_UNAVAILABLE, "%s", why);
}

static void free_windows(struct service_run *run)
{
	service_run_unref(run->value);
}

/* ---- both ---- */

/* A desktop with a window on it is somebody's, although no request uses it. */
static bool shows_windows(struct service_run *run)
{
	const struct wait moment = { clock_ms() + 1000, -1, -1 };
	return x_has_windows(display_of(run)->x, &moment);
}

static void make_dir(const struct server *server)
{
	struct err err;
	const struct user *user = user_sandbox(server->config->user, &err);
	if (!user || stage_make_dir(user, "desktop", desktop.dir, sizeof desktop.dir, &err) < 0) {
		log_warn("no directory for the desktop: %s", err.msg);
		*desktop.dir = 0;
	}
}

void display_setup(struct server *server)
{
	static const char *const needs[] = { "display", NULL };
	static struct pair gives[] = { { "DISPLAY", desktop.name },
				       { "XAUTHORITY", desktop.xauth } };
	static struct service_row display = { .name = "display",
					      .title = "the desktop",
					      .find = find_xvnc,
					      .prepare = prepare_xvnc,
					      .open = open_display,
					      .free = free_display,
					      .pids = PIDS,
					      .start_ms = START_MS,
					      .grace_ms = GRACE_MS };
	static struct service_row windows = { .name = "windows",
					      .title = "the desktop's window manager",
					      .needs = needs,
					      .find = find_openbox,
					      .prepare = prepare_openbox,
					      .open = open_windows,
					      .free = free_windows,
					      .busy = shows_windows,
					      .start_ms = START_MS,
					      .grace_ms = GRACE_MS };
	const struct config *config = server->config;
	desktop.server = server;
	make_dir(server);
	desktop.number = (int)config->display;
	desktop.size = (unsigned)config->display_width << 16 | (unsigned)config->display_height;
	snprintf(desktop.name, sizeof desktop.name, ":%d", desktop.number);
	snprintf(desktop.xauth, sizeof desktop.xauth, "%s/xauth", desktop.dir);
	snprintf(desktop.rfb, sizeof desktop.rfb, "%s/rfb", desktop.dir);
	if (getrandom(desktop.cookie, COOKIE, 0) != COOKIE)
		*desktop.dir = 0;
	display.given = open_door;
	if (*desktop.dir)
		display.gives = (struct list){ COUNT(gives), gives };
	else
		display.refused = "there is no directory for its files";
	display.idle_ms = windows.idle_ms = config->service_idle_ms;
	desktop.display = service_add(&display, server);
	desktop.windows = service_add(&windows, server);
}

void display_end(void)
{
	door_close();
}

struct service_run *display_use(const struct wait *wait, struct err *err)
{
	return service_use(desktop.windows, wait, err);
}

struct x *display_x(const struct service_run *run)
{
	return display_of(run)->x;
}

struct x_image *display_image(const struct service_run *run)
{
	return display_of(run)->image;
}

struct gui *display_gui(const struct service_run *run)
{
	return display_of(run)->gui;
}

int display_resize(const struct service_run *run, unsigned width, unsigned height,
		   const struct wait *wait, struct err *err)
{
	if (x_resize(display_of(run)->x, width, height, wait, err) < 0)
		return -1;
	desktop.size = width << 16 | height;
	return 0;
}

const char *display_rfb(const struct service_run *run)
{
	(void)run;
	return desktop.rfb;
}

const char *display_name(void)
{
	return desktop.name;
}

/* What has failed may have been another connection to the same server. */
static bool is_lost(struct x *x)
{
	struct x_size size;
	const struct wait moment = { clock_ms() + ALIVE_MS, -1, -1 };
	return x_broken(x) || (x_size(x, &size, &moment, NULL) < 0 && x_broken(x));
}

bool display_failed(struct service_run *run)
{
	if (!is_lost(display_of(run)->x))
		return false;
	service_lost(run->value, "the connection to its X server broke");
	service_lost(run, "its X server has ended"); /* or the next use might still get this run */
	return true;
}

const char *display_dir(void)
{
	return desktop.dir;
}
