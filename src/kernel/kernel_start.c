/* How a kernel comes to be: forked by a fork server and handed out, or started as its spec says. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "kernel/kernel_message.h"
#include "kernel/kernel_state.h"
#include "kernel/kernelspec.h"
#include "kernel/zsock.h"
#include "proc/environment.h"
#include "proc/listening.h"
#include "proc/spawn.h"
#include "proc/tree.h"
#include "proc/user.h"

enum { ANSWER_MAX = 4096, ASK_AGAIN_MS = 500, CONNECT_MS = 20, FILE_MAX = 4096 };

/* ---- forked ---- */

struct kernel *kernel_new_forked(const struct user *user, struct err *err)
{
	return kernel_new(user, err);
}

char *kernel_request(const struct kernel *kernel, uint64_t id, bool later)
{
	return xasprintf("{\"id\":%llu,\"key\":\"%s\",\"ip\":\"%s\",\"connection_file\":\"%s\","
			 "\"later\":%s}",
			 (unsigned long long)id, kernel->key, kernel->ip, kernel->file,
			 later ? "true" : "false");
}

bool kernel_is_born(struct kernel *kernel)
{
	pthread_mutex_lock(&kernel->lock);
	bool born = kernel->program;
	pthread_mutex_unlock(&kernel->lock);
	return born;
}

/* The process that a descriptor stands for; -1 when that was reaped, 0 when it is not a pidfd. */
static pid_t pid_of(int pidfd)
{
	char path[64], line[256];
	int pid = 0;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	FILE *file = fopen(path, "re");
	while (file && !pid && fgets(line, sizeof line, file))
		(void)sscanf(line, "Pid: %d", &pid);
	if (file)
		(void)fclose(file);
	return pid;
}

/* A fork server is the user's, and may say what it likes. We, who may have more rights, end what it
 * calls a kernel only if that is a process of the user, too. */
static bool is_theirs(const struct kernel *kernel, pid_t pid, int pidfd)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d", pid);
	return pid > 1 && pid_of(pidfd) == pid && stat(path, &st) == 0 &&
	       st.st_uid == kernel->user->uid &&
	       pid_of(pidfd) == pid; /* still: what was looked at was that process */
}

void kernel_born(struct kernel *kernel, const void *server, pid_t pid, int pidfd, int order_fd)
{
	struct err err;
	kernel->order_fd = order_fd;
	kernel->server = server;
	if (!is_theirs(kernel, pid, pidfd)) {
		bool reaped = pid > 1 && pid_of(pidfd) < 0;
		close(pidfd);
		pthread_mutex_lock(&kernel->lock);
		if (reaped) /* how it ended is reported next, and may be for lack of room */
			kernel->pid = pid;
		pthread_mutex_unlock(&kernel->lock);
		kernel_stillborn(kernel, reaped ? ESRCH : ERR_UNAVAILABLE,
				 reaped ? "the kernel has ended"
					: "the fork server returned a process that is not its own");
		return;
	}
	pthread_mutex_lock(&kernel->lock);
	kernel->pid = pid;
	kernel->program = program_adopt(pid, pidfd, kernel_program_ended, kernel_ref(kernel), &err);
	bool failed = !kernel->program;
	pthread_mutex_unlock(&kernel->lock);
	if (failed) {
		kernel_stillborn(kernel, err.code, err.msg);
		kernel_unref(kernel);
	}
	kernel_set_expendable(kernel, true);
	(void)eventfd_write(kernel->wake_fd, 1);
}

void kernel_stillborn(struct kernel *kernel, int code, const char *why)
{
	pthread_mutex_lock(&kernel->lock);
	err_set(&kernel->why, code, "%s", why);
	kernel->ended = true;
	(void)eventfd_write(kernel->wake_fd, 1);
	pthread_mutex_unlock(&kernel->lock);
}

static int await_birth(struct kernel *kernel, const struct wait *wait, struct err *err)
{
	for (;;) {
		pthread_mutex_lock(&kernel->lock);
		bool born = kernel->program, failed = kernel->why.code;
		int result = failed ? err_set(err, kernel->why.code, "%s", kernel->why.msg) : 0;
		pthread_mutex_unlock(&kernel->lock);
		eventfd_t ignored;
		if (born || failed)
			return result;
		if (kernel_await(kernel->wake_fd, wait, err) < 0)
			return -1;
		(void)eventfd_read(kernel->wake_fd, &ignored);
	}
}

/* Takes what a forked kernel says: {"welcomes"}, {} or {"error": …, "errno"}; nothing when it has ended. */
static int take_answer(struct kernel *kernel, const struct wait *wait, struct err *err)
{
	char text[ANSWER_MAX];
	if (kernel_await(kernel->order_fd, wait, err) < 0)
		return -1;
	ssize_t n = recv(kernel->order_fd, text, sizeof text, MSG_DONTWAIT);
	if (n <= 0)
		return err_set(err, ESRCH, "the kernel has ended");
	json_t *answer = json_parse(text, (size_t)n, err);
	const char *error = json_string_value(json_object_get(answer, "error"));
	int code = (int)json_integer_value(json_object_get(answer, "errno"));
	int result = !answer ? -1
		     : error ? err_set(err, code ? code : ERR_BAD_REQUEST, "%s", error)
			     : 0;
	kernel->welcomes |= json_is_true(json_object_get(answer, "welcomes"));
	json_decref(answer);
	return result;
}

static int give_order(struct kernel *kernel, const struct kernel_place *place, struct err *err)
{
	struct jw jw;
	struct pair proxy[ENVIRONMENT_PROXY];
	size_t proxies = environment_proxy(proxy); /* its environment may be from before */
	jw_init(&jw, 1 << 20);
	jw_open(&jw, '{');
	jw_key_str(&jw, "cwd", place->cwd);
	jw_key_int(&jw, "tag", (int64_t)tree_tag(place->marker));
	jw_key(&jw, "env");
	jw_open(&jw, '{');
	jw_key_str(&jw, TREE_MARKER, place->marker + sizeof TREE_MARKER);
	for (size_t i = 0; i < proxies; i++)
		jw_key_str(&jw, proxy[i].name, proxy[i].value);
	jw_close(&jw, '}');
	jw_close(&jw, '}');
	ssize_t n = send(kernel->order_fd, jw.out.data, jw.out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	jw_done(&jw);
	return n < 0 ? err_set(err, ESRCH, "the kernel has ended") : 0;
}

int kernel_await_welcome(struct kernel *kernel, const struct wait *wait, struct err *err)
{
	for (;;) {
		const struct text *frames;
		struct message message;
		for (size_t n; (n = zsock_recv(kernel->iopub, &frames));)
			if (kernel_message_read(frames, n, kernel->signs, &message, NULL) == 0)
				return 0;
		if (zsock_fd(kernel->iopub) < 0 || kernel_ended(kernel))
			return err_set(err, ESRCH, "the kernel has ended");
		if (kernel_await(zsock_fd(kernel->iopub), wait, err) < 0)
			return -1;
	}
}

/* It has said that it listens: if it does not, it has ended since. */
static int reach(struct kernel *kernel, struct err *err)
{
	if (kernel_connect(kernel, err) == 0)
		return 0;
	bool gone = err->code == ECONNREFUSED || err->code == ENOENT;
	return gone ? err_set(err, ESRCH, "the kernel has ended") : -1;
}

struct greeting {
	char id[64];
	bool replied, heard;
};

static void greet_take(struct kernel *kernel, struct greeting *greeting)
{
	const struct text *frames;
	struct message message;
	struct zsock *socks[] = { kernel->iopub, kernel->shell };
	for (int i = 0; i < 2 && socks[i]; i++)
		for (size_t n; (n = zsock_recv(socks[i], &frames));) {
			if (kernel_message_read(frames, n, kernel->signs, &message, NULL) < 0)
				continue;
			*(i ? &greeting->replied : &greeting->heard) = true;
			if (i && memmem(message.content.data, message.content.len,
					"\"" KERNEL_WITHDRAW "\"", sizeof KERNEL_WITHDRAW + 1))
				kernel->withdraws = true;
		}
}

/* Asks for information until there are an answer and something on iopub: its sockets are open, and
 * our subscription has arrived. */
static int greet(struct kernel *kernel, const struct wait *wait, struct err *err)
{
	struct greeting greeting = { 0 };
	for (int64_t ask_ms = 0;;) {
		greet_take(kernel, &greeting);
		if (greeting.replied && greeting.heard)
			return 0;
		if (kernel_ended(kernel)) {
			char how[128];
			int cause = kernel_end_cause(kernel);
			return err_set(err, cause ? cause : ERR_UNAVAILABLE,
				       "the kernel ended %s while it started",
				       kernel_end_text(kernel, how, sizeof how));
		}
		bool connected = kernel_connect(kernel, NULL) == 0; /* once it listens */
		if (!connected)
			ask_ms = clock_ms() + CONNECT_MS;
		if (clock_ms() >= ask_ms) {
			struct buf content = BUF(16);
			(void)buf_str(&content, "{}");
			if (kernel_send(kernel, kernel->shell, "kernel_info_request", &content,
					greeting.id, err) < 0)
				return -1;
			ask_ms = clock_ms() + ASK_AGAIN_MS;
			continue;
		}
		struct pollfd fds[] = {
			{ .fd = connected ? zsock_fd(kernel->shell) : -1, .events = POLLIN },
			{ .fd = connected ? zsock_fd(kernel->iopub) : -1, .events = POLLIN },
			{ .fd = kernel->wake_fd, .events = POLLIN },
		};
		struct wait next = { ask_ms, wait->client_fd, wait->stop_fd };
		enum wake wake = wait_poll(&next, fds, COUNT(fds));
		eventfd_t ignored;
		if (fds[2].revents)
			(void)eventfd_read(kernel->wake_fd, &ignored);
		if (wake > WAKE_TIMEOUT)
			return wake_err(wake, err);
		if (clock_ms() >= wait->until_ms)
			return err_set(err, ERR_UNAVAILABLE, "the kernel did not start in time");
	}
}

int kernel_hand_out(struct kernel *kernel, const struct kernel_place *place,
		    const struct wait *wait, struct err *err)
{
	if (await_birth(kernel, wait, err) < 0 || take_answer(kernel, wait, err) < 0 ||
	    reach(kernel, err) < 0 || give_order(kernel, place, err) < 0 ||
	    take_answer(kernel, wait, err) < 0 ||
	    (kernel->welcomes ? kernel_await_welcome : greet)(kernel, wait, err) < 0)
		return -1;
	kernel->withdraws = true;
	close(kernel->order_fd);
	kernel->order_fd = -1;
	return 0;
}

/* ---- started ---- */

/* Five ports that are free now; somebody could take one before the kernel does, who then ends. */
static int find_ports(struct kernel *kernel, struct err *err)
{
	int fds[CHANNELS], result = 0;
	pthread_mutex_lock(&kernel->lock);
	for (int i = 0; i < CHANNELS; i++) {
		struct sockaddr_in at = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof at;
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&at, len) < 0 ||
		    getsockname(fds[i], (struct sockaddr *)&at, &len) < 0)
			result = err_set(err, ERR_LIMIT, "no port for a kernel");
		kernel->ports[i] = ntohs(at.sin_port);
	}
	kernel->tcp = true;
	pthread_mutex_unlock(&kernel->lock);
	for (int i = 0; i < CHANNELS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	snprintf(kernel->ip, sizeof kernel->ip, "127.0.0.1");
	return result;
}

static int write_file(const struct kernel *kernel, const char *name, struct err *err)
{
	static const char *const names[] = { "shell", "iopub", "stdin", "control", "hb" };
	auto_buf struct buf text = BUF(FILE_MAX);
	struct user_view view;
	(void)buf_printf(&text,
			 "{\"transport\":\"tcp\",\"ip\":\"%s\",\"key\":\"%s\","
			 "\"signature_scheme\":\"hmac-sha256\",\"kernel_name\":\"%s\"",
			 kernel->ip, kernel->key, name);
	for (int i = 0; i < CHANNELS; i++)
		(void)buf_printf(&text, ",\"%s_port\":%d", names[i], kernel->ports[i]);
	(void)buf_str(&text, "}\n");
	if (user_enter(kernel->user, &view, err) < 0)
		return -1;
	auto_close int fd = open(kernel->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool written = fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len;
	int code = errno;
	user_leave(&view);
	return written ? 0 : err_set(err, code, "connection file '%s'", kernel->file);
}

static int start_process(struct kernel *kernel, const struct kernelspec *spec,
			 const struct kernel_place *place, struct err *err)
{
	struct arena arena = { 0 };
	char **argv = arena_alloc(&arena, (spec->argv.count + 1) * sizeof *argv);
	for (size_t i = 0; i < spec->argv.count; i++) {
		const char *arg = ((const char *const *)spec->argv.items)[i];
		const char *hole = strstr(arg, "{connection_file}");
		argv[i] = hole ? arena_printf(&arena, "%.*s%s%s", (int)(hole - arg), arg,
					      kernel->file, hole + strlen("{connection_file}"))
			       : (char *)arg;
	}
	argv[spec->argv.count] = NULL;
	struct program_spec it = {
		.spawn = { .path = argv[0],
			   .argv = argv,
			   .cwd = place->cwd,
			   .fds = { -1, -1, -1 } },
		.ended = kernel_program_ended,
		.arg = kernel_ref(kernel),
	};
	spawn_sandboxed(&it.spawn, &arena, place->user, place->home, place->marker, &spec->env);
	pthread_mutex_lock(&kernel->lock);
	kernel->program = program_start(&it, err);
	bool started = kernel->program;
	kernel->pid = started ? program_pid(kernel->program) : 0;
	pthread_mutex_unlock(&kernel->lock);
	arena_done(&arena);
	if (!started)
		kernel_unref(kernel);
	return started ? 0 : -1;
}

struct port_list {
	unsigned ports[OWN_PORTS];
	size_t count;
};

static void note_port(void *arg, const struct listening *it)
{
	struct port_list *list = arg;
	if (list->count < OWN_PORTS)
		list->ports[list->count++] = it->port;
}

/* A kernel may listen on more than its five: ipykernel does, for what its children print. It has run
 * no code yet, so all that it listens on now are its own. */
static void note_own_ports(struct kernel *kernel)
{
	struct port_list list = { .count = 0 };
	struct user_view view;
	/* As the user: a box's server may not look at the descriptors of others. */
	if (user_enter(kernel->user, &view, NULL) < 0)
		return;
	listening_each_of(kernel_pid(kernel), note_port, &list);
	user_leave(&view);
	pthread_mutex_lock(&kernel->lock);
	memcpy(kernel->own_ports, list.ports, sizeof list.ports);
	pthread_mutex_unlock(&kernel->lock);
}

struct kernel *kernel_spawn(const struct kernelspec *spec, const struct kernel_place *place,
			    const struct wait *wait, struct err *err)
{
	struct kernel *kernel = kernel_new(place->user, err);
	if (!kernel)
		return NULL;
	kernel->by_message = spec->by_message;
	if (find_ports(kernel, err) == 0 && write_file(kernel, spec->name, err) == 0 &&
	    start_process(kernel, spec, place, err) == 0 && greet(kernel, wait, err) == 0) {
		note_own_ports(kernel);
		return kernel;
	}
	kernel_end(kernel);
	kernel_unref(kernel);
	return NULL;
}
