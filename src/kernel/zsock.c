#include "kernel/zsock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "kernel/zmtp.h"
#include "net/dial.h"

enum { CONNECT_MS = 1000, SEND_MS = 10000, SEND_FRAMES = ZMTP_FRAMES_MAX };

struct zsock {
	int fd;
	bool subscribes; /* as soon as it may */
	bool drained;    /* the last time it read, there was room for more */
	struct zmtp in;
};

/* ---- connecting ---- */

static int send_all(struct zsock *sock, struct iovec *parts, size_t count)
{
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = count };
	while (msg.msg_iovlen) {
		ssize_t n = sendmsg(sock->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			if (!wait_until(sock->fd, POLLOUT, clock_ms() + SEND_MS))
				return -1;
			continue;
		}
		if (n < 0 && errno != EINTR)
			return -1;
		for (size_t left = n < 0 ? 0 : (size_t)n; msg.msg_iovlen;) {
			size_t taken = left < msg.msg_iov->iov_len ? left : msg.msg_iov->iov_len;
			msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + taken;
			msg.msg_iov->iov_len -= taken;
			left -= taken;
			if (msg.msg_iov->iov_len)
				break;
			msg.msg_iov++;
			msg.msg_iovlen--;
		}
	}
	return 0;
}

/* A kernel that takes no connections is not waited for long. */
static int connect_to(const char *endpoint, struct err *err)
{
	const struct dial_wait wait = { .all = { INT64_MAX, -1, -1 },
					.connect_ms = CONNECT_MS,
					.only_ipv4 = true };
	int port;
	if (*endpoint == '/')
		return dial_unix(endpoint, &wait, err);
	if (sscanf(endpoint, "127.0.0.1:%d", &port) == 1)
		return dial_port(port, &wait, err);
	return err_set(err, ERR_INVALID, "not an endpoint");
}

struct zsock *zsock_connect(enum zsock_type type, const char *endpoint, const char *identity,
			    struct err *err)
{
	auto_buf struct buf hello = BUF(512);
	struct zsock *sock = xcalloc(1, sizeof *sock);
	zmtp_init(&sock->in);
	sock->subscribes = type == ZSOCK_SUB;
	struct err why = { 0 };
	sock->fd = connect_to(endpoint, &why);
	if (sock->fd >= 0) {
		zmtp_hello(&hello, type == ZSOCK_SUB ? "SUB" : "DEALER", identity);
		if (send_all(sock, &(struct iovec){ hello.data, hello.len }, 1) == 0)
			return sock;
	}
	err_set(err, why.code == ERR_UNAVAILABLE ? ECONNREFUSED : ERR_UNAVAILABLE,
		"the kernel's socket %.200s", endpoint);
	zsock_free(sock);
	return NULL;
}

static void hang_up(struct zsock *sock)
{
	if (sock->fd >= 0)
		close(sock->fd);
	sock->fd = -1;
}

void zsock_free(struct zsock *sock)
{
	if (!sock)
		return;
	hang_up(sock);
	zmtp_done(&sock->in);
	free(sock);
}

int zsock_fd(const struct zsock *sock)
{
	return sock->fd;
}

uint64_t zsock_dropped(const struct zsock *sock)
{
	return sock->in.dropped;
}

/* ---- messages ---- */

/* Reads once. False when there is nothing, or nobody. */
static bool read_some(struct zsock *sock)
{
	size_t room;
	char *to = zmtp_room(&sock->in, &room);
	ssize_t n = to && !sock->in.failed ? recv(sock->fd, to, room, MSG_DONTWAIT) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (n <= 0) {
		hang_up(sock);
		return false;
	}
	zmtp_take(&sock->in, (size_t)n);
	sock->drained = (size_t)n < room;
	return true;
}

/* Until then no message comes, so none can be lost here. */
static void await_ready(struct zsock *sock)
{
	const struct text *none;
	while (!sock->in.ready && sock->fd >= 0) {
		if (!wait_until(sock->fd, POLLIN, clock_ms() + SEND_MS))
			hang_up(sock);
		else if (read_some(sock))
			(void)zmtp_next(&sock->in, &none);
	}
}

int zsock_send(struct zsock *sock, const struct text *frames, size_t count, struct err *err)
{
	unsigned char heads[SEND_FRAMES][ZMTP_HEAD_MAX];
	struct iovec parts[SEND_FRAMES * 2];
	for (size_t i = 0; i < count && i < SEND_FRAMES; i++) {
		parts[i * 2] = (struct iovec){ heads[i],
					       zmtp_head(heads[i], frames[i].len, i + 1 < count) };
		parts[i * 2 + 1] = (struct iovec){ (void *)frames[i].data, frames[i].len };
	}
	await_ready(sock);
	if (sock->fd >= 0 && count <= SEND_FRAMES && send_all(sock, parts, count * 2) == 0)
		return 0;
	hang_up(sock); /* half a message may have been sent */
	return err_set(err, ERR_UNAVAILABLE, "the kernel cannot be reached");
}

size_t zsock_recv(struct zsock *sock, const struct text **ret_frames)
{
	static const char everything[] = { 0, 1, 1 };
	for (;;) {
		size_t count = zmtp_next(&sock->in, ret_frames);
		if (count || sock->fd < 0)
			return count;
		if (sock->subscribes && sock->in.ready) {
			sock->subscribes = false;
			if (send_all(sock, &(struct iovec){ (void *)everything, sizeof everything },
				     1) < 0)
				hang_up(sock);
		} else if (sock->drained || !read_some(sock)) {
			sock->drained = false;
			return 0;
		}
	}
}
