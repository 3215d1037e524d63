#include "api/sign_in.h"

#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/server.h"
#include "net/wire.h"

/* ---- the page ---- */

static struct {
	char text[8192];
	const char *rest; /* after the form's action; NULL: there is no page */
} page;

void sign_in_load(const char *home)
{
	static const char action[] = "action=\"" SIGN_IN_PATH;
	auto_free char *path = xasprintf("%s/%s", home, page_files[PAGE_SIGN_IN].path);
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(page.text, 1, sizeof page.text - 1, file) : 0;
	if (file)
		fclose(file);
	page.text[len] = 0;
	char *at = strstr(page.text, action);
	if (!at) {
		log_warn("people are not asked for a key: '%s' is missing or not the page", path);
		return;
	}
	page.rest = at + strlen(action);
	at[strlen("action=\"")] = 0;
}

bool sign_in_ask(const char *prefix, const char *back, struct answer *ret, struct buf *ret_page)
{
	if (!page.rest)
		return false;
	buf_printf(ret_page, "%s%s" SIGN_IN_PATH "?to=", page.text, prefix);
	url_encode(ret_page, back);
	buf_str(ret_page, page.rest);
	*ret = (struct answer){
		401, "text/html; charset=utf-8", (int64_t)ret_page->len,
		.headers = { { "WWW-Authenticate", "Bearer realm=\"aiobox\"" },
			     { "Content-Security-Policy", page_files[PAGE_SIGN_IN].policy },
			     /* Under a stricter one the browser would say that the form has no origin. */
			     { "Referrer-Policy", "same-origin" },
			     { "Cache-Control", "no-store" } },
		.header_count = 4
	};
	return true;
}

/* ---- its form ---- */

static const struct field sign_in_fields[] = {
	NAMED(WIRE_BOX, STR, sign_in, box, HEADER, NULL),
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
	    auth_ticket(auth, AUTH_ALL, ticket, sizeof ticket, &ttl) == 0)
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
	{ "POST", SIGN_IN_PATH, sign_in, &sign_in_schema,
	  .flags = RAW | INTERNAL | PUBLIC | ANY_NAME },
};
const struct route_group sign_in_group = { "auth", "Credentials.", routes, COUNT(routes) };
