/* What reads and writes streams here does so on descriptors. So a thread carries a TLS stream to one end
 * of a pair of sockets, and the other end is all that anybody else knows of it. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "net/dial.h"

enum { PIECE = 16384 };

/* --- the handshake --------------------------------------------------------------------------- */

static SSL_CTX *context;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	context = SSL_CTX_new(TLS_client_method());
	if (!context)
		return;
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_default_verify_paths(context);
}

/* A name is sent and must be in the certificate; an address must be in it, and is not sent. */
static bool set_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static int refuse(SSL *ssl, const char *host, struct err *err)
{
	long verified = SSL_get_verify_result(ssl);
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;
	if (verified != X509_V_OK)
		return err_set(err, ERR_UNAVAILABLE, "the certificate of %s is not valid: %s", host,
			       X509_verify_cert_error_string(verified));
	return err_set(err, ERR_UNAVAILABLE, "no TLS with %s: %s", host,
		       reason ? reason : "it hung up");
}

/* What poll() has to wait for; 0: nothing, it failed or is over. */
static short wanted(SSL *ssl, int result)
{
	int error = SSL_get_error(ssl, result);
	return error == SSL_ERROR_WANT_READ ? POLLIN : error == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
}

static int shake_hands(SSL *ssl, int fd, const char *host, const struct dial_wait *wait,
		       int64_t until_ms, struct err *err)
{
	if (!set_host(ssl, host) || !SSL_set_fd(ssl, fd))
		return err_set(err, ERR_INTERNAL, "no TLS for %s", host);
	for (int result; (result = SSL_connect(ssl)) != 1;) {
		short events = wanted(ssl, result);
		if (!events)
			return refuse(ssl, host, err);
		if (dial_await(fd, events, wait, until_ms, err) < 0)
			return err_set(err, err->code, "TLS with %s took too long", host);
		ERR_clear_error();
	}
	return 0;
}

/* --- the stream ------------------------------------------------------------------------------ */

/* Bytes on their way in one direction. */
struct way {
	char data[PIECE];
	size_t at, len;
};

struct tls_stream {
	SSL *ssl;
	int net, local;
	bool over;
	struct way in, out;
};

static void stream_free(struct tls_stream *stream)
{
	SSL_free(stream->ssl);
	own_close(&stream->net);
	own_close(&stream->local);
	free(stream);
}

static bool taken(struct way *way, ssize_t n)
{
	way->at = 0;
	way->len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static bool given(struct way *way, ssize_t n)
{
	way->at += n > 0 ? (size_t)n : 0;
	way->len -= n > 0 ? (size_t)n : 0;
	return n > 0;
}

/* After a call of the TLS stream, or of ours, that moved nothing: what to wait for. */
static short net_waits(struct tls_stream *s, int result)
{
	short events = wanted(s->ssl, result);
	s->over = s->over || !events;
	return events;
}

static short local_waits(struct tls_stream *s, ssize_t n, short events)
{
	bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
	s->over = s->over || !later;
	return later ? events : 0;
}

/* From the server to us. Whether something moved. */
static bool carry_in(struct tls_stream *s, struct pollfd *net, struct pollfd *local)
{
	bool moved = false;
	if (!s->in.len) {
		ERR_clear_error();
		int n = SSL_read(s->ssl, s->in.data, PIECE);
		moved = taken(&s->in, n);
		net->events |= moved ? 0 : net_waits(s, n);
	}
	if (s->in.len) {
		ssize_t n = send(s->local, s->in.data + s->in.at, s->in.len,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		moved = given(&s->in, n);
		local->events |= moved ? 0 : local_waits(s, n, POLLOUT);
	}
	return moved;
}

/* From us to the server. */
static bool carry_out(struct tls_stream *s, struct pollfd *net, struct pollfd *local)
{
	bool moved = false;
	if (!s->out.len) {
		ssize_t n = recv(s->local, s->out.data, PIECE, MSG_DONTWAIT);
		moved = taken(&s->out, n);
		local->events |= moved ? 0 : local_waits(s, n, POLLIN);
	}
	if (s->out.len) {
		ERR_clear_error();
		int n = SSL_write(s->ssl, s->out.data + s->out.at, (int)s->out.len);
		moved = given(&s->out, n);
		net->events |= moved ? 0 : net_waits(s, n);
	}
	return moved;
}

/* Until one of the two ends it. What is closed is closed for both: nobody here closes by halves. */
static void *carry(void *arg)
{
	struct tls_stream *s = arg;
	while (!s->over) {
		struct pollfd pfds[] = { { .fd = s->net }, { .fd = s->local } };
		bool in = carry_in(s, &pfds[0], &pfds[1]);
		bool out = !s->over && carry_out(s, &pfds[0], &pfds[1]);
		if (in || out || s->over)
			continue;
		if (!pfds[0].events)
			pfds[0].fd = -1; /* or its hanging up would be told again and again */
		(void)poll(pfds, COUNT(pfds), -1);
		if (pfds[1].revents & (POLLHUP | POLLERR))
			break;
	}
	(void)SSL_shutdown(s->ssl);
	stream_free(s);
	OPENSSL_thread_stop();
	return NULL;
}

int tls_connect(int fd, const char *host, const struct dial_wait *wait, int64_t until_ms,
		struct err *err)
{
	int pair[2] = { -1, -1 };
	struct tls_stream *stream = xcalloc(1, sizeof *stream);
	stream->net = fd;
	stream->local = -1;
	pthread_once(&prepared, prepare);
	stream->ssl = context ? SSL_new(context) : NULL;
	int result = stream->ssl && fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0
			     ? shake_hands(stream->ssl, fd, host, wait, until_ms, err)
			     : err_set(err, ERR_INTERNAL, "no TLS here");
	if (result == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		result = err_set(err, ERR_LIMIT, "no sockets for TLS: %s", strerror(errno));
	stream->local = pair[1];
	int failed = result == 0 ? thread_start(carry, stream) : 0;
	if (failed)
		result = err_set(err, ERR_LIMIT, "no thread for TLS: %s", strerror(failed));
	if (result == 0)
		return pair[0];
	stream_free(stream);
	own_close(&pair[0]);
	return -1;
}
