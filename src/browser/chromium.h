/* chromium.h - the browser of the sandbox: Chromium on the desktop, as the service `browser`.
 *
 * It is driven through a pipe that nobody else has; at a port of the sandbox its DevTools answer other
 * clients, too. Its profile is in the sandbox user's home and outlives it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct browser;
struct err;
struct server;
struct service_run;

void chromium_setup(struct server *server);

/* A lease of the browser, which is started if need be, with the desktop; to be given back by
 * service_release(). */
struct service_run *browser_use(const struct wait *wait, struct err *err);

/* The same of the browser that runs now; NULL: none does, and none is started. */
struct service_run *browser_running(void);

/* Whether there is one to be started: it is neither disabled nor missing. If not, why. */
bool chromium_is_usable(char *ret_why, size_t room);

/* Has the browser on the desktop, painted: for those who look at the screen, and click on it. Where it is
 * disabled or not installed, the desktop is all there is. */
int browser_show(const struct wait *wait, struct err *err);

/* Somebody looks at the desktop from now on, and has left: for them the browser is started, if it is not
 * there, and does not end for being idle. Nobody waits for it. */
void chromium_watched(bool comes);

/* Of such a lease: what drives it. */
struct browser *browser_of(const struct service_run *run);

/* The port of 127.0.0.1 at which its DevTools answer. */
int chromium_port(void);

/* With a lease: waits until they do. */
int chromium_await_port(const struct wait *wait, struct err *err);

/* How the browser is started from now on, until the server ends. A NULL leaves that as it is, "" clears
 * it. -1 with err: it may not be so. */
struct chromium_policy {
	const char *blocked,
		*allowed; /* JSON lists of URL patterns, as Chromium's policies have them */
	const char *lang;
	const char *dialogs; /* "true", "false": whether pages may open file pickers */
	bool restore;        /* show the tabs of the browser before, instead of the home page */
};
int chromium_set_policy(const struct chromium_policy *policy, struct err *err);

/* Ends it in order, if it runs; the next use starts it. */
void chromium_restart(const char *why);
