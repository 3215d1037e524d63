#include "egress/packet.h"

#include <netinet/in.h>

enum { HEADER_MIN = 20, ICMP_HEADER = 8, UNREACHABLE = 3 };

static unsigned number(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

/* One header; *ret_rest is what comes after it. */
static int parse_header(const uint8_t *data, size_t len, struct packet *ret, size_t *ret_rest)
{
	size_t header = len < HEADER_MIN ? 0 : (size_t)(data[0] & 15) * 4;
	if (header < HEADER_MIN || data[0] >> 4 != 4 || header > len)
		return -1;
	ret->to = (uint32_t)number(data + 16) << 16 | number(data + 18);
	bool first = (number(data + 6) & 0x1fff) == 0; /* of its fragments */
	bool ports = data[9] == IPPROTO_TCP || data[9] == IPPROTO_UDP;
	ret->port = first && ports && len - header >= 4 ? number(data + header + 2) : 0;
	*ret_rest = header;
	return data[9];
}

int packet_parse(const uint8_t *data, size_t len, struct packet *ret)
{
	size_t rest;
	*ret = (struct packet){ 0 };
	int protocol = parse_header(data, len, ret, &rest);
	if (protocol != IPPROTO_ICMP || len - rest < ICMP_HEADER || data[rest] != UNREACHABLE)
		return protocol < 0 ? -1 : 0;
	ret->answered = true;
	rest += ICMP_HEADER;
	return parse_header(data + rest, len - rest, ret, &rest) < 0 ? -1 : 0;
}
