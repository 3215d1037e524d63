#include "net/peer_uid.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"

static int statistics = -1;

int peer_uid_open(void)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	auto_close int fd =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	/* Connected, it hears nobody but the kernel. */
	if (fd < 0 || connect(fd, (struct sockaddr *)&kernel, sizeof kernel) < 0)
		return -1;
	return TAKE_FD(fd);
}

void peer_uid_use(int fd)
{
	statistics = fd;
}

void peer_uid_ready(void)
{
	if (statistics < 0)
		statistics = peer_uid_open();
}

static bool put_address(const struct sockaddr_storage *from, __be32 *address, __be16 *port)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
	if (from->ss_family == AF_INET) {
		memcpy(address, &in->sin_addr, sizeof in->sin_addr);
		*port = in->sin_port;
		return true;
	}
	if (from->ss_family != AF_INET6)
		return false;
	memcpy(address, &in6->sin6_addr, sizeof in6->sin6_addr);
	*port = in6->sin6_port;
	return true;
}

/* Names the socket at the other end: where it is bound is where ours is connected to. */
static bool name_peer(int fd, struct inet_diag_req_v2 *to)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t here_len = sizeof here, there_len = sizeof there;
	*to = (struct inet_diag_req_v2){
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ~0u,
		.id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
	};
	if (getsockname(fd, (struct sockaddr *)&here, &here_len) < 0 ||
	    getpeername(fd, (struct sockaddr *)&there, &there_len) < 0)
		return false;
	to->sdiag_family = (uint8_t)here.ss_family;
	return put_address(&there, to->id.idiag_src, &to->id.idiag_sport) &&
	       put_address(&here, to->id.idiag_dst, &to->id.idiag_dport);
}

/* Whether it is the connection's own socket, and somebody has it. The kernel falls back to a socket that
 * listens there, a new one may be trying to connect from there, and one that was closed has no owner: the
 * kernel calls it root's. */
static bool is_held(const struct inet_diag_msg *found)
{
	return found->idiag_inode &&
	       (found->idiag_state == TCP_ESTABLISHED || found->idiag_state == TCP_FIN_WAIT1 ||
		found->idiag_state == TCP_FIN_WAIT2);
}

static int ask_kernel(int fd, uid_t *ret)
{
	static uint32_t asked;
	union {
		struct nlmsghdr head;
		char data[4096];
	} answer;
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 request;
	} question = { .head = { .nlmsg_len = sizeof question,
				 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
				 .nlmsg_flags = NLM_F_REQUEST,
				 .nlmsg_seq = ++asked } };
	if (!name_peer(fd, &question.request) ||
	    send(statistics, &question, sizeof question, 0) != sizeof question)
		return -1;
	ssize_t n;
	do /* what an earlier question left behind */
		n = recv(statistics, &answer, sizeof answer, 0);
	while (n >= (ssize_t)sizeof answer.head && answer.head.nlmsg_seq != asked);
	const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof *found) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_held(found))
		return -1;
	*ret = found->idiag_uid;
	return 0;
}

int peer_uid(int fd, uid_t *ret)
{
	struct ucred peer;
	socklen_t len = sizeof peer;
	int family;
	socklen_t size = sizeof family;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0)
		return -1;
	if (family != AF_UNIX)
		return ask_kernel(fd, ret);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -1;
	*ret = peer.uid;
	return 0;
}
