/* Credentials of a box that its own server cannot make or check, because it never sees any: the host
 * answers these in its place. The gateway has checked the caller, and says whose it is. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "host/host.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/head.h"
#include "net/static.h"

struct ask {
	const char *box, *original_uri, *authorization, *api_key;
};
#define FROM_HEADER(header, member)                                                         \
	{                                                                                   \
		.name = (header), .type = T_STR, .at = FIELD_AT(ask, member, const char *), \
		.flags = HEADER                                                             \
	}
static const struct field ask_fields[] = {
	FROM_HEADER("x-aio-box", box),
	FROM_HEADER("x-original-uri", original_uri),
	FROM_HEADER("authorization", authorization),
	FROM_HEADER("x-aio-api-key", api_key),
};
static const struct schema ask_schema = SCHEMA(ask, "HostTicket", ask_fields);

static struct box *box_of(struct call *call, const struct ask *ask, struct err *err)
{
	struct box *box = ask->box ? boxes_get(&host_of(call->server)->boxes, ask->box) : NULL;
	if (!box)
		err_set(err, ERR_NOT_FOUND, "there is no such sandbox");
	return box;
}

static int create(struct call *call, const void *in, struct err *err)
{
	char text[AUTH_TICKET_ROOM];
	int expires_in;
	struct box *box = box_of(call, in, err);
	if (!box)
		return -1;
	int result = auth_ticket(box->auth, text, sizeof text, &expires_in);
	boxes_put(&host_of(call->server)->boxes, box);
	if (result < 0)
		return err_set(err, ERR_INTERNAL, "no randomness for a ticket");
	struct ticket ticket = { text, expires_in };
	return call_reply(call, &ticket, err);
}

static const struct field check_data = { .type = T_MAP };

static int check(struct call *call, const void *in, struct err *err)
{
	const struct ask *ask = in;
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

struct sign_in {
	const char *box, *to;
	struct text form;
};
static const struct field sign_in_fields[] = {
	{ .name = "x-aio-box",
	  .type = T_STR,
	  .at = FIELD_AT(sign_in, box, const char *),
	  .flags = HEADER },
	STR(sign_in, to, QUERY, NULL),
	TEXT(sign_in, form, 0, NULL),
};
static const struct schema sign_in_schema = SCHEMA(sign_in, "SignIn", sign_in_fields);

/* A path of this very address, and nothing that a browser could take for another. */
static bool is_own_path(const char *path)
{
	for (const char *at = path; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return false;
	return path[0] == '/' && path[1] != '/' && path[1] != '\\';
}

/* Leads back to where the form was shown, with a ticket, of which the gateway makes a cookie. Who has
 * no key is asked there again. */
static int sign_in(struct call *call, const void *in, struct err *err)
{
	const struct sign_in *request = in;
	struct host *host = host_of(call->server);
	const char *form =
		arena_printf(call->arena, "%.*s", (int)request->form.len, request->form.data);
	auto_buf struct buf to = BUF(1 << 20);
	char ticket[AUTH_TICKET_ROOM];
	int ttl;
	buf_str(&to, request->to && is_own_path(request->to) ? request->to : "/");
	struct box *box = boxes_get(&host->boxes, request->box ? request->box : "");
	const struct auth *auth = box ? box->auth : host->nobody;
	struct auth_request by = { .query = form, .no_ticket = true };
	if (auth_enabled(auth) && auth_check(auth, &by, NULL) == 0 &&
	    auth_ticket(auth, ticket, sizeof ticket, &ttl) == 0)
		buf_printf(&to, "%cticket=%s", strchr(to.data, '?') ? '&' : '?', ticket);
	boxes_put(&host->boxes, box);
	struct answer answer = { 303, NULL, 0,
				 .headers = { { "Location", to.data },
					      { "Referrer-Policy", "no-referrer" } },
				 .header_count = 2 };
	return call->sink->begin(call->sink, &answer, err);
}

static const struct route routes[] = {
	{ "POST", "/tickets", create, &ask_schema, &ticket_data, "Create a ticket",
	  .flags = BARE | INTERNAL },
	{ "GET", "/auth", check, &ask_schema, &check_data, "Check credentials",
	  .flags = BARE | INTERNAL | PUBLIC },
	{ "POST", HEAD_SIGN_IN, sign_in, &sign_in_schema, .flags = RAW | INTERNAL },
};
const struct route_group host_tickets_group = { "auth", "Credentials.", routes, COUNT(routes) };

/* The terminal's page: the same file that a box's server has, but nobody in a box can change it. */
static int terminal(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return static_file(call, "web/terminal/index.html", err);
}

static const struct route pages[] = { { "GET", "/terminal", terminal, .flags = INTERNAL } };
static const struct route_group host_page_group = { "page", "Pages for people.", pages,
						    COUNT(pages) };

const struct route_group *const host_groups[] = { &sandboxes_group,     &sandbox_watch_group,
						  &templates_group,     &host_tickets_group,
						  &host_document_group, &page_group,
						  &host_page_group,     NULL };
