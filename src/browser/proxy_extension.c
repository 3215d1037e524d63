#include "browser/proxy_extension.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"

/* What Chromium makes of the key in its manifest. */
#define ID "iaaomninabdiikkaenaagejiamcjnckm"

enum { LOOK_MS = 10, TARGET_MAX = 128 };

static bool find_worker(struct browser *browser, char target[TARGET_MAX], const struct wait *wait,
			struct err *err)
{
	json_t *result = cdp_call(browser_cdp(browser), NULL, "Target.getTargets",
				  json_pack("{s:[{s:s}]}", "filter", "type", "service_worker"),
				  wait, err);
	const json_t *infos = json_object_get(result, "targetInfos"), *info;
	size_t i;
	*target = 0;
	json_array_foreach((json_t *)(uintptr_t)infos, i, info)
		if (!strcmp(cdp_text(info, "type"), "service_worker") &&
		    strstr(cdp_text(info, "url"), "://" ID "/"))
			snprintf(target, TARGET_MAX, "%s", cdp_text(info, "targetId"));
	bool answered = result != NULL;
	json_decref(result);
	return answered;
}

/* Its worker starts a moment after the extension was loaded; no event says so to who looks at pages only. */
static int await_worker(struct browser *browser, char target[TARGET_MAX], const struct wait *wait,
			struct err *err)
{
	for (;;) {
		struct wait moment = *wait;
		if (!find_worker(browser, target, wait, err))
			return -1;
		if (*target)
			return 0;
		if (clock_ms() >= wait->until_ms)
			return err_set(err, ERR_SLOW, "the browser's extension does not start");
		moment.until_ms = clock_ms() + LOOK_MS;
		(void)wait_fd(&moment, -1, 0);
	}
}

/* 1: it is set; 0: its worker has not run so far that it could be; -1. */
static int set_proxy(struct browser *browser, const char *session, int port,
		     const struct wait *wait, struct err *err)
{
	auto_free char *script = xasprintf(
		"chrome.proxy.settings.set({ value: { mode: 'fixed_servers', rules: { singleProxy: "
		"{ scheme: 'http', host: '127.0.0.1', port: %d } } } })",
		port);
	json_t *result = cdp_call(browser_cdp(browser), session, "Runtime.evaluate",
				  json_pack("{s:s, s:b}", "expression", script, "awaitPromise", 1),
				  wait, err);
	bool failed = json_object_get(result, "exceptionDetails") != NULL;
	bool answered = result != NULL;
	json_decref(result);
	return !answered ? -1 : !failed;
}

static int set_until(struct browser *browser, const char *session, int port,
		     const struct wait *wait, struct err *err)
{
	int done;
	while ((done = set_proxy(browser, session, port, wait, err)) == 0) {
		struct wait moment = *wait;
		if (clock_ms() >= wait->until_ms)
			return err_set(err, ERR_SLOW, "the browser's extension cannot set a proxy");
		moment.until_ms = clock_ms() + LOOK_MS;
		(void)wait_fd(&moment, -1, 0);
	}
	return done < 0 ? -1 : 0;
}

int proxy_extension_load(struct browser *browser, const char *home, int port,
			 const struct wait *wait, struct err *err)
{
	struct cdp *cdp = browser_cdp(browser);
	char target[TARGET_MAX];
	auto_free char *path = xasprintf("%s/share/browser/proxy", home);
	if (cdp_ask(cdp, NULL, "Extensions.loadUnpacked", json_pack("{s:s}", "path", path), wait,
		    err) < 0 ||
	    await_worker(browser, target, wait, err) < 0)
		return -1;
	json_t *attached = cdp_call(cdp, NULL, "Target.attachToTarget",
				    json_pack("{s:s, s:b}", "targetId", target, "flatten", 1), wait,
				    err);
	if (!attached)
		return -1;
	const char *session = cdp_text(attached, "sessionId");
	int result = set_until(browser, session, port, wait, err);
	(void)cdp_post(cdp, NULL, "Target.detachFromTarget",
		       json_pack("{s:s}", "sessionId", session));
	json_decref(attached);
	return result;
}

void proxy_extension_forget(struct browser *browser)
{
	(void)cdp_post(browser_cdp(browser), NULL, "Extensions.uninstall",
		       json_pack("{s:s}", "id", ID));
}
