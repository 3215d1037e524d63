#include "kernel/zsock.h"

#include <errno.h>
#include <pthread.h>
#include <zmq.h>

#include "base/err.h"
#include "base/library.h"
#include "base/own.h"

static struct {
	__typeof__(zmq_ctx_new) *ctx_new;
	__typeof__(zmq_ctx_term) *ctx_term;
	__typeof__(zmq_socket) *socket;
	__typeof__(zmq_close) *close;
	__typeof__(zmq_connect) *connect;
	__typeof__(zmq_setsockopt) *setsockopt;
	__typeof__(zmq_getsockopt) *getsockopt;
	__typeof__(zmq_send) *send;
	__typeof__(zmq_msg_init) *msg_init;
	__typeof__(zmq_msg_recv) *msg_recv;
	__typeof__(zmq_msg_data) *msg_data;
	__typeof__(zmq_msg_size) *msg_size;
	__typeof__(zmq_msg_more) *msg_more;
	__typeof__(zmq_msg_close) *msg_close;
	__typeof__(zmq_strerror) *strerror;
	__typeof__(zmq_errno) *error;
} zmq;

static const struct library_symbol symbols[] = {
	{ "zmq_ctx_new", &zmq.ctx_new },       { "zmq_ctx_term", &zmq.ctx_term },
	{ "zmq_socket", &zmq.socket },         { "zmq_close", &zmq.close },
	{ "zmq_connect", &zmq.connect },       { "zmq_setsockopt", &zmq.setsockopt },
	{ "zmq_getsockopt", &zmq.getsockopt }, { "zmq_send", &zmq.send },
	{ "zmq_msg_init", &zmq.msg_init },     { "zmq_msg_recv", &zmq.msg_recv },
	{ "zmq_msg_data", &zmq.msg_data },     { "zmq_msg_size", &zmq.msg_size },
	{ "zmq_msg_more", &zmq.msg_more },     { "zmq_msg_close", &zmq.msg_close },
	{ "zmq_strerror", &zmq.strerror },     { "zmq_errno", &zmq.error },
};
static struct library library = LIBRARY("libzmq.so.5", "libzmq5", symbols);

static struct {
	pthread_mutex_t lock;
	void *context;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct zsock {
	void *socket;
	int fd;
	zmq_msg_t messages[ZSOCK_FRAMES_MAX];
	struct text frames[ZSOCK_FRAMES_MAX];
	size_t count;
};

static void *context(struct err *err)
{
	if (library_load(&library, err) < 0)
		return NULL;
	pthread_mutex_lock(&shared.lock);
	if (!shared.context)
		shared.context = zmq.ctx_new();
	void *result = shared.context;
	pthread_mutex_unlock(&shared.lock);
	if (!result)
		err_set(err, ERR_LIMIT, "no ZeroMQ: %s", zmq.strerror(zmq.error()));
	return result;
}

static int set(struct zsock *sock, int option, int value)
{
	return zmq.setsockopt(sock->socket, option, &value, sizeof value);
}

static int set_up(struct zsock *sock, enum zsock_type type, const char *endpoint)
{
	const int64_t most = ZSOCK_FRAME_MAX;
	size_t size = sizeof sock->fd;
	if (set(sock, ZMQ_LINGER, 0) < 0 || set(sock, ZMQ_RCVHWM, ZSOCK_QUEUE) < 0 ||
	    set(sock, ZMQ_RECONNECT_IVL, 10) < 0 ||
	    zmq.setsockopt(sock->socket, ZMQ_MAXMSGSIZE, &most, sizeof most) < 0 ||
	    (type == ZSOCK_SUB && zmq.setsockopt(sock->socket, ZMQ_SUBSCRIBE, "", 0) < 0))
		return -1;
	return zmq.connect(sock->socket, endpoint) < 0
		       ? -1
		       : zmq.getsockopt(sock->socket, ZMQ_FD, &sock->fd, &size);
}

struct zsock *zsock_connect(enum zsock_type type, const char *endpoint, struct err *err)
{
	void *in = context(err);
	if (!in)
		return NULL;
	struct zsock *sock = xcalloc(1, sizeof *sock);
	sock->socket = zmq.socket(in, type == ZSOCK_SUB ? ZMQ_SUB : ZMQ_DEALER);
	if (sock->socket && set_up(sock, type, endpoint) == 0)
		return sock;
	err_set(err, ERR_LIMIT, "no ZeroMQ socket to %.200s: %s", endpoint,
		zmq.strerror(zmq.error()));
	zsock_free(sock);
	return NULL;
}

static void forget(struct zsock *sock)
{
	for (size_t i = 0; i < sock->count; i++)
		zmq.msg_close(&sock->messages[i]);
	sock->count = 0;
}

void zsock_free(struct zsock *sock)
{
	if (!sock)
		return;
	forget(sock);
	if (sock->socket)
		zmq.close(sock->socket);
	free(sock);
}

int zsock_fd(const struct zsock *sock)
{
	return sock->fd;
}

int zsock_send(struct zsock *sock, const struct text *frames, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
		while (zmq.send(sock->socket, frames[i].data, frames[i].len, flags) < 0)
			if (zmq.error() != EINTR)
				return err_set(err, ERR_UNAVAILABLE,
					       "the kernel cannot be reached: %s",
					       zmq.strerror(zmq.error()));
	}
	return 0;
}

/* Takes one frame, if there is one, and says whether another of its message follows. */
static bool take(struct zsock *sock, zmq_msg_t *to, bool *ret_more)
{
	zmq.msg_init(to);
	int n;
	do
		n = zmq.msg_recv(to, sock->socket, ZMQ_DONTWAIT);
	while (n < 0 && zmq.error() == EINTR);
	*ret_more = n >= 0 && zmq.msg_more(to);
	if (n < 0)
		zmq.msg_close(to);
	return n >= 0;
}

size_t zsock_recv(struct zsock *sock, const struct text **ret_frames)
{
	zmq_msg_t extra;
	bool more = true, dropped = false;
	forget(sock);
	*ret_frames = sock->frames;
	while (more) { /* the frames of a message come all at once */
		dropped = sock->count == ZSOCK_FRAMES_MAX;
		zmq_msg_t *to = dropped ? &extra : &sock->messages[sock->count];
		if (!take(sock, to, &more))
			break;
		if (dropped) {
			zmq.msg_close(to);
			if (!more) {
				forget(sock);
				more = true;
			}
			continue;
		}
		sock->frames[sock->count++] = (struct text){ zmq.msg_data(to), zmq.msg_size(to) };
	}
	return sock->count;
}

void zsock_end(void)
{
	pthread_mutex_lock(&shared.lock);
	if (shared.context)
		zmq.ctx_term(shared.context);
	shared.context = NULL;
	pthread_mutex_unlock(&shared.lock);
}
