#include "api/browser_lease.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/browser.h"
#include "browser/chromium.h"
#include "browser/tab.h"
#include "net/call.h"
#include "service/service.h"

static void give_back(void *run)
{
	service_release(run);
}

static void give_back_tab(void *tab)
{
	tab_release(tab);
}

struct browser *browser_lease(struct call *call, struct wait *ret_wait, struct err *err)
{
	*ret_wait = call_until(call, clock_ms() + BROWSER_CALL_MS);
	struct service_run *run = browser_use(ret_wait, err);
	if (!run)
		return NULL;
	arena_defer(call->arena, give_back, run);
	*ret_wait = call_until(call, clock_ms() + BROWSER_CALL_MS);
	return browser_of(run);
}

struct tab *browser_lease_tab(struct call *call, struct browser *browser, const struct wait *wait,
			      struct err *err)
{
	struct tab *tab = browser_tab(browser, wait, err);
	if (tab)
		arena_defer(call->arena, give_back_tab, tab);
	return tab;
}

int browser_lease_failed(struct call *call, const struct err *cause, struct err *err)
{
	if (cause->code == ERR_GONE || cause->code == ERR_UNAVAILABLE ||
	    cause->code == ERR_INTERNAL || err_status(cause->code) == 422) {
		*err = *cause;
		return -1;
	}
	call->failed = true;
	call->message = arena_strdup(call->arena, cause->msg);
	return call_reply(call, NULL, err);
}
