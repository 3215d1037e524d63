/* egress.h - the way out of a box: a DNS server and a relay, for the names that are allowed.
 *
 * A process of its own per box, so that nothing of a box is read by the host's loop. Inside the box's
 * network it answers DNS: an allowed name gets an address of 198.18.0.0/15, which the box's loopback
 * takes and the box's own nftables send, whatever the port, to the relay; the address called tells
 * the name. The relay passes on TLS and HTTP only where they are for that name. All that is refused is
 * told. It is in no network itself: a second process resolves the name in the machine's, and connects
 * only to public addresses (carrier.h). */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rate_limit.h"

struct err;
struct names;
struct rules;

struct egress {
	struct rules *rules;
	struct names *names;
	const char *nets; /* as the rules were made with */
	bool forward;     /* only DNS, and all of it, to the machine's own servers */
	int dns, relay;   /* sockets in the box's network */
	int carrier;      /* whom to ask for what is in the machine's, see carrier.h */
	int refused;      /* where the kernel tells of packets that the box's nftables refused */
	int events;       /* where what was denied is told, a line of JSON each; -1: nowhere */
	struct counters { /* of bytes, shared with whoever looks at them */
		_Atomic uint64_t in, out;
	} * counters;
	_Atomic int connections, queries;
	pthread_mutex_t lock; /* of denials */
	struct rate_limit denials;
};

/* At once; a thread each, here and in the carrier. */
enum { EGRESS_CONNECTIONS = 480 };

/* Of NFNETLINK_LOG, in the box's network. */
enum { EGRESS_LOG_GROUP = 1 };

/* net.c: calls fn by a thread that is in the network of that file, and ends there: to come back would
 * take rights over the machine's own network. */
int egress_visit(const char *netns, int (*fn)(void *arg, struct err *err), void *arg,
		 struct err *err);

/* net.c: prepares the network of that file and opens the sockets in it; the caller stays in its own. */
int egress_open(struct egress *egress, const char *netns, struct err *err);

/* resolver.c: answers one query; returns the length of the answer, or 0. */
size_t egress_resolve(struct egress *egress, const uint8_t *query, size_t len, uint8_t *to,
		      size_t room);
void *egress_dns(void *arg); /* a thread, of a struct egress */

/* refused.c */
int egress_open_refused(struct egress *egress, struct err *err); /* called in the box's network */
void *egress_refused(void *arg);                                 /* a thread, of a struct egress */

/* relay.c: serves one connection of the box, to its end. */
void egress_relay(struct egress *egress, int client);
void egress_copy(int client, int server); /* passes on all that comes, to the end of both */

/* egress.c: serves until the descriptor (of a process) is readable. */
void egress_run(struct egress *egress, int until);
/* The host is a name, or an address. */
void egress_denied(struct egress *egress, const char *name, unsigned port, const char *why);
