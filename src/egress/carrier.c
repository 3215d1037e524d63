#include "egress/carrier.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/wait.h"
#include "egress/egress.h"
#include "egress/rules.h"
#include "net/dial.h"

enum { CONNECT_MS = 15000, FORWARD_MS = 3000, SERVERS_MAX = 3 };

/* What is asked; with it comes the stream to answer by. */
struct carrier_ask {
	uint32_t port; /* 0: the data is a DNS query, else a name */
	char data[CARRIER_DATAGRAM];
};

/* Comes first on the stream to a name. */
struct verdict {
	bool connected;
	char why[CARRIER_WHY];
};

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

/* --- asking ---------------------------------------------------------------------------------- */

/* Returns the stream that the answer comes by. */
static int ask(int carrier, uint32_t port, const void *data, size_t len)
{
	int pair[2];
	union control control = { .head = { .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec parts[] = { { &port, sizeof port }, { (void *)data, len } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = COUNT(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	auto_close int mine = pair[0], its = pair[1];
	memcpy(CMSG_DATA(&control.head), &its, sizeof its);
	return sendmsg(carrier, &message, MSG_NOSIGNAL) < 0 ? -1 : TAKE_FD(mine);
}

int carrier_connect(int carrier, const char *name, unsigned port, char why[CARRIER_WHY])
{
	struct verdict verdict = { 0 };
	auto_close int fd = ask(carrier, port, name, strlen(name));
	why[0] = 0;
	if (fd < 0 || recv(fd, &verdict, sizeof verdict, MSG_WAITALL) != sizeof verdict)
		return -1;
	memcpy(why, verdict.why, CARRIER_WHY);
	why[CARRIER_WHY - 1] = 0;
	return verdict.connected && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 ? TAKE_FD(fd) : -1;
}

size_t carrier_resolve(int carrier, const uint8_t *query, size_t len, uint8_t *to)
{
	auto_close int fd = ask(carrier, 0, query, len);
	ssize_t n = fd < 0 ? 0 : recv(fd, to, CARRIER_DATAGRAM, MSG_WAITALL);
	return n > 0 ? (size_t)n : 0;
}

/* --- carrying -------------------------------------------------------------------------------- */

struct carrier {
	const struct rules *rules;
	bool forward;
	_Atomic int errands;
};

struct errand {
	struct carrier *carrier;
	int answer;
	size_t len; /* of the data */
	struct carrier_ask ask;
};

/* Not blocking, for egress_copy(). */
static int connect_to(const struct sockaddr_in *to)
{
	const struct dial_wait wait = { .all = { INT64_MAX, -1, -1 }, .connect_ms = CONNECT_MS };
	auto_close int fd = dial_address(to, &wait, NULL);
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	return TAKE_FD(fd);
}

/* What is sent to an address of the machine itself comes from there. */
static bool is_own(const struct sockaddr_in *to)
{
	struct sockaddr_in from = { 0 };
	socklen_t len = sizeof from;
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	return connect(fd, (const void *)to, sizeof *to) == 0 &&
	       getsockname(fd, (void *)&from, &len) == 0 &&
	       from.sin_addr.s_addr == to->sin_addr.s_addr;
}

/* Why an address may not be called; NULL: it may. */
static const char *why_closed(const struct rules *rules, const struct sockaddr_in *to)
{
	uint32_t address = ntohl(to->sin_addr.s_addr);
	if (rules_opened(rules, address))
		return NULL;
	return !rules_address(rules, address) ? "its address is not a public one"
	       : is_own(to)                   ? "its address is the machine's own"
					      : NULL;
}

/* The name is resolved once: what was looked at is what is connected to. */
static int dial_name(const struct rules *rules, const char *name, unsigned port, const char **why)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list = NULL;
	int fd = -1;
	if (!rules_allow(rules, name, port) || getaddrinfo(name, NULL, &hints, &list) != 0)
		return -1;
	for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
		struct sockaddr_in to = *(struct sockaddr_in *)(void *)at->ai_addr;
		to.sin_port = htons((uint16_t)port);
		const char *closed = why_closed(rules, &to);
		if (closed)
			*why = closed;
		else
			fd = connect_to(&to);
	}
	freeaddrinfo(list);
	return fd;
}

static void carry(const struct errand *errand)
{
	struct verdict verdict = { 0 };
	const char *why = "";
	auto_close int server =
		dial_name(errand->carrier->rules, errand->ask.data, errand->ask.port, &why);
	verdict.connected = server >= 0;
	if (server < 0)
		snprintf(verdict.why, sizeof verdict.why, "%s", why);
	if (send(errand->answer, &verdict, sizeof verdict, MSG_NOSIGNAL) == sizeof verdict &&
	    server >= 0 && fcntl(errand->answer, F_SETFL, O_NONBLOCK) == 0)
		egress_copy(errand->answer, server);
}

/* The machine's own servers. */
static size_t read_servers(struct sockaddr_in *to)
{
	char line[256], text[64];
	size_t count = 0;
	FILE *file = fopen("/etc/resolv.conf", "re");
	while (file && count < SERVERS_MAX && fgets(line, sizeof line, file)) {
		struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(53) };
		if (sscanf(line, "nameserver %63s", text) == 1 &&
		    inet_pton(AF_INET, text, &server.sin_addr) == 1)
			to[count++] = server;
	}
	if (file)
		fclose(file);
	return count;
}

static void forward(const struct errand *errand)
{
	struct sockaddr_in servers[SERVERS_MAX];
	uint8_t answer[CARRIER_DATAGRAM];
	size_t count = read_servers(servers);
	for (size_t i = 0; i < count; i++) {
		auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (void *)&servers[i], sizeof servers[i]) < 0 ||
		    send(fd, errand->ask.data, errand->len, 0) < 0 ||
		    !wait_until(fd, POLLIN, clock_ms() + FORWARD_MS))
			continue;
		ssize_t n = recv(fd, answer, sizeof answer, 0);
		if (n < 12 || memcmp(answer, errand->ask.data, 2) != 0)
			continue;
		(void)!send(errand->answer, answer, (size_t)n, MSG_NOSIGNAL);
		return;
	}
}

static void end(struct errand *errand)
{
	close(errand->answer);
	errand->carrier->errands--;
	free(errand);
}

static void *run(void *arg)
{
	struct errand *errand = arg;
	bool named = memchr(errand->ask.data, 0, sizeof errand->ask.data) != NULL;
	if (errand->ask.port && named)
		carry(errand);
	else if (!errand->ask.port && errand->carrier->forward && errand->len >= 2)
		forward(errand);
	end(errand);
	return NULL;
}

/* -1: nobody can ask any more. */
static int receive(int asked, struct errand *errand)
{
	union control control;
	struct iovec part = { &errand->ask, sizeof errand->ask };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	ssize_t n = recvmsg(asked, &message, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return n < 0 && errno == EINTR ? 0 : -1;
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&errand->answer, CMSG_DATA(head), sizeof(int));
	errand->len = (size_t)n - offsetof(struct carrier_ask, data);
	return (size_t)n < offsetof(struct carrier_ask, data) ? -1 : 0;
}

void carrier_run(const struct rules *rules, bool forwards, int asked)
{
	struct carrier carrier = { .rules = rules, .forward = forwards };
	for (;;) {
		struct errand *errand = xcalloc(1, sizeof *errand);
		*errand = (struct errand){ .carrier = &carrier, .answer = -1 };
		carrier.errands++;
		if (receive(asked, errand) < 0)
			_exit(0); /* its threads are at work still */
		if (errand->answer < 0 || carrier.errands > EGRESS_CONNECTIONS ||
		    thread_start(run, errand) != 0)
			end(errand);
	}
}
