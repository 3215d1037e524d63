/* What the server says about itself: health, the OpenAPI document, the manual for agents. */
#include <string.h>

#include "api/routes.h"
#include "base/err.h"
#include "net/call.h"
#include "net/server.h"

static int health(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return call_text(call, "text/plain; charset=utf-8", "OK", 2, err);
}

static int document(struct call *call, const void *in, struct err *err)
{
	(void)in;
	openapi_write(call->server->groups, call_reply_begin(call, err));
	return call_reply_end(call, err);
}

static int manual(struct call *call, const void *in, struct err *err)
{
	(void)in;
	auto_buf struct buf text = BUF(8 << 20);
	if (sandbox_text(call->server, &text, err) < 0)
		return -1;
	buf_printf(&text, "\nDocs: %s/v1/docs\n\n", call->base_url);
	manual_write(call->server->groups, &text);
	return call_text(call, "text/plain; charset=utf-8", text.data, text.len, err);
}

static const struct field any = { .type = T_JSON };

static const struct route routes[] = {
	{ "GET", "/health", health, NULL, NULL, "Is the server alive?", .flags = PUBLIC | BARE,
	  .type = "text/plain" },
	{ "GET", "/openapi.json", document, NULL, &any, "This document", .flags = BARE },
	{ "GET", "/v1/openapi.json", document, NULL, &any, "This document", .flags = BARE },
	{ "GET", "/llms.txt", manual, NULL, NULL, "A manual for agents",
	  "Plain text: what this sandbox is, as `GET /v1/sandbox` says it, and every call it "
	  "answers, made from the same tables as this document.",
	  .flags = BARE, .type = "text/plain" },
};
const struct route_group document_group = { "document", "What the server says about itself.",
					    routes, COUNT(routes) };
