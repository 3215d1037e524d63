#include "net/dial.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
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

static void sockets(void)
{
	const struct dial_wait wait = { .connect_ms = 50 };
	struct err err;
	char longer[200] = "/";
	memset(longer + 1, 'a', sizeof longer - 2);
	CHECK(dial_unix(path, NULL, &err) < 0 && err.code == ERR_UNAVAILABLE);
	CHECK(dial_unix(longer, NULL, &err) < 0 && err.code == ERR_INVALID);
	int server = listen_unix(0), first = dial_unix(path, &wait, &err);
	CHECK(first >= 0);
	/* Nobody accepts, and there is no room for another. */
	CHECK(dial_unix(path, &wait, &err) < 0 && err.code == ERR_SLOW);
	close(first);
	close(server);
	unlink(path);
}

static bool is_over(void *arg)
{
	return *(bool *)arg;
}

/* A server that says nothing is waited for as long as the caller says. */
static void deadlines(void)
{
	struct client client;
	struct err err;
	const struct client_request ask = { "GET", "/" };
	int server = listen_unix(8);
	const struct dial_wait soon = { .until_ms = clock_ms() + 50 };
	CHECK(client_open(&client, url, &soon, &err) == 0);
	CHECK(client_ask(&client, &ask, &err) < 0 && err.code == ERR_SLOW);
	client_close(&client);
	bool left = true;
	const struct dial_wait nobody = { .over = is_over, .arg = &left };
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
	rmdir(dir);
	return tap_done();
}
