#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/wait.h"
#include "egress/carrier.h"
#include "egress/egress.h"
#include "egress/http_host.h"
#include "egress/names.h"
#include "egress/rules.h"
#include "egress/tls_sni.h"
#include "net/dns.h"

enum { FLOW_SIZE = 32768, DNS_MS = 15000, FIRST_MS = 30000, IDLE_MS = 30 * 60 * 1000 };
enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* One direction of a connection. */
struct relay_flow {
	int from, to;
	char data[FLOW_SIZE];
	size_t at, len;
	bool held;  /* nothing is passed on yet */
	bool ended; /* no more comes; told to the other side once all was passed on */
	bool told;
	_Atomic uint64_t *counter;
};

struct egress_relay {
	struct egress *egress;
	char name[DNS_NAME_MAX + 1];
	unsigned port;
	bool known;   /* what the client speaks, and that it may */
	bool http;    /* its requests are looked at */
	bool agreed;  /* so far, what the server says agrees to an upgrade */
	size_t heard; /* of the server, as far as it matters */
	struct http_host requests;
	struct relay_flow out, in;
};

/* DNS over TCP: a length before each message. */
static void serve_dns(struct egress *egress, int client)
{
	uint8_t query[2 + DNS_MESSAGE_MAX], answer[2 + DNS_MESSAGE_MAX];
	size_t got = 0;
	int64_t until = clock_ms() + DNS_MS;
	for (;;) {
		size_t whole = got < 2 ? 2 : 2 + ((size_t)query[0] << 8 | query[1]);
		if (whole > sizeof query)
			return;
		if (got >= 2 && got == whole) {
			size_t len = egress_resolve(egress, query + 2, got - 2, answer + 2,
						    DNS_MESSAGE_MAX);
			answer[0] = (uint8_t)(len >> 8);
			answer[1] = (uint8_t)len;
			if (!len || send(client, answer, len + 2, MSG_NOSIGNAL) < 0)
				return;
			got = 0;
			continue;
		}
		if (clock_ms() >= until || !wait_until(client, POLLIN, until))
			return;
		ssize_t n = recv(client, query + got, whole - got, 0);
		if (n <= 0)
			return;
		got += (size_t)n;
	}
}

static int deny(struct egress_relay *relay, const char *why)
{
	egress_denied(relay->egress, relay->name, relay->port, why);
	return -1;
}

/* Why a connection that begins like this may not pass; NULL: it may. */
static const char *why_denied(const struct egress_relay *relay, enum tls_sni kind, const char *name)
{
	if (kind == TLS_SNI_ODD)
		return "malformed TLS, or a version that is not TLS 1.x";
	if (kind == TLS_SNI_NAMELESS)
		return "TLS without the name of its server";
	if (kind == TLS_SNI_NAMED && strcmp(name, relay->name) != 0)
		return "TLS for another name";
	if (relay->port == HTTPS_PORT && kind != TLS_SNI_NAMED)
		return "only TLS passes on port 443";
	if (relay->port == HTTP_PORT && kind != TLS_SNI_REQUEST)
		return "only HTTP passes on port 80";
	return NULL;
}

/* Looks at the first bytes of the client. -1: they may not pass. */
static int look(struct egress_relay *relay)
{
	char name[256];
	struct relay_flow *out = &relay->out;
	enum tls_sni kind =
		tls_sni_find((const unsigned char *)out->data, out->len, relay->heard > 0, name);
	if (kind == TLS_SNI_MORE)
		return out->ended ? deny(relay, "it ended before it said for whom it is") : 0;
	const char *why = why_denied(relay, kind, name);
	if (why)
		return deny(relay, why);
	relay->known = true;
	relay->http = kind == TLS_SNI_REQUEST;
	out->held = false;
	return 0;
}

static int check_requests(struct egress_relay *relay, const char *data, size_t len)
{
	if (http_host_feed(&relay->requests, data, len) < 0)
		return deny(relay, "an HTTP request for another host, or one that is malformed");
	if (!relay->heard)
		relay->agreed = relay->requests.upgrade;
	return 0;
}

/* Only the first that a server says can be its answer to the first request, which may ask for a
 * WebSocket. If it agrees to that, what follows are no requests. */
static void hear(struct egress_relay *relay, const char *data, size_t len)
{
	static const char yes[] = "HTTP/1.1 101 ";
	for (; len && relay->heard < sizeof yes - 1; len--, data++, relay->heard++)
		relay->agreed = relay->agreed && *data == yes[relay->heard];
	if (relay->agreed && relay->heard == sizeof yes - 1)
		relay->http = false;
}

static int took(struct egress_relay *relay, struct relay_flow *flow, size_t n)
{
	const char *data = flow->data + flow->len;
	flow->len += n;
	if (flow == &relay->in) {
		hear(relay, data, n);
		return 0;
	}
	if (relay->known)
		return relay->http ? check_requests(relay, data, n) : 0;
	if (look(relay) < 0)
		return -1;
	return relay->http ? check_requests(relay, flow->data, flow->len) : 0;
}

/* Reads what there is room for. -1: the connection is over. */
static int fill(struct egress_relay *relay, struct relay_flow *flow)
{
	if (flow->at == flow->len)
		flow->at = flow->len = 0;
	ssize_t n = recv(flow->from, flow->data + flow->len, FLOW_SIZE - flow->len, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	flow->ended = n == 0;
	if (n == 0)
		return flow->held && flow->len ? look(relay) : 0;
	return took(relay, flow, (size_t)n);
}

static int drain(struct relay_flow *flow)
{
	ssize_t n = send(flow->to, flow->data + flow->at, flow->len - flow->at, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	flow->at += (size_t)n;
	*flow->counter += (uint64_t)n;
	return 0;
}

static int turn(struct egress_relay *relay)
{
	struct relay_flow *flows[] = { &relay->out, &relay->in };
	struct pollfd wait[2] = { { relay->out.from, 0, 0 }, { relay->in.from, 0, 0 } };
	for (int i = 0; i < 2; i++) {
		struct relay_flow *flow = flows[i];
		bool waits = flow->at < flow->len && !flow->held;
		if (flow->ended && !waits && !flow->told) {
			shutdown(flow->to, SHUT_WR);
			flow->told = true;
		}
		if (!flow->ended && (flow->held ? flow->len < FLOW_SIZE : !waits))
			wait[i].events |= POLLIN;
		if (waits)
			wait[1 - i].events |= POLLOUT;
	}
	if (relay->out.told && relay->in.told)
		return -1;
	/* One that has hung up is not looked at while what it said before is on its way. */
	for (int i = 0; i < 2; i++)
		if (!wait[i].events && flows[i]->at < flows[i]->len)
			wait[i].fd = -1;
	int ready = poll(wait, 2, relay->known || relay->heard ? IDLE_MS : FIRST_MS);
	if (ready <= 0)
		return ready < 0 && errno == EINTR ? 0 : -1;
	for (int i = 0; i < 2; i++) {
		if ((wait[i].revents & (POLLIN | POLLHUP | POLLERR)) && (wait[i].events & POLLIN) &&
		    fill(relay, flows[i]) < 0)
			return -1;
		if ((wait[i].revents & (POLLOUT | POLLHUP | POLLERR)) &&
		    (wait[i].events & POLLOUT) && drain(flows[1 - i]) < 0)
			return -1;
		if ((wait[i].revents & (POLLHUP | POLLERR)) && !wait[i].events)
			return -1;
	}
	return 0;
}

/* Both ends of it, which must not block, and their flows. */
static void carry(struct egress_relay *relay, int client, int server, struct counters *counters)
{
	relay->out = (struct relay_flow){ client, server, .counter = &counters->out };
	relay->in = (struct relay_flow){ server, client, .counter = &counters->in };
	relay->out.held = !relay->known;
	while (turn(relay) == 0)
		;
}

void egress_copy(int client, int server)
{
	static struct counters unread;
	struct egress_relay *relay = xcalloc(1, sizeof *relay);
	relay->known = true;
	carry(relay, client, server, &unread);
	free(relay);
}

static void connect_to_name(struct egress_relay *relay, int client)
{
	char why[CARRIER_WHY];
	auto_close int server =
		carrier_connect(relay->egress->carrier, relay->name, relay->port, why);
	if (server < 0 && why[0])
		egress_denied(relay->egress, relay->name, relay->port, why);
	http_host_init(&relay->requests, relay->name, relay->port);
	if (server >= 0)
		carry(relay, client, server, relay->egress->counters);
}

void egress_relay(struct egress *egress, int client)
{
	struct sockaddr_in called;
	socklen_t len = sizeof called;
	if (getsockopt(client, IPPROTO_IP, SO_ORIGINAL_DST, &called, &len) < 0)
		return;
	char name[INET_ADDRSTRLEN];
	uint32_t address = ntohl(called.sin_addr.s_addr);
	struct egress_relay *relay = xcalloc(1, sizeof *relay);
	relay->egress = egress;
	relay->port = ntohs(called.sin_port);
	if (address == NAMES_SELF && relay->port == 53)
		serve_dns(egress, client);
	else if (names_find(egress->names, address, relay->name, sizeof relay->name) < 0)
		egress_denied(egress, inet_ntop(AF_INET, &called.sin_addr, name, sizeof name),
			      relay->port, "an address that stands for no name");
	else if (!rules_allow(egress->rules, relay->name, relay->port))
		egress_denied(egress, relay->name, relay->port,
			      "this port is not in the allow list");
	else
		connect_to_name(relay, client);
	free(relay);
}
