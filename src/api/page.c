/* The product's pages, and the files they are made of. */
#include <string.h>

#include "api/routes.h"
#include "base/err.h"
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

/* The pages, of a box and of the host: here from its own files, which nobody in a box can change. */
static const struct {
	const char *path, *file;
	const char *policy; /* what it may load; NULL: as all pages */
} pages[] = {
	{ "/v1/docs", "web/docs/index.html", NULL },
	{ "/terminal", "web/terminal/index.html", NULL },
	{ "/favicon.ico", "web/favicon.svg", NULL },
};

static int show_page(struct call *call, const void *in, struct err *err)
{
	(void)in;
	for (size_t i = 0; i < COUNT(pages); i++)
		if (!strcmp(pages[i].path, call->route->path))
			return static_file(call, pages[i].file, pages[i].policy, err);
	return err_set(err, ERR_NOT_FOUND, "there is no such page");
}

static const struct route routes[] = {
	{ "GET", "/", home, &home_schema, .flags = INTERNAL },
	{ "GET", "/index.html", home, &home_schema, .flags = INTERNAL },
	{ "GET", "/v1/docs", show_page, .flags = INTERNAL },
	{ "GET", "/terminal", show_page, .flags = INTERNAL },
	{ "GET", "/favicon.ico", show_page, .flags = INTERNAL },
	{ "GET", "/static/*", static_serve, &static_schema, .flags = INTERNAL },
};
const struct route_group page_group = { "page", "Pages for people.", routes, COUNT(routes) };
