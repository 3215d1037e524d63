/* Changing what the browser's tabs ask of the network: headers and routes. */
#include <string.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/intercept.h"
#include "browser/url_pattern.h"
#include "net/call.h"

enum { HEADERS_SET_MAX = 200 };

/* ---- headers ---- */

struct network_headers {
	struct list headers;
};
static const struct field headers_fields[] = {
	MAP(network_headers, headers, REQUIRED,
	    "Names and values. They take the place of all that were set so before; none: requests "
	    "are as the browser makes them.",
	    .max_len = HEADERS_SET_MAX),
};
static const struct schema headers_schema =
	SCHEMA(network_headers, "HeadersRequest", headers_fields);

struct network_scoped_headers {
	const char *origin;
	struct list headers;
};
static const struct field scoped_fields[] = {
	STR(network_scoped_headers, origin, REQUIRED,
	    "The origin, such as https://api.example.com, a host, or a URL pattern with wildcards.",
	    .min_len = 1, .max_len = 1000, .alias = "url_pattern,pattern"),
	MAP(network_scoped_headers, headers, REQUIRED,
	    "Names and values. They take the place of those of this origin; none: removes them.",
	    .max_len = HEADERS_SET_MAX),
};
static const struct schema scoped_schema =
	SCHEMA(network_scoped_headers, "ScopedHeadersRequest", scoped_fields);

static int set_headers(struct call *call, const void *in, struct err *err)
{
	const struct network_headers *request = in;
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	if (intercept_set_headers(page.tab, &request->headers, &page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

static int set_scoped_headers(struct call *call, const void *in, struct err *err)
{
	const struct network_scoped_headers *request = in;
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	if (intercept_set_scoped_headers(page.tab, request->origin, &request->headers, &page.wait,
					 &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

/* ---- routes ---- */

struct route_response {
	int64_t status;
	struct list headers;
	struct text body;
	const char *content_type;
};
static const struct field response_fields[] = {
	INT(route_response, status, MIN | MAX, "Its status.", .def = "200", .min = 200, .max = 599),
	MAP(route_response, headers, OPTIONAL, "Its headers.", .max_len = HEADERS_SET_MAX),
	TEXT(route_response, body, OPTIONAL, "Its body.", .def = ""),
	STR(route_response, content_type, OPTIONAL, "Its type, unless a header says it.",
	    .def = "text/plain"),
};
static const struct schema response_schema =
	SCHEMA(route_response, "RouteResponseModel", response_fields);

struct route_add {
	const char *url_pattern;
	const struct route_response *response;
	bool abort;
	struct list headers;
	const char *method;
	struct text post_data;
	struct text response_body;
	int64_t response_status;
};
#define URL_PATTERN(s)                                                                             \
	STR(s, url_pattern, REQUIRED,                                                              \
	    "Which URLs: * is any text without a slash, ** any text, {a,b} either of them, as in " \
	    "Playwright. Without a scheme, it may begin anywhere in the URL.",                     \
	    .alias = "pattern,url", .min_len = 1, .max_len = URL_PATTERN_MAX)
static const struct field add_fields[] = {
	URL_PATTERN(route_add),
	OBJ(route_add, response, OPTIONAL, "Answer with this; the network is not asked.",
	    .of = &response_schema),
	BOOL(route_add, abort, OPTIONAL, "Let the requests fail.", .def = "false"),
	MAP(route_add, headers, OPTIONAL,
	    "Where there is no response: headers to set in the requests, which go on.",
	    .max_len = HEADERS_SET_MAX),
	STR(route_add, method, OPTIONAL, "Likewise: the method to use instead.", .max_len = 32),
	TEXT(route_add, post_data, OPTIONAL, "Likewise: the body to send instead."),
	TEXT(route_add, response_body, HIDDEN, "As response.body."),
	INT(route_add, response_status, HIDDEN | MIN | MAX, "As response.status.", .min = 200,
	    .max = 599),
};
static const struct schema add_schema = SCHEMA(route_add, "NetworkRouteRequest", add_fields);

struct route_remove {
	const char *url_pattern;
};
static const struct field remove_fields[] = { URL_PATTERN(route_remove) };
static const struct schema remove_schema =
	SCHEMA(route_remove, "NetworkRouteRemoveRequest", remove_fields);

static void set_response(struct intercept_route *route, const struct route_response *response)
{
	route->action = ROUTE_FULFILL;
	route->status = response->status;
	route->content_type = response->content_type;
	route->body = response->body;
	route->headers = response->headers;
}

static bool is_method(const char *method)
{
	return *method && strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == strlen(method);
}

/* The older names make a response, too. */
static int describe(const struct route_add *r, struct intercept_route *route, struct err *err)
{
	const struct route_response older = {
		.status = r->response_status == INT_ABSENT ? 200 : r->response_status,
		.body = r->response_body,
		.content_type = "text/plain",
	};
	bool any = r->response || r->response_body.data || r->response_status != INT_ABSENT;
	*route = (struct intercept_route){ .pattern = r->url_pattern, .headers = r->headers };
	if (r->abort && any)
		return err_set(err, ERR_INVALID, "a route has a response or aborts, not both");
	if (r->method && !is_method(r->method))
		return err_set(err, ERR_INVALID, "invalid method '%s'", r->method);
	if (r->abort) {
		route->action = ROUTE_ABORT;
	} else if (any) {
		set_response(route, r->response ? r->response : &older);
	} else {
		route->method = r->method;
		route->post_data = r->post_data.data ? &r->post_data : NULL;
	}
	return 0;
}

static int add_route(struct call *call, const void *in, struct err *err)
{
	struct intercept_route route;
	struct page_call page;
	struct err cause = { 0 };
	if (describe(in, &route, err) < 0 || page_begin(call, 0, &page, err) < 0)
		return -1;
	if (intercept_add(page.tab, &route, &page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

static int remove_route(struct call *call, const void *in, struct err *err)
{
	const struct route_remove *request = in;
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, 0, &page, err) < 0)
		return -1;
	if (intercept_remove(page.tab, request->url_pattern, &page.wait, &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, NULL, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/network/headers", set_headers, &headers_schema, NULL,
	  "Set extra headers",
	  "Adds headers to all later requests of all tabs, those to come included." },
	{ "POST", "/v1/browser/network/scoped_headers", set_scoped_headers, &scoped_schema, NULL,
	  "Set headers for an origin",
	  "Adds headers to all later requests to one origin. A redirect does not take them to "
	  "another one." },
	{ "POST", "/v1/browser/network/route", add_route, &add_schema, NULL, "Add a route",
	  "Answers matching requests of all tabs, lets them fail, or changes them. The newest "
	  "matching route counts; one takes the place of another of the same pattern." },
	{ "DELETE", "/v1/browser/network/route", remove_route, &remove_schema, NULL,
	  "Remove a route", "Removes the route of a pattern, given as it was added." },
};
const struct route_group browser_network_group = { "browser", "The browser's network: changes.",
						   routes, COUNT(routes) };
