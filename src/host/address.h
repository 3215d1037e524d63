/* address.h - which box a request is for, from its host name, headers and path. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_head;

enum { BOX_ID_MAX = 40 };

struct address {
	char id[BOX_ID_MAX + 1]; /* "default" where nothing names one */
	int port;                /* of a preview; 0: the box's own API */
	bool own_origin; /* the host name says it: pages of the box share their origin with nobody */
	bool named;      /* something says it: not the plain address's default */
	size_t prefix;   /* bytes of the target that named it: "/s/ID" */
};

/* The host name wins, because a page can set headers and paths, but not the name it came from. On a
 * name that is no box's own: x-aio-sandbox (beside which /s/ID may stand if it names the same box), then
 * /s/ID/, then `default`; x-aio-proxy-port or
 * "PORT-DOMAIN" give a port. domain may be NULL; localhost always counts. -1 with ERR_NOT_FOUND or
 * ERR_BAD_REQUEST for what cannot be a box. */
int address_find(const struct http_head *head, const char *domain, struct address *ret,
		 struct err *err);

/* Whether this can be the id of a box: a letter, then letters, digits and single '-', at most 40. */
bool address_is_id(const char *id);
