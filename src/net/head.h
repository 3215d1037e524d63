/* head.h - the heads that the host passes on: written anew, with what is not the other side's left
 * out. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer;
struct auth;
struct buf;
struct http_head;
struct pair;

/* How the body of a message is framed on its way on. */
enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_TO_END };

struct head_request {
	const char *peer;   /* the client's address */
	size_t prefix;      /* bytes of the target that are not the server's */
	const char *before; /* a path that is put before the rest of the target; NULL: none */
	/* Port of a program of the sandbox, which sees itself at http://localhost:PORT, as its developer
	 * would: see head_request(). 0: the server sees what the client sent. */
	int program;
	const struct pair *own; /* headers of our own, but for those that are NULL or "" */
	size_t own_count;
	bool keep_credentials; /* for the host's own server, which looks at them itself */
	bool keep_authorization;
	bool strip_query; /* of what has a credential's name */
	/* Whether a text is a credential, whatever its name: it is left out; NULL: none is known. */
	bool (*is_secret)(void *arg, const char *text, size_t len);
	void *arg;
	bool upgrade;
};

/* A program gets Host: localhost:PORT, and the same origin in Origin where that is the page's own.
 * Development servers refuse Host names they do not know, and compare Origin with Host (Django,
 * SvelteKit) or with X-Forwarded-Host (Next.js, Rails): so all of them say the same, and what the client
 * says in X-Forwarded-*, Forwarded and X-Real-IP is left out. */
void head_request(struct buf *out, const struct http_head *head, const struct head_request *how);

/* The same as a forward proxy passes it on: whole, but for what is of one hop. */
struct head_forward {
	const char *target, *host; /* as the next server wants them */
	const char *authorization; /* for that, a proxy; NULL: none */
	const char *via;           /* who passes it on; NULL: not said */
	bool upgrade;
};
void head_forward(struct buf *out, const struct http_head *head, const struct head_forward *how);

/* Appends a query (without '?', may be NULL) and the '?' before it, without credentials. Whether
 * something was left out. */
bool head_query(struct buf *out, const char *query, const struct head_request *how);

struct head_response {
	bool forwarded; /* by a proxy: none of it is ours to change */
	bool plain;     /* the address is shared by several boxes' pages */
	bool varies;    /* headers of the request decide which box answers there */
	bool trusted;   /* the host's own server answers */
	bool guest;     /* a program of the sandbox does, at an address that is ours */
	/* What the client sees before the server's paths, in Location and Set-Cookie: "/s/ID"; NULL: none. */
	const char *prefix;
	const char *host; /* where the client has called; NULL: a Location there is left as it is */
	int program;      /* as in head_request: a Location there is one of this server, too */
	const char *cookie; /* a Set-Cookie of the host; NULL: none */
	enum body_kind kind;
	bool close, upgrade;
	bool length_known; /* Content-Length stays, for a HEAD or 304 too */
};
void head_response(struct buf *out, const struct http_head *head, const char *reason,
		   const struct head_response *how);

/* The path of a Location that leads to where the client has called or to the program itself; NULL: it
 * leads elsewhere, or is relative. "" for the root. */
const char *head_own_path(const char *location, const struct head_response *how);

/* An answer of the host itself, whole. The body, of answer->length bytes, may be NULL: for a HEAD. */
void head_answer(struct buf *out, const struct answer *answer, const char *body, bool close);

/* The same for an error: {"detail": …}. */
void head_error(struct buf *out, int status, const char *detail, bool close, bool head_only);

/* Whether a browser is to show what comes, in a window or a frame: Sec-Fetch-Mode says so, or where
 * the browser does not send that, that it wants HTML. */
bool head_is_visit(const struct http_head *head);

/* Whether the browser would not keep a cookie: it shows the page in one of another site. */
bool head_is_foreign_frame(const struct http_head *head);

/* Leads a browser to another address, with a Set-Cookie unless that is NULL. */
void head_redirect(struct buf *out, int status, const char *to, const char *cookie, bool close);

/* Appends a query and its '?' with a fresh ticket in place of the key in it; of a guest, with one for
 * guests in place of a key or ticket. False where there is no valid one: nothing was added. */
bool head_trade(struct buf *out, const char *query, const struct auth *auth, bool guest);

/* Lets a page of that origin send a request. */
void head_preflight(struct buf *out, const struct http_head *head, const char *origin, bool close);
