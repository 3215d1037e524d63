#include "net/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/url.h"
#include "net/tls.h"

enum { CONNECT_MS = 10000, SLICE_MS = 100 };

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
	return a_ms < b_ms ? a_ms : b_ms;
}

/* Whether the caller has given up. */
static bool over(const struct dial_wait *wait)
{
	if (!wait)
		return false;
	const struct wait look = { 0, wait->all.client_fd, wait->all.stop_fd };
	return (wait->over && wait->over(wait->arg)) || wait_fd(&look, -1, 0) != WAKE_TIMEOUT;
}

/* Of a step on the way to a stream. */
static int64_t deadline(const struct dial_wait *wait)
{
	int64_t step_ms = clock_ms() + (wait && wait->connect_ms ? wait->connect_ms : CONNECT_MS);
	return wait ? earlier(step_ms, wait->all.until_ms) : step_ms;
}

int dial_await(int fd, short events, const struct dial_wait *wait, int64_t until_ms,
	       struct err *err)
{
	struct wait slice = wait ? wait->all : (struct wait){ INT64_MAX, -1, -1 };
	until_ms = earlier(until_ms, slice.until_ms);
	enum wake wake;
	do {
		slice.until_ms = wait && wait->over ? earlier(until_ms, clock_ms() + SLICE_MS)
						    : until_ms;
		wake = wait_fd(&slice, fd, events);
	} while (wake == WAKE_TIMEOUT && slice.until_ms < until_ms && !over(wait));
	return wake == WAKE_READY ? 0 : err_set(err, ERR_SLOW, "no response in time");
}

int dial_send(int fd, const char *data, size_t len, const struct dial_wait *wait, struct err *err)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && dial_await(fd, POLLOUT, wait, INT64_MAX, err) < 0)
			return -1;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_set(err, ERR_GONE, "the server is gone");
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* --- names ------------------------------------------------------------------------------------
 * A look-up cannot be given up; so a thread does it, and who asked may leave first. */

struct look_up {
	_Atomic int refs;
	int done_fd;
	char host[URL_HOST_MAX + 1], port[8];
	int failed;
	struct addrinfo *found;
};

static void look_up_unref(struct look_up *look)
{
	if (atomic_fetch_sub(&look->refs, 1) > 1)
		return;
	if (look->found)
		freeaddrinfo(look->found);
	own_close(&look->done_fd);
	free(look);
}

static void *look_up_run(void *arg)
{
	struct look_up *look = arg;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	look->failed = getaddrinfo(look->host, look->port, &hints, &look->found);
	(void)eventfd_write(look->done_fd, 1);
	look_up_unref(look);
	return NULL;
}

/* An address, for which nobody is asked. */
static bool look_up_number(struct look_up *look)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	return getaddrinfo(look->host, look->port, &hints, &look->found) == 0;
}

static int look_up_start(struct look_up *look, struct err *err)
{
	look->refs++;
	int failed = look->done_fd < 0 ? errno : thread_start(look_up_run, look);
	if (failed)
		look->refs--;
	return failed ? err_set(err, ERR_LIMIT, "'%s' cannot be looked up: %s", look->host,
				strerror(failed))
		      : 0;
}

static struct look_up *find(const struct url_parts *url, const struct dial_wait *wait,
			    int64_t until_ms, struct err *err)
{
	struct look_up *look = xcalloc(1, sizeof *look);
	look->refs = 1;
	look->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(look->host, sizeof look->host, "%s", url->host);
	snprintf(look->port, sizeof look->port, "%d", url->port);
	if (look_up_number(look))
		return look;
	if (look_up_start(look, err) == 0 &&
	    dial_await(look->done_fd, POLLIN, wait, until_ms, err) == 0) {
		eventfd_t ignored;
		(void)eventfd_read(look->done_fd, &ignored);
		if (!look->failed)
			return look;
		err_set(err, ERR_UNAVAILABLE, "'%s': %s", url->host, gai_strerror(look->failed));
	}
	look_up_unref(look);
	return NULL;
}

/* --- connecting ------------------------------------------------------------------------------ */

static int set_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static int connect_to(const struct sockaddr *to, socklen_t len, const struct dial_wait *wait,
		      int64_t until_ms, struct err *err)
{
	auto_close int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int code = 0;
	socklen_t room = sizeof code;
	if (fd < 0)
		return err_set(err, errno, "a socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (connect(fd, to, len) < 0 && errno != EINPROGRESS)
		return err_set(err, errno, "connect");
	if (dial_await(fd, POLLOUT, wait, until_ms, err) < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &room) < 0 || code || set_blocking(fd) < 0)
		return err_set(err, code ? code : errno, "connect");
	return TAKE_FD(fd);
}

static int failed(const char *where, const struct err *why, struct err *err)
{
	bool slow = why->code == ERR_SLOW, none = why->code == EMFILE || why->code == ENFILE;
	return err_set(err,
		       slow   ? ERR_SLOW
		       : none ? ERR_LIMIT
			      : ERR_UNAVAILABLE,
		       "cannot connect to %s: %s", where,
		       slow ? "it did not answer in time" : strerror(why->code));
}

int dial(const struct url_parts *url, const struct dial_wait *wait, struct err *err)
{
	int64_t until_ms = deadline(wait);
	struct look_up *look = find(url, wait, until_ms, err);
	struct err why = { 0 };
	int fd = -1;
	if (!look)
		return -1;
	for (const struct addrinfo *at = look->found; at && fd < 0; at = at->ai_next)
		fd = connect_to(at->ai_addr, at->ai_addrlen, wait, until_ms, &why);
	look_up_unref(look);
	return fd < 0 ? failed(url->authority, &why, err) : fd;
}

int dial_port(int port, const struct dial_wait *wait, struct err *err)
{
	const struct sockaddr_in in = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)port),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int64_t until_ms = deadline(wait);
	char where[16];
	struct err why;
	int fd = connect_to((const struct sockaddr *)&in, sizeof in, wait, until_ms, &why);
	if (fd < 0 && why.code != ERR_SLOW && !(wait && wait->only_ipv4))
		fd = connect_to((const struct sockaddr *)&in6, sizeof in6, wait, until_ms, &why);
	snprintf(where, sizeof where, "port %d", port);
	return fd < 0 ? failed(where, &why, err) : fd;
}

/* One whose queue is full cannot be waited for by poll(): connect() itself waits, a slice at a time.
 * 0, or the code of an error. */
static int connect_unix(int fd, const struct sockaddr_un *to, const struct dial_wait *wait)
{
	struct timeval most = { .tv_usec = SLICE_MS * 1000 }, none = { 0 };
	int64_t until_ms = deadline(wait);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) < 0)
		return errno;
	while (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		if (over(wait) || clock_ms() >= until_ms)
			return ERR_SLOW;
	}
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none) < 0 ? errno : 0;
}

int dial_unix(const char *path, const struct dial_wait *wait, struct err *err)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct err why = { 0 };
	if (strlen(path) >= sizeof to.sun_path)
		return err_set(err, ERR_INVALID, "the path of the Unix socket is too long");
	memcpy(to.sun_path, path, strlen(path));
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	why.code = fd < 0 ? errno : connect_unix(fd, &to, wait);
	return why.code ? failed(path, &why, err) : TAKE_FD(fd);
}

int dial_address(const struct sockaddr_in *to, const struct dial_wait *wait, struct err *err)
{
	return connect_to((const struct sockaddr *)to, sizeof *to, wait, deadline(wait), err);
}

int dial_at_once(const struct sockaddr_un *to, void (*before)(int fd, void *arg), void *arg)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (before)
		before(fd, arg);
	return connect(fd, (const struct sockaddr *)to, sizeof *to) < 0 ? -1 : TAKE_FD(fd);
}

int dial_tls(int fd, const char *host, const struct dial_wait *wait, struct err *err)
{
	return tls_connect(fd, host, wait, deadline(wait), err);
}
