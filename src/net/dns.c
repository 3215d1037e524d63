#include "net/dns.h"

#include <ctype.h>
#include <string.h>

enum { OPCODE = 0x7800, RD = 0x0100, RA = 0x0080, IN = 1 };

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint8_t *put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static int take_label(const uint8_t *from, size_t n, char *to)
{
	for (size_t i = 0; i < n; i++) {
		if (!isalnum(from[i]) && from[i] != '-' && from[i] != '_')
			return -1;
		to[i] = (char)tolower(from[i]);
	}
	return 0;
}

/* A question has no compressed names: nothing is before it that it could point to. */
static int take_name(const uint8_t *data, size_t len, size_t *at, char *to)
{
	size_t out = 0;
	while (*at < len && data[*at]) {
		size_t n = data[(*at)++];
		if (n > 63 || n > len - *at || out + n + (out > 0) > DNS_NAME_MAX)
			return -1;
		if (out)
			to[out++] = '.';
		if (take_label(data + *at, n, to + out) < 0)
			return -1;
		out += n;
		*at += n;
	}
	to[out] = 0;
	return (*at)++ < len ? 0 : -1;
}

int dns_parse(const uint8_t *data, size_t len, struct dns_question *ret)
{
	*ret = (struct dns_question){ 0 };
	if (len < DNS_HEAD)
		return -1;
	ret->id = get16(data);
	ret->flags = get16(data + 2);
	ret->end = DNS_HEAD;
	size_t at = DNS_HEAD;
	if ((ret->flags & (DNS_IS_ANSWER | OPCODE)) || get16(data + 4) != 1 || get16(data + 6) ||
	    get16(data + 8) || take_name(data, len, &at, ret->name) < 0 || len - at < 4)
		return -1;
	ret->type = get16(data + at);
	ret->class = get16(data + at + 2);
	ret->end = at + 4;
	return ret->class == IN ? 0 : -1;
}

size_t dns_answer(const uint8_t *query, const struct dns_question *question, enum dns_code code,
		  uint32_t address, uint32_t ttl, uint8_t *to, size_t room)
{
	size_t len = question->end < DNS_HEAD ? DNS_HEAD : question->end;
	if (len + 16 > room)
		return 0;
	memset(to, 0, DNS_HEAD);
	memcpy(to + DNS_HEAD, query + DNS_HEAD, len - DNS_HEAD);
	put16(to, question->id);
	put16(to + 2, (unsigned)(DNS_IS_ANSWER | RA | (question->flags & RD) | (int)code));
	put16(to + 4, len > DNS_HEAD);
	if (!address)
		return len;
	put16(to + 6, 1);
	uint8_t *at = put16(to + len, 0xc000 | DNS_HEAD); /* the name of the question */
	at = put16(put16(at, DNS_A), IN);
	at = put16(put16(at, ttl >> 16), ttl & 0xffff);
	at = put16(at, 4);
	at = put16(put16(at, address >> 16), address & 0xffff);
	return (size_t)(at - to);
}
