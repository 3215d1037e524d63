/* address.h - which box a request is for, from its host name, headers and path. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_head;

enum { BOX_ID_MAX = 40 };

/* The host name below the domains that has the host's own pages where the plain address is a box's. */
#define ADDRESS_HOST "host"

struct address_names {
	const char *domain; /* beside localhost; may be NULL */
	bool plain_is_default; /* the plain address is the default box's own, and the host's pages elsewhere */
};

struct address {
	char id[BOX_ID_MAX + 1]; /* "default" where nothing names one */
	int port;                /* of a preview; 0: the box's own API */
	bool own_origin; /* the host name says it: pages of the box share their origin with nobody */
	bool hosts;      /* the name is the host's own, where the plain one is not */
	bool named;      /* something says it: not the plain address's default */
	size_t prefix;   /* bytes of the target that named it: "/s/ID" */
};

/* The host name wins, because a page can set headers and paths, but not the name it came from. On a
 * name that is no box's own: x-aio-sandbox (beside which /s/ID may stand if it names the same box), then
 * /s/ID/, then `default`; x-aio-proxy-port or
 * "PORT-DOMAIN" give a port. -1 with ERR_NOT_FOUND or
 * ERR_BAD_REQUEST for what cannot be a box. */
int address_find(const struct http_head *head, const struct address_names *names,
		 struct address *ret, struct err *err);

/* Whether this can be the id of a box: a letter, then letters, digits and single '-', at most 40. */
bool address_is_id(const char *id);
