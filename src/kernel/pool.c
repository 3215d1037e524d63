#include "kernel/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "kernel/kernel.h"
#include "kernel/kernelspec.h"
#include "proc/limits.h"
#include "proc/program.h"
#include "proc/pump.h"
#include "proc/user.h"

enum { MESSAGE_MAX = 65536, MODULES_MAX = 64, TRIES = 3, END_MS = 3000, LAST_MESSAGES = 256 };

/* One that the fork server was asked for and has not forked yet. */
struct pool_pending {
	struct pool_pending *next;
	uint64_t id;
	struct kernel *kernel;
};

struct forkserver {
	struct source source; /* its control socket, in the pump */
	struct forkserver *next;
	char *python;
	struct program *program;
	int open;    /* of the two, control socket and program: those that have not ended */
	int signal;  /* that ended the program */
	int send_fd; /* the same socket: the pump may close its own at any time */
	struct pool_pending *pending;
	struct kernel *spare; /* nobody's yet */
	uint64_t next_id;
	int64_t used_ms;
	bool works; /* it has imported what it needs */
	char error[256];
};

static struct {
	pthread_mutex_t lock;
	struct waiter *waiters;   /* for the end of all */
	struct forkserver *first; /* those that run */
	size_t count;             /* and those that are being buried */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- what the pump calls ---- */

/* With the lock: takes the one with an id, or with 0 any, from those that are waited for. */
static struct kernel *take_pending(struct forkserver *fs, uint64_t id)
{
	struct pool_pending **at = &fs->pending;
	while (*at && id && (*at)->id != id)
		at = &(*at)->next;
	struct pool_pending *pending = *at;
	if (!pending)
		return NULL;
	struct kernel *kernel = pending->kernel;
	*at = pending->next;
	free(pending);
	return kernel;
}

static void handle(struct forkserver *fs, const json_t *said, int fds[2])
{
	const char *error = json_string_value(json_object_get(said, "error"));
	json_int_t id = json_integer_value(json_object_get(said, "id"));
	json_int_t pid = json_integer_value(json_object_get(said, "pid"));
	json_int_t ended = json_integer_value(json_object_get(said, "exit"));
	json_int_t code = json_integer_value(json_object_get(said, "errno"));
	if (ended > 0)
		kernel_report((pid_t)ended, (int)json_integer_value(json_object_get(said, "code")),
			      (int)json_integer_value(json_object_get(said, "signal")));
	pthread_mutex_lock(&pool.lock);
	if (json_object_get(said, "version"))
		fs->works = true;
	struct kernel *kernel = id > 0 ? take_pending(fs, (uint64_t)id) : NULL;
	if (!id && error)
		snprintf(fs->error, sizeof fs->error, "%s", error);
	pthread_mutex_unlock(&pool.lock);
	if (!kernel)
		return;
	if (pid > 0 && fds[0] >= 0 && fds[1] >= 0)
		kernel_born(kernel, fs, (pid_t)pid, TAKE_FD(fds[0]), TAKE_FD(fds[1]));
	else
		kernel_stillborn(kernel, code ? (int)code : ERR_NOT_IMPLEMENTED,
				 error ? error : "the fork server gave no kernel");
	kernel_unref(kernel);
}

/* Takes one message; the descriptors that came with it are closed-on-exec. */
static ssize_t receive(int fd, char *text, size_t room, int fds[2])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { text, room };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof control };
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	fds[0] = fds[1] = -1;
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(head),
		       head->cmsg_len >= CMSG_LEN(2 * sizeof(int)) ? 2 * sizeof(int)
								   : head->cmsg_len - CMSG_LEN(0));
	return n;
}

/* Takes one message: its length; 0: the end, -1: errno. */
static ssize_t take_message(struct forkserver *fs)
{
	static char text[MESSAGE_MAX]; /* of the pump's thread alone */
	int fds[2];
	ssize_t n = receive(fs->source.fd, text, sizeof text, fds);
	if (n <= 0)
		return n;
	json_t *said = json_parse(text, (size_t)n, NULL);
	if (said)
		handle(fs, said, fds);
	json_decref(said);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return n;
}

static bool control_ready(struct source *source)
{
	ssize_t n = take_message((struct forkserver *)source);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* With the lock: out of the list; false when it was not there any more. */
static bool unlist(struct forkserver *fs)
{
	struct forkserver **at = &pool.first;
	while (*at && *at != fs)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = fs->next;
	return true;
}

/* One of the two has ended. When both have, who waits for it is told. */
static void part_ended(struct forkserver *fs)
{
	pthread_mutex_lock(&pool.lock);
	bool last = --fs->open == 0;
	pthread_mutex_unlock(&pool.lock);
	if (!last)
		return;
	/* Killed, and not by an error of its own: another one may live. */
	int code = fs->signal == SIGKILL && !*fs->error ? ENOMEM : ERR_NOT_IMPLEMENTED;
	char why[300];
	kernel_orphan(fs);
	snprintf(why, sizeof why, "%s cannot be used for kernels: %s", fs->python,
		 *fs->error ? fs->error : "its fork server has ended");
	for (struct kernel *kernel; (kernel = take_pending(fs, 0));) {
		kernel_stillborn(kernel, code, why);
		kernel_unref(kernel);
	}
	log_debug("the fork server of %s has ended", fs->python);
	program_unref(fs->program);
	close(fs->send_fd);
	free(fs->python);
	free(fs);
	pthread_mutex_lock(&pool.lock);
	pool.count--;
	waiter_wake(pool.waiters);
	pthread_mutex_unlock(&pool.lock);
}

/* It has ended, or is to. The kernels that it has forked live on. */
static void control_done(struct source *source)
{
	struct forkserver *fs = (struct forkserver *)source;
	pthread_mutex_lock(&pool.lock);
	(void)unlist(fs);
	struct kernel *spare = TAKE(fs->spare);
	if (fs->program)
		program_signal_one(fs->program, SIGKILL);
	pthread_mutex_unlock(&pool.lock);
	if (spare)
		kernel_end(spare);
	kernel_unref(spare);
	part_ended(fs);
}

static void server_ended(void *arg, struct program *program, const struct program_status *how)
{
	struct forkserver *fs = arg;
	(void)program;
	fs->signal = how->signal;
	pthread_mutex_lock(&pool.lock);
	bool open = fs->open == 2;
	pthread_mutex_unlock(&pool.lock);
	for (int i = 0; open && i < LAST_MESSAGES && take_message(fs) > 0; i++)
		;
	if (open) /* a child that is no kernel yet may hold the socket, stopped */
		pump_drop(&fs->source);
	part_ended(fs);
}

/* ---- starting one ---- */

static char **arguments(struct arena *arena, const char *python, const struct pool_config *config)
{
	char **argv = arena_alloc(arena, (MODULES_MAX + 3) * sizeof *argv);
	char *rest = arena_strdup(arena, config->preload ? config->preload : "");
	size_t count = 0;
	argv[count++] = arena_strdup(arena, python);
	argv[count++] = arena_printf(arena, "%s/share/kernel/forkserver.py", config->home);
	for (char *one; count < MODULES_MAX + 2 && (one = strsep(&rest, ", "));)
		if (*one)
			argv[count++] = one;
	argv[count] = NULL;
	return argv;
}

static struct program *start_python(struct forkserver *fs, const struct pool_config *config,
				    int control, struct err *err)
{
	struct arena arena = { 0 };
	char **argv = arguments(&arena, fs->python, config);
	struct program_spec spec = {
		.spawn = { .path = fs->python,
			   .argv = argv,
			   .cwd = "/",
			   .fds = { control, -1, -1 } },
		.worth = WORTH_SOURCE,
		.ended = server_ended,
		.arg = fs,
	};
	struct program *program = NULL;
	spawn_sandboxed(&spec.spawn, &arena, config->user, config->home, NULL, NULL);
	if (access(argv[1], R_OK) < 0)
		err_set(err, ERR_UNAVAILABLE, "'%s' is missing", argv[1]);
	else
		program = program_start(&spec, err);
	arena_done(&arena);
	return program;
}

/* With the lock: starts a fork server and lists it. */
static struct forkserver *start(const char *python, const struct pool_config *config,
				struct err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		err_set(err, ERR_LIMIT, "no socket for a fork server: %s", strerror(errno));
		return NULL;
	}
	auto_close int its = ends[1], ours = ends[0], copy = fcntl(ours, F_DUPFD_CLOEXEC, 3);
	struct forkserver *fs = xcalloc(1, sizeof *fs);
	fs->source = (struct source){ .fd = ours, .ready = control_ready, .done = control_done };
	if (copy < 0)
		err_set(err, ERR_LIMIT, "no descriptor for a fork server");
	if (copy < 0 || pump_add(&fs->source, err) < 0) {
		free(fs);
		return NULL;
	}
	(void)TAKE_FD(ours);
	fs->send_fd = TAKE_FD(copy);
	fs->python = xstrdup(python);
	fs->program = start_python(fs, config, its, err);
	fs->open = fs->program ? 2 : 1;
	pool.count++;
	if (!fs->program) {
		pump_drop(&fs->source);
		return NULL;
	}
	fs->next = pool.first;
	pool.first = fs;
	return fs;
}

/* With the lock. */
static struct forkserver *find(const struct pool_config *config, const struct kernelspec *spec,
			       struct err *err)
{
	const char *python = *(const char *const *)spec->argv.items;
	struct forkserver *fs = pool.first;
	while (fs && strcmp(fs->python, python) != 0)
		fs = fs->next;
	if (!fs)
		fs = start(python, config, err);
	if (fs)
		fs->used_ms = awake_ms();
	return fs;
}

/* With the lock: asks for one more kernel; the reference is the caller's. */
static struct kernel *ask(struct forkserver *fs, const struct user *user, bool later,
			  struct err *err)
{
	struct kernel *kernel = kernel_new_forked(user, err);
	if (!kernel)
		return NULL;
	auto_free char *request = kernel_request(kernel, ++fs->next_id, later);
	if (send(fs->send_fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		err_set(err, ERR_NOT_IMPLEMENTED, "the fork server of %s takes no request: %s",
			fs->python, strerror(errno));
		kernel_unref(kernel);
		return NULL;
	}
	struct pool_pending *pending = xmalloc(sizeof *pending);
	*pending = (struct pool_pending){ fs->pending, fs->next_id, kernel_ref(kernel) };
	fs->pending = pending;
	return kernel;
}

/* ---- taking ---- */

/* The ready kernel, or one that is being made. */
static struct kernel *claim(const struct pool_config *config, const struct kernelspec *spec,
			    struct err *err)
{
	static const char hurry[] = "{\"hurry\":true}";
	pthread_mutex_lock(&pool.lock);
	struct forkserver *fs = find(config, spec, err);
	struct kernel *kernel = fs ? TAKE(fs->spare) : NULL;
	if (kernel && !kernel_is_born(kernel))
		(void)!send(fs->send_fd, hurry, strlen(hurry), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (fs && !kernel)
		kernel = ask(fs, config->user, false, err);
	pthread_mutex_unlock(&pool.lock);
	return kernel;
}

int pool_warm(const struct pool_config *config, const struct kernelspec *spec, struct err *err)
{
	pthread_mutex_lock(&pool.lock);
	struct forkserver *fs = find(config, spec, err);
	bool fits = limits_fit(KERNEL_TASKS);
	if (fs && !fs->spare && fits)
		fs->spare = ask(fs, config->user, true, err);
	int result = fs && (fs->spare || !fits) ? 0 : -1;
	pthread_mutex_unlock(&pool.lock);
	return result;
}

static bool is_full(int code)
{
	return code == EAGAIN || code == ENOMEM;
}

/* A ready kernel may have been ended by somebody, or had no room when it was started: the next one. */
static struct kernel *take_forked(const struct pool_config *config, const struct kernelspec *spec,
				  const struct kernel_place *place, const struct wait *wait,
				  struct err *err)
{
	int cause = 0;
	for (int i = 0; i < TRIES; i++) {
		struct kernel *kernel = claim(config, spec, err);
		if (!kernel)
			return NULL;
		int result = kernel_hand_out(kernel, place, wait, err);
		if (result == 0)
			return kernel;
		if (err->code == ESRCH)
			cause = kernel_end_cause(kernel);
		kernel_end(kernel);
		kernel_unref(kernel);
		if (err->code != ESRCH && !is_full(err->code))
			return NULL;
	}
	if (!is_full(err->code))
		err_set(err, cause ? cause : ERR_UNAVAILABLE,
			"kernels of %s end as soon as they start", spec->name);
	return NULL;
}

struct kernel *pool_take(const struct pool_config *config, const struct kernelspec *spec,
			 const struct kernel_place *place, const struct wait *wait, struct err *err)
{
	struct kernel *kernel = spec->python ? take_forked(config, spec, place, wait, err) : NULL;
	if (kernel) {
		(void)pool_warm(config, spec, NULL);
		return kernel;
	}
	if (spec->python && err->code != ERR_NOT_IMPLEMENTED)
		return NULL;
	struct err why;
	kernel = kernel_spawn(spec, place, wait, &why);
	if (kernel && spec->python) /* its fork server may have died just before */
		(void)pool_warm(config, spec, NULL);
	if (!kernel && (!spec->python || is_full(why.code)))
		*err = why;
	if (!kernel && err->code == ERR_NOT_IMPLEMENTED)
		err->code = ERR_UNAVAILABLE;
	return kernel;
}

void pool_end(void)
{
	const struct wait wait = { clock_ms() + END_MS, -1, -1 };
	pool_rest(0);
	pthread_mutex_lock(&pool.lock);
	while (pool.count && wait_change(&wait, &pool.lock, &pool.waiters, NULL) == WAKE_READY)
		;
	pthread_mutex_unlock(&pool.lock);
}

void pool_rest(int64_t idle_ms)
{
	pthread_mutex_lock(&pool.lock);
	for (struct forkserver *fs = pool.first; fs; fs = fs->next)
		if (awake_ms() - fs->used_ms >= idle_ms)
			pump_drop(&fs->source);
	pthread_mutex_unlock(&pool.lock);
}
