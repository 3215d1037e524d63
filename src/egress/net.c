#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/route.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/rules.h"
#include "proc/utility.h"

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

/* An address has to have a way, or no packet is made that could be refused and told. */
static int add_route(struct err *err)
{
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in all = { .sin_family = AF_INET };
	char device[] = "lo";
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = device };
	memcpy(&route.rt_dst, &all, sizeof all);
	memcpy(&route.rt_genmask, &all, sizeof all);
	if (fd < 0 || (ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST))
		return err_set(err, errno, "a route in the box's network");
	return 0;
}

/* A packet that gets as far as this is told of, unless there are very many, and refused at once. */
#define REFUSE                                                      \
	"\t\tlimit rate 20/second burst 100 packets log group %d\n" \
	"\t\tmeta l4proto tcp reject with tcp reset\n\t\tdrop\n\t}\n"

/* All but the relay and the box's own addresses is refused. */
static int add_allow_rules(const struct egress *egress, struct buf *rules, struct err *err)
{
	struct sockaddr_in in = { 0 };
	socklen_t len = sizeof in;
	if (getsockname(egress->relay, (void *)&in, &len) < 0)
		return err_set(err, errno, "getsockname");
	buf_printf(rules,
		   "\tchain out { type nat hook output priority -100;\n"
		   "\t\tip daddr 198.18.0.0/15 meta l4proto tcp redirect to :%u\n\t}\n"
		   "\tchain refuse { type filter hook output priority 0;\n"
		   "\t\tct state established,related accept\n"
		   "\t\tip daddr { 127.0.0.0/8, 198.18.0.1 } accept\n" REFUSE,
		   ntohs(in.sin_port), EGRESS_LOG_GROUP);
	return 0;
}

/* What the machine would refuse is refused here already. Of its own addresses only the machine knows:
 * there its answer is looked at. */
static void add_full_rules(const struct egress *egress, struct buf *rules)
{
	rules_sets(egress->nets, rules);
	buf_printf(rules,
		   "\tchain in { type filter hook input priority 0;\n"
		   "\t\ticmp type destination-unreachable icmp code admin-prohibited "
		   "limit rate 20/second burst 100 packets log group %d\n\t}\n"
		   "\tchain refuse { type filter hook output priority 0;\n"
		   "\t\toifname \"lo\" accept\n\t\tip daddr @open accept\n"
		   "\t\tip daddr != @closed accept\n" REFUSE,
		   EGRESS_LOG_GROUP, EGRESS_LOG_GROUP);
}

static int set_rules(const struct egress *egress, struct err *err)
{
	auto_buf struct buf rules = BUF(1 << 20);
	char *argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
	buf_str(&rules, "table ip aio_egress\ndelete table ip aio_egress\ntable ip aio_egress {\n");
	if (egress->forward)
		add_full_rules(egress, &rules);
	else if (add_route(err) < 0 || add_allow_rules(egress, &rules, err) < 0)
		return -1;
	buf_str(&rules, "}\n");
	return utility_run("nft", "nftables", argv, rules.data, UTILITY_MS, err);
}

static int open_inside(void *arg, struct err *err)
{
	struct egress *egress = arg;
	if (prepare_loopback(err) < 0 ||
	    (egress->dns = bound(SOCK_DGRAM, NAMES_SELF, 53, err)) < 0 ||
	    (egress->relay = bound(SOCK_STREAM, INADDR_LOOPBACK, 0, err)) < 0)
		return -1;
	return egress_open_refused(egress, err) < 0 ? -1 : set_rules(egress, err);
}

struct net_visit {
	const char *netns;
	int (*fn)(void *arg, struct err *err);
	void *arg;
	int result;
	struct err err;
};

static void *visit(void *arg)
{
	struct net_visit *visit = arg;
	auto_close int inside = open(visit->netns, O_RDONLY | O_CLOEXEC);
	if (inside < 0)
		visit->result = err_set(&visit->err, errno, "open '%s'", visit->netns);
	else if (setns(inside, CLONE_NEWNET) < 0)
		visit->result =
			err_set(&visit->err, errno, "enter the network of '%s'", visit->netns);
	else
		visit->result = visit->fn(visit->arg, &visit->err);
	return NULL;
}

int egress_visit(const char *netns, int (*fn)(void *arg, struct err *err), void *arg,
		 struct err *err)
{
	struct net_visit there = { .netns = netns, .fn = fn, .arg = arg };
	pthread_t thread;
	int code = thread_start_joinable(&thread, visit, &there);
	if (code)
		return err_set(err, code, "a thread");
	pthread_join(thread, NULL);
	if (there.result < 0 && err)
		*err = there.err;
	return there.result;
}

int egress_open(struct egress *egress, const char *netns, struct err *err)
{
	return egress_visit(netns, open_inside, egress, err);
}
