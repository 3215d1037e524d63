/* Tickets, and the check that a gateway in front asks for. */
#include <string.h>

#include "api/routes.h"
#include "base/err.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/server.h"
#include "net/wire.h"

static const struct field ticket_fields[] = {
	STR(ticket, ticket, REQUIRED, "To be sent as ?ticket= until it expires."),
	INT(ticket, expires_in, REQUIRED, "Seconds."),
};
static const struct schema ticket_schema = SCHEMA(ticket, "Ticket", ticket_fields);
const struct field ticket_data = { .type = T_OBJ, .of = &ticket_schema };

const char *const ticket_scopes[] = { [AUTH_ALL] = "all", [AUTH_VIEW] = "view", NULL };

enum auth_scope ticket_scope(const char *name)
{
	return strcmp(name, ticket_scopes[AUTH_VIEW]) != 0 ? AUTH_ALL : AUTH_VIEW;
}

struct ticket_wish {
	const char *scope;
};
static const struct field wish_fields[] = {
	ENUM(ticket_wish, scope, 0,
	     "What it is good for: `all`, or `view`, which lets its bearer look at the desktop at "
	     "`/vnc/index.html`, without input, and nothing else.",
	     .choices = ticket_scopes, .def = "all"),
};
static const struct schema wish_schema = SCHEMA(ticket_wish, "TicketRequest", wish_fields);

static int create_ticket(struct call *call, const void *in, struct err *err)
{
	const struct ticket_wish *wish = in;
	char text[AUTH_TICKET_ROOM];
	int expires_in;
	if (auth_ticket(call->server->auth, ticket_scope(wish->scope), text, sizeof text,
			&expires_in) < 0)
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
	NAMED(WIRE_KEY, STR, check, api_key, HEADER | HIDDEN, NULL),
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

static const struct route routes[] = {
	{ "POST", "/tickets", create_ticket, &wish_schema, &ticket_data, "Create a ticket",
	  "A short-lived credential for URLs that cannot carry a header: WebSockets, pages, frames. Each "
	  "call makes a new one; one ticket may be used any number of times until it expires.",
	  .flags = BARE | NO_TICKET },
	{ "GET", "/auth", check, &check_schema, &check_data, "Check credentials",
	  "For a gateway's authentication subrequest: checks the ticket or key in the query of "
	  "`x-original-uri`, or the `Authorization` header. 200 or 401.",
	  .flags = BARE | PUBLIC },
};
const struct route_group auth_group = { "auth", "Credentials.", routes, COUNT(routes) };
