/* proxy.h - the HTTP proxy that the environment names for a URL. */
#pragma once
#include "base/url.h"

struct err;

struct proxy {
	struct url_parts at;
	char *authorization; /* "Basic …", or NULL; free() it */
};

/* As curl and others read http_proxy, https_proxy, all_proxy and no_proxy, in small letters or large (but
 * no HTTP_PROXY, which a web server's clients can set). 1, 0 for none, -1 with ERR_INVALID. */
int proxy_find(const struct url_parts *url, struct proxy *ret, struct err *err);

/* What the environment names for URLs in general, and the hosts that it excepts; NULL: nothing. */
const char *proxy_named(void);
const char *proxy_excepted(void);

/* From now on the server's own requests go through that proxy, "http://host:port", in the place of the
 * environment's; but not those to this machine. NULL: through the environment's again. A constant. */
void proxy_use(const char *url);
