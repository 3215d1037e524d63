#include "kernel/kernel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "kernel/kernel_message.h"
#include "kernel/kernel_state.h"
#include "kernel/zsock.h"
#include "proc/spawn.h"
#include "proc/stage.h"
#include "proc/user.h"

enum {
	REPORT_MS = 10000, /* for a fork server to tell how one that has ended did, */
	ENDING_MS = 1000,  /* and of one that only seems to have */
	END_MS = 3000,
};

/* All that live, and where their files are. */
static struct {
	pthread_mutex_t lock;
	struct waiter *waiters; /* for the end of all */
	struct kernel *first;
	size_t count; /* with those that are being freed */
	char dir[64];
	uint64_t next;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- names, files ---- */

void kernel_random(char *to, size_t digits)
{
	unsigned char bytes[32] = { 0 };
	(void)!getrandom(bytes, sizeof bytes, 0);
	for (size_t i = 0; i < digits / 2; i++)
		snprintf(to + i * 2, 3, "%02x", bytes[i]);
}

/* Nobody else may look in: what the sockets tell is not signed for readers. */
static int make_dir(const struct user *user, struct err *err)
{
	if (*all.dir || stage_make_dir(user, "kernels", all.dir, sizeof all.dir, err) == 0)
		return 0;
	*all.dir = 0;
	return -1;
}

static void remove_files(const struct kernel *kernel)
{
	struct user_view view;
	char path[128];
	if (user_enter(kernel->user, &view, NULL) < 0)
		return;
	(void)unlink(kernel->file);
	for (int i = 0; !kernel->tcp && i < CHANNELS; i++) {
		snprintf(path, sizeof path, "%s-%d", kernel->ip, kernel->ports[i]);
		(void)unlink(path);
	}
	user_leave(&view);
}

void kernel_end_all(void)
{
	const struct wait wait = { clock_ms() + END_MS, -1, -1 };
	pthread_mutex_lock(&all.lock);
	while (all.count && wait_change(&wait, &all.lock, &all.waiters, NULL) == WAKE_READY)
		;
	if (*all.dir)
		(void)rmdir(all.dir);
	*all.dir = 0;
	pthread_mutex_unlock(&all.lock);
}

/* ---- their life ---- */

void kernel_forget_ports(bool *ports)
{
	pthread_mutex_lock(&all.lock);
	for (struct kernel *kernel = all.first; kernel; kernel = kernel->next) {
		pthread_mutex_lock(&kernel->lock);
		for (int i = 0; kernel->tcp && i < CHANNELS; i++)
			ports[kernel->ports[i]] = false;
		for (int i = 0; i < OWN_PORTS && kernel->own_ports[i]; i++)
			ports[kernel->own_ports[i]] = false;
		pthread_mutex_unlock(&kernel->lock);
	}
	pthread_mutex_unlock(&all.lock);
}

struct kernel *kernel_new(const struct user *user, struct err *err)
{
	struct kernel *kernel = xcalloc(1, sizeof *kernel);
	kernel->refs = 1;
	kernel->user = user;
	kernel->order_fd = -1;
	kernel->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&kernel->lock, NULL);
	kernel_random(kernel->key, 64);
	kernel_random(kernel->session, 32);
	kernel->signs = kernel_message_key_new(kernel->key);
	for (int i = 0; i < CHANNELS; i++)
		kernel->ports[i] = i + 1;
	pthread_mutex_lock(&all.lock);
	int result = kernel->wake_fd < 0 ? err_set(err, ERR_LIMIT, "no descriptor for a kernel")
					 : make_dir(user, err);
	unsigned long long number = ++all.next;
	snprintf(kernel->file, sizeof kernel->file, "%s/kernel-%llu.json", all.dir, number);
	snprintf(kernel->ip, sizeof kernel->ip, "%s/kernel-%llu-ipc", all.dir, number);
	kernel->next = all.first;
	all.first = kernel;
	all.count++;
	pthread_mutex_unlock(&all.lock);
	if (result == 0)
		return kernel;
	kernel_unref(kernel);
	return NULL;
}

struct kernel *kernel_ref(struct kernel *kernel)
{
	atomic_fetch_add(&kernel->refs, 1);
	return kernel;
}

void kernel_unref(struct kernel *kernel)
{
	if (!kernel || atomic_fetch_sub(&kernel->refs, 1) > 1)
		return;
	pthread_mutex_lock(&all.lock);
	struct kernel **at = &all.first;
	while (*at != kernel)
		at = &(*at)->next;
	*at = kernel->next;
	pthread_mutex_unlock(&all.lock);
	zsock_free(kernel->shell);
	zsock_free(kernel->iopub);
	zsock_free(kernel->control);
	zsock_free(kernel->input);
	kernel_message_key_free(kernel->signs);
	remove_files(kernel);
	if (kernel->order_fd >= 0)
		close(kernel->order_fd);
	if (kernel->wake_fd >= 0)
		close(kernel->wake_fd);
	program_unref(kernel->program);
	pthread_mutex_destroy(&kernel->lock);
	free(kernel);
	pthread_mutex_lock(&all.lock);
	all.count--;
	waiter_wake(all.waiters);
	pthread_mutex_unlock(&all.lock);
}

/* How one ended that a fork server has started, that server says. */
void kernel_program_ended(void *arg, struct program *program, const struct program_status *how)
{
	struct kernel *kernel = arg;
	(void)program;
	pthread_mutex_lock(&kernel->lock);
	kernel->ended = true;
	if (how->known) {
		kernel->known = true;
		kernel->code = how->code;
		kernel->signal = how->signal;
	}
	(void)eventfd_write(kernel->wake_fd, 1);
	pthread_mutex_unlock(&kernel->lock);
	kernel_unref(kernel);
}

void kernel_report(pid_t pid, int code, int signal_number)
{
	pthread_mutex_lock(&all.lock);
	for (struct kernel *kernel = all.first; kernel; kernel = kernel->next) {
		pthread_mutex_lock(&kernel->lock);
		if (kernel->pid == pid && kernel->server && !kernel->known) {
			kernel->known = kernel->ended = true;
			kernel->code = code;
			kernel->signal = signal_number;
			(void)eventfd_write(kernel->wake_fd, 1);
		}
		pthread_mutex_unlock(&kernel->lock);
	}
	pthread_mutex_unlock(&all.lock);
}

void kernel_orphan(const void *server)
{
	pthread_mutex_lock(&all.lock);
	for (struct kernel *kernel = all.first; kernel; kernel = kernel->next) {
		pthread_mutex_lock(&kernel->lock);
		if (kernel->server == server) {
			kernel->orphan = true;
			(void)eventfd_write(kernel->wake_fd, 1);
		}
		pthread_mutex_unlock(&kernel->lock);
	}
	pthread_mutex_unlock(&all.lock);
}

void kernel_end(struct kernel *kernel)
{
	pthread_mutex_lock(&kernel->lock);
	if (kernel->program)
		program_kill(kernel->program);
	pthread_mutex_unlock(&kernel->lock);
}

void kernel_set_expendable(struct kernel *kernel, bool expendable)
{
	pthread_mutex_lock(&kernel->lock);
	if (kernel->program && !kernel->ended && kernel->expendable != expendable)
		spawn_rate(kernel->pid, expendable ? WORTH_NOTHING : WORTH_COMMAND);
	kernel->expendable = expendable;
	pthread_mutex_unlock(&kernel->lock);
}

bool kernel_ended(struct kernel *kernel)
{
	pthread_mutex_lock(&kernel->lock);
	bool ended = kernel->ended || (kernel->program && program_ended(kernel->program));
	pthread_mutex_unlock(&kernel->lock);
	return ended;
}

pid_t kernel_pid(const struct kernel *kernel)
{
	return kernel->pid;
}

const char *kernel_connection_file(const struct kernel *kernel)
{
	return kernel->file;
}

/* Locks it when it is known how it ended, or nobody may know. */
static void lock_ended(struct kernel *kernel)
{
	const struct wait wait = { clock_ms() + (kernel_ended(kernel) ? REPORT_MS : ENDING_MS), -1,
				   -1 };
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&kernel->lock);
	while (!kernel->known && !kernel->orphan && wake == WAKE_READY) {
		pthread_mutex_unlock(&kernel->lock);
		wake = wait_event(&wait, kernel->wake_fd);
		pthread_mutex_lock(&kernel->lock);
	}
}

int kernel_end_cause(struct kernel *kernel)
{
	lock_ended(kernel);
	int signal_number = kernel->signal;
	pthread_mutex_unlock(&kernel->lock);
	/* ZeroMQ aborts where it cannot have a thread. */
	return signal_number == SIGABRT ? EAGAIN : signal_number == SIGKILL ? ENOMEM : 0;
}

const char *kernel_end_text(struct kernel *kernel, char *to, size_t room)
{
	lock_ended(kernel);
	if (!kernel->known)
		snprintf(to, room, "for an unknown reason");
	else if (kernel->signal)
		snprintf(to, room, "by signal %d (%s)%s", kernel->signal,
			 sigdescr_np(kernel->signal) ? sigdescr_np(kernel->signal) : "unknown",
			 kernel->signal == SIGKILL ? ": killed by hand, or out of memory" : "");
	else
		snprintf(to, room, "with exit code %d", kernel->code);
	pthread_mutex_unlock(&kernel->lock);
	return to;
}

/* ---- speaking to it ---- */

int kernel_await(int fd, const struct wait *wait, struct err *err)
{
	enum wake wake = wait_fd(wait, fd, POLLIN);
	return wake == WAKE_TIMEOUT
		       ? err_set(err, ERR_UNAVAILABLE, "the kernel did not become ready in time")
		       : wake_err(wake, err);
}

struct zsock *kernel_open_channel(const struct kernel *kernel, enum kernel_channel channel,
				  const char *identity, struct err *err)
{
	char endpoint[160];
	snprintf(endpoint, sizeof endpoint, kernel->tcp ? "%s:%d" : "%s-%d", kernel->ip,
		 kernel->ports[channel]);
	/* What it asks on stdin it sends to the peer that the request on shell came from. */
	return zsock_connect(channel == CHANNEL_IOPUB ? ZSOCK_SUB : ZSOCK_DEALER, endpoint,
			     channel == CHANNEL_IOPUB ? "" : identity, err);
}

static struct zsock *open_channel(const struct kernel *kernel, enum kernel_channel channel,
				  struct err *err)
{
	return kernel_open_channel(kernel, channel, kernel->session, err);
}

int kernel_connect(struct kernel *kernel, struct err *err)
{
	if (!kernel->iopub)
		kernel->iopub = open_channel(kernel, CHANNEL_IOPUB, err);
	if (kernel->iopub && kernel->tcp && !kernel->input)
		kernel->input = open_channel(kernel, CHANNEL_STDIN, err);
	if (kernel->iopub && (kernel->input || !kernel->tcp) && !kernel->shell)
		kernel->shell = open_channel(kernel, CHANNEL_SHELL, err);
	return kernel->shell ? 0 : -1;
}

int kernel_send(struct kernel *kernel, struct zsock *to, const char *type, struct buf *content,
		char ret_id[64], struct err *err)
{
	struct kernel_message_out message;
	snprintf(ret_id, 64, "%s_%llu", kernel->session, (unsigned long long)++kernel->requests);
	kernel_message_make(&message, kernel->signs, kernel->session, ret_id, type, content);
	int result = zsock_send(to, message.frames, MESSAGE_FRAMES, err);
	kernel_message_out_done(&message);
	return result;
}

int kernel_interrupt(struct kernel *kernel, struct err *err)
{
	if (!kernel->by_message) {
		pthread_mutex_lock(&kernel->lock);
		if (kernel->program)
			(void)program_signal(kernel->program, SIGINT, NULL);
		pthread_mutex_unlock(&kernel->lock);
		return 0;
	}
	struct buf content = BUF(16);
	char id[64];
	(void)buf_str(&content, "{}");
	if (!kernel->control)
		kernel->control = open_channel(kernel, CHANNEL_CONTROL, err);
	if (kernel->control)
		return kernel_send(kernel, kernel->control, "interrupt_request", &content, id, err);
	buf_done(&content);
	return -1;
}
