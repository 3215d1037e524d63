/* Whether the server is alive. */
#include "api/routes.h"
#include "base/err.h"
#include "hook/hooks.h"
#include "net/call.h"

static int health(struct call *call, const void *in, struct err *err)
{
	(void)in;
	char waits[64];
	if (hooks_pending(waits, sizeof waits))
		return err_set(err, ERR_UNAVAILABLE, "starting: waiting for %s (WAIT_PORTS)",
			       waits);
	return call_text(call, "text/plain; charset=utf-8", "OK", 2, err);
}

static const struct route routes[] = {
	{ "GET", "/health", health, NULL, NULL, "Is the server alive?", .flags = PUBLIC | BARE,
	  .type = "text/plain" },
};
const struct route_group health_group = { "document", "What the server says about itself.", routes,
					  COUNT(routes) };
