/* guard.h - which pages of a browser may drive this server.
 *
 * A server without authentication on loopback trusts whoever can reach it, and every web page can
 * make a browser reach it. So requests of foreign origins are refused, and so are host names that
 * are not ours: a foreign name that resolves to 127.0.0.1 (DNS rebinding) has our own origin. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_head;
struct pair;

/* What a listener asks of those that come in by it. */
struct guard {
	const char *domain, *cors_origins; /* may be NULL */
	bool any_host;                     /* no browser comes directly, or the operator says so */
};

struct guard_caller {
	const struct http_head *head;
	bool open;    /* what it asks for needs no credentials */
	bool known;   /* it is from a page that may call this address */
	bool vouched; /* a gateway has looked at its Origin */
	bool frames;  /* what it asks for may be shown in a page of another origin */
};

/* -1 with ERR_FORBIDDEN: a page that may not do so has the browser send this. */
int guard_check(const struct guard *guard, const struct guard_caller *caller, struct err *err);

/* Whether a request is from a page of the server's own origin, or of a configured one. */
bool guard_knows(const struct guard *guard, const struct http_head *head);

/* Whether a request changes nothing, as far as its method says. */
bool guard_is_safe(const struct http_head *head);

/* The GUARD_ALLOWS headers that answer the preflight of a page that may call, beside its origin. */
enum { GUARD_ALLOWS = 3 };
void guard_allow(const struct http_head *head, struct pair *ret);

/* The error for a page of another origin. */
int guard_foreign(const char *origin, struct err *err);

/* Whether a Host header is an IP literal, localhost, below it, the configured domain (may be NULL),
 * below that, or a preview name of one of them: "PORT-localhost". */
bool guard_host(const char *host, const char *domain);

/* Whether an Origin header is the server's own, as its Host header tells, or one of the configured
 * (comma-separated, may be NULL; "*" for all). */
bool guard_origin(const char *origin, const char *host, const char *configured);

/* Whether a page of another origin has the browser send this by itself: for an image, a script, a
 * prefetch, or a frame unless frames are fine; not for a page that is opened in a window. Browsers
 * say so to localhost and over TLS. */
bool guard_unseen(const struct http_head *head, bool frames);

/* The origin of the page that sent a request: its Origin, or what its Referer says; "" for none. */
void guard_page(const struct http_head *head, char *to, size_t room);
