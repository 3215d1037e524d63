/* What a box sends to the way out: a packet, a DNS query, the first bytes of a connection, requests; and what its
 * server reports. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/http_host.h"
#include "egress/packet.h"
#include "egress/tls_sni.h"
#include "net/dns.h"
#include "net/offline.h"

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

/* A line of the log of a box without a network: what is taken of it becomes part of JSON. */
static void report(const uint8_t *input, size_t size)
{
	char line[512] = "denied ", name[DNS_NAME_MAX + 1];
	int64_t times;
	size_t len = size < sizeof line - 8 ? size : sizeof line - 8;
	memcpy(line + 7, input, len);
	line[7 + len] = 0;
	if (offline_parse(line, name, &times) &&
	    (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(name) || times < 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	char name[256];
	struct http_host http;
	struct packet packet;
	if (packet_parse(input, size, &packet) == 0 && packet.port > 65535)
		abort();
	dns(input, size);
	report(input, size);
	for (int greeted = 0; greeted < 2; greeted++)
		if (tls_sni_find(input, size, greeted, name) == TLS_SNI_NAMED &&
		    (strlen(name) > 255 || input[0] != 22 || input[1] != 3))
			abort();
	http_host_init(&http, "a.org", 80);
	for (size_t at = 0; at < size; at += 7)
		if (http_host_feed(&http, (const char *)input + at, size - at < 7 ? size - at : 7) <
		    0)
			break;
	return 0;
}
