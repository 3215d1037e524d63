/* The editor for people: VS Code's own server answers, see editor.h. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "editor/editor.h"
#include "net/call.h"
#include "net/upstream.h"

/* What it serves is made by a program that the sandbox user can replace: no more than a program of the
 * sandbox may have of our origin for good, but the service worker that shows its webviews. */
static int serve(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	(void)call;
	(void)in;
	(void)err;
	ret->prefix = NULL;
	ret->guest = ret->workers = true;
	ret->socket = editor_socket();
	ret->connect = editor_connect;
	return 0;
}

/* To EDITOR_PATH "/", as the caller sees it, with all that the address says. */
static int lead(struct call *call, const void *in, struct err *err)
{
	const char *path = call->route->path, *query = call->query;
	(void)in;
	return call_redirect(call,
			     arena_printf(call->arena, "%s%s/%s%s",
					  path[strlen(path) - 1] == '/' ? "../" : "",
					  &EDITOR_PATH[1], query && *query ? "?" : "",
					  query ? query : ""),
			     err);
}

static const struct route routes[] = {
	{ "GET", EDITOR_PATH, lead, .flags = INTERNAL | PAGE },
	{ "GET", "/vscode", lead, .flags = INTERNAL | PAGE },
	{ "GET", "/vscode/", lead, .flags = INTERNAL | PAGE },
	{ "*", EDITOR_PATH "/*", .flags = INTERNAL, .upstream = serve },
};
const struct route_group editor_group = { "page", "VS Code in the browser.", routes,
					  COUNT(routes) };
