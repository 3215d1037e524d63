/* The product's pages, and the files they are made of. */
#include "api/routes.h"
#include "net/call.h"
#include "net/static.h"

static int home(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return call_redirect(call, "/v1/docs", err);
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
	{ "GET", "/", home, .flags = INTERNAL },
	{ "GET", "/index.html", home, .flags = INTERNAL },
	{ "GET", "/v1/docs", docs, .flags = INTERNAL },
	{ "GET", "/favicon.ico", favicon, .flags = INTERNAL },
	{ "GET", "/static/*", static_serve, &static_schema, .flags = INTERNAL },
};
const struct route_group page_group = { "page", "Pages for people.", routes, COUNT(routes) };
