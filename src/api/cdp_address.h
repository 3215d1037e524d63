/* cdp_address.h - where callers reach the browser's DevTools: at the address that they came by, with the
 * credentials that they have in their URL. */
#pragma once

struct call;

/* "ws://host/devtools/browser/…" for such a path. In the call's arena. */
const char *cdp_address(const struct call *call, const char *path);

/* The same without its scheme and without credentials, for a page of others: "host/devtools/…". */
const char *cdp_address_bare(const struct call *call, const char *path);
