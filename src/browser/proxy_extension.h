/* proxy_extension.h - has a running Chromium use a proxy, which otherwise only its arguments can.
 *
 * An extension (share/browser/proxy) is loaded over DevTools and sets it. One that starts with the proxy needs
 * none. */
#pragma once
#include "base/wait.h"

struct browser;
struct err;

/* Returns once it is set. home: the product's. */
int proxy_extension_load(struct browser *browser, const char *home, int port,
			 const struct wait *wait, struct err *err);

/* Removes what an earlier browser has left in the profile. Does not wait. */
void proxy_extension_forget(struct browser *browser);
