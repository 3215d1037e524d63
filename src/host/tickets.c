/* Credentials of a box that its own server cannot make or check, because it never sees any: the host
 * answers these in its place. The gateway has checked the caller, and says whose it is. */
#include <string.h>

#include "api/routes.h"
#include "api/sign_in.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "host/host.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/wire.h"

struct tickets_ask {
	const char *box, *original_uri, *authorization, *api_key;
};
struct tickets_wish {
	const char *box, *scope;
};
static const struct field ask_fields[] = {
	NAMED(WIRE_BOX, STR, tickets_ask, box, HEADER, NULL),
	NAMED("x-original-uri", STR, tickets_ask, original_uri, HEADER, NULL),
	NAMED("authorization", STR, tickets_ask, authorization, HEADER, NULL),
	NAMED(WIRE_KEY, STR, tickets_ask, api_key, HEADER, NULL),
};
static const struct schema ask_schema = SCHEMA(tickets_ask, "HostTicket", ask_fields);

static const struct field wish_fields[] = {
	NAMED(WIRE_BOX, STR, tickets_wish, box, HEADER, NULL),
	ENUM(tickets_wish, scope, 0, NULL, .choices = ticket_scopes, .def = "all"),
};
static const struct schema wish_schema = SCHEMA(tickets_wish, "HostTicketRequest", wish_fields);

static struct box *box_of(struct call *call, const char *name, struct err *err)
{
	struct box *box = name ? boxes_get(&host_of(call->server)->boxes, name) : NULL;
	if (!box)
		err_set(err, ERR_NOT_FOUND, "there is no such sandbox");
	return box;
}

static int create(struct call *call, const void *in, struct err *err)
{
	const struct tickets_wish *wish = in;
	char text[AUTH_TICKET_ROOM];
	int expires_in;
	struct box *box = box_of(call, wish->box, err);
	if (!box)
		return -1;
	int result =
		auth_ticket(box->auth, ticket_scope(wish->scope), text, sizeof text, &expires_in);
	boxes_put(&host_of(call->server)->boxes, box);
	if (result < 0)
		return err_set(err, ERR_INTERNAL, "no randomness for a ticket");
	struct ticket ticket = { text, expires_in };
	return call_reply(call, &ticket, err);
}

static const struct field check_data = { .type = T_MAP };

static int check(struct call *call, const void *in, struct err *err)
{
	const struct tickets_ask *ask = in;
	const char *mark = ask->original_uri ? strchr(ask->original_uri, '?') : NULL;
	struct auth_request by = { .authorization = ask->authorization,
				   .api_key_header = ask->api_key,
				   .query = mark ? mark + 1 : NULL };
	struct host *host = host_of(call->server);
	struct box *box = boxes_get(&host->boxes, ask->box ? ask->box : "");
	int result = auth_check(box ? box->auth : host->nobody, &by, err);
	boxes_put(&host->boxes, box);
	if (result < 0)
		return -1;
	struct pair status = { "status", "ok" };
	return call_reply(call, &(struct list){ 1, &status }, err);
}

/* ---- signing in ---- */

/* Of the box that the form was shown for. */
static int sign_in(struct call *call, const void *in, struct err *err)
{
	const struct sign_in *request = in;
	struct host *host = host_of(call->server);
	struct box *box = boxes_get(&host->boxes, request->box ? request->box : "");
	int result = sign_in_reply(call, request, box ? box->auth : host->nobody, err);
	boxes_put(&host->boxes, box);
	return result;
}

static const struct route routes[] = {
	{ "POST", "/tickets", create, &wish_schema, &ticket_data, "Create a ticket",
	  .flags = BARE | INTERNAL | NO_TICKET },
	{ "GET", "/auth", check, &ask_schema, &check_data, "Check credentials",
	  .flags = BARE | INTERNAL | PUBLIC },
	{ "POST", SIGN_IN_PATH, sign_in, &sign_in_schema, .flags = RAW | INTERNAL | ANY_NAME },
};
const struct route_group host_tickets_group = { "auth", "Credentials.", routes, COUNT(routes) };
