/* The manual for agents: the declared API as plain text. */
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "net/call.h"
#include "net/server.h"

static const char *type_name(enum desc_type type)
{
	static const char *const names[] = {
		[T_STR] = "string",
		[T_TEXT] = "string",
		[T_INT] = "integer",
		[T_NUM] = "number",
		[T_BOOL] = "boolean",
		[T_TRI] = "boolean",
		[T_ENUM] = "string",
		[T_JSON] = "JSON",
		[T_OBJ] = "object",
		[T_LIST] = "list",
		[T_MAP] = "object of strings",
		[T_UNION] = "object",
		[T_FILE] = "file",
		[T_STREAM] = "string",
	};
	return names[type];
}

enum { STEP = 2, DEEPEST = 12 }; /* spaces before the fields of a field */

static void put_field(const struct field *f, int indent, struct buf *to)
{
	const char *place = f->flags & PATH    ? " in the path"
			    : f->flags & QUERY ? " in the query"
					       : "";
	place = f->flags & HEADER ? " header" : place;
	/* JSON that is known to be an object is written as what it is. */
	enum desc_type type = f->type == T_LIST ? f->item : f->type;
	buf_printf(to, "%*s%s: %s%s%s", indent, "", f->name, f->type == T_LIST ? "list of " : "",
		   type_name(type == T_JSON && f->of ? T_OBJ : type), place);
	if (f->flags & REQUIRED)
		buf_str(to, ", required");
	else if (f->def)
		buf_printf(to, ", default %s", f->def);
	for (size_t i = 0; f->choices && f->choices[i]; i++)
		buf_printf(to, "%s%s", i ? " | " : ", one of ", f->choices[i]);
	if (f->help)
		buf_printf(to, ". %s", f->help);
	buf_str(to, "\n");
}

static void put_fields(const struct schema *schema, int indent, bool answer, struct buf *to)
{
	for (size_t i = 0; i < schema->variant_count; i++) {
		const char *help = schema->variants[i].help;
		buf_printf(to, "%*swhen %s is %s:%s%s\n", indent, "", schema->tag,
			   schema->variants[i].tag, help ? " " : "", help ? help : "");
		put_fields(schema->variants[i].of, indent + STEP, answer, to);
	}
	for (size_t i = 0; i < schema->count; i++) {
		struct field f = schema->fields[i];
		if (f.flags & HIDDEN)
			continue;
		if (answer)
			f.flags = 0;
		put_field(&f, indent, to);
		if (f.of && indent < DEEPEST)
			put_fields(f.of, indent + STEP, answer, to);
	}
}

static void put_messages(const struct schema *messages, struct buf *to)
{
	for (size_t i = 0; messages && i < messages->variant_count; i++) {
		const struct variant *v = &messages->variants[i];
		buf_printf(to, "    %s%s%s\n", v->tag, v->help ? ": " : "", v->help ? v->help : "");
		put_fields(v->of, 3 * STEP, true, to);
	}
}

static void put_route(const struct route *route, struct buf *to)
{
	buf_printf(to, "\n%s %s\n  %s%s", route->method, route->path, route->summary,
		   strchr(".?!", route->summary[strlen(route->summary) - 1]) ? "" : ".");
	buf_printf(to, "%s%s\n", route->help ? " " : "", route->help ? route->help : "");
	if (route->flags & UPGRADE)
		buf_str(to, "  A WebSocket.\n");
	if (route->in)
		put_fields(route->in, 2 * STEP, false, to);
	if (route->flags & EVENTS)
		buf_printf(
			to,
			"  With 'Accept: text/event-stream' the answer is a stream of events%s\n",
			route->sends ? ":" : ".");
	if (route->flags & UPGRADE && route->sends)
		buf_str(to, "  Messages from the server, JSON with a `type`:\n");
	put_messages(route->sends, to);
	if (route->takes)
		buf_str(to, "  Messages to the server:\n");
	put_messages(route->takes, to);
	if (route->data && route->data->of) {
		buf_printf(to, "  Answer%s%s:\n", route->flags & BARE ? "" : ", in data",
			   route->data->type == T_LIST ? ", a list of" : "");
		put_fields(route->data->of, 2 * STEP, true, to);
	} else if (route->data && route->data->help) {
		buf_printf(to, "  Answer%s: %s\n", route->flags & BARE ? "" : ", in data",
			   route->data->help);
	}
	if (route->extra) {
		buf_str(to, "  Beside data:\n");
		put_fields(route->extra, 2 * STEP, true, to);
	}
}

void llms_write(const struct route_group *const *groups, struct buf *to)
{
	buf_str(to,
		"How to call it: JSON over HTTP, Content-Type: application/json. Answers are\n"
		"{\"success\", \"message\", \"data\", \"hint\"} unless said otherwise. success: true means that the\n"
		"request was handled; look at data for how the work itself ended. Invalid input is answered\n"
		"422 with {\"detail\": [{\"loc\", \"msg\", \"type\"}]}. If the server wants credentials, send\n"
		"'Authorization: Bearer KEY'.\n");
	for (size_t g = 0; groups[g]; g++) {
		/* A large group is several, one after the other, in files of their own. */
		bool first = !g || strcmp(groups[g - 1]->tag, groups[g]->tag) != 0;
		for (size_t i = 0; i < groups[g]->count; i++) {
			const struct route *route = &groups[g]->routes[i];
			if (route->flags & INTERNAL)
				continue;
			if (first)
				buf_printf(to, "\n## %s: %s\n", groups[g]->tag, groups[g]->help);
			first = false;
			put_route(route, to);
		}
	}
}

/* ---- its address ---- */

static int show_manual(struct call *call, const void *in, struct err *err)
{
	(void)in;
	auto_buf struct buf text = BUF(8 << 20);
	if (sandbox_text(call->server, &text, err) < 0)
		return -1;
	buf_printf(&text, "\nDocs: %s/v1/docs\n\n", call->base_url);
	llms_write(call->server->groups, &text);
	return call_text(call, "text/plain; charset=utf-8", text.data, text.len, err);
}

static const struct route routes[] = {
	{ "GET", "/llms.txt", show_manual, NULL, NULL, "A manual for agents",
	  "Plain text: what this sandbox is, as `GET /v1/sandbox` says it, and every call it "
	  "answers, made from the same tables as this document.",
	  .flags = BARE, .type = "text/plain" },
};
const struct route_group llms_group = { "document", "What the server says about itself.", routes,
					COUNT(routes) };
