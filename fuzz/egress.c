/* What a box sends to the way out: a packet, a DNS query, the first bytes of a connection, requests. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/hello.h"
#include "egress/packet.h"
#include "egress/web.h"
#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void dns(const uint8_t *input, size_t size)
{
	struct dns_question question;
	uint8_t answer[DNS_MESSAGE_MAX];
	if (dns_parse(input, size, &question) < 0)
		return;
	if (strpbrk(question.name, "\"\\\n") || question.end > size)
		abort();
	size_t n = dns_answer(input, &question, DNS_OK, 1, 60, answer, sizeof answer);
	if (n != question.end + 16)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	char name[256];
	struct web web;
	struct packet packet;
	if (packet_parse(input, size, &packet) == 0 && packet.port > 65535)
		abort();
	dns(input, size);
	for (int greeted = 0; greeted < 2; greeted++)
		if (hello_name(input, size, greeted, name) == HELLO_NAMED &&
		    (strlen(name) > 255 || input[0] != 22 || input[1] != 3))
			abort();
	web_init(&web, "a.org", 80);
	for (size_t at = 0; at < size; at += 7)
		if (web_feed(&web, (const char *)input + at, size - at < 7 ? size - at : 7) < 0)
			break;
	return 0;
}
