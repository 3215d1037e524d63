/* JupyterLab at /jupyter: its page and files, which its own server has. Kernels are ours: see
 * notebook_kernels.c and notebook_sessions.c. */
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
static int to_page(struct call *call, const void *in, struct err *err)
{
	const char *query = call->query && *call->query ? call->query : NULL;
	(void)in;
	return call_redirect(call,
			     arena_printf(call->arena, "%s%s%s", call->route->help,
					  query ? "?" : "", query ? query : ""),
			     err);
}

#define PAGE_ROW(path, to)                                                   \
	{                                                                    \
		"GET", path, to_page, .help = (to), .flags = INTERNAL | PAGE \
	}

static const struct route routes[] = {
	PAGE_ROW("/jupyter", "jupyter/lab"),
	PAGE_ROW("/jupyter/", "lab"),
	PAGE_ROW("/lab", "jupyter/lab"),
	PAGE_ROW("/lab/", "../jupyter/lab"),
	{ "*", "/jupyter/*", .flags = INTERNAL | PAGE, .upstream = show },
};
const struct route_group notebook_group = { "notebook", "JupyterLab.", routes, COUNT(routes) };
