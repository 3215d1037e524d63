/* Tickets, and the check that a gateway in front asks for. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/head.h"
#include "net/server.h"

enum { SIGN_IN_MAX = 65536 };

static const struct field ticket_fields[] = {
	STR(ticket, ticket, REQUIRED, "To be sent as ?ticket= until it expires."),
	INT(ticket, expires_in, REQUIRED, "Seconds."),
};
static const struct schema ticket_schema = SCHEMA(ticket, "Ticket", ticket_fields);
const struct field ticket_data = { .type = T_OBJ, .of = &ticket_schema };

static int create_ticket(struct call *call, const void *in, struct err *err)
{
	(void)in;
	char text[AUTH_TICKET_ROOM];
	int expires_in;
	if (auth_ticket(call->server->auth, text, sizeof text, &expires_in) < 0)
		return err_set(err, ERR_INTERNAL, "no randomness for a ticket");
	struct ticket ticket = { text, expires_in };
	return call_reply(call, &ticket, err);
}

struct check {
	const char *original_uri, *authorization, *api_key;
};
static const struct field check_fields[] = {
	NAMED("x-original-uri", STR, check, original_uri, HEADER,
	      "The URI that the gateway was asked for; its query is looked at."),
	NAMED("authorization", STR, check, authorization, HEADER | HIDDEN, NULL),
	NAMED("x-aio-api-key", STR, check, api_key, HEADER | HIDDEN, NULL),
};
static const struct schema check_schema = SCHEMA(check, "AuthCheck", check_fields);
static const struct field check_data = { .type = T_MAP };

static int check(struct call *call, const void *in, struct err *err)
{
	const struct check *request = in;
	const char *mark = request->original_uri ? strchr(request->original_uri, '?') : NULL;
	struct auth_request credentials = { .authorization = request->authorization,
					    .api_key_header = request->api_key,
					    .query = mark ? mark + 1 : NULL };
	if (auth_check(call->server->auth, &credentials, err) < 0)
		return -1;
	struct pair status = { "status", "ok" };
	return call_reply(call, &(struct list){ 1, &status }, err);
}

/* ---- signing in ---- */

static const struct field sign_in_fields[] = {
	NAMED("x-aio-box", STR, sign_in, box, HEADER, NULL),
	STR(sign_in, to, QUERY, NULL),
	TEXT(sign_in, form, 0, NULL, .max_len = SIGN_IN_MAX),
};
const struct schema sign_in_schema = SCHEMA(sign_in, "SignIn", sign_in_fields);

/* A path of this very address, and nothing that a browser could take for another. */
static bool is_own_path(const char *path)
{
	for (const char *at = path; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return false;
	return path[0] == '/' && path[1] != '/' && path[1] != '\\';
}

/* A key or a token, as it was typed or pasted. */
static bool is_key(const struct sign_in *request, const struct auth *auth)
{
	auto_buf struct buf name = BUF(64), value = BUF(SIGN_IN_MAX);
	auto_free char *form = xstrndup(request->form.data, request->form.len);
	struct url_query it = { form };
	do {
		if (!url_query_next(&it, &name, &value))
			return false;
	} while (!name.data || strcmp(name.data, "api_key") != 0);
	auto_free char *bearer = xasprintf("Bearer %s", value.data ? value.data : "");
	struct auth_request by = { .authorization = bearer };
	return auth_check(auth, &by, NULL) == 0;
}

int sign_in_reply(struct call *call, const struct sign_in *request, const struct auth *auth,
		  struct err *err)
{
	auto_buf struct buf to = BUF(1 << 20);
	char ticket[AUTH_TICKET_ROOM];
	int ttl;
	if (!request->to || !is_own_path(request->to) || buf_str(&to, request->to) < 0)
		buf_str(&to, "/");
	if (auth_enabled(auth) && is_key(request, auth) &&
	    auth_ticket(auth, ticket, sizeof ticket, &ttl) == 0)
		buf_printf(&to, "%cticket=%s", strchr(to.data, '?') ? '&' : '?', ticket);
	struct answer answer = { 303, NULL, 0,
				 .headers = { { "Location", to.data },
					      { "Referrer-Policy", "no-referrer" },
					      { "Cache-Control", "no-store" } },
				 .header_count = 3 };
	return call->sink->begin(call->sink, &answer, err);
}

static int sign_in(struct call *call, const void *in, struct err *err)
{
	return sign_in_reply(call, in, call->server->auth, err);
}

static const struct route routes[] = {
	{ "POST", "/tickets", create_ticket, NULL, &ticket_data, "Create a ticket",
	  "A short-lived credential for URLs that cannot carry a header: WebSockets, pages, frames. Each "
	  "call makes a new one; one ticket may be used any number of times until it expires.",
	  .flags = BARE | NO_TICKET },
	{ "GET", "/auth", check, &check_schema, &check_data, "Check credentials",
	  "For a gateway's authentication subrequest: checks the ticket or key in the query of "
	  "`x-original-uri`, or the `Authorization` header. 200 or 401.",
	  .flags = BARE | PUBLIC },
	{ "POST", HEAD_SIGN_IN, sign_in, &sign_in_schema, .flags = RAW | INTERNAL | PUBLIC },
};
const struct route_group auth_group = { "auth", "Credentials.", routes, COUNT(routes) };
