#include "net/dial.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/client.h"
#include "tap.h"

static char dir[] = "/tmp/aio-dial-XXXXXX", path[64], url[80];

static int listen_unix(int backlog)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, backlog) == 0);
	return fd;
}

static void ports(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	struct err err;
	int server = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(server, (struct sockaddr *)&in, sizeof in) == 0);
	CHECK(getsockname(server, (struct sockaddr *)&in, &len) == 0);
	CHECK(dial_port(ntohs(in.sin_port), NULL, &err) < 0 && err.code == ERR_UNAVAILABLE);
	CHECK(listen(server, 1) == 0);
	int fd = dial_port(ntohs(in.sin_port), NULL, &err);
	CHECK(fd >= 0);
	close(fd);
	close(server);
}

static bool is_over(void *arg)
{
	return *(bool *)arg;
}

/* One whose queue is full. */
static bool is_slow(const struct dial_wait *wait)
{
	struct err err;
	int64_t began_ms = clock_ms();
	return dial_unix(path, wait, &err) < 0 && err.code == ERR_SLOW &&
	       clock_ms() < began_ms + 8000;
}

static void sockets(void)
{
	bool left = true;
	int caller[2];
	const struct dial_wait wait = { .all = { INT64_MAX, -1, -1 }, .connect_ms = 50 };
	struct err err;
	char longer[200] = "/";
	memset(longer + 1, 'a', sizeof longer - 2);
	CHECK(dial_unix(path, NULL, &err) < 0 && err.code == ERR_UNAVAILABLE);
	CHECK(dial_unix(longer, NULL, &err) < 0 && err.code == ERR_INVALID);
	int server = listen_unix(0), first = dial_unix(path, &wait, &err);
	CHECK(first >= 0);
	/* Nobody accepts, and there is no room for another. */
	CHECK(is_slow(&wait));
	CHECK(is_slow(&(struct dial_wait){ .all = { clock_ms() + 50, -1, -1 } }));
	CHECK(is_slow(&(struct dial_wait){
		.all = { INT64_MAX, -1, -1 }, .over = is_over, .arg = &left }));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, caller) == 0 && close(caller[1]) == 0);
	CHECK(is_slow(&(struct dial_wait){ .all = { INT64_MAX, caller[0], -1 } }));
	close(caller[0]);
	close(first);
	close(server);
	unlink(path);
}

/* Sends a large file to a server that reads nothing. */
static void file(void)
{
	enum { SIZE = 64 << 20 };
	struct client client;
	struct err err;
	int server = listen_unix(8), fd = memfd_create("large", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
	const struct client_file large = { fd, SIZE, "" };
	const struct client_request ask = { "PUT", "/", .body = "", .file = &large };
	const struct dial_wait soon = { .all = { clock_ms() + 50, -1, -1 } };
	CHECK(client_open(&client, url, &soon, &err) == 0);
	CHECK(client_ask(&client, &ask, &err) < 0 && err.code == ERR_SLOW);
	client_close(&client);
	close(fd);
	close(server);
	unlink(path);
}

/* A server that says nothing is waited for as long as the caller says. */
static void deadlines(void)
{
	struct client client;
	struct err err;
	const struct client_request ask = { "GET", "/" };
	int server = listen_unix(8);
	const struct dial_wait soon = { .all = { clock_ms() + 50, -1, -1 } };
	CHECK(client_open(&client, url, &soon, &err) == 0);
	CHECK(client_ask(&client, &ask, &err) < 0 && err.code == ERR_SLOW);
	client_close(&client);
	bool left = true;
	const struct dial_wait nobody = { .all = { INT64_MAX, -1, -1 },
					  .over = is_over,
					  .arg = &left };
	CHECK(client_open(&client, url, &nobody, &err) == 0);
	CHECK(client_ask(&client, &ask, &err) < 0 && err.code == ERR_SLOW);
	client_close(&client);
	close(server);
	unlink(path);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/s", dir);
	snprintf(url, sizeof url, "unix:%s", path);
	ports();
	sockets();
	deadlines();
	file();
	rmdir(dir);
	return tap_done();
}
