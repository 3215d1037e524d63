/* The OpenAPI document, written from the route tables. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/routes.h"
#include "base/json.h"
#include "net/body.h"
#include "net/call.h"
#include "net/server.h"

static const char about[] =
	"The all-in-one sandbox for AI agents: shells, files, code in several languages, documents, "
	"skills and MCP tools on one port and one file system.\n\n"
	"Answers have the envelope `{success, message, data, hint}`. `success: true` means that the "
	"request was handled: a command or code may still have failed, see `status`, `exit_code` and "
	"`stderr`. Manual for agents: [/llms.txt](/llms.txt).";

/* ---- components ---- */

enum { SCHEMAS_MAX = 1024 };

struct openapi_seen {
	const struct schema *schemas[SCHEMAS_MAX];
	bool answer[SCHEMAS_MAX];
	size_t count;
	bool answers; /* what is being walked */
};

static bool note(const struct schema *schema, void *arg)
{
	struct openapi_seen *seen = arg;
	for (size_t i = 0; i < seen->count; i++)
		if (!strcmp(seen->schemas[i]->name, schema->name))
			return false;
	if (seen->count == SCHEMAS_MAX)
		return false;
	seen->answer[seen->count] = seen->answers;
	seen->schemas[seen->count++] = schema;
	return true;
}

static void put_validation_error(struct jw *jw)
{
	static const char text[] =
		"{\"type\":\"object\",\"title\":\"HTTPValidationError\",\"properties\":{\"detail\":{\"type\":"
		"\"array\",\"items\":{\"$ref\":\"#/components/schemas/ValidationError\"}}}}";
	static const char item[] =
		"{\"type\":\"object\",\"title\":\"ValidationError\",\"required\":[\"loc\",\"msg\",\"type\"],"
		"\"properties\":{\"loc\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\"},"
		"{\"type\":\"integer\"}]}},\"msg\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
		"\"input\":{}}}";
	static const char detail[] =
		"{\"type\":\"object\",\"title\":\"Error\",\"properties\":{\"detail\":{\"type\":\"string\"},"
		"\"success\":{\"type\":\"boolean\"},\"message\":{\"type\":\"string\"},\"data\":{},"
		"\"hint\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}},"
		"\"description\":\"`detail` from the server itself, `message` from an operation.\"}";
	jw_key(jw, "HTTPValidationError");
	jw_raw(jw, text, sizeof text - 1);
	jw_key(jw, "ValidationError");
	jw_raw(jw, item, sizeof item - 1);
	jw_key(jw, "Error");
	jw_raw(jw, detail, sizeof detail - 1);
}

static bool in_document(const struct route *route)
{
	return !(route->flags & (INTERNAL | UPGRADE));
}

static void put_components(const struct route_group *const *groups, struct jw *jw)
{
#define WHICH_KEY                                                                                        \
	"Calls of a sandbox take that sandbox's token (`aio inspect ID`) or, where it has one, its API " \
	"key. Calls of /v1/sandboxes, /v1/templates and /v1/events, which only a host has, take the "    \
	"host's token: the file `token` in its state directory, /var/lib/aiobox unless --state says "    \
	"otherwise."
	static const char schemes[] =
		"{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"A token, the API key "
		"or a JWT. " WHICH_KEY
		"\"},\"apiKey\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":"
		"\"X-AIO-API-Key\",\"description\":\"A token or the API key. " WHICH_KEY "\"},"
		"\"ticket\":{\"type\":\"apiKey\",\"in\":\"query\",\"name\":\"ticket\",\"description\":\"From "
		"POST /tickets, where headers are impossible.\"}}";
	struct openapi_seen *seen = xcalloc(1, sizeof *seen);
	for (size_t g = 0; groups[g]; g++)
		for (size_t i = 0; i < groups[g]->count; i++) {
			const struct route *route = &groups[g]->routes[i];
			if (!in_document(route))
				continue;
			seen->answers = false;
			if (body_wanted(route) && !(route->flags & RAW))
				desc_walk(route->in, note, seen);
			seen->answers = true;
			if (route->data && route->data->of)
				desc_walk(route->data->of, note, seen);
			if (route->data && route->data->other)
				desc_walk(route->data->other, note, seen);
			for (size_t k = 0; route->sends && k < route->sends->variant_count; k++)
				desc_walk(route->sends->variants[k].of, note, seen);
			for (size_t k = 0; route->extra && k < route->extra->count; k++)
				if (route->extra->fields[k].of)
					desc_walk(route->extra->fields[k].of, note, seen);
		}
	jw_key(jw, "components");
	jw_open(jw, '{');
	jw_key(jw, "schemas");
	jw_open(jw, '{');
	for (size_t i = 0; i < seen->count; i++) {
		jw_key(jw, seen->schemas[i]->name);
		desc_schema_among(seen->schemas[i], seen->schemas, seen->count, seen->answer[i],
				  jw);
	}
	put_validation_error(jw);
	jw_close(jw, '}');
	jw_key(jw, "securitySchemes");
	jw_raw(jw, schemes, sizeof schemes - 1);
	jw_close(jw, '}');
	free(seen);
}

/* ---- an operation ---- */

static void put_parameters(const struct route *route, struct jw *jw)
{
	static const struct {
		unsigned flag;
		const char *name;
	} places[] = { { PATH, "path" }, { QUERY, "query" }, { HEADER, "header" } };
	jw_key(jw, "parameters");
	jw_open(jw, '[');
	for (size_t i = 0; route->in && i < route->in->count; i++) {
		const struct field *f = &route->in->fields[i];
		for (size_t p = 0; p < COUNT(places); p++) {
			if (!(f->flags & places[p].flag) || f->flags & HIDDEN)
				continue;
			jw_open(jw, '{');
			jw_key_str(jw, "name", f->name);
			jw_key_str(jw, "in", places[p].name);
			jw_key_bool(jw, "required", f->flags & (REQUIRED | PATH));
			jw_key_str(jw, "description", f->help);
			jw_key(jw, "schema");
			desc_field_schema(f, false, jw);
			jw_close(jw, '}');
		}
	}
	jw_close(jw, ']');
}

static bool has_required_body(const struct schema *schema)
{
	for (size_t i = 0; i < schema->count; i++)
		if (schema->fields[i].flags & REQUIRED &&
		    !(schema->fields[i].flags & (QUERY | PATH | HEADER)))
			return true;
	return schema->variants != NULL;
}

static void put_body(const struct route *route, struct jw *jw)
{
	static const char any_object[] = "{\"type\":\"object\",\"additionalProperties\":true}";
	bool form = false;
	for (size_t i = 0; i < route->in->count; i++)
		form = form || route->in->fields[i].type == T_FILE;
	jw_key(jw, "requestBody");
	jw_open(jw, '{');
	jw_key_bool(jw, "required", has_required_body(route->in));
	jw_key(jw, "content");
	jw_open(jw, '{');
	jw_key(jw, form ? "multipart/form-data" : "application/json");
	jw_open(jw, '{');
	jw_key(jw, "schema");
	if (route->flags & RAW)
		jw_raw(jw, any_object, sizeof any_object - 1);
	else
		desc_schema_ref(route->in, jw);
	jw_close(jw, '}');
	jw_close(jw, '}');
	jw_close(jw, '}');
}

static void put_envelope(const struct route *route, struct jw *jw)
{
	static const struct field success = { .type = T_BOOL,
					      .help = "Whether the request was handled." };
	static const struct field message = { .type = T_STR, .flags = NULLABLE };
	static const struct field hint = { .type = T_STR,
					   .flags = NULLABLE,
					   .help = "Advice for agents." };
	static const struct field nothing = { .type = T_JSON };
	jw_open(jw, '{');
	jw_key_str(jw, "type", "object");
	jw_key(jw, "properties");
	jw_open(jw, '{');
	jw_key(jw, "success");
	desc_field_schema(&success, true, jw);
	jw_key(jw, "message");
	desc_field_schema(&message, true, jw);
	jw_key(jw, "data");
	struct field data = route->data ? *route->data : nothing;
	data.flags |= NULLABLE;
	desc_field_schema(&data, true, jw);
	jw_key(jw, "hint");
	desc_field_schema(&hint, true, jw);
	for (size_t i = 0; route->extra && i < route->extra->count; i++) {
		jw_key(jw, route->extra->fields[i].name);
		desc_field_schema(&route->extra->fields[i], true, jw);
	}
	jw_close(jw, '}');
	jw_key(jw, "required");
	jw_open(jw, '[');
	jw_str(jw, "success");
	jw_str(jw, "message");
	jw_str(jw, "data");
	jw_str(jw, "hint");
	for (size_t i = 0; route->extra && i < route->extra->count; i++)
		jw_str(jw, route->extra->fields[i].name);
	jw_close(jw, ']');
	jw_close(jw, '}');
}

static void put_answer(const char *status, const char *text, const char *ref, struct jw *jw)
{
	char schema[100];
	jw_key(jw, status);
	jw_open(jw, '{');
	jw_key_str(jw, "description", text);
	jw_key(jw, "content");
	jw_open(jw, '{');
	jw_key(jw, "application/json");
	jw_open(jw, '{');
	jw_key(jw, "schema");
	jw_open(jw, '{');
	snprintf(schema, sizeof schema, "#/components/schemas/%s", ref);
	jw_key_str(jw, "$ref", schema);
	jw_close(jw, '}');
	jw_close(jw, '}');
	jw_close(jw, '}');
	jw_close(jw, '}');
}

/* The body is text; what its events are has no place in OpenAPI 3.1 but an extension. */
static void put_events(const struct route *route, struct jw *jw)
{
	if (!route->sends)
		return;
	jw_key(jw, "x-events");
	jw_open(jw, '{');
	for (size_t i = 0; i < route->sends->variant_count; i++) {
		const struct variant *v = &route->sends->variants[i];
		jw_key(jw, v->tag);
		jw_open(jw, '{');
		if (v->help)
			jw_key_str(jw, "description", v->help);
		jw_key(jw, "schema");
		desc_schema_ref(v->of, jw);
		jw_close(jw, '}');
	}
	jw_close(jw, '}');
}

static void put_responses(const struct route *route, struct jw *jw)
{
	static const char text[] = "{\"type\":\"string\"}";
	jw_key(jw, "responses");
	jw_open(jw, '{');
	jw_key(jw, "200");
	jw_open(jw, '{');
	jw_key_str(jw, "description", "Successful Response");
	jw_key(jw, "content");
	jw_open(jw, '{');
	jw_key(jw, route->type ? route->type : "application/json");
	jw_open(jw, '{');
	jw_key(jw, "schema");
	if (!(route->flags & BARE)) {
		put_envelope(route, jw);
	} else if (route->data) {
		desc_field_schema(route->data, true, jw);
	} else {
		jw_open(jw, '{');
		if (route->type)
			jw_key_str(jw, "type", "string");
		jw_close(jw, '}');
	}
	if (route->type)
		put_events(route, jw);
	jw_close(jw, '}');
	if (route->flags & EVENTS) {
		jw_key(jw, "text/event-stream");
		jw_open(jw, '{');
		jw_key(jw, "schema");
		jw_raw(jw, text, sizeof text - 1);
		put_events(route, jw);
		jw_close(jw, '}');
	}
	jw_close(jw, '}');
	jw_close(jw, '}');
	if (!(route->flags & PUBLIC))
		put_answer("401", "Credentials are needed, and none was valid", "Error", jw);
	if (route->in)
		put_answer("422", "Validation Error", "HTTPValidationError", jw);
	put_answer("default", "Any other error", "Error", jw);
	jw_close(jw, '}');
}

/* "get_v1_sandbox_packages_python" */
static void put_id(const struct route *route, struct jw *jw)
{
	char id[200];
	size_t len = 0;
	for (const char *at = route->method; *at && len < sizeof id - 1; at++)
		id[len++] = (char)tolower((unsigned char)*at);
	for (const char *at = route->path; *at && len < sizeof id - 1; at++)
		if (isalnum((unsigned char)*at) || (len && id[len - 1] != '_'))
			id[len++] = (char)(isalnum((unsigned char)*at) ? *at : '_');
	while (len && id[len - 1] == '_')
		len--;
	id[len] = 0;
	jw_key_str(jw, "operationId", id);
}

static void put_operation(const struct route_group *group, const struct route *route, struct jw *jw)
{
	char method[16];
	size_t len = 0;
	for (; route->method[len] && len < sizeof method - 1; len++)
		method[len] = (char)tolower((unsigned char)route->method[len]);
	method[len] = 0;
	jw_key(jw, method);
	jw_open(jw, '{');
	jw_key(jw, "tags");
	jw_open(jw, '[');
	jw_str(jw, group->tag);
	jw_close(jw, ']');
	jw_key_str(jw, "summary", route->summary);
	if (route->help)
		jw_key_str(jw, "description", route->help);
	put_id(route, jw);
	put_parameters(route, jw);
	if (body_wanted(route))
		put_body(route, jw);
	put_responses(route, jw);
	if (route->flags & PUBLIC) {
		jw_key(jw, "security");
		jw_raw(jw, "[]", 2);
	}
	jw_close(jw, '}');
}

/* ---- the document ---- */

/* Whether an earlier row has the same path: all its methods were written there. */
static bool is_first(const struct route_group *const *groups, const struct route *route)
{
	for (size_t g = 0; groups[g]; g++)
		for (size_t i = 0; i < groups[g]->count; i++) {
			const struct route *other = &groups[g]->routes[i];
			if (other == route)
				return true;
			if (in_document(other) && !strcmp(other->path, route->path))
				return false;
		}
	return true;
}

static void put_path(const struct route_group *const *groups, const char *path, struct jw *jw)
{
	jw_key(jw, path);
	jw_open(jw, '{');
	for (size_t g = 0; groups[g]; g++)
		for (size_t i = 0; i < groups[g]->count; i++)
			if (in_document(&groups[g]->routes[i]) &&
			    !strcmp(groups[g]->routes[i].path, path))
				put_operation(groups[g], &groups[g]->routes[i], jw);
	jw_close(jw, '}');
}

static void put_info(struct jw *jw)
{
	jw_key_str(jw, "openapi", "3.1.0");
	jw_key(jw, "info");
	jw_open(jw, '{');
	jw_key_str(jw, "title", "aiobox");
	jw_key_str(jw, "version", AIO_VERSION);
	jw_key_str(jw, "description", about);
	jw_key(jw, "license");
	jw_open(jw, '{');
	jw_key_str(jw, "name", "Apache-2.0");
	jw_key_str(jw, "identifier", "Apache-2.0");
	jw_close(jw, '}');
	jw_close(jw, '}');
}

static void put_tags(const struct route_group *const *groups, struct jw *jw)
{
	jw_key(jw, "tags");
	jw_open(jw, '[');
	for (size_t g = 0; groups[g]; g++) {
		bool any = false;
		for (size_t i = 0; i < groups[g]->count; i++)
			any = any || in_document(&groups[g]->routes[i]);
		for (size_t k = 0; k < g; k++) /* a large group is several, in files of their own */
			any = any && strcmp(groups[k]->tag, groups[g]->tag) != 0;
		if (!any)
			continue;
		jw_open(jw, '{');
		jw_key_str(jw, "name", groups[g]->tag);
		jw_key_str(jw, "description", groups[g]->help);
		jw_close(jw, '}');
	}
	jw_close(jw, ']');
}

void openapi_write(const struct route_group *const *groups, struct jw *jw)
{
	static const char security[] = "[{},{\"bearer\":[]},{\"apiKey\":[]},{\"ticket\":[]}]";
	jw_open(jw, '{');
	put_info(jw);
	put_tags(groups, jw);
	jw_key(jw, "paths");
	jw_open(jw, '{');
	for (size_t g = 0; groups[g]; g++)
		for (size_t i = 0; i < groups[g]->count; i++) {
			const struct route *route = &groups[g]->routes[i];
			if (in_document(route) && is_first(groups, route))
				put_path(groups, route->path, jw);
		}
	jw_close(jw, '}');
	put_components(groups, jw);
	jw_key(jw, "security");
	jw_raw(jw, security, sizeof security - 1);
	jw_close(jw, '}');
}

/* ---- its address ---- */

static int show_document(struct call *call, const void *in, struct err *err)
{
	(void)in;
	openapi_write(call->server->groups, call_reply_begin(call, err));
	return call_reply_end(call, err);
}

static const struct field any_json = { .type = T_JSON };

static const struct route routes[] = {
	{ "GET", "/openapi.json", show_document, NULL, &any_json, "This document", .flags = BARE },
	{ "GET", "/v1/openapi.json", show_document, NULL, &any_json, "This document",
	  .flags = BARE },
};
const struct route_group openapi_group = { "document", "What the server says about itself.", routes,
					   COUNT(routes) };
