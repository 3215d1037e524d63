/* cookies.h - the browser's cookies, in Playwright's shape: name, value, domain, path, expires (seconds
 * since 1970, -1: with the session), httpOnly, secure, sameSite. */
#pragma once
#include <jansson.h>

#include "base/wait.h"

struct browser;
struct err;
struct list;

enum { COOKIES_MAX = 5000, COOKIE_URLS_MAX = 100 };

/* All of them, or those that requests to one of these URLs (strings) would have: an array. NULL with err;
 * ERR_INVALID: not a URL. */
json_t *cookies_get(struct browser *browser, const struct list *urls, const struct wait *wait,
		    struct err *err);

/* Sets all in an array of objects, or none. One without url and domain is for the page at `url` (NULL: it
 * must have one). Names of other tools' exports are understood. ERR_INVALID: names the one that is wrong. */
int cookies_set(struct browser *browser, const json_t *cookies, const char *url,
		const struct wait *wait, struct err *err);

int cookies_clear(struct browser *browser, const struct wait *wait, struct err *err);
