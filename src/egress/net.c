#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/program.h"

/* On a loopback, an address brings its whole network. */
static int set_address(int fd, const char *name, int request, uint32_t address)
{
	struct ifreq change = { 0 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
	snprintf(change.ifr_name, sizeof change.ifr_name, "%s", name);
	memcpy(&change.ifr_addr, &in, sizeof in);
	return ioctl(fd, (unsigned long)request, &change);
}

static int prepare_loopback(struct err *err)
{
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0 ||
	    set_address(fd, "lo:aio", SIOCSIFADDR, NAMES_SELF) < 0 ||
	    set_address(fd, "lo:aio", SIOCSIFNETMASK, ~0U << (32 - NAMES_BITS)) < 0)
		return err_set(err, errno, "give the box's loopback an address");
	return 0;
}

static int bound(int type, uint32_t address, unsigned port, struct err *err)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), on = 1;
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd >= 0 && bind(fd, (void *)&in, sizeof in) == 0 &&
	    (type != SOCK_STREAM || listen(fd, 1024) == 0))
		return fd;
	err_set(err, errno, "port %u of %s in the box's network", port,
		address == NAMES_SELF ? "the DNS server" : "loopback");
	if (fd >= 0)
		close(fd);
	return -1;
}

static int redirect(const struct egress *egress, struct err *err)
{
	struct sockaddr_in in = { 0 };
	socklen_t len = sizeof in;
	char rules[512];
	if (getsockname(egress->relay, (void *)&in, &len) < 0)
		return err_set(err, errno, "getsockname");
	snprintf(rules, sizeof rules,
		 "table ip aio_egress\ndelete table ip aio_egress\n"
		 "table ip aio_egress {\n\tchain out {\n"
		 "\t\ttype nat hook output priority -100;\n"
		 "\t\tip daddr 198.18.0.0/15 meta l4proto tcp redirect to :%u\n\t}\n}\n",
		 ntohs(in.sin_port));
	char *argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
	return program_run("nft", "nftables", argv, rules, err);
}

static int open_inside(struct egress *egress, struct err *err)
{
	if (prepare_loopback(err) < 0 ||
	    (egress->dns = bound(SOCK_DGRAM, NAMES_SELF, 53, err)) < 0 ||
	    (egress->relay = bound(SOCK_STREAM, INADDR_LOOPBACK, 0, err)) < 0)
		return -1;
	return egress->forward ? 0 : redirect(egress, err);
}

struct visit {
	struct egress *egress;
	const char *netns;
	int result;
	struct err err;
};

static void *visit(void *arg)
{
	struct visit *visit = arg;
	auto_close int inside = open(visit->netns, O_RDONLY | O_CLOEXEC);
	visit->result =
		inside < 0 ? err_set(&visit->err, errno, "open '%s'", visit->netns)
		: setns(inside, CLONE_NEWNET) < 0
			? err_set(&visit->err, errno, "enter the network of '%s'", visit->netns)
			: open_inside(visit->egress, &visit->err);
	return NULL;
}

/* By a thread, which ends there: to come back would take rights over the machine's own network. */
int egress_open(struct egress *egress, const char *netns, struct err *err)
{
	struct visit there = { .egress = egress, .netns = netns };
	pthread_t thread;
	int code = pthread_create(&thread, NULL, visit, &there);
	if (code)
		return err_set(err, code, "a thread");
	pthread_join(thread, NULL);
	if (there.result < 0 && err)
		*err = there.err;
	return there.result;
}
