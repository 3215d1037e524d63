#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/thread.h"
#include "egress/carrier.h"
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/rules.h"
#include "net/dns.h"
#include "net/unasked.h"

enum { TTL_S = 60, QUERIES_MAX = 64 };

/* Browsers ask for "_8443._https.NAME" before they connect to another port of a name than 443. */
static bool is_about_allowed(const struct rules *rules, const char *name)
{
	static const char of[] = "._https.";
	const char *rest = *name == '_' ? strstr(name, of) : NULL;
	return rest && rules_allow(rules, rest + strlen(of), 0);
}

size_t egress_resolve(struct egress *egress, const uint8_t *query, size_t len, uint8_t *to,
		      size_t room)
{
	struct dns_question question;
	uint32_t address = 0;
	enum dns_code code = DNS_OK;
	if (dns_parse(query, len, &question) < 0) {
		if (len < DNS_HEAD || (question.flags & DNS_IS_ANSWER))
			return 0;
		code = DNS_FORMAT;
	} else if (!rules_allow(egress->rules, question.name, 0)) {
		code = DNS_NO_SUCH_NAME;
		if (!unasked_name(question.name) && !is_about_allowed(egress->rules, question.name))
			egress_denied(egress, question.name, 0, "not in the allow list");
	} else if (question.type == DNS_A) {
		address = names_address(egress->names, question.name);
		code = address ? DNS_OK : DNS_FAILED;
	}
	return dns_answer(query, &question, code, address, TTL_S, to, room);
}

struct query {
	struct egress *egress;
	struct sockaddr_in from;
	size_t len;
	uint8_t data[CARRIER_DATAGRAM];
};

static void *forward(void *arg)
{
	struct query *query = arg;
	uint8_t answer[CARRIER_DATAGRAM];
	size_t n = carrier_resolve(query->egress->carrier, query->data, query->len, answer);
	if (n)
		sendto(query->egress->dns, answer, n, MSG_DONTWAIT, (void *)&query->from,
		       sizeof query->from);
	query->egress->queries--;
	free(query);
	return NULL;
}

static void start_forward(struct query *query)
{
	struct query *copy = xmalloc(sizeof *copy);
	*copy = *query;
	if (atomic_fetch_add(&query->egress->queries, 1) < QUERIES_MAX &&
	    thread_start(forward, copy) == 0)
		return;
	query->egress->queries--;
	free(copy);
}

void *egress_dns(void *arg)
{
	struct egress *egress = arg;
	struct query query = { .egress = egress };
	for (;;) {
		socklen_t room = sizeof query.from;
		uint8_t answer[DNS_MESSAGE_MAX];
		ssize_t n = recvfrom(egress->dns, query.data, sizeof query.data, 0,
				     (void *)&query.from, &room);
		if (n < 0 && errno != EINTR && errno != ECONNREFUSED)
			return NULL;
		query.len = n > 0 ? (size_t)n : 0;
		if (egress->forward && n >= DNS_HEAD) {
			start_forward(&query);
			continue;
		}
		size_t len = egress_resolve(egress, query.data, query.len, answer, sizeof answer);
		if (len)
			sendto(egress->dns, answer, len, MSG_DONTWAIT, (void *)&query.from, room);
	}
}
