/* outbound.h - where the requests of the sandbox's programs go: mappings, hosts that are reached directly,
 * the upstream proxy. forward.c is the proxy itself, which asks here for every request: a change holds for
 * the next one.
 *
 * It begins with PROXY_SERVER, PROXY_EXCLUDE, PROXY_INCLUDE and PROXY_MAP, or else with the proxy that the
 * server's own environment names (http_proxy and so on), and lasts as long as the server. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"
#include "outbound/rule.h"

struct arena;
struct err;
struct server;
struct upstream_proxy;

enum { OUTBOUND_RULES_MAX = 1000 };

void outbound_setup(struct server *server);
void outbound_end(void);

/* ---- where a request goes ---- */

enum way_kind { WAY_DIRECT, WAY_MAPPED, WAY_UPSTREAM };

/* What it points to is in the arena. */
struct outbound_way {
	enum way_kind kind;
	const char *host; /* to connect to */
	int port;
	const char *path;                /* to ask for; NULL: that of the URL */
	struct upstream_proxy *upstream; /* of WAY_UPSTREAM; until the arena is done */
	const struct outbound_mapping *mapping;
	const char *why; /* a sentence */
};
void outbound_find(const struct rule_url *asked, struct arena *arena, struct outbound_way *ret);

/* Whether a connection that goes by `way` would still go the same way. */
bool outbound_is_current(const struct rule_url *url, const struct outbound_way *way);

/* Called, without a lock, after each change. At most two; before the first change. */
void outbound_on_change(void (*changed)(void));

/* ---- what it goes by ---- */

struct outbound_mapping {
	const char *source, *target, *source_host, *source_path;
	int64_t internal_port;
};

/* Adds one, or changes its target. */
int outbound_map(const char *source, const char *target, struct arena *arena,
		 struct outbound_mapping *ret, struct err *err);
int outbound_unmap(const char *source, struct err *err); /* -1 with ERR_NOT_FOUND */
struct list outbound_mappings(struct arena *arena);      /* of struct outbound_mapping */

int outbound_exclude(const char *text, struct err *err);
int outbound_include_again(const char *text, struct err *err); /* -1 with ERR_NOT_FOUND */
struct list outbound_excludes(struct arena *arena);            /* of strings */

/* The password is only ever shown as "***". */
struct outbound_upstream {
	const char *addr, *username, *password;
};

/* text: "[http://][user:password@]host:port"; auth_cmd, which is run at once, may be NULL. */
int outbound_set_upstream(const char *text, const char *auth_cmd, struct arena *arena,
			  struct outbound_upstream *ret, struct err *err);
void outbound_remove_upstream(void);
bool outbound_upstream(struct arena *arena, struct outbound_upstream *ret); /* false: none */

/* ---- the proxy ---- */

/* The port of 127.0.0.1 at which the proxy listens. */
int outbound_port(void);

/* Whether programs are to use it: something is configured, and it listens. */
bool outbound_is_used(void);

/* Whether it listens; tries to, if it does not. ret: what is wrong, a list of strings. */
bool outbound_health(struct arena *arena, struct list *ret);

/* Something that is wrong elsewhere, for the health; NULL: no more. A constant. */
void outbound_report(const char *trouble);
