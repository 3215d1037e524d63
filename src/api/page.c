/* The product's pages, and the files they are made of. */
#include "api/routes.h"
#include "base/url.h"
#include "net/call.h"
#include "net/static.h"

/* A credential of the address goes along, or the next page would be refused. */
struct home {
	const char *ticket, *api_key;
};
static const struct field home_fields[] = {
	STR(home, ticket, QUERY | HIDDEN, NULL),
	STR(home, api_key, QUERY | HIDDEN, NULL),
};
static const struct schema home_schema = SCHEMA(home, "Home", home_fields);

static int home(struct call *call, const void *in, struct err *err)
{
	const struct home *request = in;
	const char *value = request->ticket ? request->ticket : request->api_key;
	auto_buf struct buf to = BUF(16384);
	buf_str(&to, "/v1/docs");
	if (value) {
		buf_str(&to, request->ticket ? "?ticket=" : "?api_key=");
		url_encode(&to, value);
	}
	return call_redirect(call, to.data, err);
}

static int docs(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return static_file(call, "web/docs/index.html", err);
}

static int favicon(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return static_file(call, "web/favicon.svg", err);
}

static const struct route routes[] = {
	{ "GET", "/", home, &home_schema, .flags = INTERNAL },
	{ "GET", "/index.html", home, &home_schema, .flags = INTERNAL },
	{ "GET", "/v1/docs", docs, .flags = INTERNAL },
	{ "GET", "/favicon.ico", favicon, .flags = INTERNAL },
	{ "GET", "/static/*", static_serve, &static_schema, .flags = INTERNAL },
};
const struct route_group page_group = { "page", "Pages for people.", routes, COUNT(routes) };
