/* What the box's own nftables refuse is told by the kernel (NFNETLINK_LOG, in the box's network): the
 * packets themselves, of which only so many a second are passed on. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/packet.h"
#include "egress/rules.h"
#include "net/dns.h"

enum { COPY = 128, MESSAGES = 65536 };

/* A message with one attribute, and the kernel's answer to it. */
static int set_log(int fd, uint16_t type, const void *data, size_t len, struct err *err)
{
	struct {
		struct nlmsghdr head;
		struct nfgenmsg group;
		struct nlattr attribute;
		char data[16];
	} message = {
		.head.nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
		.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		.group.version = NFNETLINK_V0,
		.group.res_id = htons(EGRESS_LOG_GROUP),
		.attribute.nla_type = type,
		.attribute.nla_len = (uint16_t)(NLA_HDRLEN + len),
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[256];
	} answer;
	memcpy(message.data, data, len);
	message.head.nlmsg_len = (uint32_t)(offsetof(__typeof__(message), data) + NLMSG_ALIGN(len));
	if (send(fd, &message, message.head.nlmsg_len, 0) < 0 ||
	    recv(fd, &answer, sizeof answer, 0) < (ssize_t)offsetof(__typeof__(answer), rest))
		return err_set(err, errno, "the kernel's log of refused packets");
	if (answer.head.nlmsg_type != NLMSG_ERROR || answer.error.error)
		return err_set(err, ERR_UNAVAILABLE,
			       "the kernel's log of refused packets (nfnetlink_log): %s",
			       strerror(-answer.error.error));
	return 0;
}

int egress_open_refused(struct egress *egress, struct err *err)
{
	const struct nfulnl_msg_config_cmd bind = { NFULNL_CFG_CMD_BIND };
	const struct nfulnl_msg_config_mode copy = { .copy_mode = NFULNL_COPY_PACKET,
						     .copy_range = htonl(COPY) };
	egress->refused = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (egress->refused < 0)
		return err_set(err, errno, "the kernel's log of refused packets");
	if (set_log(egress->refused, NFULA_CFG_CMD, &bind, sizeof bind, err) < 0)
		return -1;
	return set_log(egress->refused, NFULA_CFG_MODE, &copy, sizeof copy, err);
}

static void tell(struct egress *egress, const uint8_t *data, size_t len)
{
	struct packet packet;
	char host[DNS_NAME_MAX + 1];
	if (packet_parse(data, len, &packet) < 0)
		return;
	const char *why = packet.answered   ? "refused by the machine, or by a firewall on the way"
			  : egress->forward ? "its address is not a public one"
					    : "an address, not a name of the allow list";
	struct in_addr to = { htonl(packet.to) };
	if (!egress->forward && names_find(egress->names, packet.to, host, sizeof host) == 0)
		why = "only TCP is let through";
	else
		inet_ntop(AF_INET, &to, host, sizeof host);
	egress_denied(egress, host, packet.port, why);
}

static void look_at(struct egress *egress, struct nlmsghdr *message)
{
	const size_t start = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(struct nfgenmsg)));
	const uint8_t *at = (const uint8_t *)message + start, *end;
	if (message->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) ||
	    message->nlmsg_len < start)
		return;
	for (end = (const uint8_t *)message + message->nlmsg_len; end - at >= NLA_HDRLEN;) {
		struct nlattr attribute;
		memcpy(&attribute, at, sizeof attribute);
		if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > end - at)
			return;
		if ((attribute.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD)
			tell(egress, at + NLA_HDRLEN, (size_t)attribute.nla_len - NLA_HDRLEN);
		if (NLA_ALIGN(attribute.nla_len) > end - at)
			return;
		at += NLA_ALIGN(attribute.nla_len);
	}
}

void *egress_refused(void *arg)
{
	struct egress *egress = arg;
	auto_free char *messages = xmalloc(MESSAGES);
	for (;;) {
		ssize_t n = recv(egress->refused, messages, MESSAGES, 0);
		if (n < 0 && errno != EINTR && errno != ENOBUFS) /* it had more than we read */
			return NULL;
		size_t len = n > 0 ? (size_t)n : 0;
		for (size_t at = 0; at + sizeof(struct nlmsghdr) <= len;) {
			struct nlmsghdr *message = (void *)(messages + at);
			if (message->nlmsg_len < sizeof *message || message->nlmsg_len > len - at)
				break;
			look_at(egress, message);
			at += NLMSG_ALIGN(message->nlmsg_len);
		}
	}
}
