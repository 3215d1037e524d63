/* dns.h - just enough of DNS: one question taken apart, one answer put together. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { DNS_NAME_MAX = 253, DNS_MESSAGE_MAX = 512, DNS_HEAD = 12, DNS_IS_ANSWER = 0x8000 };

enum { DNS_A = 1, DNS_AAAA = 28 };
enum dns_code { DNS_OK = 0, DNS_FORMAT = 1, DNS_FAILED = 2, DNS_NO_SUCH_NAME = 3 };

struct dns_question {
	uint16_t id, flags, type, class;
	char name[DNS_NAME_MAX + 1]; /* lower case, no dot at its end */
	size_t end;                  /* of the question, in the message */
};

/* Takes a query apart. -1: not one that could be answered; ret->id and flags are set if there are
 * that many bytes. Names with bytes that no host name has are not taken. */
int dns_parse(const uint8_t *data, size_t len, struct dns_question *ret);

/* The answer to a query: its question again, and one address (in host order) unless that is 0.
 * Returns its length; 0 if it does not fit. */
size_t dns_answer(const uint8_t *query, const struct dns_question *question, enum dns_code code,
		  uint32_t address, uint32_t ttl, uint8_t *to, size_t room);
