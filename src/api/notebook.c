/* JupyterLab at /jupyter: its page and files, which its own server has. Kernels are ours: see
 * notebook_kernels.c and notebook_sessions.c. */
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "net/call.h"
#include "net/upstream.h"
#include "notebook/jupyterlab.h"
#include "service/service.h"

enum { START_MS = 60000 };

static void give_back(void *run)
{
	service_release(run);
}

static int connect_to(struct call *call, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	struct service_run *run = jupyterlab_use(&wait, err);
	if (!run)
		return -1;
	arena_defer(call->arena, give_back, run);
	return jupyterlab_connect(call->server, &wait, err);
}

static int show(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	(void)call;
	(void)in;
	(void)err;
	ret->prefix = NULL;
	ret->guest = true; /* the sandbox user may have put a program of their own in its place */
	ret->socket = jupyterlab_socket();
	ret->connect = connect_to;
	return 0;
}

/* Relative, so that it holds below any prefix of a reverse proxy. */
static int lead(struct call *call, const void *in, struct err *err)
{
	const char *path = call->route->path, *query = call->query;
	bool slash = path[strlen(path) - 1] == '/', here = path[1] == 'j';
	(void)in;
	return call_redirect(call,
			     arena_printf(call->arena, "%s%s%s",
					  !slash ? "jupyter/lab"
					  : here ? "lab"
						 : "../jupyter/lab",
					  query && *query ? "?" : "", query ? query : ""),
			     err);
}

static const struct route routes[] = {
	{ "GET", "/jupyter", lead, .flags = INTERNAL | PAGE },
	{ "GET", "/jupyter/", lead, .flags = INTERNAL | PAGE },
	{ "GET", "/lab", lead, .flags = INTERNAL | PAGE },
	{ "GET", "/lab/", lead, .flags = INTERNAL | PAGE },
	{ "*", "/jupyter/*", .flags = INTERNAL, .upstream = show },
};
const struct route_group notebook_group = { "page", "JupyterLab.", routes, COUNT(routes) };
