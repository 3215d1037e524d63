#include "browser/chromium.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/own.h"
#include "browser/browser.h"
#include "browser/chromium_args.h"
#include "browser/local_state.h"
#include "browser/proxy_extension.h"
#include "browser/restore.h"
#include "config/config.h"
#include "desktop/display.h"
#include "desktop/record.h"
#include "desktop/x_paint.h"
#include "net/server.h"
#include "outbound/outbound.h"
#include "proc/limits.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	START_MS = 45000,
	GRACE_MS = 5000,
	END_MS = 2000, /* from the end of its connection to its own */
	PAINT_MS = 3000,
	PROXY_MS = 5000,
	PIDS = 160, /* with its desktop, for one page; with 100 it hangs */
};
#define MEMORY ((int64_t)256 << 20)

static struct {
	struct server *server;
	struct service *service;
	int lock_fd; /* of its profile */
	_Atomic int watchers;
	_Atomic bool proxied; /* the one that runs uses the outbound proxy */
	struct restore
		*restore; /* the service's thread has it; of one that was closed for being idle */
} chromium = { .lock_fd = -1 };

/* ---- the program ---- */

/* The binary, not the distribution's script in front of it: that looks for things that a box lacks and
 * adds arguments of its own. */
static const char *find_chromium(void *arg, struct arena *arena, struct err *err)
{
	static const char *const places[] = { "/usr/lib/chromium/chromium",
					      "/usr/lib64/chromium-browser/chromium-browser",
					      "/opt/google/chrome/chrome", NULL };
	(void)arg;
	(void)arena;
	for (const char *const *place = places; *place; place++)
		if (access(*place, X_OK) == 0)
			return *place;
	err_set(err, ERR_UNAVAILABLE,
		"Chromium is not installed: install the package chromium (make deps does), or, in a "
		"box of an image, use an image that has it");
	return NULL;
}

/* ---- what restarts may change ---- */

/* Chromium reads its policies from a directory of the whole system: a box has that to itself. */
#define POLICY_DIR "/etc/chromium/policies/managed"

static struct {
	pthread_mutex_t lock;
	char *blocked, *allowed, *lang, *dialogs; /* NULL: never set */
} policies = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void take(char **to, const char *from)
{
	if (!from)
		return;
	free(*to);
	*to = *from ? xstrdup(from) : NULL;
}

int chromium_set_policy(const struct chromium_policy *policy, struct err *err)
{
	bool lists = (policy->blocked && *policy->blocked) || (policy->allowed && *policy->allowed);
	if (lists && !chromium.server->config->network)
		return err_set(
			err, ERR_NOT_IMPLEMENTED,
			"URL lists are policies of Chromium, which hold for every Chromium of "
			"a machine: they can be set in a box only");
	pthread_mutex_lock(&policies.lock);
	take(&policies.blocked, policy->blocked);
	take(&policies.allowed, policy->allowed);
	take(&policies.lang, policy->lang);
	take(&policies.dialogs, policy->dialogs);
	pthread_mutex_unlock(&policies.lock);
	return 0;
}

/* In the arena. */
static struct chromium_policy current_policy(struct arena *arena)
{
	struct chromium_policy now = { .restore = chromium.restore != NULL };
	pthread_mutex_lock(&policies.lock);
	now.blocked = policies.blocked ? arena_strdup(arena, policies.blocked) : NULL;
	now.allowed = policies.allowed ? arena_strdup(arena, policies.allowed) : NULL;
	now.lang = policies.lang ? arena_strdup(arena, policies.lang) : NULL;
	now.dialogs = policies.dialogs ? arena_strdup(arena, policies.dialogs) : NULL;
	pthread_mutex_unlock(&policies.lock);
	return now;
}

static int make_dirs(char *path, mode_t mode, struct err *err)
{
	for (char *slash = path; slash;) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = 0;
		bool made = mkdir(path, mode) == 0 || errno == EEXIST;
		if (!made)
			return err_set(err, errno, "mkdir '%s'", path);
		if (slash)
			*slash = '/';
	}
	return 0;
}

static int write_policy(const struct chromium_policy *policy, struct err *err)
{
	static const char path[] = POLICY_DIR "/aio.json";
	char dir[] = POLICY_DIR;
	if (!policy->blocked && !policy->allowed) {
		if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
			return err_set(err, errno, "remove '%s'", path);
		return 0;
	}
	auto_free char *text = xasprintf("{\"URLBlocklist\":%s,\"URLAllowlist\":%s}\n",
					 policy->blocked ? policy->blocked : "[]",
					 policy->allowed ? policy->allowed : "[]");
	if (make_dirs(dir, 0755, err) < 0)
		return -1;
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	size_t len = strlen(text);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		return err_set(err, errno, "write '%s'", path);
	return 0;
}

/* ---- its profile ---- */

static int remove_stale(const char *profile, struct err *err)
{
	static const char *const stale[] = { "SingletonLock", "SingletonCookie", "SingletonSocket",
					     "DevToolsActivePort" };
	char path[PATH_MAX + 32];
	for (size_t i = 0; i < COUNT(stale); i++) {
		snprintf(path, sizeof path, "%s/%s", profile, stale[i]);
		if (unlink(path) < 0 && errno != ENOENT)
			return err_set(err, errno, "remove '%s'", path);
	}
	return 0;
}

/* Held until the server ends, or the next start: two browsers would ruin one profile. Where it cannot
 * write, Chromium would show a window and wait for somebody to close it. */
static int lock_profile(const char *profile, struct err *err)
{
	auto_free char *path = xasprintf("%s/.aio-lock", profile);
	auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, errno, "its profile directory '%s' is not writable", profile);
	own_close(&chromium.lock_fd);
	chromium.lock_fd = -1;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, ERR_UNAVAILABLE,
			       "another server has its profile directory '%s': end that, or set "
			       "AIO_BROWSER_PROFILE",
			       profile);
	chromium.lock_fd = TAKE_FD(fd);
	return 0;
}

/* Of a new profile. Nobody answers when the browser offers to save a password, in a window over the page; and a
 * service of others is not asked whether one has leaked. */
static int write_preferences(const char *profile, struct err *err)
{
	static const char text[] = "{\"credentials_enable_service\":false,"
				   "\"credentials_enable_autosignin\":false,"
				   "\"profile\":{\"password_manager_leak_detection\":false}}\n";
	auto_free char *dir = xasprintf("%s/Default", profile);
	auto_free char *path = xasprintf("%s/Preferences", dir);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "mkdir '%s'", dir);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)(sizeof text - 1))
		return err_set(err, errno, "write '%s'", path);
	return 0;
}

/* As the user: makes it, and removes what tells a browser that another one has it. Ours is the only one,
 * and after a crash, or in the copy of a sandbox, these names are of one that is gone. */
static int prepare_profile(const struct user *user, const char *profile, struct err *err)
{
	const char *dns = chromium.server->config->browser_dns;
	struct user_view view;
	auto_free char *path = xstrdup(profile);
	auto_free char *downloads = xasprintf("%s/Downloads", user->home);
	if (user_enter(user, &view, err) < 0)
		return -1;
	(void)mkdir(downloads, 0755);
	int result = make_dirs(path, 0700, err);
	if (result == 0)
		/* With a full disk it ends, and says that another browser may have its profile. */
		result = limits_need_room(profile, "its profile directory", err);
	if (result == 0)
		result = lock_profile(profile, err);
	if (result == 0)
		result = remove_stale(profile, err);
	if (result == 0)
		result = write_preferences(profile, err);
	if (result == 0 && dns && *dns)
		result = local_state_set_dns(profile, dns, err);
	user_leave(&view);
	return result;
}

/* Chromium itself would go on without it, and say nothing. */
static int check_port(int port, struct err *err)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, errno, "no socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 1) < 0)
		return err_set(err, ERR_UNAVAILABLE,
			       "port %d of 127.0.0.1, for its DevTools, is taken by another "
			       "program: end that, or set BROWSER_REMOTE_DEBUGGING_PORT",
			       port);
	return 0;
}

/* ---- the service ---- */

static int make_pipes(struct service_run *run, struct spawn *spawn, struct err *err)
{
	int down[2] = { -1, -1 }, up[2] = { -1, -1 };
	if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0) {
		own_close(&down[0]);
		own_close(&down[1]);
		return err_set(err, ERR_LIMIT, "no pipes for the browser");
	}
	run->in = down[1];
	run->out = up[0];
	spawn->fds[3] = down[0];
	spawn->fds[4] = up[1];
	spawn->extras = 2;
	return 0;
}

static int prepare_files(const struct user *user, const struct chromium_policy *policy,
			 const char *profile, struct err *err)
{
	const struct config *config = chromium.server->config;
	if (prepare_profile(user, profile, err) < 0 ||
	    check_port((int)config->browser_port, err) < 0)
		return -1;
	return config->network ? write_policy(policy, err) : 0;
}

static int prepare_chromium(struct service_run *run, struct service_start *start, struct err *err)
{
	const struct server *server = run->arg;
	const struct config *config = server->config;
	const struct user *user = user_sandbox(config->user, err);
	struct spawn *spawn = &start->program.spawn;
	struct chromium_args *args = arena_alloc(start->arena, sizeof *args);
	const struct chromium_policy policy = current_policy(start->arena);
	if (!user)
		return -1;
	const char *profile =
		config->browser_profile && *config->browser_profile
			? config->browser_profile
			: arena_printf(start->arena, "%s/" BROWSER_PROFILE, user->home);
	const struct pair extra[] = {
		{ "DBUS_SESSION_BUS_ADDRESS", "disabled:" },
		{ "DBUS_SYSTEM_BUS_ADDRESS", "disabled:" },
		{ "XDG_RUNTIME_DIR", display_dir() },
		{ "LANGUAGE", chromium_args_language(config, &policy) },
		/* Dumps hold memory of pages: in the profile, which snapshots leave out. */
		{ "BREAKPAD_DUMP_LOCATION",
		  arena_printf(start->arena, "%s/Crash Reports", profile) },
	};
	chromium.proxied = outbound_is_used();
	*args = (struct chromium_args){ .arena = start->arena };
	chromium_args_add(args, spawn->path);
	if (chromium_args_fill(args, config, &policy, profile, user->uid == 0, err) < 0 ||
	    prepare_files(user, &policy, profile, err) < 0 || make_pipes(run, spawn, err) < 0)
		return -1;
	args->list[args->count] = NULL;
	spawn->argv = args->list;
	spawn->cwd = user->home;
	start->program.group = true;
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL,
			&(struct list){ COUNT(extra), extra });
	return 0;
}

static bool dialogs_allowed(void)
{
	const char *set = chromium.server->config->browser_dialogs;
	bool allowed = true;
	pthread_mutex_lock(&policies.lock);
	if (policies.dialogs || (set && *set))
		(void)opt_bool(policies.dialogs ? policies.dialogs : set, &allowed);
	pthread_mutex_unlock(&policies.lock);
	return allowed;
}

/* Its own words would have people disable its sandbox. */
static void explain_end(struct service_run *run, struct err *err)
{
	const struct wait moment = { clock_ms() + END_MS, -1, run->end_fd };
	char why[500];
	if (program_wait(run->program, &moment, NULL) != WAKE_READY)
		return;
	service_why(run, why, sizeof why);
	if (strstr(why, "No usable sandbox"))
		err_set(err, ERR_UNAVAILABLE,
			"its sandbox cannot be had, because this system does not let users make user "
			"namespaces: allow them (user.max_user_namespaces, "
			"kernel.apparmor_restrict_unprivileged_userns)%s",
			chromium.server->config->network
				? ""
				: ", or go without it: --browser-sandbox=false");
	else
		err_set(err, ERR_UNAVAILABLE, "%s", why);
}

/* A change of the outbound proxy reaches a browser that uses it already. */
static void use_proxy(struct browser *browser)
{
	const struct wait wait = { clock_ms() + PROXY_MS, -1, server_stop_fd(chromium.server) };
	struct err err;
	if (chromium.proxied || !outbound_is_used())
		return;
	chromium.proxied = proxy_extension_load(browser, chromium.server->home, outbound_port(),
						&wait, &err) == 0;
	if (!chromium.proxied)
		log_warn("the browser goes without the outbound proxy until it is restarted: %s",
			 err.msg);
	outbound_report(chromium.proxied
				? NULL
				: "the browser goes without the proxy until it is restarted");
}

static void follow_proxy(void)
{
	struct service_run *run = browser_running();
	if (!run)
		return;
	use_proxy(run->value);
	service_release(run);
}

static int open_chromium(struct service_run *run, const struct wait *wait, struct err *err)
{
	const struct server *server = run->arg;
	run->value = browser_open(run->in, run->out, server->config, dialogs_allowed(), wait, err);
	if (run->value) {
		outbound_report(NULL);
		proxy_extension_forget(run->value);
		use_proxy(run->value);
	}
	if (run->value && chromium.restore)
		restore_await(chromium.restore, run->value, wait);
	if (run->value)
		restore_free(TAKE(chromium.restore));
	if (!run->value && err->code == ERR_UNAVAILABLE)
		explain_end(run, err);
	return run->value ? 0 : -1;
}

/* Also of a start that failed, perhaps before there was a program. Closed in order, it keeps its session. */
static void close_chromium(struct service_run *run)
{
	if (run->value && run->unwanted) {
		restore_free(chromium.restore);
		chromium.restore = restore_save(run->value);
	}
	if (run->program && (!run->value || browser_quit(run->value) < 0))
		program_terminate(run->program);
}

static void free_chromium(struct service_run *run)
{
	browser_free(run->value);
}

/* Closing it now would be noticed. What it shows is there again with the next use. */
static bool is_busy(struct service_run *run)
{
	return atomic_load(&chromium.watchers) || record_is_going() || browser_is_busy(run->value);
}

void chromium_setup(struct server *server)
{
	static const char *const needs[] = { "display", "windows", NULL };
	static struct service_row row = { .name = "browser",
					  .title = "the browser",
					  .needs = needs,
					  .beside = 1, /* it is there before there is a window */
					  .find = find_chromium,
					  .prepare = prepare_chromium,
					  .open = open_chromium,
					  .close = close_chromium,
					  .free = free_chromium,
					  .busy = is_busy,
					  .pids = PIDS,
					  .memory = MEMORY,
					  .start_ms = START_MS,
					  .grace_ms = GRACE_MS };
	chromium.server = server;
	row.idle_ms = server->config->service_idle_ms;
	chromium.service = service_add(&row, server);
	outbound_on_change(follow_proxy);
	if (server->config->browser_ready)
		(void)service_begin(chromium.service);
}

/* One whose connection broke is of no use, even if its process is still there. */
struct service_run *browser_use(const struct wait *wait, struct err *err)
{
	struct service_run *run = service_use(chromium.service, wait, err);
	while (run && browser_is_lost(run->value)) {
		service_lost(
			run,
			program_ended(run->program)
				? NULL
				: "its connection broke, or it cannot start processes any more");
		service_release(run);
		run = service_use(chromium.service, wait, err);
	}
	return run;
}

struct service_run *browser_running(void)
{
	struct service_run *run = service_current(chromium.service);
	if (!run || !browser_is_lost(run->value))
		return run;
	service_release(run);
	return NULL;
}

/* Painted late, or by a browser that hangs: the screen is worth a look anyway. */
static void await_paint(struct browser *browser, const struct wait *wait)
{
	const struct wait soon = { clock_ms() + PAINT_MS, wait->client_fd, wait->stop_fd };
	struct service_run *desktop = browser_is_painted(browser) ? NULL : display_use(&soon, NULL);
	if (desktop)
		(void)x_await_paint(display_x(desktop), display_image(desktop), &soon, NULL);
	service_release(desktop);
	browser_set_painted(browser);
}

bool chromium_is_usable(char *ret_why, size_t room)
{
	bool usable = chromium.service && service_is_usable(chromium.service);
	*ret_why = 0;
	if (!usable && chromium.service)
		(void)service_look(chromium.service, ret_why, room);
	return usable;
}

int browser_show(const struct wait *wait, struct err *err)
{
	if (!service_is_usable(chromium.service))
		return 0;
	struct service_run *run = browser_use(wait, err);
	if (!run)
		return -1;
	await_paint(run->value, wait);
	service_release(run);
	return 0;
}

void chromium_watched(bool comes)
{
	if (comes) {
		atomic_fetch_add(&chromium.watchers, 1);
		(void)service_begin(chromium.service);
	} else {
		atomic_fetch_sub(&chromium.watchers, 1);
	}
}

struct browser *browser_of(const struct service_run *run)
{
	return run->value;
}

int chromium_port(void)
{
	return (int)chromium.server->config->browser_port;
}

int chromium_await_port(const struct wait *wait, struct err *err)
{
	const struct ready ready = { .how = READY_TCP, .number = chromium_port() };
	return wake_err(ready_wait(&ready, NULL, wait), err);
}

void chromium_restart(const char *why)
{
	struct service_run *run = service_current(chromium.service);
	if (!run)
		return;
	service_lost(run, why);
	service_release(run);
}
