/* cookie.h - what a browser is given in place of a credential in the address that it opened. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "net/auth.h"

struct http_head;

/* Of an address whose name is one box's alone. */
#define COOKIE_NAME "aio_box"
enum { COOKIE_NAME_ROOM = 24 };

/* The name of the cookie for an address: `shared` where other ports of the same host name may have
 * servers of their own, because browsers do not keep the cookies of ports apart. */
void cookie_name(char to[COOKIE_NAME_ROOM], const char *host, bool shared);

/* Whether a name is one of these. */
bool cookie_is_ours(const char *name, size_t len);

/* The value of a Set-Cookie, to be freed; NULL if there is no randomness. */
char *cookie_new(const struct auth *auth, enum auth_scope scope, const char *name);

/* The widest scope of the request's valid ones of that name, or -1. Browsers send it along whoever asks, so
 * callers look at the page that asks, too. */
int cookie_check(const struct auth *auth, const struct http_head *head, const char *name);

/* The next of the request's cookies of that name, its value in `to`; false where there is no more.
 * A page of a neighbouring name can add some, and have them come first. */
struct cookies {
	size_t header;
	const char *at; /* starts as NULL */
};
bool cookie_next(const struct http_head *head, const char *name, struct cookies *it, char *to,
		 size_t room);
