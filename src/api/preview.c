/* Programs that listen in the sandbox, at its own address: which port a request is for. */
#include <string.h>

#include "api/routes.h"
#include "base/err.h"
#include "net/call.h"
#include "net/server.h"
#include "net/target.h"
#include "net/upstream.h"

struct preview {
	const char *port;
};
static const struct field preview_fields[] = {
	STR(preview, port, PATH | REQUIRED, "The program's port."),
};
static const struct schema preview_schema = SCHEMA(preview, "Preview", preview_fields);

static int find(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	const struct preview *request = in;
	ret->port = target_port(request->port, strlen(request->port));
	if (!ret->port)
		return err_set(err, ERR_NOT_FOUND, "Not Found");
	if (call->inside)
		return err_set(
			err, ERR_FORBIDDEN,
			"there are no previews inside the sandbox: connect to port %d itself",
			ret->port);
	/* It would take the server for root, and a program's page would have the origin of the API. */
	if (ret->port == call->server->inside.port)
		return err_set(
			err, ERR_FORBIDDEN,
			"port %d is the sandbox's own API, for programs inside it: leave the "
			"port out",
			ret->port);
	return 0;
}

/* The program does not see /proxy/PORT. */
static int below(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->guest = true;
	return find(call, in, ret, err);
}

/* It sees the path as it is: at a host name of its own, or below /absproxy/PORT. */
static int whole(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->prefix = NULL;
	return find(call, in, ret, err);
}

static int absolute(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->guest = true;
	return whole(call, in, ret, err);
}

#define ANY(path, upstream_)                                                 \
	{                                                                    \
		"*", path, .in = &preview_schema, .flags = INTERNAL | GUEST, \
			   .upstream = (upstream_)                           \
	}

static const struct route routes[] = {
	ANY(ROUTE_PREVIEW "{port}", whole),  ANY("/absproxy/{port}", absolute),
	ANY("/absproxy/{port}/*", absolute), ANY("/proxy/{port}", below),
	ANY("/proxy/{port}/*", below),
};
const struct route_group preview_group = { "preview", "Programs that listen in the sandbox.",
					   routes, COUNT(routes) };
