#include "host/ward.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "net/dial.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16; older headers do not know it */
#endif

enum { PIECE = 65536, ID_MAX = 64, LINGER_MS = 1000 };

bool ward_refuse_rights(int fd)
{
	static _Atomic int known; /* 1: the kernel can, 2: it cannot, or must not for a test */
	if (!known)
		known = getenv("AIO_NO_PASSRIGHTS") || setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS,
								  &(int){ 0 }, sizeof(int)) < 0
				? 2
				: 1;
	return known == 1 &&
	       setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int)) == 0;
}

/* One stream: a is the box's socket, b our end of the pair. */
struct stream_pair {
	struct half {
		int fd;
		struct half *other;
		char *held; /* read from here, not yet written to the other */
		size_t at, len;
		bool done; /* it sends no more, and the other was told */
		bool watched;
	} a, b;
	struct stream_pair *next;
};

struct ward {
	char id[ID_MAX];
	int epoll_fd, wake_fd;
	size_t streams; /* its thread's own */
	/* Under the lock. */
	struct stream_pair *fresh;
	struct ward *next;
};

static pthread_mutex_t wards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ward *wards;

/* A half that has hung up, and that nobody wants anything of, would be told of for ever: it is out
 * until it is wanted. */
static void set_interest(struct ward *ward, struct half *half, bool hung)
{
	uint32_t want = (!half->len && !half->done ? EPOLLIN : 0) |
			(half->other->len ? EPOLLOUT : 0);
	struct epoll_event event = { want, .data.ptr = half };
	bool in = want || (half->watched && !hung);
	if (in || half->watched)
		epoll_ctl(ward->epoll_fd,
			  !in             ? EPOLL_CTL_DEL
			  : half->watched ? EPOLL_CTL_MOD
					  : EPOLL_CTL_ADD,
			  half->fd, &event);
	half->watched = in;
}

static int flush_half(struct half *from)
{
	while (from->len) {
		ssize_t n = send(from->other->fd, from->held + from->at, from->len,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		from->at += (size_t)n;
		from->len -= (size_t)n;
	}
	from->at = 0;
	return 0;
}

/* Moves what there is one way; -1 when the stream is over. This is where a box can keep its own
 * thread waiting: recv() closes the descriptors that came along. */
static int move(struct half *from)
{
	if (!from->len && !from->done) {
		ssize_t n = recv(from->fd, from->held, PIECE, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n > 0)
			from->len = (size_t)n;
		if (n == 0) {
			from->done = true;
			shutdown(from->other->fd, SHUT_WR);
		}
	}
	if (flush_half(from) < 0)
		return -1;
	return from->done && from->other->done ? -1 : 0;
}

static void pipe_free(struct stream_pair *pipe)
{
	close(pipe->a.fd);
	close(pipe->b.fd);
	free(pipe->a.held);
	free(pipe->b.held);
	free(pipe);
}

/* A process that was forked a moment ago has the descriptors too: closing them does not take them out
 * of epoll, which would go on to name what is no more. */
static void forget(struct ward *ward, const struct half *half)
{
	if (half->watched)
		epoll_ctl(ward->epoll_fd, EPOLL_CTL_DEL, half->fd, NULL);
}

static void take_fresh(struct ward *ward)
{
	eventfd_t ignored;
	(void)eventfd_read(ward->wake_fd, &ignored);
	pthread_mutex_lock(&wards_lock);
	struct stream_pair *fresh = ward->fresh;
	ward->fresh = NULL;
	pthread_mutex_unlock(&wards_lock);
	for (struct stream_pair *pipe = fresh, *next; pipe; pipe = next) {
		next = pipe->next;
		ward->streams++;
		set_interest(ward, &pipe->a, false);
		set_interest(ward, &pipe->b, false);
	}
}

/* Whether it was ended: no stream is on the way to it. */
static bool end_ward(struct ward *ward)
{
	pthread_mutex_lock(&wards_lock);
	bool over = !ward->fresh;
	struct ward **at = &wards;
	while (over && *at != ward)
		at = &(*at)->next;
	if (over)
		*at = ward->next;
	pthread_mutex_unlock(&wards_lock);
	if (!over)
		return false;
	close(ward->epoll_fd);
	close(ward->wake_fd);
	free(ward);
	return true;
}

static void attend(struct ward *ward, struct half *half, uint32_t events)
{
	bool over = move(half) < 0 || move(half->other) < 0;
	bool hung = events & (EPOLLHUP | EPOLLERR);
	if (over || (hung && !half->other->len && half->done)) {
		size_t at = half->other > half ? offsetof(struct stream_pair, a)
					       : offsetof(struct stream_pair, b);
		forget(ward, half);
		forget(ward, half->other);
		pipe_free((struct stream_pair *)((char *)half - at));
		ward->streams--;
		return;
	}
	set_interest(ward, half, hung);
	set_interest(ward, half->other, false);
}

static void *watch_box(void *arg)
{
	struct ward *ward = arg;
	for (;;) {
		struct epoll_event
			event; /* one at a time: a stream that ends names both its halves */
		int n = epoll_wait(ward->epoll_fd, &event, 1, ward->streams ? -1 : LINGER_MS);
		if (n == 0 && !ward->streams && end_ward(ward))
			return NULL;
		if (n == 1 && event.data.ptr)
			attend(ward, event.data.ptr, event.events);
		else if (n == 1)
			take_fresh(ward);
	}
}

/* Under the lock. */
static struct ward *ward_of(const char *id, struct err *err)
{
	struct ward *ward = wards;
	while (ward && strcmp(ward->id, id) != 0)
		ward = ward->next;
	if (ward)
		return ward;
	struct epoll_event wake = { EPOLLIN, .data.ptr = NULL };
	ward = xcalloc(1, sizeof *ward);
	snprintf(ward->id, sizeof ward->id, "%s", id);
	ward->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ward->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool ok = epoll_ctl(ward->epoll_fd, EPOLL_CTL_ADD, ward->wake_fd, &wake) == 0;
	ok = ok && thread_start(watch_box, ward) == 0;
	if (ok) {
		ward->next = wards;
		wards = ward;
		return ward;
	}
	err_set(err, ERR_UNAVAILABLE, "no thread for the streams of '%s'", id);
	own_close(&ward->epoll_fd);
	own_close(&ward->wake_fd);
	free(ward);
	return NULL;
}

int ward_open(const char *id, int fd, struct err *err)
{
	auto_close int box = fd;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_UNAVAILABLE, "no socket for a stream");
	struct stream_pair *pipe = xcalloc(1, sizeof *pipe);
	pipe->a = (struct half){ .fd = TAKE_FD(box), .other = &pipe->b, .held = xmalloc(PIECE) };
	pipe->b = (struct half){ .fd = pair[0], .other = &pipe->a, .held = xmalloc(PIECE) };
	pthread_mutex_lock(&wards_lock);
	struct ward *ward = ward_of(id, err);
	if (ward) {
		pipe->next = ward->fresh;
		ward->fresh = pipe;
		(void)eventfd_write(ward->wake_fd, 1);
	}
	pthread_mutex_unlock(&wards_lock);
	if (ward)
		return pair[1];
	pipe_free(pipe);
	close(pair[1]);
	return -1;
}

/* Before it is connected: no descriptor may ever wait in it. */
static void refuse_rights(int fd, void *safe)
{
	*(bool *)safe = ward_refuse_rights(fd);
}

int ward_dial(const struct sockaddr_un *to, const char *id)
{
	bool safe = false;
	struct err err;
	int fd = dial_at_once(to, refuse_rights, &safe);
	if (fd < 0 || safe)
		return fd;
	int inner = ward_open(id, fd, &err);
	if (inner < 0)
		errno = EMFILE;
	return inner;
}
