/* sign_in.h - the page that asks people for a key, and the form that it sends. */
#pragma once
#include <stdbool.h>

#include "base/desc.h"

struct answer;
struct auth;
struct buf;
struct call;
struct err;

#define SIGN_IN_PATH "/.aio/sign-in"
enum { SIGN_IN_MAX = 65536 }; /* of a form */

/* Reads the page from the product's files. To be called once, before a server runs; without it people
 * get the same errors as programs, which the log says. */
void sign_in_load(const char *home);

/* 401 with the page, whose form leads to `prefix` (of plain letters) and SIGN_IN_PATH, and from there
 * back to `back`. False: there is no page. */
bool sign_in_ask(const char *prefix, const char *back, struct answer *ret, struct buf *ret_page);

/* What the form sends: to a sandbox's server, and to the host in its place. */
struct sign_in {
	const char *box, *to;
	struct text form;
};
extern const struct schema sign_in_schema;

/* Leads back to where the form was shown, with a ticket, of which a cookie is made there. Who has no
 * key is asked there again. */
int sign_in_reply(struct call *call, const struct sign_in *request, const struct auth *auth,
		  struct err *err);
