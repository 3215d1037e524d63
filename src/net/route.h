/* route.h - the declared operations of a server: tables of routes, and finding one by its path. */
#pragma once
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"

struct arena;
struct call;
struct err;
struct page_file;
struct upstream;

/* What a route does: takes its request (a struct as route->in says) and answers through the call.
 * -1 with err is answered with the code's HTTP status, unless the answer has already begun. */
typedef int handler(struct call *call, const void *in, struct err *err);

/* Says which server answers instead; it may start that, and wait for it (call_wait). */
typedef int route_upstream(struct call *call, const void *in, struct upstream *ret,
			   struct err *err);

enum route_flag {
	PUBLIC = 1 << 0,   /* needs no credentials */
	BARE = 1 << 1,     /* answers without the envelope */
	UPGRADE = 1 << 2,  /* a WebSocket */
	INTERNAL = 1 << 3, /* not in the document: pages and files */
	EVENTS = 1 << 4,   /* can answer with Server-Sent Events */
	NO_TICKET = 1 << 5,
	RAW = 1 << 6,  /* its one field in the body, a TEXT, is the body as it came, of any type */
	RUNS = 1 << 7, /* starts something: in the history of a box */
	/* A program of the sandbox answers: what its pages see is good for no other route. */
	GUEST = 1 << 8,
	ANY_NAME = 1 << 9, /* also where the host name is for a program's port */
	PAGE = 1 << 10,    /* people open it */
	VIEW = 1 << 11,    /* also for credentials that are for looking at the desktop only */
	URLS = 1 << 12,    /* gives URLs that its caller opens, perhaps unable to send a header */
};

/* A path may have parameters, "/v1/x/{id}", and may end with "*" for all that follows, which the
 * handler gets as the parameter "*".
 *
 * A route with `upstream` instead of `handle` is relayed: authentication, metrics and logs are as for
 * others, all else is the other server's. Its request struct is of PATH fields only, without "*"; it is
 * no tool for models, and its method may be "*": any. */
#define ROUTE_PREVIEW \
	"preview/" /* and a port: the path that a request has whose host name or header is for one */
struct route {
	const char *method, *path;
	handler *handle;
	const struct schema *in;  /* NULL: takes nothing */
	const struct field *data; /* what `data` of the answer is; of a BARE route, the answer */
	const char *summary;      /* in a few words */
	const char *help;         /* more, where there is more to say; NULL: none */
	unsigned flags;
	const struct schema *extra; /* fields of the answer beside the envelope's */
	const char *type;    /* media type of a BARE answer that is not JSON; of an UPGRADE route,
				     * the subprotocol that a client may ask for */
	const char *message; /* of the envelope when all is well; NULL: the contract's */
	route_upstream *upstream;
	/* Tagged unions: its Server-Sent Events by name (NULL: each is an item of the list that it
	 * answers otherwise), or the messages of its WebSocket; and those that this takes. */
	const struct schema *sends, *takes;
	const struct page_file *page; /* the handler's own: what it shows */
};

struct route_group {
	const char *tag, *help;
	const struct route *routes;
	size_t count;
};

enum { LATENCY_BUCKETS = 12 };
extern const int64_t latency_bucket_us[LATENCY_BUCKETS];

/* What happened on a route. */
struct route_stats {
	_Atomic uint64_t answers[6]; /* by hundred: [2] is 200 to 299 */
	_Atomic uint64_t buckets[LATENCY_BUCKETS + 1], total_us;
};

struct route_entry {
	const struct route *route;
	const struct route_group *group;
	struct route_stats stats;
};

struct router {
	struct route_entry *entries; /* those without parameters first, sorted by path */
	size_t count, plain;
	struct route_stats unmatched;
};

/* groups ends with NULL and must outlive the router. */
void router_init(struct router *router, const struct route_group *const *groups);
void router_done(struct router *router);

/* Finds the route of a method (HEAD counts as GET) and a path that is still percent-encoded. Where
 * there is none, *ret_allow says which methods the path has ("" for no such path). Parameters are
 * decoded into ret_params, a new object, or NULL when the path has none. */
struct route_entry *router_find(struct router *router, const char *method, const char *path,
				json_t **ret_params, char *ret_allow, size_t allow_room);

/* The route of these groups with a flag (0: any) that a path leads to, whatever the method; NULL: none. */
const struct route *route_flagged(const struct route_group *const *groups, unsigned flag,
				  const char *path);

void route_count(struct route_stats *stats, int status, int64_t us);
