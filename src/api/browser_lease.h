/* browser_lease.h - the browser for the time of one call. */
#pragma once
#include "base/wait.h"

struct browser;
struct call;
struct err;
struct tab;

enum { BROWSER_CALL_MS = 60000 };

/* The browser, started if need be, until the call has been answered; *ret_wait is how long the call may
 * take from now on. NULL with err: it cannot be had. */
struct browser *browser_lease(struct call *call, struct wait *ret_wait, struct err *err);

/* Its current tab, for as long. */
struct tab *browser_lease_tab(struct call *call, struct browser *browser, const struct wait *wait,
			      struct err *err);

/* Answers that it failed for this reason: success is false. What is wrong with the request, with the
 * caller or with us is an HTTP error, and returned as it is. */
int browser_lease_failed(struct call *call, const struct err *cause, struct err *err);
