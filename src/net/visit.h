/* visit.h - a browser opens an address: credentials leave it, and who has none is asked for a key. */
#pragma once
#include <stdbool.h>

struct auth;
struct conn;

struct visit {
	struct conn *conn; /* its request */
	const struct auth *auth;
	const char *host, *path, *query; /* the last may be NULL */
	bool guest;                      /* a GUEST route answers */
};

/* The scope of a cookie that lets the request in: it is valid, and no page of another origin sends it. -1: there
 * is none. */
int visit_cookie(const struct visit *visit);

/* These say whether they have answered. Leads to the same address without the credential in it: with a
 * cookie in its place, or where the browser would keep none, or what is opened is a program's page,
 * with a ticket, which soon expires. */
bool visit_clean(const struct visit *visit);
bool visit_trade(const struct visit *visit);

/* Asks for a key, as server->ask_key says. */
bool visit_ask_key(const struct visit *visit);
