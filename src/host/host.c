#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <time.h>

#include "api/sign_in.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/wait.h"
#include "box/group.h"
#include "box/template.h"
#include "config/home.h"
#include "host/apparmor.h"
#include "host/default_box.h"
#include "host/denials.h"
#include "host/gateway.h"
#include "host/history.h"
#include "host/netns.h"
#include "host/network.h"
#include "host/own_name.h"
#include "host/progress.h"
#include "host/shutdown.h"
#include "host/store.h"
#include "net/auth.h"
#include "net/listen.h"
#include "proc/spawn.h"

enum { JOBS_MS = 500, LOCK_MS = 60000, DYING_MS = 1000, TELL_MS = 2000, LOOPS_MAX = 8 };

#define HOST_SOCKET "run/host.sock"

char *host_path(const struct host *host, const char *folder, const char *name, const char *end)
{
	return xasprintf("%s/%s%s%s%s", host->state, folder, *name ? "/" : "", name, end);
}

int64_t host_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void host_secret(char *to, size_t room)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char bytes[64];
	for (size_t i = 0; i + 1 < room;) {
		ssize_t n = getrandom(bytes, sizeof bytes, 0);
		for (ssize_t at = 0; at < n && i + 1 < room; at++)
			if (bytes[at] < 36 * 7)
				to[i++] = letters[bytes[at] % 36];
	}
	explicit_bzero(bytes, sizeof bytes);
	to[room - 1] = 0;
}

/* ---- jobs ---- */

/* Threads of host_job() that still run. */
static struct {
	pthread_mutex_t lock;
	int count;
	struct waiter *waiters;
} jobs = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct host_job {
	struct host *host;
	void (*fn)(struct host *host, const char *id);
	char id[BOX_ID_MAX + 1];
};

static void count_jobs(int by)
{
	pthread_mutex_lock(&jobs.lock);
	jobs.count += by;
	waiter_wake(jobs.waiters);
	pthread_mutex_unlock(&jobs.lock);
}

static void *run_job(void *arg)
{
	struct host_job *job = arg;
	job->fn(job->host, job->id);
	free(job);
	count_jobs(-1);
	return NULL;
}

int host_job(struct host *host, void (*fn)(struct host *host, const char *id), const char *id)
{
	struct host_job *job = xcalloc(1, sizeof *job);
	job->host = host;
	job->fn = fn;
	snprintf(job->id, sizeof job->id, "%s", id);
	count_jobs(1);
	if (thread_start(run_job, job) == 0)
		return 0;
	log_error("no thread to look after box %s", id);
	count_jobs(-1);
	free(job);
	return -1;
}

/* Whether all have ended, in the time that they have. */
static bool await_jobs(void)
{
	const struct wait wait = { clock_ms() + JOBS_MS, -1, -1 };
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&jobs.lock);
	while (jobs.count && wake == WAKE_READY)
		wake = wait_change(&wait, &jobs.lock, &jobs.waiters, NULL);
	bool ended = !jobs.count;
	pthread_mutex_unlock(&jobs.lock);
	return ended;
}

/* ---- what the gateway asks for ---- */

/* The keeper does it: a thread that the gateway's starts would not see the machine's network, which a
 * box may need to start. */
static void on_wake(void *arg, struct box *box)
{
	int asleep = BOX_LEFT;
	if (atomic_compare_exchange_strong(&box->waking, &asleep, BOX_WANTED))
		keeper_notice(arg);
}

static void on_event(void *arg, struct box *box, enum history_kind kind, const void *data)
{
	history_add(arg, box, kind, data);
}

static void on_change(void *arg)
{
	struct host *host = arg;
	if (host->gateway)
		gateway_notice(host->gateway);
}

/* ---- starting ---- */

/* Nobody else may pass: what boxes leave there may be root's, and have the bits of programs that run as
 * their owner. */
static int make_dir(const struct host *host, const char *name, struct err *err)
{
	auto_free char *path = host_path(host, name, "", "");
	struct stat st;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "mkdir '%s'", path);
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "'%s'", path);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_INVALID, "--state: '%s' belongs to another user", path);
	if (!(st.st_mode & 077))
		return 0;
	log_warn("'%s' was open to others, and is closed again", path);
	return fchmod(fd, 0700) < 0 ? err_set(err, errno, "chmod '%s'", path) : 0;
}

uint32_t host_seed(const char *text)
{
	uint32_t h = 2166136261u;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

/* A box's first process, which is nobody on the machine, must be able to walk there. */
static int check_way(const char *path, struct err *err)
{
	auto_free char *part = xstrdup(path);
	struct stat st;
	for (char *slash; (slash = strrchr(part, '/')) && slash != part;) {
		*slash = 0;
		if (stat(part, &st) == 0 && !(st.st_mode & 01))
			return err_set(
				err, ERR_INVALID,
				"--state: '%s' keeps others out (chmod o+x, or choose another)",
				part);
	}
	return 0;
}

/* Each box's files in another part of the disk, where the file system has such (ext4): it looks for
 * room through all that was deleted lately nearby, and boxes come and go. */
static void spread_boxes(const struct host *host)
{
	int flags;
	auto_close int fd = openat(host->state_fd, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int open_state(struct host *host, struct err *err)
{
	static const char *const folders[] = { "boxes", "run", "log", "templates" };
	/* Others may pass through, to what a box's own users must reach; all that is kept here is 0700. */
	if (mkdir(host->config->state, 0711) < 0 && errno != EEXIST)
		return err_set(err, errno, "--state: mkdir '%s'", host->config->state);
	host->state = realpath(host->config->state, NULL);
	host->state_fd = host->state ? open(host->state, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct stat st;
	if (host->state_fd < 0 || fstat(host->state_fd, &st) < 0)
		return err_set(err, errno, "--state: '%s'", host->config->state);
	if (check_way(host->state, err) < 0)
		return -1;
	if (st.st_uid != geteuid() || st.st_mode & 022)
		return err_set(err, ERR_INVALID, "--state: others may write to '%s'", host->state);
	if ((st.st_mode & 0777) != 0711 && chmod(host->state, 0711) < 0)
		return err_set(err, errno, "--state: chmod '%s'", host->state);
	for (size_t i = 0; i < COUNT(folders); i++)
		if (make_dir(host, folders[i], err) < 0)
			return -1;
	spread_boxes(host);
	host->seed = host_seed(host->state);
	return 0;
}

/* One that was killed may still wait to be reaped. */
static bool is_alive(pid_t pid)
{
	auto_close int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
	return pidfd >= 0 && poll(&pfd, 1, 0) == 0;
}

/* Held by the host and by what it has in the making: after a crash the next host waits until the last
 * stage of the one before is done; that one may still be dying. */
static int take_lock(struct host *host, struct err *err)
{
	host->lock_fd = openat(host->state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (host->lock_fd < 0)
		return err_set(err, errno, "--state: '%s/lock'", host->state);
	int64_t begun = clock_ms(), tell = begun + TELL_MS;
	while (flock(host->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		char text[32] = "";
		(void)!pread(host->lock_fd, text, sizeof text - 1, 0);
		int pid = atoi(text);
		int64_t now = clock_ms();
		if (is_alive(pid) && now > begun + DYING_MS)
			return err_set(err, ERR_CONFLICT, "another host (process %d) uses '%s'",
				       pid, host->state);
		if (now > begun + LOCK_MS)
			return err_set(
				err, ERR_CONFLICT,
				"a box that a killed host (process %d) was making in '%s' is "
				"still in the making: try again later",
				pid, host->state);
		if (now > tell) {
			log_info("waiting for a box that a killed host (process %d) was making",
				 pid);
			tell = INT64_MAX;
		}
		poll(NULL, 0, 20);
	}
	char pid[32];
	int len = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
	if (ftruncate(host->lock_fd, 0) < 0 || pwrite(host->lock_fd, pid, (size_t)len, 0) != len)
		return err_set(err, errno, "write '%s/lock'", host->state);
	return 0;
}

/* The token of the lifecycle API, made at the first start. */
static int read_token(struct host *host, struct err *err)
{
	auto_free char *path = host_path(host, "token", "", "");
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? 0 : read(fd, host->token, sizeof host->token - 1);
	host->token[n > 0 ? n : 0] = 0;
	host->token[strcspn(host->token, "\n")] = 0;
	if (strlen(host->token) >= 32)
		return 0;
	auto_free char *draft = host_path(host, "token", "", ".new");
	host_secret(host->token, 41);
	unlink(draft);
	auto_close int to = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0 || dprintf(to, "%s\n", host->token) < 0 || fsync(to) < 0 ||
	    rename(draft, path) < 0)
		return err_set(err, errno, "cannot write '%s'", path);
	return 0;
}

static int open_server(struct host *host, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOST_SOCKET,
		 host->state_fd);
	unlinkat(host->state_fd, HOST_SOCKET, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(fd, 1024) < 0)
		return err_set(err, errno, "no socket for the host's own server");
	/* Not from the environment, where they may be for another server. */
	if (opt_defaults(&config_table, &host->api, err) < 0)
		return -1;
	host->api.net.listen = xasprintf("fd:%d", fd);
	host->api.net.api_key = host->token;
	host->api.net.auth_token = host->api.net.jwt_public_key = NULL;
	host->api.net.key_hint = host->token_hint;
	host->api.net.domain = host->config->domain;
	host->api.net.cors_origins = host->config->cors_origins;
	host->api.workspace = host->state;
	host->api.net.scratch = host->state; /* uploads are on the disk that they are unpacked to */
	home_find(host->api.home, sizeof host->api.home);
	host->api.net.home = host->api.home;
	host->api.net.max_upload = host->config->import_size;
	host->api.net.max_head = host->config->max_head + 4096; /* the gateway adds to it */
	host->api.net.max_connections = host->config->max_connections;
	host->api.net.head_ms = host->config->head_ms;
	host->api.net.body_ms = host->config->body_ms;
	host->api.net.send_ms = host->config->send_ms;
	host->api.net.ticket_ttl_ms = host->config->ticket_ttl_ms;
	if (server_init(&host->server, &host->api.net, host_groups, err) < 0)
		return -1;
	host->server.config = &host->api;
	return server_listen(&host->server, err);
}

static bool default_is_open(const struct host_config *config)
{
	return !(config->api_key && *config->api_key) &&
	       !(config->auth_token && *config->auth_token) &&
	       !(config->jwt_public_key && *config->jwt_public_key);
}

static int open_listener(struct host *host, struct err *err)
{
	const struct host_config *config = host->config;
	struct listener *listener = &host->listener;
	if (listen_open(config->listen, listener, err) < 0)
		return -1;
	if (!listener->loopback && default_is_open(config) && !config->insecure)
		return err_set(
			err, ERR_INVALID,
			"refusing to listen on %s while the default box needs no credentials: set "
			"SANDBOX_API_KEY or JWT_PUBLIC_KEY, or give --insecure",
			config->listen);
	fcntl(listener->fd, F_SETFL, fcntl(listener->fd, F_GETFL) | O_NONBLOCK);
	/* A connection is ours once its first request is there: one wake-up for both. */
	if (!listener->local)
		setsockopt(listener->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){ 1 }, sizeof(int));
	return 0;
}

static int open_front(struct host *host, struct err *err)
{
	const struct host_config *config = host->config;
	struct gateway_config gateway = {
		.boxes = &host->boxes,
		.listen_fd = host->listener.fd,
		.netns = host->netns,
		.state_dir = host->state_fd,
		.host_socket = HOST_SOCKET,
		.host_token = host->token,
		.host_auth = host->auth,
		.host_hint = host->token_hint,
		.keys = host->keys,
		.nobody = host->nobody,
		.guard = { .domain = config->domain,
			   .cors_origins = config->cors_origins,
			   .any_host = config->insecure || host->listener.local },
		.names = { config->domain, config->plain_origin == HOST_PLAIN_DEFAULT },
		.max_head = (size_t)config->max_head,
		.max_connections = config->max_connections,
		.max_streams = config->max_streams,
		.idle_ms = config->idle_ms,
		.head_ms = config->head_ms,
		.body_ms = config->body_ms,
		.send_ms = config->send_ms,
		.wake = on_wake,
		.event = on_event,
		.arg = host,
	};
	sign_in_load(host->api.home);
	own_name_load(host->api.home);
	int cores = get_nprocs();
	int loops = config->loops ? (int)config->loops : cores > LOOPS_MAX ? LOOPS_MAX : cores;
	host->gateway = gateway_start(&gateway, loops, err);
	if (!host->gateway)
		return -1;
	auto_free char *path = host_path(host, "url", "", "");
	FILE *file = fopen(path, "we");
	if (file) {
		fprintf(file, "%s\n", host->listener.url);
		fclose(file);
	}
	return 0;
}

/* Where the boxes' groups are: for rootless_enter(). */
static int note_group(const struct host *host, struct err *err)
{
	char now[PATH_MAX];
	auto_free char *path = host_path(host, "group", "", "");
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || group_path(now, sizeof now) < 0 || write(fd, now, strlen(now)) < 0)
		return err_set(err, errno, "cannot write '%s'", path);
	return 0;
}

/* Open files are counted for the machine, and each box may have as many as its memory holds: what one has
 * would be missed by all others. systemd does the same when a machine starts. */
static void free_files(void)
{
	char most[32];
	int len = snprintf(most, sizeof most, "%lld", LLONG_MAX);
	auto_close int fd = open("/proc/sys/fs/file-max", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, most, (size_t)len);
}

static int make_auths(struct host *host, struct err *err)
{
	char secret[48];
	host_secret(secret, sizeof secret);
	const char *jwt = host->config->jwt_public_key;
	snprintf(host->token_hint, sizeof host->token_hint,
		 "Send the host's token, which is in '%.200s/token' on its machine", host->state);
	struct auth_config own = { .api_key = host->token };
	struct auth_config keys = { .jwt_public_key = jwt,
				    .api_key = host->config->api_key,
				    .auth_token = host->config->auth_token };
	struct auth_config nobody = { .jwt_public_key = jwt,
				      .jwt_audience = secret,
				      .api_key = secret };
	host->auth = auth_new(&own, err);
	host->keys = host->auth ? auth_new(&keys, err) : NULL;
	host->nobody = host->keys ? auth_new(&nobody, err) : NULL;
	explicit_bzero(secret, sizeof secret);
	return host->nobody ? 0 : -1;
}

/* It may be paused. */
static bool default_runs(struct host *host)
{
	struct box *box = boxes_get(&host->boxes, "default");
	bool runs = box && boxes_state(&host->boxes, box) != BOX_STOPPED;
	boxes_put(&host->boxes, box);
	return runs;
}

static int start(struct host *host, struct err *err)
{
	if (open_state(host, err) < 0 || take_lock(host, err) < 0 || read_token(host, err) < 0 ||
	    open_listener(host, err) < 0)
		return -1;
	struct err why = { 0 };
	host->netns = netns_open(err);
	if (host->netns < 0)
		return -1;
	if (box_probe(host->state, &host->means, &why) < 0 || !host->means.usable)
		return err_set(err, ERR_UNAVAILABLE, "this machine cannot run boxes: %s%s", why.msg,
			       host->means.text);
	if (default_box_check(host, err) < 0)
		return -1;
	free_files();
	host->full = network_full();
	apparmor_prepare(host->means.text, sizeof host->means.text);
	if (note_group(host, err) < 0 ||
	    box_makers(host->state, host->lock_fd, err) < 0) /* while there is one thread */
		return -1;
	auto_free char *db = host_path(host, "store.db", "", "");
	host->store = make_auths(host, err) == 0 ? store_open(db, err) : NULL;
	denials_start(host);
	progress("finding the boxes of the host before this one");
	templates_clean(host);
	if (!host->store || life_recover(host, err) < 0 || keeper_start(host, err) < 0)
		return -1;
	bool found = default_runs(host);
	progress(
		template_known(host->state)
			? "looking through this machine's programs, and starting the box 'default'"
			: "making the template of this machine from its programs, the first time only");
	if (default_box_ensure(host, err) < 0)
		return -1;
	if (open_server(host, err) == 0 && open_front(host, err) == 0)
		return 0;
	if (!found)
		(void)life_stop(host, "default", NULL);
	return -1;
}

/* ---- ending ---- */

/* Those that run, at once; paused ones when it is their turn. */
static void part(struct host *host, struct box *const *list, size_t count)
{
	auto_free struct box **running = xcalloc(count + 1, sizeof *running);
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		if (boxes_state(&host->boxes, list[i]) == BOX_RUNNING)
			running[n++] = list[i];
	shutdown_hooks(host, running, n);
}

static void end_boxes(struct host *host)
{
	size_t count;
	host->ending = true; /* the gateway still answers, and must not bring them back */
	host->part_by_ms = clock_ms() + PART_MS;
	struct box **list = boxes_list(&host->boxes, &count);
	part(host, list, count);
	for (size_t i = 0; i < count; i++) {
		struct err err;
		if (life_stop(host, list[i]->id, &err) < 0 && err.code != ERR_NOT_FOUND)
			log_error("box %s: stopping it failed: %s", list[i]->id, err.msg);
		boxes_put(&host->boxes, list[i]);
	}
	free(list);
}

static void stop(struct host *host)
{
	/* All requests have the same time, those of boxes and of the host's own server. */
	int64_t left = host->server.stop_by_ms - clock_ms();
	if (host->gateway)
		gateway_stop(host->gateway, left > 0 ? (int)left : 0);
	if (host->keeper)
		keeper_stop(host);
	if (!await_jobs()) /* they use what would be freed; all that matters is stored */
		_exit(0);
	if (host->gateway)
		gateway_free(host->gateway);
	host->gateway = NULL;
	store_close(host->store);
	if (host->server.stop_fd >= 0) {
		server_done(&host->server);
		unlinkat(host->state_fd, HOST_SOCKET, 0);
	}
	denials_stop(host);
	boxes_done(&host->boxes);
	auth_free(host->auth);
	auth_free(host->keys);
	auth_free(host->nobody);
	own_close(&host->keeper_fd);
	if (host->listener.path)
		unlink(host->listener.path);
	free(host->listener.path);
	own_close(&host->listener.fd);
	own_close(&host->lock_fd);
	own_close(&host->netns);
	own_close(&host->state_fd);
	free(host->state);
}

/* One for the whole process: threads of unfinished requests may outlive host_run(). */
static struct host *prepare(const struct host_config *config)
{
	static struct host host;
	host = (struct host){ .config = config,
			      .server.stop_fd = -1,
			      .state_fd = -1,
			      .lock_fd = -1,
			      .netns = -1,
			      .listener.fd = -1 };
	host.keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	boxes_init(&host.boxes);
	host.boxes.changed = on_change;
	host.boxes.arg = &host;
	return &host;
}

static size_t count_running(struct host *host)
{
	size_t count, running = 0;
	struct box **list = boxes_list(&host->boxes, &count);
	for (size_t i = 0; i < count; i++) {
		enum box_state state = boxes_state(&host->boxes, list[i]);
		running += state == BOX_RUNNING || state == BOX_PAUSED;
		boxes_put(&host->boxes, list[i]);
	}
	free(list);
	return running;
}

int host_run(const struct host_config *config, void (*ready)(struct host *host),
	     void (*ending)(bool with_boxes, size_t boxes), struct err *err)
{
	struct host *host = prepare(config);
	spawn_raise_limit();
	int result = start(host, err);
	progress(NULL);
	bool ended = true;
	if (result == 0) {
		ready(host);
		ended = server_run(&host->server);
		ending(host->server.signal == SIGINT, count_running(host));
		if (host->server.signal == SIGINT)
			end_boxes(host);
	}
	if (!ended)
		_exit(0);
	stop(host);
	return result;
}

int host_end_left(const char *state, size_t *ret_count, struct err *err)
{
	const struct host_config config = { .state = state };
	struct host *host = prepare(&config);
	int result = open_state(host, err) < 0 ? -1 : take_lock(host, err);
	if (result == 0) {
		auto_free char *db = host_path(host, "store.db", "", "");
		host->store = store_open(db, err);
		result = host->store ? life_end_left(host, ret_count, err) : -1;
	}
	stop(host);
	return result;
}
