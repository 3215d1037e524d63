/* auth.h - who may use a server: shared keys, JSON Web Tokens and short-lived tickets.
 *
 * A ticket is for a URL that cannot carry a header. It holds its own expiry under a MAC with a key
 * that only this process knows, so nothing is stored, and it may be used until then. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct auth;
struct err;

enum { AUTH_TICKET_ROOM = 76, AUTH_TICKET_TTL_SEC = 30 };

/* Texts that are NULL or "" are not configured. */
struct auth_config {
	const char *jwt_public_key, *api_key, *auth_token;
	const char *jwt_audience; /* tokens must be for it */
	int ticket_ttl;           /* seconds; 0 for AUTH_TICKET_TTL_SEC */
};

/* NULL where the configuration is wrong: the error names the variable. Free with auth_free(). Any
 * number of threads may use it at once. */
struct auth *auth_new(const struct auth_config *config, struct err *err);
void auth_free(struct auth *auth); /* NULL is fine */

/* False with no key configured: everything is open, and auth_check() lets everything pass. */
bool auth_enabled(const struct auth *auth);

struct auth_request {
	const char *authorization;  /* the header's value, or NULL */
	const char *api_key_header; /* that of X-AIO-API-Key, or NULL */
	const char *query;          /* raw, without the '?', or NULL */
	bool no_ticket;             /* for the route that makes tickets: none renews itself */
	bool guest;                 /* for a GUEST route: a ticket for guests will do */
	bool view; /* for a VIEW route: a ticket for looking at the desktop will do */
};

/* What a credential is good for: all that there is, or routes with VIEW. */
enum auth_scope { AUTH_ALL, AUTH_VIEW, AUTH_GUEST };

/* AUTH_ALL (0) if any of the request's credentials is valid, AUTH_VIEW (1) if that is a ticket for looking
 * and request->view is set, else -1 with ERR_UNAUTHORIZED, or with ERR_FORBIDDEN for such a ticket. That
 * ticket holds its sender to looking also where nothing is configured. */
int auth_check(const struct auth *auth, const struct auth_request *request, struct err *err);

/* Writes a new ticket and how many seconds it is good for. -1 if it does not fit in room bytes, or
 * if there is no randomness. */
int auth_ticket(const struct auth *auth, enum auth_scope scope, char *ret, size_t room,
		int *ret_expires_in);

/* Likewise for guests: programs' own pages, which see the addresses that they are opened by. It is good
 * where auth_request.guest is set. A host makes a cookie of it at the name of a port (AUTH_GUEST), which opens
 * such names and nothing else; nobody makes one elsewhere. */
int auth_guest_ticket(const struct auth *auth, char *ret, size_t room);

/* Likewise for a cookie: good for hours, and as a ticket never. */
enum { AUTH_COOKIE_TTL_SEC = 43200 };
int auth_cookie(const struct auth *auth, enum auth_scope scope, char *ret, size_t room);

/* The scope of a valid one, or -1. */
int auth_cookie_check(const struct auth *auth, const char *text);

/* Says that a request by a ticket or cookie for looking is for more than that: -1. */
int auth_only_views(struct err *err);

/* Whether a text is one of the shared keys, or a token that the JWT key signed, valid now or not. */
bool auth_knows(const struct auth *auth, const char *text, size_t len);

/* Whether one of the keys that a request carries is of a kind: to say what was sent to whom. */
bool auth_any(const struct auth_request *request,
	      bool (*is)(void *arg, const char *text, size_t len), void *arg);

/* Whether a piece of a URL sets what may be a credential, itself or in a URL that is encoded in it. */
bool auth_in_piece(const char *piece, size_t len);

/* Masks, in place, what may be a credential in a request target or URL that will be logged. */
void auth_redact(char *target);
