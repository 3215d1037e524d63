/* What the host says about its API: the calls of its own, and those that every box answers. */
#include "api/routes.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "host/default_box.h"
#include "host/host.h"
#include "net/call.h"

void host_openapi_groups(const struct route_group *to[HOST_OPENAPI_GROUPS])
{
	*to++ = &sandboxes_group;
	*to++ = &sandboxes_metrics_group;
	*to++ = &events_group;
	*to++ = &sandboxes_logs_group;
	*to++ = &templates_group;
	for (size_t i = 0; api_groups[i] && i < HOST_OPENAPI_GROUPS - 6; i++)
		*to++ = api_groups[i];
	*to = NULL;
}

static int document(struct call *call, const void *in, struct err *err)
{
	(void)in;
	const struct route_group *groups[HOST_OPENAPI_GROUPS];
	host_openapi_groups(groups);
	openapi_write(groups, call_reply_begin(call, err));
	return call_reply_end(call, err);
}

static int manual(struct call *call, const void *in, struct err *err)
{
	(void)in;
	const struct route_group *groups[HOST_OPENAPI_GROUPS];
	auto_buf struct buf text = BUF(8 << 20);
	host_openapi_groups(groups);
	const char *mode = default_box_mode(host_of(call->server));
	buf_printf(
		&text,
		"aiobox: a host of sandboxes.\n\n"
		"Calls of /v1/sandboxes and /v1/templates make and manage sandboxes; they need the host's\n"
		"own token. All other calls are answered by one sandbox: the one that the header\n"
		"'x-aio-sandbox: ID' or the path %s/s/ID/ names, or else the one named 'default'.\n"
		"GET /v1/sandbox describes it, and %s/s/ID/llms.txt is its own manual.\n\n"
		"Network: a sandbox has none unless it is created with one, by \"network\" in the body of\n"
		"POST /v1/sandboxes: {\"mode\": \"allow\", \"allow\": [\"packages.example.com\"]} opens names,\n"
		"{\"mode\": \"full\"} everything public; or by 'aio create --network allow --allow NAME'.\n"
		"The sandbox 'default' has the mode \"%s\" (see 'aio up --network').\n\n"
		"Docs: %s/v1/docs\n\n",
		call->base_url, call->base_url, mode ? mode : "none", call->base_url);
	llms_write(groups, &text);
	return call_text(call, "text/plain; charset=utf-8", text.data, text.len, err);
}

static const struct field any = { .type = T_JSON };

static const struct route routes[] = {
	{ "GET", "/openapi.json", document, NULL, &any, "This document", .flags = BARE },
	{ "GET", "/v1/openapi.json", document, NULL, &any, "This document", .flags = BARE },
	{ "GET", "/llms.txt", manual, NULL, NULL, "A manual for agents", .flags = BARE,
	  .type = "text/plain" },
};
const struct route_group host_openapi_group = { "document", "What the server says about itself.",
						routes, COUNT(routes) };
